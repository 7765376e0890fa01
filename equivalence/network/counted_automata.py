"""Counted automata: rules that count the units of an automaton, in place of a state for each count.

What: a `CountedAutomaton` reads units (characters, say) from state to state, at least `least` and at most
`most` of them. Its edges are counted rules of the network, so a stack has a frame (edge, units read before),
and the parser checks the bounds when a unit ends. `limits_of` makes the parser's tables.
When: for strings with a pattern, or a format, and a bound on their length. The pattern of `uri` with at most
2,083 characters has 67,644 pairs of a state and a length. As states they took 137 ms and 28 MB a schema; as
a counted automaton they take 1 ms.
Limits: from each state, an end is reached with as many units as `distance` says. If `least` may matter, it
must also be reached with any larger number of them; the maker checks that. No unit is empty. There are
masks, but no token classes: what may lie below a frame is not computed (`Network.below`).

For example, `(ab)*` of at most 5 characters has two states, and the edges a: 0 -> 1, b: 1 -> 0, with the
distances 0 and 1. Edge a has room 5 - 1 - 1 = 3: after `abab`, 4 characters, no `a` can be read, because a
`b` would have to follow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import UnsupportedGrammar

Integers = NDArray[np.int64]

MARK = -2
"""A counted rule with the bounds (`MARK` - k, e) is edge e of counted automaton k."""

ONLY_WALKS = (
    "the grammar counts the characters of texts with a pattern, so it has no token classes; with "
    "strategy='classifier' it has a state for each length instead"
)


class CountedAutomaton(NamedTuple):
    """An automaton of units, and how many of them are read; state 0 is the start.

    Attributes:
        edges: int64[n, 2], rows (source, target), by source.
        accepting: bool[states], where it may end.
        distance: int64[states], the number of units to the nearest end.
        least, most: how many units are read.
    """

    edges: Integers
    accepting: NDArray[np.bool_]
    distance: Integers
    least: int
    most: int

    @property
    def slack(self) -> int:
        """With this many units or fewer, the upper bound excludes nothing yet."""
        return self.most - int(self.distance.max())


def limits_of(
    automaton: tuple[Any, ...], rules: Integers, classes: Integers, automata: tuple[CountedAutomaton, ...]
) -> tuple[Any, ...]:
    """Complete a network that has counted automata.

    Until here, each state that calls a counted automaton calls all of its edges, so that all are reached.
    Only the calls of those that begin at the start are kept.

    Args:
        automaton: the arrays of `equivalence.network.build.Network`.
        rules: int64[n, 3], rows (unit, least, most) of all counted rules.
        classes: int64[n], the class of each; -1 if nothing calls it.
        automata: the counted automata.

    Returns:
        The arrays, and two more: int64[counted classes, 6], rows (frame, first, end, accepts, room,
        automaton), and int64 lists of counted classes. After a unit on the frame of a class, the classes
        `first` to `end` of these lists may be next, if no more than their `room` units were read; the rule
        may end if `accepts`. `frame` is the class whose frame is pushed, as edges to the same state have the
        same. For other counted classes, `first` is -1.
    """
    final, edge_starts, edges, call_starts, calls, counted = automaton
    counted = counted.copy()
    limits = np.full((len(counted), 6), -1, np.int64)
    limits[:, 0] = np.arange(len(counted))
    following: list[int] = []
    is_called = np.ones(len(counted), bool)
    numbers: dict[tuple[int, int], int] = {}
    for (_, least, most), counted_class in zip(rules.tolist(), classes.tolist(), strict=True):
        if least <= MARK and counted_class >= 0:
            numbers[MARK - least, most] = counted_class
    for k, one in enumerate(automata):
        if (k, 0) not in numbers:
            continue
        own = [numbers[k, edge] for edge in range(len(one.edges))]
        starts = np.searchsorted(one.edges[:, 0], np.arange(len(one.accepting) + 1)) + len(following)
        following += own
        source, target = one.edges.T
        # edges to the same state have the frame of the first of them
        _, first, place = np.unique(target, return_index=True, return_inverse=True)
        numbered = np.array(own, np.int64)
        limits[numbered] = np.column_stack(
            [numbered[first][place], starts[target], starts[target + 1], one.accepting[target],
             one.most - 1 - one.distance[target], np.full(len(own), k)]
        )  # fmt: skip
        counted[numbered, 1:] = one.least, one.slack, one.slack
        is_called[numbered] = source == 0
    kept = np.ones(len(calls), bool)
    is_counted = calls[:, 0] < 0
    kept[is_counted] = is_called[-1 - calls[is_counted, 0]]
    before = np.concatenate([[0], np.cumsum(kept)])
    return (
        final, edge_starts, edges, before[call_starts], np.ascontiguousarray(calls[kept]), counted,
        limits, np.array(following, np.int64),
    )  # fmt: skip


def refuse_counted_automata(automaton: tuple[Any, ...]) -> None:
    """Refuse to find what lies below the states of a network, if it has counted automata.

    Raises:
        UnsupportedGrammar: it has.
    """
    if len(automaton) > 6:
        raise UnsupportedGrammar(ONLY_WALKS)
