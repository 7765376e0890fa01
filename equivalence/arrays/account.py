# cython: language_level=3
# mypy: ignore-errors
"""The resources of one computation: bytes and time.

What: an `Account` counts the bytes of a computation's tables, provides memory for small tables, and tells
long loops when to stop.
When: one for each phase. Compiled code calls `claim` before a table grows, or `bigger` to let it grow, and
`check` in long loops.
Limits: only tables that call `claim` are counted, and only loops that call `check` can be stopped.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.deadline.deadline import Stop
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import array_of, bigger
from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded

check_source(__name__)

UNLIMITED = 1 << 62

ENDLESS = Deadline()

CHUNK = cython.declare(cython.Py_ssize_t, 1024)
"""Integers of a chunk of memory that small tables share: 8 KB."""

SHARED = cython.declare(cython.Py_ssize_t, 256)
"""A table of at most this many integers is put into a shared chunk."""


@cython.final
@cython.no_gc
@cython.cclass
class Account:
    """Counts bytes, and says when to stop.

    Args:
        stop: an `equivalence.deadline.deadline.Stop`; None: only Ctrl-C stops the computation.
        most: bound of the bytes.
        excess: the message of the error if the bound is exceeded; "{taken}" in it is replaced by the bytes.

    Attributes:
        taken: bytes of all existing tables.
        unchecked: how many calls of `check` may follow until one looks at the clock.
        most: as given.
        integers, n_integers: the current chunk for small tables, and how many of its integers are in use;
            `ints` likewise. An array of its own costs a table a microsecond, and an object that Python's
            garbage collector visits: the tables of a first mask had 75.
    """

    def __init__(
        self, stop: Any = None, most: cython.Py_ssize_t = UNLIMITED, excess: str = "too many bytes"
    ) -> None:
        self.stop_by(stop)
        self.taken = 0
        self.n_integers = self.n_ints = CHUNK  # there is no chunk yet
        self.most = most
        self.excess = excess

    def check(self):
        """Check whether the computation must stop.

        Raises:
            BudgetExceeded, KeyboardInterrupt: it must; see `Stop.look`.
        """
        self.unchecked -= 1
        if self.unchecked < 0:
            self.unchecked = self.stop.look()

    def stop_by(self, stop: Any) -> None:
        """Use another `Stop` from now on; None: only Ctrl-C stops the computation."""
        self.stop = Stop(ENDLESS, "") if stop is None else stop
        self.unchecked = 0

    def new_integers(self, size):
        """Memory for a table: int64[size], not initialised."""
        if size > SHARED:
            return np.empty(size, np.int64)
        begin = self.n_integers
        if begin + size > CHUNK:
            self.integers = np.empty(CHUNK, np.int64)
            begin = 0
        self.n_integers = begin + size
        return self.integers[begin : begin + size]

    def new_ints(self, size):
        """Memory for a table: int32[size], not initialised."""
        if size > SHARED:
            return np.empty(size, np.int32)
        begin = self.n_ints
        if begin + size > CHUNK:
            self.ints = np.empty(CHUNK, np.int32)
            begin = 0
        self.n_ints = begin + size
        return self.ints[begin : begin + size]

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def claim(self, wanted: cython.Py_ssize_t, replaced: cython.Py_ssize_t = 0) -> cython.int:
        """Count new tables of `wanted` bytes.

        Args:
            wanted: bytes of the new tables.
            replaced: bytes of the tables that they replace; both exist until the contents are copied.

        Raises:
            BudgetExceeded: the bound would be exceeded; nothing is counted.
        """
        if self.taken + wanted > self.most:
            raise BudgetExceeded(str(self.excess).replace("{taken}", str(self.taken)))
        self.taken += wanted - replaced

    def bigger(self, array, size, used=None):
        """`equivalence.arrays.dynamic_arrays.bigger`, for a table that replaces the array.

        Raises:
            BudgetExceeded: see `claim`.
        """
        old = memoryview(array_of(array))
        self.claim(size * old.strides[0], old.nbytes)
        return bigger(array, size, used)
