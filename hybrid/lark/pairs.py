# cython: language_level=3
# mypy: ignore-errors
"""Numbered pairs of integers, and what has been found for each.

What: a `Pairs` gives equal pairs equal numbers, from 1 on, and keeps beside each what its owner finds. The
pair 0 stands for nothing: no stack, no configuration.
When: for stacks (the state on top, the stack below), configurations (lexer state, stack), what is read of a
state below a top, and masks (`hybrid.lark.stacks`, `reading`, `store`).
Limits: pairs are never forgotten; numbers below 2**31. A view of `rows` that is held while pairs are added is
one of old rows once they have grown.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.hashing import mix
from cython.cimports.equivalence.arrays.records import zeros
from cython.cimports.equivalence.built import EQUIMASK_SOURCE

from equivalence import built
from equivalence.arrays.growing import bigger
from equivalence.arrays.records import Kind

built.check(__name__, EQUIMASK_SOURCE)

PAIR = Kind("first second found left", np.int32)

ROW_BYTES = cython.declare(cython.Py_ssize_t, 24)
"""Of a pair: its row, and two places of the table."""

SEED = cython.declare(cython.Py_ssize_t, 7)


@cython.final
@cython.cclass
class Pairs:
    """Pairs of integers and their numbers, in the order in which they were added.

    Args:
        capacity: pairs that there is room for at first, a power of two.
        account: what pays for growth.

    Attributes:
        count: pairs, with the one that stands for nothing.
        rows: of each pair its integers, what was found for it (-1: nothing yet), and what is left to be
            found.
        table: int32, twice as many places as rows: the hash table of numbers.
    """

    def __init__(self, capacity: cython.Py_ssize_t, account: Account) -> None:
        account.claim(ROW_BYTES * capacity)
        self.account = account
        self.rows = zeros(PAIR, capacity)
        self.table = np.full(2 * capacity, -1, np.int32)
        self.count = 1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def slot(self, first: cython.Py_ssize_t, second: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The place in the table of a pair's number, or the empty one that it would have."""
        last: cython.Py_ssize_t = self.table.shape[0] - 1
        slot = mix(mix(SEED, first), second) & last
        while self.table[slot] >= 0:
            number = self.table[slot]
            if self.rows[number].first == first and self.rows[number].second == second:
                break
            slot = (slot + 1) & last
        return slot

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def number(self, first: cython.Py_ssize_t, second: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The number of a pair.

        Raises:
            BudgetExceeded: it is new, and the account does not pay for more.
        """
        slot = self.slot(first, second)
        if self.table[slot] >= 0:
            return self.table[slot]
        return self.add(first, second, slot)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def add(
        self, first: cython.Py_ssize_t, second: cython.Py_ssize_t, slot: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Note a new pair, whose place is known."""
        if self.count == self.rows.shape[0]:
            with cython.gil:
                self.grow()
            slot = self.slot(first, second)
        number = self.count
        self.rows[number].first = cython.cast(cython.int, first)
        self.rows[number].second = cython.cast(cython.int, second)
        self.rows[number].found = -1
        self.table[slot] = cython.cast(cython.int, number)
        self.count = number + 1
        return number

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self) -> cython.int:
        """Twice the room; with an error, all is as it was."""
        old: cython.Py_ssize_t = self.rows.shape[0]
        last: cython.Py_ssize_t = 4 * old - 1
        self.account.claim(ROW_BYTES * 2 * old, ROW_BYTES * old)
        rows = bigger(self.rows, 2 * old)
        table = np.full(4 * old, -1, np.int32)
        places: cython.int[::1] = table
        with cython.nogil:
            for number in range(1, old):
                slot = mix(mix(SEED, self.rows[number].first), self.rows[number].second) & last
                while places[slot] >= 0:
                    slot = (slot + 1) & last
                places[slot] = cython.cast(cython.int, number)
        self.rows = rows
        self.table = table
        return 0
