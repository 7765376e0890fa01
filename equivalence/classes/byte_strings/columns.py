# cython: language_level=3
# mypy: ignore-errors
"""What each byte does in each state of the automata, and which states part the bytes alike.

What: `Columns` holds for each reading state and byte the number of the set of entries that it leads to.
When: once per walk over strings of byte classes (`equivalence.classes.byte_strings.walking`).
Limits: numbers of sets are compared between bytes of one state only: each state has its own.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.built import EQUIMASK_SOURCE

from equivalence import built
from equivalence.arrays.growing import bigger

built.check(__name__, EQUIMASK_SOURCE)


@cython.final
@cython.cclass
class Columns:
    """Sets of entries by state and byte.

    Args:
        starts: int64[R + 1], the rows of each state.
        rows: int64[E, 3], first byte, last byte and entry of each.
        account: looked at for the word to stop.

    Attributes:
        columns: int64[R, 256], the set that a byte leads to, 0 for none.
        set_starts: where the entries of each set begin; set 0 is empty.
        entries: of all sets.
        n_sets: with the empty one.
        part_of_state: int64[R], equal for states that part the bytes alike.
        example: of each part one such state.

    Raises:
        BudgetExceeded: somebody has said stop.
    """

    starts: cython.const[cython.Py_ssize_t][::1]
    rows: cython.const[cython.Py_ssize_t][:, ::1]
    n_states: cython.Py_ssize_t
    columns: cython.Py_ssize_t[:, ::1]
    set_starts: cython.Py_ssize_t[::1]
    entries: cython.Py_ssize_t[::1]
    n_sets: cython.Py_ssize_t
    part_of_state: cython.Py_ssize_t[::1]
    example: cython.Py_ssize_t[::1]

    def __init__(
        self,
        starts: cython.const[cython.Py_ssize_t][::1],
        rows: cython.const[cython.Py_ssize_t][:, ::1],
        account: Account,
    ) -> None:
        self.starts = starts
        self.rows = rows
        self.n_states = starts.shape[0] - 1
        self.columns = np.zeros((self.n_states, 256), np.int64)
        self.set_starts = np.zeros(64, np.int64)
        self.entries = np.zeros(64, np.int64)
        self.n_sets = 1
        state: cython.Py_ssize_t
        with cython.nogil:
            for state in range(self.n_states):
                account.look()
                self.fill(state)
        self.number_parts()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def fill(self, state: cython.Py_ssize_t) -> cython.int:
        """Number the sets of one state in a row, in the order of their first bytes."""
        first = self.n_sets
        own = self.starts[state + 1] - self.starts[state]
        for byte in range(256):
            used = self.set_starts[self.n_sets]
            if used + own > self.entries.shape[0] or self.n_sets + 2 > self.set_starts.shape[0]:
                with cython.gil:
                    self.grow(own)
            count = self.collect(state, byte)
            if count == 0:
                continue
            number = first
            while number < self.n_sets and not self.is_set(number, count):
                number += 1
            if number == self.n_sets:
                self.n_sets = number + 1
                self.set_starts[self.n_sets] = used + count
            self.columns[state, byte] = number
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self, room: cython.Py_ssize_t) -> cython.int:
        """Make room for one more set of so many entries, and some."""
        used = self.set_starts[self.n_sets]
        if used + room > self.entries.shape[0]:
            self.entries = bigger(self.entries, 2 * (used + room), used)
        if self.n_sets + 2 > self.set_starts.shape[0]:
            self.set_starts = bigger(self.set_starts, 2 * self.set_starts.shape[0], self.n_sets + 1)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def collect(self, state: cython.Py_ssize_t, byte: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write the entries of a byte behind the last set; how many they are."""
        used = self.set_starts[self.n_sets]
        count: cython.Py_ssize_t = 0
        for k in range(self.starts[state], self.starts[state + 1]):
            if self.rows[k, 0] <= byte <= self.rows[k, 1]:
                self.entries[used + count] = self.rows[k, 2]
                count += 1
        return count

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def is_set(self, number: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.bint:
        """Whether a set of the same state is what was collected: rows are in one order, so lists compare."""
        begin = self.set_starts[number]
        if self.set_starts[number + 1] - begin != count:
            return False
        used = self.set_starts[self.n_sets]
        i: cython.Py_ssize_t = 0
        while i < count and self.entries[begin + i] == self.entries[used + i]:
            i += 1
        return i == count

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def number_parts(self) -> cython.int:
        """Number the states by how they part the bytes."""
        known = Interned(16, 256)
        self.part_of_state = np.zeros(self.n_states, np.int64)
        self.example = np.zeros(self.n_states, np.int64)
        first: cython.Py_ssize_t
        with cython.nogil:
            for state in range(self.n_states):
                begin = known.room(256)
                first = 0
                for b in range(256):  # the least number of a set is that of the first byte that has one
                    if first == 0:
                        first = self.columns[state, b]
                    known.pool[begin + b] = (
                        self.columns[state, b] - first + 1 if self.columns[state, b] else 0
                    )
                count = known.count
                self.part_of_state[state] = known.intern(256)
                if known.count > count:
                    self.example[count] = state
        self.example = np.array(self.example[: known.count])
        return 0
