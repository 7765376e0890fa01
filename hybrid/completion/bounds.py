"""Upper bounds of what a stack may cost while it is read on: they make it unnecessary to examine every token.

What: for each state, `bounds_of` finds the most that a stack with this state on top can cost from then on,
as long as no rule is entered again from inside itself; and for each byte, how much entering such rules may
add to that.
When: once for each grammar, with its distances.
Limits: these are upper bounds. If a rule that derives no text can be reached, there is no bound.

Inside a rule nothing is added: the maximum includes what may come. A call adds the cost of the return
state; if calls form no cycle, that is included beforehand, too. Only a call that leads back to its own rule
may be made any number of times, so each byte with which it can begin pays for it. For schemas without
recursion, the maximum of a stack therefore never rises, whatever token is read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.closure import components_of
from equivalence.deadline import Stop
from equivalence.parser.byte_tables import ByteTables
from hybrid.completion.distances import Distances, Lists

MOST_RISE = 1 << 40
"""What a byte adds if there is no bound: sums over a vocabulary stay below 2 ** 63."""

Arc = tuple[int, float]


class Bounds(NamedTuple):
    """The bounds of a network of S states.

    Attributes:
        most: for each state, the most that the part of a stack above the rest costs from here on.
        units: for each counted rule, the same for its unit; of a counted automaton, for any of its units.
        rise: int64[256], for each byte, how much it may add to the maximum of a whole stack.
    """

    most: list[float]
    units: list[float]
    rise: NDArray[np.int64]


def bounds_of(
    network: Lists, distances: Distances, tables: ByteTables, rank: NDArray[np.int64], stop: Stop
) -> Bounds:
    """Compute the bounds of a network.

    Args:
        network, distances: the network and its distances.
        tables, rank: those of the same network, see `equivalence.parser.byte_tables`.
        stop: says when the time is over.

    Raises:
        BudgetExceeded: the time is over.
    """
    cost = distances.cost
    arcs: list[list[Arc]] = []
    for state in range(network.n_states):
        arcs.append([(target, 0.0) for target, *_ in network.edges[state]])
        for begin, units, back, edge in network.calls[state]:
            added = _added(cost, begin, units, back)
            if edge >= 0 and distances.counted is not None:
                added += distances.counted.most[edge]
                arcs[state] += [(distances.begin[unit], added) for unit in distances.counted.edges_with(edge)]
            else:
                arcs[state].append((begin, added))
            if back >= 0:
                arcs[state].append((back, 0.0))
    stop.check()
    component = components_of([[to for to, _ in some] for some in arcs], stop.check)
    most = [0.0] * (max(component, default=-1) + 1)
    members: list[list[int]] = [[] for _ in most]
    for state, number in enumerate(component):
        members[number].append(state)
    for number, states in enumerate(members):  # a component only leads to lower numbers
        found = 0.0
        for state in states:
            leaving = (added + most[component[to]] for to, added in arcs[state] if component[to] != number)
            found = max(found, cost[state], *leaving)
        most[number] = found
    rise = _rises(network, cost, component, tables, rank, stop)
    units = [most[component[begin]] for begin in distances.begin]
    for edges in [] if distances.counted is None else distances.counted.automata:
        dearest = max(units[edge] for edge in edges)
        for edge in edges:
            units[edge] = dearest
    return Bounds([most[number] for number in component], units, rise)


def _added(cost: list[float], begin: int, units: int, back: int) -> float:
    """How much a call adds to the cost of the state with which it begins."""
    more = (units - 1) * cost[begin] if units > 1 else 0.0
    return more if back < 0 else more + cost[back]


def _rises(
    network: Lists, cost: list[float], component: list[int], tables: ByteTables, rank: NDArray[np.int64],
    stop: Stop,
) -> NDArray[np.int64]:  # fmt: skip
    """``rise`` of `Bounds`: for each byte, the most that the calls add that it enters, callees first."""
    n_classes = tables.n_classes
    begins = {begin for calls in network.calls for begin, *_ in calls}
    first = tables.first  # all bits are unpacked each time
    rows: dict[int, NDArray[np.float64]] = {}
    most: NDArray[np.float64] = np.zeros(n_classes)
    for state in np.argsort(rank, kind="stable").tolist():
        if not network.calls[state]:
            if state in begins:
                rows[state] = np.where(first[state] > 0, 0.0, -math.inf)
            continue
        stop.check()
        row = np.where(first[state] > 0, 0.0, -math.inf)
        for begin, units, back, _ in network.calls[state]:
            if component[begin] == component[state]:
                added = min(_added(cost, begin, units, back), MOST_RISE)
                np.maximum(row, rows[begin] + added, out=row)
            else:
                np.maximum(row, rows[begin], out=row)
        if state in begins:
            rows[state] = row
        np.maximum(most, row, out=most)
    return np.minimum(most, MOST_RISE).astype(np.int64)[tables.class_of_byte]
