# cython: language_level=3
# mypy: ignore-errors
"""Sets of integers that are written in any order and read in order.

What: `SortedSet` collects integers, sorts them, and drops duplicates.
When: for thousands of small sets, without the interpreter's lock: below sets, contexts, character classes.
Limits: only integers; callers that know the bounds of several numbers pack them into one.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import bigger

check_source(__name__)

RUN = cython.declare(cython.Py_ssize_t, 16)  # this many are sorted by insertion


@cython.final
@cython.cclass
class SortedSet:
    """A set of integers: `add` them, `sort` them, read `values`, set `count` to 0.

    Attributes:
        values: the integers, and room for more.
        count: their number.
    """

    def __init__(self) -> None:
        self.values = np.empty(64, np.int64)
        self.count = 0
        self.n_spare = 0

    def add(self, code):
        """Add one more; duplicates are allowed."""
        if self.count == self.values.shape[0]:
            with cython.gil:
                self.values = bigger(self.values, 2 * self.count, self.count)
        self.values[self.count] = code
        self.count += 1

    def sort(self):
        """Sort them, and drop duplicates. Return how many are left."""
        self.sort_runs()
        width = RUN
        if self.count > RUN:
            if self.n_spare < self.count:
                with cython.gil:
                    self.n_spare = self.values.shape[0]
                    self.spare = np.empty(self.n_spare, np.int64)
            while width < self.count:
                self.merge_runs(width)
                width *= 2
        kept: cython.Py_ssize_t = 0
        for i in range(self.count):
            if kept == 0 or self.values[i] != self.values[kept - 1]:
                self.values[kept] = self.values[i]
                kept += 1
        self.count = kept
        return kept

    def sort_runs(self):
        """Sort each run of `RUN` by insertion."""
        for i in range(self.count):
            code = self.values[i]
            first = i - i % RUN
            k = i
            while k > first and self.values[k - 1] > code:
                self.values[k] = self.values[k - 1]
                k -= 1
            self.values[k] = code

    def merge_runs(self, width):
        """Merge neighbouring runs of `width` in pairs. `spare` temporarily contains the left one."""
        first: cython.Py_ssize_t = 0
        while first + width < self.count:
            middle = first + width
            end = min(middle + width, self.count)
            if self.values[middle - 1] > self.values[middle]:
                for i in range(width):
                    self.spare[i] = self.values[first + i]
                left: cython.Py_ssize_t = 0
                right = middle
                at = first
                while left < width:
                    if right < end and self.values[right] < self.spare[left]:
                        self.values[at] = self.values[right]
                        right += 1
                    else:
                        self.values[at] = self.spare[left]
                        left += 1
                    at += 1
            first = end
