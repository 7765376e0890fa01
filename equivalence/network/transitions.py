# cython: language_level=3
# mypy: ignore-errors
"""The transitions of a subset by bytes, and the bytes at which they change.

What: `Transitions` takes ranges of bytes with their targets in any order, and gives the ranges that read each
byte, in the order of the bytes.
When: filled and emptied by `equivalence.network.subsets` for each subset.
Limits: bytes are from 0 to 255, which is not checked.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.built import EQUIMASK_SOURCE

from equivalence import built
from equivalence.arrays.growing import bigger, record_type

built.check(__name__, EQUIMASK_SOURCE)

WAY = record_type("last target next")


@cython.final
@cython.cclass
class Transitions:
    """Ranges of bytes, and where they lead.

    Args:
        room: ways that there is room for at first.

    Attributes:
        rows: the last byte of each way, its target, and the next way with the same first byte; row 0 is the
            end of each such list.
        count: rows, with row 0.
        head: the last way that was added of each first byte; 0: there is none.
        bounds: the bytes that some way begins at or ends before, in order, `n_bounds` of them.
        active: the ways that read the byte at hand, `n_active` of them.
    """

    def __init__(self, room: cython.Py_ssize_t) -> None:
        self.rows = np.empty(room, WAY)
        self.count = 1
        self.head = np.zeros(257, np.int64)
        self.bounds = np.empty(258, np.int64)
        self.n_bounds = 0
        self.is_bound = np.zeros(257, np.uint8)
        self.active = np.empty(room, np.int64)
        self.n_active = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def make_room(self, wanted: cython.Py_ssize_t) -> cython.int:
        """Room for some more ways."""
        if self.count + wanted > self.active.shape[0]:
            with cython.gil:
                self.grow(wanted)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self, wanted: cython.Py_ssize_t) -> cython.int:
        """Twice the room at least."""
        size: cython.Py_ssize_t = 2 * self.active.shape[0] + wanted
        self.rows = bigger(self.rows, size, self.count)
        self.active = np.empty(size, np.int64)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def add_bound(self, byte: cython.Py_ssize_t) -> cython.void:
        """Some way begins at a byte, or ends before it."""
        if not self.is_bound[byte]:
            self.is_bound[byte] = 1
            self.n_bounds = insert_sorted(self.bounds, self.n_bounds, byte)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add(
        self, first: cython.Py_ssize_t, last: cython.Py_ssize_t, target: cython.Py_ssize_t
    ) -> cython.void:
        """A way by the bytes first..last; there is room for it."""
        n = self.count
        self.rows[n].last = last
        self.rows[n].target = target
        self.rows[n].next = self.head[first]
        self.head[first] = n
        self.count = n + 1
        self.add_bound(first)
        self.add_bound(last + 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def activate(self, first: cython.Py_ssize_t) -> cython.void:
        """The byte at hand is `first`, the bound behind the one that was at hand before."""
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

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def forget(self) -> cython.void:
        """There are no ways, and no byte is at hand."""
        for i in range(self.n_bounds):
            self.is_bound[self.bounds[i]] = 0
            self.head[self.bounds[i]] = 0
        self.count = 1
        self.n_bounds = 0
        self.n_active = 0
