# cython: language_level=3
# mypy: ignore-errors
"""The transitions of a subset by bytes, and the bytes at which they change.

What: `Transitions` takes ranges of bytes with their targets in any order, and gives the ranges that read
each byte, in the order of the bytes.
When: filled and emptied by `equivalence.network.subsets` for each subset.
Limits: bytes must be from 0 to 255, which is not checked.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import empty
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import bigger
from equivalence.arrays.records import Kind

check_source(__name__)

WAY = Kind("last target next", np.int32)

FIRST_ROOM = cython.declare(cython.Py_ssize_t, 512)  # initial room for transitions


@cython.final
@cython.cclass
class Transitions:
    """Ranges of bytes, and where they lead.

    Attributes:
        rows: for each transition, its last byte, its target, and the next one with the same first byte; row
            0 is the end of each such list.
        count: number of rows, including row 0.
        head: for each first byte, the transition that was added last; 0: there is none.
        bounds: the bytes at which some transition begins or before which one ends, in order, `n_bounds` of
            them.
        active: the transitions that read the current byte, `n_active` of them.
    """

    def __init__(self) -> None:
        self.rows = empty(WAY, FIRST_ROOM)
        self.count = 1
        self.head = np.zeros(257, np.int64)
        self.bounds = np.empty(258, np.int64)
        self.n_bounds = 0
        self.is_bound = np.zeros(257, np.uint8)
        self.active = np.empty(FIRST_ROOM, np.int64)
        self.n_active = 0

    def make_room(self, wanted):
        """Make room for some more transitions."""
        if self.count + wanted > self.active.shape[0]:
            with cython.gil:
                self.grow(wanted)

    def grow(self, wanted):
        """At least double the room."""
        size: cython.Py_ssize_t = 2 * self.active.shape[0] + wanted
        self.rows = bigger(self.rows, size, self.count)
        self.active = np.empty(size, np.int64)

    def add_bound(self, byte):
        """Add a bound: a transition begins at this byte, or ends before it."""
        if not self.is_bound[byte]:
            self.is_bound[byte] = 1
            self.n_bounds = insert_sorted(self.bounds, 0, self.n_bounds, byte)

    def add(self, first, last, target):
        """Add a transition by the bytes first..last; there must be room for it."""
        n = self.count
        self.rows[n].last = last
        self.rows[n].target = target
        self.rows[n].next = self.head[first]
        self.head[first] = n
        self.count = n + 1
        self.add_bound(first)
        self.add_bound(last + 1)

    def activate(self, first):
        """Make `first` the current byte. It must be the bound after the former one."""
        kept: cython.Py_ssize_t = 0
        for i in range(self.n_active):
            if self.rows[self.active[i]].last >= first:
                self.active[kept] = self.active[i]
                kept += 1
        way = self.head[first]
        while way > 0:
            self.active[kept] = way
            kept += 1
            way = self.rows[way].next
        self.n_active = kept

    def forget(self):
        """Remove all transitions."""
        for i in range(self.n_bounds):
            self.is_bound[self.bounds[i]] = 0
            self.head[self.bounds[i]] = 0
        self.count = 1
        self.n_bounds = 0
        self.n_active = 0
