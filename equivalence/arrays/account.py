# cython: language_level=3
# mypy: ignore-errors
"""What a computation may take: bytes, and time.

What: an `Account` counts the bytes of the tables of one computation, gives small ones their memory, and hears
the word to stop.
When: one for each phase; compiled code asks it where a table grows, and looks at it in long loops.
Limits: only who asks is counted, only who looks is stopped.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.built import EQUIMASK_SOURCE

from equivalence import built
from equivalence.errors import BudgetExceeded

built.check(__name__, EQUIMASK_SOURCE)

UNLIMITED = 1 << 62

CHUNK = cython.declare(cython.Py_ssize_t, 4096)
"""Integers that are asked for at once, for small tables to share: 32 KB."""

SHARED = cython.declare(cython.Py_ssize_t, 1100)
"""Integers of a table up to which it shares a chunk with others."""


NEVER = cython.declare(cython.Py_ssize_t[::1], np.zeros(1, np.int64))
"""The cell of accounts that nobody stops."""


@cython.final
@cython.cclass
class Account:
    """Bytes taken, and whether to go on.

    Args:
        stop: an `equivalence.deadline.deadline.Stop`, or nothing that will ever say stop.
        most: bytes that may be taken.
        excess: the message of the error for more than that; "{taken}" in it is replaced.

    Attributes:
        taken: bytes of all tables that are alive.
        most: as given.
        integers, n_integers: memory that small tables share, and how much of it they have; `ints` likewise.
            An array of its own costs each of them a microsecond and an object that Python's garbage collector
            visits: the tables of a first mask had 75.
    """

    cell: cython.Py_ssize_t[::1]
    taken: cython.Py_ssize_t
    most: cython.Py_ssize_t
    stop: object
    excess: object
    integers: cython.Py_ssize_t[::1]
    n_integers: cython.Py_ssize_t
    ints: cython.int[::1]
    n_ints: cython.Py_ssize_t

    def __init__(
        self, stop: Any = None, most: cython.Py_ssize_t = UNLIMITED, excess: str = "too many bytes"
    ) -> None:
        self.stop = stop
        if stop is None:
            self.cell = NEVER
        else:
            self.cell = stop.cell
        self.taken = 0
        self.n_integers = self.n_ints = CHUNK  # there is no chunk yet
        self.most = most
        self.excess = excess

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def look(self) -> cython.int:
        """Go on, unless somebody has said stop.

        Raises:
            BudgetExceeded, KeyboardInterrupt: as `Stop.look`.
        """
        if self.cell[0]:
            with cython.gil:
                self.stop.look()
        return 0

    @cython.cfunc
    def new_integers(self, size: cython.Py_ssize_t) -> cython.Py_ssize_t[::1]:
        """int64[size]: anything, for a table."""
        if size > SHARED:
            return np.empty(size, np.int64)
        begin = self.n_integers
        if begin + size > CHUNK:
            self.integers = np.empty(CHUNK, np.int64)
            begin = 0
        self.n_integers = begin + size
        return self.integers[begin : begin + size]

    @cython.cfunc
    def new_ints(self, size: cython.Py_ssize_t) -> cython.int[::1]:
        """int32[size]: anything, for a table."""
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
        """Note that tables of `wanted` bytes are made, in place of those of `replaced` bytes, which are alive
        until theirs are copied.

        Raises:
            BudgetExceeded: there are not as many bytes left; nothing is noted.
        """
        if self.taken + wanted > self.most:
            raise BudgetExceeded(str(self.excess).replace("{taken}", str(self.taken)))
        self.taken += wanted - replaced
        return 0
