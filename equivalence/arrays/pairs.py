# cython: language_level=3
# mypy: ignore-errors
"""Numbered pairs of integers, and what has been found for each.

What: a `Pairs` gives equal pairs equal numbers, starting with 1, and stores what its owner finds for each: a
result, and a second number where the owner needs one. The number 0 stands for nothing, such as no stack.
When: to number pairs, or to find the result for a pair; for lists, see `equivalence.arrays.interning`.
Limits: pairs are never deleted; all integers are below 2**31. A view of `rows` becomes outdated when the
table grows, so it must not be kept while pairs are added.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.hashing import pair_hash
from cython.cimports.equivalence.arrays.records import zeros
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import bigger
from equivalence.arrays.records import Kind

check_source(__name__)

PAIR = Kind("first second result rest", np.int32)  # 16 bytes: four to a cache line

ROW_BYTES = cython.declare(cython.Py_ssize_t, 24)
"""Bytes for each pair: its row, and two slots of the table."""


@cython.final
@cython.no_gc
@cython.cclass
class Pairs:
    """Pairs of integers and their numbers, in order of insertion.

    Args:
        capacity: number of pairs that fit at first, a power of two.
        account: the account that pays for growth.

    Attributes:
        count: number of pairs, including the one that stands for nothing.
        rows: for each pair its integers, the result found for it (-1: none yet), and the second number.
        table: int32, twice as many slots as rows: the hash table of numbers.
    """

    def __init__(self, capacity: cython.Py_ssize_t, account: Account) -> None:
        account.claim(ROW_BYTES * capacity)
        self.account = account
        self.rows = zeros(PAIR, capacity)
        self.table = account.new_ints(2 * capacity)
        self.table[:] = -1
        self.count = 1

    def slot(self, first, second):
        """The slot in the table with a pair's number, or the empty slot where it would be."""
        last: cython.Py_ssize_t = self.table.shape[0] - 1
        slot = pair_hash(first, second) & last
        while self.table[slot] >= 0:
            number = self.table[slot]
            if self.rows[number].first == first and self.rows[number].second == second:
                break
            slot = (slot + 1) & last
        return slot

    def number(self, first, second):
        """The number of a pair.

        Raises:
            BudgetExceeded: the pair is new, and the account does not pay for more.
        """
        slot = self.slot(first, second)
        if self.table[slot] >= 0:
            return self.table[slot]
        return self.add(first, second, slot)

    def add(self, first, second, slot):
        """Add a new pair to its slot."""
        if self.count == self.rows.shape[0]:
            with cython.gil:
                self.grow()
            slot = self.slot(first, second)
        number = self.count
        self.rows[number].first = cython.cast(cython.int, first)
        self.rows[number].second = cython.cast(cython.int, second)
        self.rows[number].result = -1
        self.table[slot] = cython.cast(cython.int, number)
        self.count = number + 1
        return number

    def grow(self):
        """Double the room. After an error, nothing has changed."""
        old: cython.Py_ssize_t = self.rows.shape[0]
        last: cython.Py_ssize_t = 4 * old - 1
        self.account.claim(ROW_BYTES * 2 * old, ROW_BYTES * old)
        places: cython.int[::1] = np.full(4 * old, -1, np.int32)
        with cython.nogil:
            for number in range(1, old):
                slot = pair_hash(self.rows[number].first, self.rows[number].second) & last
                while places[slot] >= 0:
                    slot = (slot + 1) & last
                places[slot] = cython.cast(cython.int, number)
        self.rows = bigger(self.rows, 2 * old)
        self.table = places

    def copied(self, account):
        """A copy that is charged to another account."""
        copy: Pairs = Pairs(self.rows.shape[0], account)
        copy.rows[:] = self.rows
        copy.table[:] = self.table
        copy.count = self.count
        return copy

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return ROW_BYTES * self.rows.shape[0]
