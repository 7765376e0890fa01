"""The distance of each state of a network from the end of its rule.

What: `distances_of` finds the cost of the cheapest text from each state to the end of its rule, and the
first byte of that text.
When: once for each grammar and set of bytes that are tokens.
Limits: a rule that derives no text costs infinitely much. Costs beyond 2 ** 53 are not exact; nothing so
long is ever written.

The costs are a least fixpoint: a final state costs nothing; an edge costs its byte and its target; a call
costs the state where it begins and the state to which it returns. These sums never decrease, so the
cheapest unknown cost is always final.

Source: Knuth, A generalization of Dijkstra's algorithm (1977).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Stop
from hybrid.completion.counted_costs import CountedCosts
from hybrid.completion.spelling import Spelling

UNSPELLED = float(1 << 32)
"""Cost of a byte that is not a token, so that texts without such bytes are preferred. Among those texts,
the cost of the shortest is its length, and it can be spelled with no more tokens than it has bytes."""

PRICE, SHARE = 1, 5
"""Columns of an edge: the cost of its byte, and the smallest share of a token among its bytes."""


def place_of(byte: int) -> int:
    """The place of a byte in the order in which plans choose bytes: from the space on, control characters
    last."""
    return (byte - 32) & 255


def byte_at(place: int) -> int:
    """The byte at a place."""
    return (place + 32) & 255


class Distances(NamedTuple):
    """Costs of a network of S states with K counted rules.

    Attributes:
        cost: for each state, the cost of the cheapest text to the end of its rule; infinite if there is none.
        first: the place (`place_of`) of the first byte of that text, the smallest among all such texts; -1
            if there is none.
        unit_cost, unit_first: for each counted rule, the same for one unit.
        begin, least: for each counted rule, the state with which a unit begins, and the minimum of units.
        counted: the costs of counted automata; None if there are none.
        fewest: for each state, a lower bound of the tokens of a text to the end of its rule: the smallest
            sum of its bytes' shares (`hybrid.completion.spelling.Spelling`).
    """

    cost: list[float]
    first: list[int]
    unit_cost: list[float]
    unit_first: list[int]
    begin: list[int]
    least: list[int]
    fewest: list[float]
    counted: CountedCosts | None


class Lists:
    """A network as lists.

    Args:
        net: its arrays, as in `equivalence.network.build.Network`.
        spelling: the spelling of the vocabulary.

    Edges are (target, cost, place of the byte to write, first byte, last byte, smallest share of a byte),
    calls are (begin, units, back, edge), counted rules are (begin of a unit, minimum of units). The edge is
    that of a counted automaton, which is called as one unit and what may follow it; -1 for other calls.
    """

    def __init__(self, net: tuple[NDArray[Any], ...], spelling: Spelling) -> None:
        self.net = net
        final, edge_starts, edges, call_starts, calls, counted = net[:6]
        self.final = [bool(one) for one in final.tolist()]
        self.n_states = len(self.final)
        self.counted = [(row[0], max(row[1], 1)) for row in counted.tolist()]
        limited = [row[1] >= 0 for row in net[6].tolist()] if len(net) > 6 else [False] * len(self.counted)
        spelled, share = spelling.spelled, spelling.share.tolist()
        least_share: dict[tuple[int, int], float] = {}
        following = 256  # for each byte, the smallest byte from it on that is a token
        next_spelled = [256] * 257
        for byte in range(255, -1, -1):
            following = byte if byte in spelled else following
            next_spelled[byte] = following
        rows = []
        for low, high, target in edges.tolist():
            byte = next_spelled[max(low, 32)]
            byte = byte if byte <= high else next_spelled[low]
            price = 1.0 if byte <= high else UNSPELLED
            if (low, high) not in least_share:
                least_share[low, high] = min(share[low : high + 1])
            place = place_of(byte if byte <= high else low)
            rows.append((target, price, place, low, high, least_share[low, high]))
        self.edges = _by_state(rows, edge_starts)
        begins = []
        for callee, back in calls.tolist():
            if callee >= 0:
                begins.append((callee, 1, back, -1))
            elif limited[-1 - callee]:
                begins.append((self.counted[-1 - callee][0], 1, back, -1 - callee))
            else:
                begins.append((*self.counted[-1 - callee], back, -1))
        self.calls = _by_state(begins, call_starts)


def distances_of(network: Lists, rank: NDArray[np.int64], stop: Stop) -> Distances:
    """Compute the distances of a network.

    Args:
        network: the network.
        rank: the ranks of its states, see `equivalence.parser.byte_tables`.
        stop: says when the time is over.

    Raises:
        BudgetExceeded: the time is over.
    """
    cost, fewest = (_costs(network, column, stop) for column in (PRICE, SHARE))
    first = _first_bytes(network, cost, rank, stop)
    starts = [start for start, _ in network.counted]
    counted = None
    if len(network.net) > 6:  # their units are known now, and call no counted automaton
        counted = CountedCosts(
            network.net, [(cost[s], first[s]) for s in starts], [fewest[s] for s in starts]
        )
        behind = [counted.after(edge, 1)[0] if counted.is_edge(edge) else 0.0 for edge in range(len(starts))]
        cost = _costs(network, PRICE, stop, behind)
        fewest = _costs(network, SHARE, stop, counted.fewest)
        first = _first_bytes(network, cost, rank, stop, behind)
    return Distances(
        cost, first, [cost[start] for start in starts], [first[start] for start in starts],
        starts, [least for _, least in network.counted], fewest, counted,
    )  # fmt: skip


def _by_state(rows: list[Any], starts: NDArray[np.int64]) -> list[list[Any]]:
    """The rows, grouped in one list for each state."""
    ends = starts.tolist()
    return [rows[ends[state] : ends[state + 1]] for state in range(len(ends) - 1)]


def _costs(network: Lists, column: int, stop: Stop, behind: Sequence[float] | None = None) -> list[float]:
    """The cost of each state, by one column of the edges.

    Args:
        behind: for each counted rule, what the rest of its counted automaton costs, 0 for others; None:
            counted automata cannot be called.
    """
    n = network.n_states
    by_target: list[list[tuple[int, float]]] = [[] for _ in range(n)]
    by_begin: list[list[tuple[int, int, int, float]]] = [[] for _ in range(n)]
    by_back: list[list[tuple[int, int, int, float]]] = [[] for _ in range(n)]
    for state in range(n):
        for edge in network.edges[state]:
            by_target[edge[0]].append((state, edge[column]))
        for begin, units, back, edge in network.calls[state]:
            more = _more(edge, behind)
            by_begin[begin].append((state, units, back, more))
            if back >= 0:
                by_back[back].append((state, units, begin, more))
    cost = [math.inf] * n
    heap = [(0.0, state) for state in range(n) if network.final[state]]
    while heap:
        found, state = heapq.heappop(heap)
        if cost[state] < math.inf:
            continue
        cost[state] = found
        stop.check()
        for source, price in by_target[state]:
            if cost[source] == math.inf and price < math.inf:
                heapq.heappush(heap, (found + price, source))
        for source, units, back, more in by_begin[state]:
            rest = more if back < 0 else more + cost[back]
            if cost[source] == math.inf and rest < math.inf:
                heapq.heappush(heap, (units * found + rest, source))
        for source, units, begin, more in by_back[state]:
            if cost[source] == math.inf and cost[begin] + more < math.inf:
                heapq.heappush(heap, (units * cost[begin] + found + more, source))
    return cost


def _more(edge: int, behind: Sequence[float] | None) -> float:
    """What a call costs besides its units and the state to which it returns; see `_costs`."""
    if edge < 0:
        return 0.0
    return math.inf if behind is None else behind[edge]


def _first_bytes(
    network: Lists, cost: list[float], rank: NDArray[np.int64], stop: Stop,
    behind: Sequence[float] | None = None,
) -> list[int]:  # fmt: skip
    """For each state, the place of the smallest first byte of its cheapest texts."""
    first = [-1] * network.n_states
    for state in np.argsort(rank, kind="stable").tolist():  # callees before their callers
        stop.check()
        total = cost[state]
        if not 0 < total < math.inf:
            continue
        found = 256
        for target, price, place, *_ in network.edges[state]:
            if price + cost[target] == total:
                found = min(found, place)
        for begin, units, back, edge in network.calls[state]:
            more = _more(edge, behind)
            if units * cost[begin] + (0.0 if back < 0 else cost[back]) + more == total:
                found = min(found, first[begin])
        first[state] = found
    return first
