"""Languages with an upper bound on lengths, whose characters the parser counts.

What: `counted_language` makes the counted automaton (`equivalence.network.counted_automata`) of a language
and a range of lengths: the states of the language, and for each the distance to the nearest end.
When: for strings whose product with a range of lengths is too large to be made state by state
(`hybrid.json_schema.languages.lengths`), such as a URL of at most 2,083 characters.
Limits: infinite languages. A beginning can be completed within the lengths exactly if the nearest end is near
enough. This holds if all texts of the language are long enough, or if whatever k characters complete, k + 1
characters complete, too. For other languages, states count up to the lower bound, if that takes few states.
`lengths.every_length` handles the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.ranges import Ranges
from equivalence.bounded_cache import cached
from equivalence.network.counted_automata import CountedAutomaton
from hybrid.json_schema.languages.automaton import Automaton, edges_by_set
from hybrid.json_schema.languages.lengths import every_length
from hybrid.json_schema.languages.limits import TooLarge, check_deadline
from hybrid.json_schema.languages.minimisation import n_characters_between

MOST_LISTED = 10_000
"""A language with lengths that has at most this many texts has states for lengths: most of them merge."""

MOST_LENGTHS = 10_000
"""At most this many lengths are examined, one by one, to count the texts of a language."""

_MOST_COUNT = 2.0**60
"""Larger numbers of texts become this one, far above every limit, so that numbers stay finite."""

MOST_PAIRS = 1_024
"""States may count up to a lower bound with this many pairs of a state and a length."""

MOST_EDGES = 2_000
"""The maximum number of edges of a counted automaton. Each is a rule of the grammar."""


class CountedLanguage(NamedTuple):
    """A counted automaton of characters.

    Attributes:
        sets: sets of characters.
        units: for each edge of the automaton, the number of its set.
        automaton: the automaton.
    """

    sets: tuple[Ranges, ...]
    units: list[int]
    automaton: CountedAutomaton


@cached(64)
def counted_language(language: Automaton, least: int, most: int | None) -> CountedLanguage | None:
    """Return the counted language of the texts of a language with `least` to `most` characters; None if they
    cannot be counted like this."""
    if most is None or language.longest is not None or language.is_empty:
        return None
    if least > language.shortest and not _any_longer(language):
        try:
            language = every_length(language, least, None, MOST_PAIRS)
        except TooLarge:
            return None
    if least <= language.shortest:
        least = 0
    n = n_texts(language, least, most, MOST_LISTED)
    if n is not None and n <= MOST_LISTED:
        return None
    sets, rows = edges_by_set(language.ranges)
    automaton = CountedAutomaton(
        np.ascontiguousarray(rows[:, (0, 2)]),
        np.array(language.accepting, bool),
        language.distances,
        least,
        most,
    )
    if len(rows) > MOST_EDGES or automaton.slack <= max(least, 1):
        return None
    return CountedLanguage(sets, rows[:, 1].tolist(), automaton)


@cached(256)
def n_texts(language: Automaton, least: int, most: int, limit: int) -> int | None:
    """Return the number of texts with `least` to `most` characters, or `limit` + 1 if there are more.

    None: that is not known after `MOST_LENGTHS` lengths. The limit must be below 2**52, because texts are
    counted in floating point.
    """
    if language.longest is not None:
        most = min(most, language.longest)
    elif most - least > (limit + 1) * language.n_states:
        # an infinite language has a text within each range of lengths as large as its number of states
        return limit + 1
    if most < least:
        return 0
    sources, lows, highs, targets = language.ranges.T
    sizes = np.array([n_characters_between(*one) for one in zip(lows.tolist(), highs.tolist(), strict=True)])
    accepting = np.array(language.accepting, bool)
    n = language.n_states
    reached: NDArray[np.float64] = np.zeros(n)  # how many texts lead to each state
    reached[0] = 1.0
    found = 0.0
    for length in range(min(most, MOST_LENGTHS) + 1):
        if not length % 256:
            check_deadline()
        if length >= least:
            found += reached[accepting].sum()
        if found > limit:
            return limit + 1
        reached = np.minimum(np.bincount(targets, reached[sources] * sizes, n), _MOST_COUNT)
    return int(found) if most <= MOST_LENGTHS else None


def _any_longer(language: Automaton) -> bool:
    """Whether each beginning that some number of characters completes is completed by one more, too.

    It suffices that each end leads to an end by one character. Let L(k) be the states that k characters
    complete. Then L(0) is a part of L(1), so its predecessors L(1) are a part of those of L(1), and so on.
    """
    return all(
        any(language.accepting[target] for _, _, target in row)
        for row, accepts in zip(language.rows, language.accepting, strict=True)
        if accepts
    )
