"""Languages with bounds on lengths, without a state for each length if possible.

What: `with_length` intersects a language with the texts of `least` to `most` characters. Some texts end in
a state that loops on some characters and leads nowhere else (`^[a-z][a-z0-9-]*$`, `^x-`, no pattern at
all). What they read there is a *tail*: a number of characters of a set. The network has counters for tails.
When: for strings with `minLength` or `maxLength`.
Limits: if a language has no such states, or enters them at too many lengths, the product of states and
lengths is made, up to `MOST_PRODUCT` pairs. Where there are more, the parser counts (`counted.py`), or
`every_length` makes all of them.
"""

from __future__ import annotations

from typing import NamedTuple

from equivalence.arrays.closure import outside_cycles
from equivalence.arrays.ranges import LAST
from equivalence.bounded_cache import cached
from hybrid.json_schema.languages.automaton import (
    Automaton,
    combine,
    empty,
    minimal,
    one_of,
    words,
)
from hybrid.json_schema.languages.limits import TooLarge, check_deadline
from hybrid.json_schema.languages.terms import Terms

SHORT = 32
"""Ranges of lengths up to this are products: counters cost more."""

MOST_PRODUCT = 256
"""Up to this many pairs of a state and a length, the product is made pair by pair, and minimised. If there
are more, the parser counts the characters where it can.

With a bound of 1,024, the first mask of a schema with patterns of 512 pairs took 24 ms in place of 6, and
each mask within such a string 15 ms in place of 0.1. But counted grammars have no token classes;
`strategy="classifier"` makes all pairs."""

MOST_TAILS = 16
"""Looping states may be entered at this many different lengths. If there are more, the product is made."""


EMPTY_TEXT = words([""])
"""The language of the empty text."""


class Piece(NamedTuple):
    """Some strings of a language: a prefix, then characters of a set.

    Attributes:
        prefix: the language of the prefix.
        characters: a language of single characters; None: nothing follows.
        least, most: how many of these characters follow; most is None if there is no upper bound. If
            `is_counted`, the length of the text of the prefix.
        is_counted: whether the piece is only the texts of the prefix with such a length, and nothing follows.
    """

    prefix: Automaton
    characters: Automaton | None = None
    least: int = 0
    most: int | None = None
    is_counted: bool = False


def repeated_set(language: Automaton) -> Piece | None:
    """Return a language as a number of characters of one set, as of `^[a-z]{1,255}$`; None if it is another
    language, or has so few lengths that counters cost more.

    The states of such a language are a chain. Walks over the vocabulary would enter most of its nodes,
    because each character leads to another state; with a counter they stay in one.
    """
    n = language.n_states - 1
    if n <= SHORT or language.longest != n:
        return None
    ranges, shortest = language.ranges, language.shortest
    first = ranges[ranges[:, 0] == 0, 1:3]
    if (
        len(ranges) != n * len(first)
        or bool((ranges[:, 3] != ranges[:, 0] + 1).any())
        or bool((ranges[:, 1:3].reshape(n, -1, 2) != first).any())
        or not all(language.accepting[shortest:])
    ):
        return None
    characters = one_of(tuple(map(tuple, first.tolist())))
    return Piece(EMPTY_TEXT, characters, shortest, n)


@cached(1024)
def with_length(
    language: Automaton, least: int, most: int | None, bound: int
) -> tuple[Automaton, tuple[Piece, ...]]:
    """Return the texts of a language whose length is in a range: those of an automaton, and those of tails.

    Raises:
        TooLarge: it needs more states than the bound, or more than `MOST_PRODUCT` for a product.
    """
    own = language.longest
    if most is not None and own is not None:
        most = min(most, own)  # the product need not count further
    if language.is_empty or (most is not None and most < least) or (own is not None and own < least):
        return empty(), ()
    if least <= language.shortest and (most is None or most == own):
        return language, ()
    if max(least, most or 0) > SHORT:
        found = _tails(language, least, most, bound)
        if found is not None:
            return found
    if own is not None and most in (None, own):  # no need to count beyond `least`
        return every_length(language, least, None, bound), ()
    return every_length(language, least, most, min(bound, MOST_PRODUCT)), ()


def every_length(language: Automaton, least: int, most: int | None, bound: int) -> Automaton:
    """Return the texts of a language whose length is in a range, with a state for each pair of a state and a
    length. Some text must be as long as the bounds of the range.

    Raises:
        TooLarge: there are more pairs than the bound.
    """
    if max(least, most or 0) > bound:
        raise TooLarge(bound)  # the beginnings of that text already are more

    def join(terms: Terms, of: tuple[int, ...]) -> int:
        return terms.intersection((of[0], terms.repeat(terms.chars(((0, LAST),)), least, most)))

    return combine([language], join, bound)


def _tails(
    language: Automaton, least: int, most: int | None, bound: int
) -> tuple[Automaton, tuple[Piece, ...]] | None:
    """Return the automaton and the tails; None if there are too many tails, or more than `MOST_PRODUCT` pairs
    before them because of a cycle."""
    looping = {
        state
        for state, row in enumerate(language.rows)
        if row and language.accepting[state] and all(target == state for _, _, target in row)
    }
    if not looping:
        return None
    targets = [
        [] if q in looping else [target for _, _, target in row] for q, row in enumerate(language.rows)
    ]
    most_pairs = bound if 0 in outside_cycles(targets) else min(bound, MOST_PRODUCT)
    # pairs of a state and the number of characters read; a path ends at a looping state
    start = (0, 0)
    numbers, states, rows = {start: 0}, [start], []
    entered: dict[tuple[int, int], int] = {}
    for state, length in states:
        check_deadline()
        row: list[tuple[int, int, int]] = []
        rows.append(row)
        if state in looping:
            entered[state, length] = numbers[state, length]
            if len(entered) > MOST_TAILS:
                return None
            continue
        if most is not None and length == most:
            continue
        after = length + 1 if most is not None or length < least else length
        for low, high, target in language.rows[state]:
            key = target, after
            if key not in numbers:
                numbers[key] = len(states)
                states.append(key)
                if len(states) > most_pairs:
                    if most_pairs < bound:
                        return None
                    raise TooLarge(bound)
            row.append((low, high, numbers[key]))
    ends = [language.accepting[q] and q not in looping and length >= least for q, length in states]
    tails = []
    for (state, length), number in entered.items():
        prefix = minimal(rows, [i == number for i in range(len(rows))])
        characters = one_of(tuple((low, high) for low, high, _ in language.rows[state]))
        tails.append(
            Piece(prefix, characters, max(least - length, 0), None if most is None else most - length)
        )
    return minimal(rows, ends), tuple(tails)
