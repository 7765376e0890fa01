# cython: language_level=3
# mypy: ignore-errors
"""Interning: equal lists of integers get equal numbers.

What: an `Interned` owns lists of integers in one pool, and a hash table that finds them.
When: to number sets, states or signatures; from then on, the number represents the list.
Limits: lists are never removed. When lists are added, `pool` and `starts` may be replaced by larger arrays;
views that were taken before then show the old ones.

A list is written to the end of the pool, and `intern` keeps it there if it is new. So nothing is copied, and
no buffer is needed.

    begin = known.room(3)
    known.pool[begin], known.pool[begin + 1], known.pool[begin + 2] = 7, 8, 9
    number = known.intern(3)
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.hashing import list_hash, table_size
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.libc.string import memcpy
from numpy.typing import NDArray

from equivalence.errors import BudgetExceeded

check_source(__name__)

UNLIMITED = 1 << 48

FEW_LISTS = cython.declare(cython.Py_ssize_t, 4096)
"""The hash table of fewer lists is made with the interpreter's lock held, in 0.1 ms at most."""

SMALL = cython.declare(cython.Py_ssize_t, 4096)
"""A pool of fewer integers grows to four times its size, others to twice."""


def longer(old, size, used):
    """`equivalence.arrays.dynamic_arrays.bigger` for these tables: it takes a quarter of the instructions. A
    document grows 25 of them."""
    made: cython.Py_ssize_t[::1] = np.empty(size, np.int64)
    memcpy(cython.address(made[0]), cython.address(old[0]), 8 * used)
    return made


@cython.final
@cython.no_gc
@cython.cclass
class Interned:
    """Lists of integers and their numbers, from 0 in the order in which they were added.

    Args:
        capacity: lists that fit at first.
        width: integers of a list on average that fit at first.
        most: bound of the number of lists.
        account: counts the bytes; None: they are not counted.
        excess: the message of the error if there are more lists than `most`.

    Attributes:
        count: number of lists.
        used: number of integers of all lists.
        starts: list i is ``pool[starts[i]:starts[i + 1]]``.
        pool: the integers of all lists, with room for more.
    """

    def __init__(
        self,
        capacity: cython.Py_ssize_t,
        width: cython.Py_ssize_t,
        most: cython.Py_ssize_t = UNLIMITED,
        account: Account = None,
        excess: str = "too many lists",
    ) -> None:
        size = table_size(capacity)
        self.most = most
        self.account = account
        self.excess = excess
        if account is None:
            self.table = np.empty(size, np.int32)
            self.starts = np.empty(capacity + 2, np.int64)
            self.pool = np.empty(width * capacity + 2, np.int64)
        else:
            account.claim(4 * size + 8 * (capacity + 2) + 8 * (width * capacity + 2))
            self.table = account.new_ints(size)
            self.starts = account.new_integers(capacity + 2)
            self.pool = account.new_integers(width * capacity + 2)
        self.table_room, self.starts_room = self.table, self.starts
        self.table[:] = -1
        self.starts[0] = 0
        self.count = 0
        self.used = 0

    def room(self, length):
        """Make room for one list, and return the place in the pool where it must be written.

        Raises:
            BudgetExceeded: a bound on lists or bytes is exceeded.
        """
        if self.used + length > self.pool.shape[0] or self.count + 2 > self.starts.shape[0]:
            with cython.gil:
                self.grow(length)
        return self.used

    def grow(self, length):
        """Make room for one more list, and others. After an error, nothing has changed."""
        if self.count + 2 > self.starts.shape[0]:
            if self.count >= self.most:
                raise BudgetExceeded(self.excess)
            old = self.starts.shape[0]
            size = min(4 * old, self.most + 2)
            slots = table_size(size)
            if self.account is not None:
                self.account.claim(8 * size + 4 * slots, 8 * old + 4 * self.table.shape[0])
            if size > self.starts_room.shape[0]:
                room = longer(self.starts, size, self.count + 1)
            else:  # these arrays are larger since before `clear`
                room = self.starts_room
            self.rehash(slots)
            self.starts_room, self.starts = room, room[:size]
        if self.used + length > self.pool.shape[0]:
            old = self.pool.shape[0]
            size = (4 if old < SMALL else 2) * old + length
            if self.account is not None:
                self.account.claim(8 * size, 8 * old)
            self.pool = longer(self.pool, size, self.used)

    def rehash(self, size):
        """Make the hash table again, with another size."""
        if size > self.table_room.shape[0]:
            self.table_room = np.empty(size, np.int32)
        self.table = self.table_room[:size]
        if self.count < FEW_LISTS:
            self.fill_table(size)
        else:
            with cython.nogil:
                self.fill_table(size)

    def fill_table(self, size):
        """Write all lists into the hash table."""
        self.table[:] = -1
        for i in range(self.count):
            h = list_hash(self.pool, self.starts[i], self.starts[i + 1]) & (size - 1)
            while self.table[h] >= 0:
                h = (h + 1) & (size - 1)
            self.table[h] = cython.cast(cython.int, i)

    def clear(self, capacity):
        """Remove all lists, and make room for `capacity` lists. Arrays that are large enough are kept. Only
        for tables without an account."""
        size = table_size(capacity)
        if size > self.table_room.shape[0]:
            with cython.gil:
                self.table_room = np.empty(size, np.int32)
        if capacity + 2 > self.starts_room.shape[0]:
            with cython.gil:
                self.starts_room = np.empty(capacity + 2, np.int64)
        self.table = self.table_room[:size]
        self.table[:] = -1
        self.starts = self.starts_room[: capacity + 2]
        self.starts[0] = 0
        self.count = 0
        self.used = 0

    def slot(self, length):
        """The slot of the list at the end of the pool: it has the list's number, or is empty."""
        used = self.used
        i: cython.Py_ssize_t
        last: cython.Py_ssize_t = self.table.shape[0] - 1
        slot: cython.Py_ssize_t = list_hash(self.pool, used, used + length) & last
        while self.table[slot] >= 0:
            candidate = self.table[slot]
            begin = self.starts[candidate]
            if self.starts[candidate + 1] - begin == length:
                i = 0
                while i < length and self.pool[begin + i] == self.pool[used + i]:
                    i += 1
                if i == length:
                    return slot
            slot = (slot + 1) & last
        return slot

    def intern(self, length):
        """The number of the list that was written to the end of the pool. If the list is new, this is the
        former `count`."""
        slot = self.slot(length)
        if self.table[slot] >= 0:
            return self.table[slot]
        number = self.count
        self.used = self.used + length  # in place, a checked build refuses it
        self.starts[number + 1] = self.used
        self.table[slot] = cython.cast(cython.int, number)
        self.count = number + 1
        return number

    def pair(self, first, second):
        """The number of the list of two integers.

        Raises:
            BudgetExceeded: see `room`.
        """
        begin = self.room(2)
        self.pool[begin] = first
        self.pool[begin + 1] = second
        return self.intern(2)

    def find(self, length):
        """The number of a list that equals the one written to the end of the pool; -1 if there is none. The
        list is not kept."""
        return self.table[self.slot(length)]

    def add(self, values: cython.const[cython.Py_ssize_t][::1]) -> int:
        """The number of a list, from Python.

        Args:
            values: int64.
        """
        length: cython.Py_ssize_t = values.shape[0]
        begin = self.room(length)
        for i in range(length):
            self.pool[begin + i] = values[i]
        return self.intern(length)

    def fill(
        self,
        starts: cython.const[cython.Py_ssize_t][::1],
        pool: cython.const[cython.Py_ssize_t][::1],
    ) -> Interned:
        """Add distinct lists in their order; there must be none before.

        Args:
            starts: int64[n + 1], where each list begins in `pool`; ascending from 0 to its length.
            pool: int64, the integers of all lists.

        Returns:
            Itself.

        Raises:
            ValueError: there are lists already, or the lists do not fit, or `starts` is malformed.
        """
        n: cython.Py_ssize_t = starts.shape[0] - 1
        used: cython.Py_ssize_t = pool.shape[0]
        if self.count != 0 or n + 2 > self.starts.shape[0] or used > self.pool.shape[0]:
            raise ValueError(f"{n} lists of {used} integers do not fit")
        if starts[0] != 0 or starts[n] != used:
            raise ValueError("the lists do not begin at 0, or do not end where the integers do")
        for i in range(n):
            if starts[i + 1] < starts[i]:
                raise ValueError("the beginnings of the lists do not ascend")
            self.starts[i + 1] = starts[i + 1]
        for i in range(used):
            self.pool[i] = pool[i]
        self.count = n
        self.used = used
        self.rehash(self.table.shape[0])
        return self

    def copied(self, more: cython.Py_ssize_t, account: Account) -> Interned:
        """A copy with the same room, or room for `more` more lists, whose bytes another account counts."""
        room = self.starts.shape[0] - 2
        width = (self.pool.shape[0] - 2) // max(room, 1) + 1
        copy = Interned(max(self.count + more, room), width, self.most, account, self.excess)
        return copy.fill(*self.lists())

    def lists(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each list starts, int64[count + 1], and the integers of all, int64[used], as copies."""
        return np.array(self.starts[: self.count + 1]), np.array(self.pool[: self.used])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return 4 * self.table.shape[0] + 8 * self.starts.shape[0] + 8 * self.pool.shape[0]


def number_lists(
    starts: cython.const[cython.Py_ssize_t][::1], values: cython.const[cython.Py_ssize_t][::1]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number the lists ``values[starts[i]:starts[i + 1]]`` in the order of their first occurrence.

    Args:
        starts: int64[n + 1], ascending.
        values: int64.

    Returns:
        The number of each list, int32[n]; the first list with each number, int64.

    Raises:
        ValueError: a list exceeds the values.
    """
    n: cython.Py_ssize_t = starts.shape[0] - 1
    lists = Interned(n, values.shape[0] // max(n, 1) + 1)
    numbers, examples = np.empty(n, np.int32), np.empty(n, np.int64)
    number_of: cython.int[::1] = numbers
    example: cython.Py_ssize_t[::1] = examples
    with cython.nogil:
        for i in range(n):
            begin, length = starts[i], starts[i + 1] - starts[i]
            if begin < 0 or length < 0 or begin + length > values.shape[0]:
                with cython.gil:
                    raise ValueError(f"list {i} does not lie within {values.shape[0]} values")
            at = lists.room(length)
            for k in range(length):
                lists.pool[at + k] = values[begin + k]
            example[lists.count] = i  # unless an equal list is known
            number_of[i] = cython.cast(cython.int, lists.intern(length))
    return numbers, examples[: lists.count].copy()
