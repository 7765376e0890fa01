"""The costs of completing counted automata, by the number of units that were read.

What: for each edge of a counted automaton (`equivalence.network.counted_automata`), `CountedCosts` finds the
cost of the cheapest way from its end to the end of the rule, and the first byte of it.
When: for `hybrid.completion.distances`, if a grammar has counted automata.
Limits: `MOST_COSTS` costs.

The cost depends on the number of units only below the lower bound, and near the upper one, where the cheapest
way may have too many units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from equivalence.errors import BudgetExceeded

MOST_COSTS = 1_000_000

Cost = tuple[float, int]
"""A cost, and the place of the first byte; -1: nothing is left to write."""

_END: Cost = (0.0, -1)
_NONE: Cost = (math.inf, -1)


class CountedCosts:
    """The costs of all counted automata of a network.

    Args:
        net: its arrays.
        costs: for each counted class, the cost of one unit and the place of its first byte.
        shares: for each counted class, a lower bound of the tokens of one unit.

    Attributes:
        automata: the edges of each counted automaton.
        most: for each counted class, the most that completing its automaton costs after any unit.
        fewest: for each counted class, a lower bound of the tokens that complete it.

    Raises:
        BudgetExceeded: there are more than `MOST_COSTS`.
    """

    def __init__(self, net: tuple[Any, ...], costs: Sequence[Cost], shares: Sequence[float]) -> None:
        self._least: list[int] = net[5][:, 1].tolist()
        self._limits: list[list[int]] = net[6].tolist()
        self._following: list[int] = net[7].tolist()
        self._unit = costs
        self.most, self.fewest = [0.0] * len(costs), [0.0] * len(costs)
        self._zones: list[tuple[dict[int, dict[int, Cost]], int]] = [({}, 0)] * len(costs)
        automata: dict[int, list[int]] = {}
        for number, limit in enumerate(self._limits):
            if limit[1] >= 0:
                automata.setdefault(limit[5], []).append(number)
        self._edges = automata
        self.automata = list(automata.values())
        for edges in self.automata:
            frames = sorted({self._limits[edge][0] for edge in edges})
            zone = self._zone(frames, edges)
            dearest = max(cost for row in zone[0].values() for cost, _ in row.values() if cost < math.inf)
            fewest = self._shares(frames, shares)
            for edge in edges:
                self._zones[edge] = zone
                self.most[edge], self.fewest[edge] = dearest, fewest[self._limits[edge][0]]

    def is_edge(self, number: int) -> bool:
        """Whether a counted class is an edge of a counted automaton."""
        return self._limits[number][1] >= 0

    def edges_with(self, edge: int) -> list[int]:
        """All edges of the automaton of an edge."""
        return self._edges[self._limits[edge][5]]

    def after(self, edge: int, count: int) -> Cost:
        """What completes the automaton after an edge, `count` units in all."""
        rows, free = self._zones[edge]
        return rows.get(count, rows[free])[self._limits[edge][0]]

    def _out(self, frame: int) -> list[int]:
        return self._following[self._limits[frame][1] : self._limits[frame][2]]

    def _zone(self, frames: list[int], edges: list[int]) -> tuple[dict[int, dict[int, Cost]], int]:
        """For the numbers of units that matter, the cost behind each frame; and the number that stands for
        all others."""
        least, rooms = self._least[edges[0]], [self._limits[edge][4] for edge in edges]
        rows: dict[int, dict[int, Cost]] = {max(rooms) + 2: dict.fromkeys(frames, _NONE)}

        def add(count: int, following: dict[int, Cost]) -> dict[int, Cost]:
            if len(rows) * len(edges) > MOST_COSTS:
                raise BudgetExceeded(
                    "a token limit needs too many costs of counted lengths; use masks without a token limit"
                )
            rows[count] = {frame: self._best(frame, count, least, following) for frame in frames}
            return rows[count]

        free = max(rooms) + 1
        while free >= 0:
            before = rows[free + 1]
            # far from both bounds, a step that changes nothing is the last one that could
            if add(free, before) == before and least <= free <= min(rooms):
                break
            free -= 1
        for count in range(min(least, free) - 1, -1, -1):
            add(count, rows.get(count + 1) or rows[free])
        return rows, max(free, 0)

    def _best(self, frame: int, count: int, least: int, following: dict[int, Cost]) -> Cost:
        found = _END if self._limits[frame][3] and count >= least else _NONE
        for edge in self._out(frame):
            if count <= self._limits[edge][4]:
                cost, first = self._unit[edge]
                found = min(found, (cost + following[self._limits[edge][0]][0], first))
        return found

    def _shares(self, frames: list[int], shares: Sequence[float]) -> dict[int, float]:
        """For each frame, the smallest sum of shares behind it, whatever the bounds."""
        found = {frame: 0.0 if self._limits[frame][3] else math.inf for frame in frames}
        is_new = True
        while is_new:
            is_new = False
            for frame in frames:
                for edge in self._out(frame):
                    sum_here = shares[edge] + found[self._limits[edge][0]]
                    if sum_here < found[frame]:
                        found[frame], is_new = sum_here, True
        return found
