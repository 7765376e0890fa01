"""Languages with bounds on lengths that need a state for each pair of a state and a length.

What: `grid_of` finds the pairs (state, characters read) of a language's texts with some lengths, as arrays.
`n_pairs` counts them. `few_words` lists the texts if they are few. For example, a list of thirty words with
at most 300 characters in total takes 18,000 pairs, and no smaller number of states can tell whether another
word may begin.
When: for strings whose product with a range of lengths is too large to be made state by state
(`hybrid.json_schema.languages.lengths`).
Limits: pairs that could be merged are not merged.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybrid.json_schema.languages.automaton import Automaton, edges_by_set
from hybrid.json_schema.languages.syntax import Ranges
from hybrid.json_schema.languages.until import TooLarge

MOST_LOOKED_AT = 8_000_000
"""At most this many pairs, reachable or not, are examined to find those that matter."""


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
    """The number of states of `grid_of`. If it is not counted, the result is more than `MOST_LOOKED_AT`."""
    if language.is_empty:
        return 0
    if _is_too_large(language, least, most):
        return MOST_LOOKED_AT + 1
    return int(np.count_nonzero(_useful(language, least, most)))


def grid_of(language: Automaton, least: int, most: int | None, bound: int) -> Grid:
    """The grid of a language and a range of lengths.

    Args:
        language: a non-empty language.
        least, most: length of a text in characters; most is None if there is no upper bound.
        bound: most states.

    Raises:
        TooLarge: it needs more states.
    """
    if _is_too_large(language, least, most):
        raise TooLarge(bound)
    useful = _useful(language, least, most)
    n_states = int(np.count_nonzero(useful))
    if n_states > bound:
        raise TooLarge(bound)
    numbers = np.cumsum(useful.ravel()).reshape(useful.shape) - 1
    sets, edges = edges_by_set(language.ranges())
    last = len(useful) - 1
    found = []
    for length in range(len(useful)):
        if length == last and most is not None:
            break
        after = min(length + 1, last)
        kept = edges[useful[length, edges[:, 0]] & useful[after, edges[:, 2]]]
        found.append(np.stack([numbers[length, kept[:, 0]], kept[:, 1], numbers[after, kept[:, 2]]], axis=1))
    ends = useful & np.array(language.accepting, bool)
    ends[:least] = False
    table = np.concatenate(found) if found else np.empty((0, 3), np.int64)
    return Grid(sets, table, numbers[ends], n_states)


def few_words(grid: Grid, limit: int) -> list[str] | None:
    """All texts of a grid with an upper bound of lengths, if there are at most `limit`; otherwise None."""
    ends = set(grid.accepting.tolist())
    counts = [0] * grid.n_states
    for state in ends:
        counts[state] = 1
    sizes = [sum(high - low + 1 for low, high in ranges) for ranges in grid.sets]
    for begin in range(max(len(grid.edges) - 1, 0) // 1024 * 1024, -1, -1024):
        # the edges of a target come after those that lead to it
        for source, which, target in reversed(grid.edges[begin : begin + 1024].tolist()):
            counts[source] += sizes[which] * counts[target]
            if counts[source] > limit:
                return None  # then so does the start, from which it is reached
    edges = grid.edges.tolist()
    behind: dict[int, list[tuple[int, int]]] = {}
    for source, which, target in edges:
        behind.setdefault(source, []).append((which, target))
    found, todo = [], [(0, "")] if grid.n_states else []
    while todo:
        state, text = todo.pop()
        if state in ends:
            found.append(text)
        for which, target in behind.get(state, ()):
            todo += [
                (target, text + chr(code)) for low, high in grid.sets[which] for code in range(low, high + 1)
            ]
    return sorted(found)


def _is_too_large(language: Automaton, least: int, most: int | None) -> bool:
    return language.n_states * (1 + (least if most is None else most)) > MOST_LOOKED_AT


@lru_cache(maxsize=2)
def _useful(language: Automaton, least: int, most: int | None) -> NDArray[np.bool_]:
    """Which pairs are reachable and lead to an end: bool[lengths, states], read-only. If lengths have no
    upper bound, the last length stands for all greater ones."""
    last = least if most is None else most
    ranges = language.ranges()
    order = np.argsort(ranges[:, 0], kind="stable")
    sources, targets = ranges[order, 0], ranges[order, 3]
    accepting = np.array(language.accepting, bool)
    ends = np.zeros((last + 1, language.n_states), bool)
    ends[last] = accepting if most is not None else True  # an end can be reached from each state
    for length in range(last - 1, -1, -1):
        ends[length, sources[ends[length + 1, targets]]] = True
        if length >= least:
            ends[length] |= accepting
    reached = np.zeros_like(ends)
    reached[0, 0] = ends[0, 0]
    for length in range(last):
        reached[length + 1, targets[reached[length, sources]]] = True
        reached[length + 1] &= ends[length + 1]
    if most is None:
        while True:
            before = np.count_nonzero(reached[last])
            reached[last, targets[reached[last, sources]]] = True
            if np.count_nonzero(reached[last]) == before:
                break
    return reached
