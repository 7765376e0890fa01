"""Histograms of durations, by labels.

What: `Durations` counts how many durations fall into each range, for each set of labels.
When: used by `hybrid.compile.statistics`, which holds its lock.
Limits: labels come from fixed lists, so there are few. Only the range of each duration is kept, and the sum.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

BOUNDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Upper bounds of the ranges in seconds; a last range has no bound."""


class Durations:
    """Counts by range and their sum, for each set of labels; not thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def add(self, labels: tuple[str, ...], seconds: float) -> None:
        """Count a duration."""
        counts = self._counts.setdefault(labels, [0] * (len(BOUNDS) + 1))
        counts[bisect_left(BOUNDS, seconds)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + seconds

    def snapshot(self) -> dict[str, Any]:
        """A new dict, nested by label: "sum", and "counts" by range."""
        found: dict[str, Any] = {}
        for labels, counts in self._counts.items():
            place = found
            for label in labels:
                place = place.setdefault(label, {})
            place.update(sum=self._sums[labels], counts=list(counts))
        return found
