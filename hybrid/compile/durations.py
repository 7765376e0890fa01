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
        # for each set of labels, the counts by range, and the sum at the end
        self._found: dict[tuple[str, ...], list[Any]] = {}

    def add(self, labels: tuple[str, ...], seconds: float) -> None:
        """Count a duration."""
        found = self._found.get(labels)
        if found is None:
            found = self._found[labels] = [0] * (len(BOUNDS) + 1) + [0.0]
        found[bisect_left(BOUNDS, seconds)] += 1
        found[-1] += seconds

    def snapshot(self) -> dict[str, Any]:
        """A new dict, nested by label: "sum", and "counts" by range."""
        found: dict[str, Any] = {}
        for labels, (*counts, total) in self._found.items():
            place = found
            for label in labels:
                place = place.setdefault(label, {})
            place.update(sum=total, counts=counts)
        return found
