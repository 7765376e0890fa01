"""How long things took: how many took at most so long, by the labels of what it was.

What: `Durations` counts seconds in ranges, for each set of labels.
When: by `hybrid.api.statistics`, which holds its lock meanwhile.
Limits: labels come from closed lists, so that there are few; a range is all that is kept of a time.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

BOUNDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Seconds up to which each range goes; the last one has no end."""


class Durations:
    """Counts by range and their sum, for each set of labels; not thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def add(self, labels: tuple[str, ...], seconds: float) -> None:
        """Count a time."""
        counts = self._counts.setdefault(labels, [0] * (len(BOUNDS) + 1))
        counts[bisect_left(BOUNDS, seconds)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + seconds

    def snapshot(self) -> dict[str, Any]:
        """By each label, one within the other: "sum", and "counts" by range; the caller's own."""
        found: dict[str, Any] = {}
        for labels, counts in self._counts.items():
            place = found
            for label in labels:
                place = place.setdefault(label, {})
            place.update(sum=self._sums[labels], counts=list(counts))
        return found
