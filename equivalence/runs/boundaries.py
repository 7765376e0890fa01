# cython: language_level=3
# mypy: ignore-errors
"""Divides the groups of a trie into runs: neighbours in byte order that every block treats the same.

What: `divide_into_runs` finds where runs begin, and translates ranges and events from groups to runs.
When: once for each partition (`equivalence.classes.partition`).
Limits: 32 groups are examined at once, so a vocabulary of 128,000 tokens takes a few thousand steps.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.bits import ones
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)

Integers = NDArray[np.int64]


def divide_into_runs(
    ranges: cython.const[cython.Py_ssize_t][:, ::1],
    events: cython.const[cython.Py_ssize_t][:, ::1],
    byte_starts: cython.const[cython.Py_ssize_t][::1],
    first_byte: cython.const[cython.uchar][::1],
) -> tuple[Integers, NDArray[np.uint8], Integers, Integers]:
    """Find the largest runs of groups such that no range, event or first byte begins or ends inside of a run.

    Args:
        ranges: int64[n, 2], the first group and the end of each range.
        events: int64[m, 2], the group of each event, and a number that is not changed.
        byte_starts: int64[257], the first group with each first byte, then the number of groups.
        first_byte: uint8[groups].

    Returns:
        (where runs begin, int64[runs + 1]; the first byte of each run; the ranges and the events, with runs
            instead of groups).
    """
    boundaries = Boundaries(byte_starts[256])
    with cython.nogil:
        for b in range(byte_starts.shape[0]):
            boundaries.add(byte_starts[b])
        for i in range(ranges.shape[0]):
            boundaries.add(ranges[i, 0])
            boundaries.add(ranges[i, 1])
        for i in range(events.shape[0]):
            boundaries.add(events[i, 0])
            boundaries.add(events[i, 0] + 1)
        boundaries.number()
    starts = np.empty(boundaries.count, np.int64)
    first = np.empty(boundaries.count - 1, np.uint8)
    ranges_of_runs = np.empty((ranges.shape[0], 2), np.int64)
    events_of_runs = np.empty((events.shape[0], 2), np.int64)
    begins: cython.Py_ssize_t[::1] = starts
    bytes_of_runs: cython.uchar[::1] = first
    run_ranges: cython.Py_ssize_t[:, ::1] = ranges_of_runs
    run_events: cython.Py_ssize_t[:, ::1] = events_of_runs
    with cython.nogil:
        boundaries.list_into(begins)
        for i in range(bytes_of_runs.shape[0]):
            bytes_of_runs[i] = first_byte[begins[i]]
        for i in range(ranges.shape[0]):
            run_ranges[i, 0] = boundaries.run_from(ranges[i, 0])
            run_ranges[i, 1] = boundaries.run_from(ranges[i, 1])
        for i in range(events.shape[0]):
            run_events[i, 0] = boundaries.run_from(events[i, 0])
            run_events[i, 1] = events[i, 1]
    return starts, first, ranges_of_runs, events_of_runs


@cython.final
@cython.cclass
class Boundaries:
    """The groups at which runs begin, as a set of bits.

    Args:
        n_groups: number of groups; the end of the last run is a boundary, too.

    Attributes:
        words: int64, 32 bits in each.
        before: for each word, the number of boundaries in the words before it.
        count: number of boundaries, after `number`.
    """

    def __init__(self, n_groups: cython.Py_ssize_t) -> None:
        size = (n_groups >> 5) + 1
        self.words = np.zeros(size, np.int64)
        self.before = np.empty(size, np.int64)
        self.count = 0

    def add(self, group):
        """Let a run begin at a group."""
        one: cython.Py_ssize_t = 1  # a literal would be a C int, whose bit 31 is the sign
        self.words[group >> 5] |= one << (group & 31)

    def number(self):
        """Count the boundaries before each word."""
        n: cython.Py_ssize_t = 0
        for w in range(self.words.shape[0]):
            self.before[w] = n
            if self.words[w]:
                n += ones(self.words[w])
        self.count = n

    def list_into(self, starts):
        """Write all boundaries in ascending order."""
        n: cython.Py_ssize_t = 0
        for w in range(self.words.shape[0]):
            left = self.words[w]
            while left:
                lowest = left & -left
                starts[n] = 32 * w + ones(lowest - 1)
                left ^= lowest
                n += 1

    def run_from(self, group):
        """The number of the run that begins at a group: the number of boundaries before it."""
        one: cython.Py_ssize_t = 1
        return self.before[group >> 5] + ones(self.words[group >> 5] & ((one << (group & 31)) - 1))
