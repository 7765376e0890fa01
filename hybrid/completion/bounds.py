"""How dear a stack may become while it is read on: what no token has to be looked at for.

What: `bounds_of` finds for each state the most that a stack with it on top can cost from then on, as long as
no rule is entered again from within itself; and for each byte how much entering such rules may add to that.
When: once for a grammar, beside its distances.
Limits: upper bounds. Where a rule that derives no text can be reached, there is none.

Within a rule nothing is added: what may come is part of the most already. A call adds what the state to
return to costs, and where calls form no circle that is counted beforehand, too. Only a call that leads back
to where it came from may be made any number of times, and is paid for by each byte that it can begin with.
So the most of a stack never rises where schemas do not recur, whatever token is read.

Source: strongly connected components by one search in depth (Tarjan 1972), which gives callees first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Stop
from equivalence.parser.byte_tables import ByteTables
from hybrid.completion.distances import Distances, Lists

MOST_RISE = 1 << 40
"""What a byte may add where there is no bound: sums over a vocabulary stay below 2 ** 63."""

Arc = tuple[int, float]


class Bounds(NamedTuple):
    """Bounds of a network of S states.

    Attributes:
        most: of each state, the most that what is above the rest of the stack costs from here on.
        rise: int64[256], of each byte, what it may add to that of a whole stack.
    """

    most: list[float]
    rise: NDArray[np.int64]


def bounds_of(
    network: Lists, distances: Distances, tables: ByteTables, rank: NDArray[np.int64], stop: Stop
) -> Bounds:
    """The bounds of a network.

    Args:
        network, distances: the network, and its distances.
        tables, rank: of the same network, see `equivalence.parser.byte_tables`.
        stop: says when it is too late.

    Raises:
        BudgetExceeded: it is too late.
    """
    cost = distances.cost
    arcs: list[list[Arc]] = []
    for state in range(network.n_states):
        arcs.append([(target, 0.0) for target, *_ in network.edges[state]])
        for begin, units, back in network.calls[state]:
            arcs[state].append((begin, _added(cost, begin, units, back)))
            if back >= 0:
                arcs[state].append((back, 0.0))
    stop.look()
    component = _components(arcs, stop)
    most = [0.0] * (max(component, default=-1) + 1)
    members: list[list[int]] = [[] for _ in most]
    for state, number in enumerate(component):
        members[number].append(state)
    for number, states in enumerate(members):  # a component leads to lower numbers only
        found = 0.0
        for state in states:
            leaving = (added + most[component[to]] for to, added in arcs[state] if component[to] != number)
            found = max(found, cost[state], *leaving)
        most[number] = found
    rise = _rises(network, cost, component, tables, rank, stop)
    return Bounds([most[number] for number in component], rise)


def _added(cost: list[float], begin: int, units: int, back: int) -> float:
    """What a call adds to what the state costs that it begins with."""
    more = (units - 1) * cost[begin] if units > 1 else 0.0
    return more if back < 0 else more + cost[back]


def _components(arcs: list[list[Arc]], stop: Stop) -> list[int]:
    """The component of each state; arcs lead to the same one, or to one of a lower number."""
    n = len(arcs)
    component, low, order = [-1] * n, [0] * n, [0] * n
    open_states: list[int] = []
    n_found = n_seen = 0
    for origin in range(n):
        if order[origin]:
            continue
        stop.look()
        path = [(origin, iter(arcs[origin]))]
        n_seen += 1
        order[origin] = low[origin] = n_seen
        open_states.append(origin)
        while path:
            state, rest = path[-1]
            for to, _ in rest:
                if not order[to]:
                    n_seen += 1
                    order[to] = low[to] = n_seen
                    open_states.append(to)
                    path.append((to, iter(arcs[to])))
                    break
                if component[to] < 0:
                    low[state] = min(low[state], order[to])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[state])
                if low[state] == order[state]:
                    while component[state] < 0:
                        component[open_states.pop()] = n_found
                    n_found += 1
    return component


def _rises(
    network: Lists, cost: list[float], component: list[int], tables: ByteTables, rank: NDArray[np.int64],
    stop: Stop,
) -> NDArray[np.int64]:  # fmt: skip
    """``rise`` of `Bounds`: the most that the calls add which one byte enters, callees first."""
    n_classes = len(tables.example)
    begins = {begin for calls in network.calls for begin, *_ in calls}
    rows: dict[int, NDArray[np.float64]] = {}
    most: NDArray[np.float64] = np.zeros(n_classes)
    for state in np.argsort(rank, kind="stable").tolist():
        if not network.calls[state]:
            if state in begins:
                rows[state] = np.where(tables.first[state] > 0, 0.0, -math.inf)
            continue
        stop.look()
        row = np.where(tables.first[state] > 0, 0.0, -math.inf)
        for begin, units, back in network.calls[state]:
            if component[begin] == component[state]:
                added = min(_added(cost, begin, units, back), MOST_RISE)
                np.maximum(row, rows[begin] + added, out=row)
            else:
                np.maximum(row, rows[begin], out=row)
        if state in begins:
            rows[state] = row
        np.maximum(most, row, out=most)
    return np.minimum(most, MOST_RISE).astype(np.int64)[tables.class_of_byte]
