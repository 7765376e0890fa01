"""The costs of completing counted automata, by the number of units that were read.

What: for each edge of a counted automaton (`equivalence.network.counted_automata`), `CountedCosts` finds the
cost of the cheapest way from its end to the end of the rule, and the first byte of it.
When: for `hybrid.completion.distances`, if a grammar has counted automata.
Limits: `MOST_COSTS` costs.

The cost depends on the number of units only below the lower bound, and near the upper one: a cheapest way
visits no state twice, so if there is room for as many units as there are states, the upper bound does not
matter."""

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
        size = 0
        self._edges: dict[int, list[int]] = automata
        for edges in automata.values():
            frames = sorted({self._limits[edge][0] for edge in edges})
            most = 1 + max(self._limits[edge][4] for edge in edges)
            size += (self._least[edges[0]] + len(frames)) * len(frames)
            if size > MOST_COSTS:
                raise BudgetExceeded(
                    "closing in time needs too many costs of counted lengths; use masks without a limit of "
                    "tokens"
                )
            zone = self._zone(frames, self._least[edges[0]], most)
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

    def _zone(self, frames: list[int], least: int, most: int) -> tuple[dict[int, dict[int, Cost]], int]:
        """For the numbers of units that matter, the cost behind each frame; and the one that stands for
        others."""
        free = most - len(frames)
        counts = (
            [*range(most, free - 1, -1), *range(least - 1, -1, -1)] if least <= free else range(most, -1, -1)
        )
        rows: dict[int, dict[int, Cost]] = {most + 1: dict.fromkeys(frames, _NONE)}
        for count in counts:
            following = rows.get(count + 1) or rows[free]
            rows[count] = {frame: self._best(frame, count, least, following) for frame in frames}
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
        for _ in frames:
            for frame in frames:
                for edge in self._out(frame):
                    found[frame] = min(found[frame], shares[edge] + found[self._limits[edge][0]])
        return found
