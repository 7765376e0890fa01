# cython: language_level=3
# mypy: ignore-errors
"""The resources of one computation: bytes, time, and the interpreter's lock.

What: an `Account` counts the bytes of a computation's tables, provides memory for small tables, tells long
loops when to stop, and releases the interpreter's lock when a kernel takes long.
When: one for each phase. Compiled code calls `claim` before a table grows, or `bigger` to let it grow, and
`check` in long loops. A kernel that is often quick runs between `keep_lock` and `retake_lock`.
Limits: only tables that call `claim` are counted. Only loops that call `check` can be stopped, and only they
release the lock.

Most kernels are quick: half of the masks that have to be computed take 3 us, and half of the networks of
schemas 40 us. If several threads compete for the interpreter's lock, releasing it and waiting for it costs
13 us of CPU time. So it is only released after `KEPT_SECONDS`. With ``with nogil`` around every kernel, two
threads took as long as one to compile 64 schemas, or longer, and 16 to 35% more CPU time.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interpreter_lock import (
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyGILState_GetThisThreadState,
    PyThreadState,
)
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

KEPT_SECONDS = cython.declare(cython.double, 1e-4)
"""A kernel that has taken longer releases the interpreter's lock."""


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
        depth: blocks of `with gil` around a kernel that keeps the interpreter's lock; 0: there is none.
        kept_since: the time of the kernel's first look at the clock; 0: it has not looked.
        released: the thread, if the kernel has released the lock; otherwise NULL.
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
            if self.depth:
                self.release_if_slow()

    def keep_lock(self):
        """Begin a kernel that keeps the interpreter's lock, which is held, while it is quick.

        Returns:
            What `retake_lock` must be given: 0 for a kernel inside of another one, which changes nothing.
        """
        thread: cython.pointer(PyThreadState) = PyGILState_GetThisThreadState()
        if self.depth or self.released != cython.NULL or thread == cython.NULL:
            return 0
        self.depth = thread.gilstate_counter
        self.kept_since = 0.0
        return 1

    def release_if_slow(self):
        """Release the interpreter's lock if the kernel has kept it for long, but not in a block of `with gil`
        inside of it."""
        now = self.stop._looked
        if self.kept_since == 0.0:
            self.kept_since = now
        elif now - self.kept_since > KEPT_SECONDS:
            thread: cython.pointer(PyThreadState) = PyGILState_GetThisThreadState()
            if thread.gilstate_counter == self.depth:
                self.depth = 0
                self.released = PyEval_SaveThread()

    def retake_lock(self, kept):
        """End a kernel: its thread holds the interpreter's lock again."""
        if kept:
            self.depth = 0
            if self.released != cython.NULL:
                thread: cython.pointer(PyThreadState) = self.released
                self.released = cython.NULL
                PyEval_RestoreThread(thread)

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
