# cython: language_level=3
# mypy: ignore-errors
"""Languages with bounds on lengths that need a state for each pair of a state and a length.

What: `grid_of` finds the pairs (state, characters read) of a language's texts with some lengths, as arrays.
`n_pairs` counts them. `small_language` is their language if it has few texts. For example, a list of thirty
words with at most 300 characters in total takes 18,000 pairs, and no smaller number of states can tell
whether another word may begin.
When: for strings whose product with a range of lengths is too large to be made state by state
(`hybrid.json_schema.languages.lengths`).
Limits: pairs that could be merged are not merged.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import cython
import numpy as np
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.ranges import Ranges
from equivalence.bounded_cache import cached
from hybrid.json_schema.languages.automaton import Automaton, edges_by_set, minimal
from hybrid.json_schema.languages.limits import TooLarge
from hybrid.json_schema.languages.minimisation import n_characters_between

check_source(__name__)

MOST_LOOKED_AT = 8_000_000
"""At most this many pairs, reachable or not, are examined to find those that matter."""


MOST_LISTED = 10_000
"""A language with lengths that has at most this many texts is minimised, instead of having a state for each
length."""


class Grid(NamedTuple):
    """The texts of a language whose length is in a range; state 0 is the start.

    Attributes:
        sets: sets of characters.
        edges: int64[n, 3], rows (source, number of a set, target). From each target, an end can be reached.
        accepting: int64[n], the states in which a text may end.
        n_states: number of states; 0 if there is no text.
    """

    sets: tuple[Ranges, ...]
    edges: NDArray[np.int64]
    accepting: NDArray[np.int64]
    n_states: int


def n_pairs(language: Automaton, least: int, most: int | None) -> int:
    """Return the number of states of `grid_of`. If it is not counted, the result is more than
    `MOST_LOOKED_AT`."""
    if language.is_empty:
        return 0
    if _is_too_large(language, least, most):
        return MOST_LOOKED_AT + 1
    return int(np.count_nonzero(_useful(language, least, most)))


@cached(16)
def grid_of(language: Automaton, least: int, most: int | None, bound: int) -> Grid:
    """Return the grid of a language and a range of lengths.

    Args:
        language: a non-empty language.
        least, most: length of a text in characters; most is None if there is no upper bound.
        bound: the maximum number of states.

    Raises:
        TooLarge: it needs more states.
    """
    if _is_too_large(language, least, most):
        raise TooLarge(bound)
    useful = _useful(language, least, most)
    n_states: cython.Py_ssize_t = int(np.count_nonzero(useful))
    if n_states > bound:
        raise TooLarge(bound)
    sets, edges = edges_by_set(language.ranges)
    accepts = np.array(language.accepting, np.uint8)
    table, accepting = _numbered(useful, edges, accepts, n_states, least, most is None)
    return Grid(sets, table, accepting, n_states)


@cython.cfunc
def _numbered(
    useful: cython.const[cython.uchar][:, ::1], edges: cython.const[cython.Py_ssize_t][:, ::1],
    accepts: cython.const[cython.uchar][::1], n_states: cython.Py_ssize_t, least: cython.Py_ssize_t,
    is_endless: cython.bint,
) -> tuple:  # fmt: skip
    """Number the useful pairs. Return the edges between them, and the numbers of those that accept."""
    n_lengths: cython.Py_ssize_t = useful.shape[0]
    n: cython.Py_ssize_t = useful.shape[1]
    numbers: cython.Py_ssize_t[:, ::1] = np.empty((n_lengths, n), np.int64)
    accepting = np.empty(n_states, np.int64)
    ends: cython.Py_ssize_t[::1] = accepting
    n_numbered: cython.Py_ssize_t = 0
    n_ends: cython.Py_ssize_t = 0
    n_edges: cython.Py_ssize_t = 0
    n_left: cython.Py_ssize_t = n_lengths if is_endless else n_lengths - 1  # lengths that others follow
    with cython.nogil:
        for length in range(n_lengths):
            for state in range(n):
                if useful[length, state]:
                    numbers[length, state] = n_numbered
                    if accepts[state] and length >= least:
                        ends[n_ends] = n_numbered
                        n_ends += 1
                    n_numbered += 1
        for length in range(n_left):
            after = min(length + 1, n_lengths - 1)
            for k in range(edges.shape[0]):
                n_edges += useful[length, edges[k, 0]] and useful[after, edges[k, 2]]
    table = np.empty((n_edges, 3), np.int64)
    rows: cython.Py_ssize_t[:, ::1] = table
    i: cython.Py_ssize_t = 0
    with cython.nogil:
        for length in range(n_left):
            after = min(length + 1, n_lengths - 1)
            for k in range(edges.shape[0]):
                if useful[length, edges[k, 0]] and useful[after, edges[k, 2]]:
                    rows[i, 0] = numbers[length, edges[k, 0]]
                    rows[i, 1] = edges[k, 1]
                    rows[i, 2] = numbers[after, edges[k, 2]]
                    i += 1
    return table, accepting[:n_ends].copy()


def small_language(grid: Grid) -> Automaton | None:
    """Return the language of a grid whose lengths have an upper bound, if it has at most `MOST_LISTED` texts;
    otherwise None."""
    accepting = [False] * grid.n_states
    for state in grid.accepting.tolist():
        accepting[state] = True
    counts = list(map(int, accepting))
    sizes = [sum(n_characters_between(low, high) for low, high in ranges) for ranges in grid.sets]
    for begin in range(max(len(grid.edges) - 1, 0) // 1024 * 1024, -1, -1024):
        # the edges of a target come after those that lead to it
        for source, which, target in reversed(grid.edges[begin : begin + 1024].tolist()):
            counts[source] += sizes[which] * counts[target]
            if counts[source] > MOST_LISTED:
                return None  # then so has the start, from which it is reached
    rows: list = [[] for _ in accepting]
    for source, which, target in grid.edges.tolist():
        rows[source] += [(low, high, target) for low, high in grid.sets[which]]
    return minimal(rows, accepting)


def _is_too_large(language: Automaton, least: int, most: int | None) -> bool:
    return language.n_states * (1 + (least if most is None else most)) > MOST_LOOKED_AT


@lru_cache(maxsize=2)
def _useful(language: Automaton, least: int, most: int | None) -> NDArray[np.uint8]:
    """Find which pairs are reachable and lead to an end: uint8[lengths, states], read-only. If lengths have
    no upper bound, the last length stands for all greater ones."""
    last: cython.Py_ssize_t = least if most is None else most
    first_end: cython.Py_ssize_t = least
    is_endless: cython.bint = most is None
    edges: cython.const[cython.Py_ssize_t][:, ::1] = language.ranges
    accepting: cython.const[cython.uchar][::1] = np.array(language.accepting, np.uint8)
    n: cython.Py_ssize_t = accepting.shape[0]
    leads: cython.uchar[:, ::1] = np.zeros((last + 1, n), np.uint8)  # whether an end can be reached
    found = np.zeros((last + 1, n), np.uint8)
    reached: cython.uchar[:, ::1] = found
    grows: cython.bint = is_endless
    with cython.nogil:
        for state in range(n):  # without an upper bound, an end can be reached from each state
            leads[last, state] = is_endless or accepting[state]
        for length in range(last - 1, -1, -1):
            for k in range(edges.shape[0]):
                leads[length, edges[k, 0]] |= leads[length + 1, edges[k, 3]]
            if length >= first_end:
                for state in range(n):
                    leads[length, state] |= accepting[state]
        reached[0, 0] = leads[0, 0]
        for length in range(last):
            for k in range(edges.shape[0]):
                if reached[length, edges[k, 0]] and leads[length + 1, edges[k, 3]]:
                    reached[length + 1, edges[k, 3]] = 1
        while grows:
            grows = False
            for k in range(edges.shape[0]):
                if reached[last, edges[k, 0]] and not reached[last, edges[k, 3]]:
                    reached[last, edges[k, 3]] = 1
                    grows = True
    return found
