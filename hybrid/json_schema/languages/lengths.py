"""Languages within windows of lengths, without a state for each length where that can be had.

What: `with_length` intersects a language with the texts of `least` to `most` characters. Where texts end in a
state that loops on some characters and leads nowhere else (`^[a-z][a-z0-9-]*$`, `^x-`, no pattern at all),
what follows is a *tail*: so many characters of a set, for which the network has counters.
When: for strings with `minLength` or `maxLength`.
Limits: where a language has no such states, or is reached at too many lengths, the product of states and
lengths is made, within the bound; products of more than `MOST_PRODUCT` are left to `grids.py`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hybrid.json_schema.languages.automaton import LAST, Automaton, empty, intersection, minimal, one_of
from hybrid.json_schema.languages.grids import n_pairs
from hybrid.json_schema.languages.until import TooLarge

SHORT = 32
"""Windows up to this are products: counters cost more."""

MOST_PRODUCT = 1_024
"""Pairs of states and lengths up to which their product is made one by one, and minimised."""

MOST_TAILS = 16
"""Lengths at which looping states are entered, at most; then the product is made."""


class Tail(NamedTuple):
    """Texts that begin in a language and go on with characters of a set.

    Attributes:
        prefix: the language.
        characters: the set, as a language of single characters.
        least, most: how many follow; most is None where there is no end.
    """

    prefix: Automaton
    characters: Automaton
    least: int
    most: int | None


def window(least: int, most: int | None) -> Automaton:
    """All texts of some lengths."""
    end = least if most is None else most
    rows = [[(0, LAST, i + 1)] for i in range(end)] + [[(0, LAST, end)] if most is None else []]
    return minimal(rows, [i >= least for i in range(end + 1)])


@lru_cache(maxsize=1024)
def with_length(
    language: Automaton, least: int, most: int | None, bound: int
) -> tuple[Automaton, tuple[Tail, ...]]:
    """The texts of a language that have a length in a window: those of an automaton, and those of tails.

    Raises:
        TooLarge: it needs more states than the bound, or more than `MOST_PRODUCT` for a product.
    """
    if language.is_empty or (most is not None and most < least):
        return empty(), ()
    longest = least if most is None else most
    if longest > SHORT and least <= language.shortest:
        own = language.longest
        if most is None or (own is not None and own <= most):
            return language, ()
    if longest > SHORT:
        found = _tails(language, least, most, bound)
        if found is not None:
            return found
    if n_pairs(language, least, most) > min(bound, MOST_PRODUCT):
        raise TooLarge(bound)
    return intersection([language, window(least, most)], bound), ()


def _tails(
    language: Automaton, least: int, most: int | None, bound: int
) -> tuple[Automaton, tuple[Tail, ...]] | None:
    """The automaton and the tails, or None where there are too many."""
    looping = {
        state
        for state, row in enumerate(language.rows)
        if row and language.accepting[state] and all(target == state for _, _, target in row)
    }
    if not looping or not _few_enter(language, looping, least if most is None else most, bound):
        return None
    # states with the number of characters read; a looping state ends the path
    start = (0, 0)
    numbers, states, rows = {start: 0}, [start], []
    entered: dict[tuple[int, int], int] = {}
    for state, length in states:
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
                if len(states) > bound:
                    raise TooLarge(bound)
            row.append((low, high, numbers[key]))
    ends = [language.accepting[q] and q not in looping and length >= least for q, length in states]
    tails = []
    for (state, length), number in entered.items():
        prefix = minimal(rows, [i == number for i in range(len(rows))])
        characters = one_of(tuple((low, high) for low, high, _ in language.rows[state]))
        tails.append(
            Tail(prefix, characters, max(least - length, 0), None if most is None else most - length)
        )
    return minimal(rows, ends), tuple(tails)


def _few_enter(language: Automaton, looping: set[int], longest: int, bound: int) -> bool:
    """Whether looping states are entered at no more than `MOST_TAILS` lengths, each its own.

    Raises:
        TooLarge: up to the last of these lengths there are more pairs of states and lengths than the bound.
    """
    ranges = language.ranges()
    is_looping = np.zeros(language.n_states, bool)
    is_looping[list(looping)] = True
    inner = ranges[~is_looping[ranges[:, 0]]]
    sources, targets = inner[:, 0], inner[:, 3]
    reached = np.zeros(language.n_states, bool)
    reached[0] = True
    n_pairs, n_entered = 1, int(is_looping[0])
    for _ in range(longest):
        after = np.zeros(language.n_states, bool)
        after[targets[reached[sources]]] = True
        reached = after
        n_reached = int(np.count_nonzero(reached))
        n_pairs += n_reached
        n_entered += int(np.count_nonzero(reached & is_looping))
        if n_entered > MOST_TAILS:
            return False
        if n_pairs > bound:
            raise TooLarge(bound)
        if not n_reached:
            break
    return True
