# cython: language_level=3
# mypy: ignore-errors
"""Numbers for the sets of blocks that read a group completely ("outright").

What: each block reads some ranges of groups completely. Groups with the same first byte that are read by the
same blocks get equal numbers. A sweep goes through the groups in order with the current set of blocks, and
looks up its number wherever a range begins or ends.
When: used by the partition, for runs of tokens, and by the exploration, for pending suffixes.
Limits: sets are compared exactly. They and temporary arrays are charged to an `Account`.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.hashing import mix
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.dynamic_arrays import bigger

check_source(__name__)

FIRST = 256
"""Initial room for sets."""


@cython.final
@cython.cclass
class BlockSets:
    """Sets of the blocks of one first byte, numbered from 1 in the order in which they are found.

    Number 0 is the empty set of every first byte. A set is stored in 32-bit words: bit i stands for the i-th
    block of the byte. `words` is the current set, and `hash` its hash. A block that is added or removed
    changes the hash by its own seed, so computing the hash does not take a pass over all words.
    """

    def __init__(self, widest: cython.Py_ssize_t, account: Account) -> None:
        self.n_words = (widest + 31) // 32
        self.account = account
        account.claim(FIRST * (8 * self.n_words + 17))
        self.words = np.zeros(self.n_words, np.int64)
        self.seeds = np.empty(widest, np.int64)
        h: cython.Py_ssize_t = 12345
        for i in range(widest):
            h = mix(h, i + 77)
            self.seeds[i] = h << 29
            h = mix(h, 3 * i + 1)
            self.seeds[i] ^= h
        self.sets = np.zeros((FIRST, self.n_words), np.int64)
        self.first_bytes = np.zeros(FIRST, np.uint8)
        self.hashes = np.zeros(FIRST, np.int64)
        self.table = np.zeros(2 * FIRST, np.int32)
        self.count = 1
        self.n_members = self.hash = 0

    def toggle(self, block):
        """Add a block to the current set, or remove it."""
        bit: cython.Py_ssize_t = 1
        bit <<= block & 31
        self.words[block >> 5] ^= bit
        self.n_members = self.n_members + (1 if self.words[block >> 5] & bit else -1)
        self.hash = self.hash ^ self.seeds[block]

    def equals(self, number):
        """Whether a set is equal to the current one."""
        w: cython.Py_ssize_t = 0
        while w < self.n_words and self.sets[number, w] == self.words[w]:
            w += 1
        return w == self.n_words

    def number(self, first_byte):
        """The number of the current set.

        Raises:
            BudgetExceeded: it is new, and no bytes are left for it.
        """
        if self.n_members == 0:
            return 0
        h = mix(mix(self.hash & 0x3FFFFFFF, self.hash >> 30), first_byte)
        last: cython.Py_ssize_t = self.table.shape[0] - 1
        slot = h & last
        number: cython.Py_ssize_t = self.table[slot]
        while number:
            if self.hashes[number] == h and self.first_bytes[number] == first_byte and self.equals(number):
                return number
            slot = (slot + 1) & last
            number = self.table[slot]
        if self.count == self.hashes.shape[0]:
            with cython.gil:
                self.grow()
        number = self.count
        for w in range(self.n_words):
            self.sets[number, w] = self.words[w]
        self.first_bytes[number] = cython.cast(cython.uchar, first_byte)
        self.hashes[number] = h
        self.count = number + 1
        self.enter(number)
        return number

    def enter(self, number):
        """Add a set to the hash table."""
        last: cython.Py_ssize_t = self.table.shape[0] - 1
        slot = self.hashes[number] & last
        while self.table[slot]:
            slot = (slot + 1) & last
        self.table[slot] = cython.cast(cython.int, number)

    def grow(self):
        """Double the room for sets."""
        size: cython.Py_ssize_t = 2 * self.hashes.shape[0]
        a_set: cython.Py_ssize_t = 8 * self.n_words + 17
        self.account.claim(size * a_set, size // 2 * a_set)
        self.sets = bigger(self.sets, size)
        self.first_bytes = bigger(self.first_bytes, size)
        self.hashes = bigger(self.hashes, size)
        self.table = np.zeros(2 * size, np.int32)
        with cython.nogil:
            for number in range(1, self.count):
                self.enter(number)


@cython.final
@cython.cclass
class Sweep:
    """A pass over the groups in order. A range never contains groups with different first bytes."""

    def __init__(self, first_byte, block_starts, range_starts, ranges, account) -> None:
        self.first_byte = first_byte
        self.block_starts = block_starts
        self.range_starts = range_starts
        self.ranges = ranges
        self.account = account
        total: cython.Py_ssize_t = self.range_starts[self.range_starts.shape[0] - 1]
        widest: cython.Py_ssize_t = 1
        for b in range(256):
            widest = max(widest, self.block_starts[b + 1] - self.block_starts[b])
        self.sets = BlockSets(widest, account)
        self.ends = np.zeros(self.first_byte.shape[0] + 2, np.int32)
        self.toggles = np.empty(2 * total, np.int32)
        self.bounds = np.empty(2 * total + 1, np.int64)
        self.n_bounds = 0
        self.numbers = np.zeros(2 * total, np.int32)

    def sort_toggles(self):
        """List by group the blocks with a range that begins or ends there."""
        n_groups: cython.Py_ssize_t = self.first_byte.shape[0]
        total: cython.Py_ssize_t = self.range_starts[self.range_starts.shape[0] - 1]
        for r in range(total):
            for side in range(2):
                self.ends[self.ranges[r, side] + 1] += 1
        for g in range(n_groups + 1):
            self.ends[g + 1] += self.ends[g]
        for b in range(256):
            for block in range(self.block_starts[b], self.block_starts[b + 1]):
                for r in range(self.range_starts[block], self.range_starts[block + 1]):
                    for side in range(2):
                        g = self.ranges[r, side]
                        self.toggles[self.ends[g]] = cython.cast(cython.int, block - self.block_starts[b])
                        self.ends[g] += 1

    def list_bounds(self):
        """List the groups that have toggles."""
        before: cython.int = 0
        n: cython.Py_ssize_t = 0
        for g in range(self.first_byte.shape[0]):
            if self.ends[g] > before:
                self.bounds[n] = g
                n += 1
                before = self.ends[g]
        self.bounds[n] = self.first_byte.shape[0]
        self.n_bounds = n

    def number_bounds(self):
        """Find the number of the set from each bound to the next one."""
        t: cython.Py_ssize_t = 0
        for i in range(self.n_bounds):
            self.account.check()
            g = self.bounds[i]
            while t < self.ends[g]:
                self.sets.toggle(cython.cast(cython.Py_ssize_t, self.toggles[t]))
                t += 1
            first_byte = cython.cast(cython.Py_ssize_t, self.first_byte[g])
            self.numbers[i] = cython.cast(cython.int, self.sets.number(first_byte))

    def number_groups(self, result):
        """Write the number of each group's set. `result` must contain zeros."""
        with cython.nogil:
            self.sort_toggles()
            self.list_bounds()
            self.number_bounds()
            for i in range(self.n_bounds):
                if self.numbers[i]:
                    for g in range(self.bounds[i], self.bounds[i + 1]):
                        result[g] = self.numbers[i]


def outright_sets(
    first_byte: cython.const[cython.uchar][::1],
    block_starts: cython.const[cython.Py_ssize_t][::1],
    range_starts: cython.const[cython.Py_ssize_t][::1],
    ranges: cython.const[cython.Py_ssize_t][:, ::1],
    account: Account,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number the pairs (first byte, blocks that read the group completely), and give each group its number.

    Args:
        first_byte: uint8[G], the first byte of each group.
        block_starts: int64[257], where the blocks of each first byte start.
        range_starts: int64[blocks + 1], where the ranges of each block begin.
        ranges: int64[n, 2], rows (first group, end); rows after the last start are ignored.
        account: is charged for the sets, which are kept, and for temporary arrays.

    Returns:
        (the number of each group, int32[G]; the words of each number's set, int64[numbers, words]). Number 0
            means that no block reads the group. Bit i of the 32-bit words stands for the i-th block of the
            byte.

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    n_groups: cython.Py_ssize_t = first_byte.shape[0]
    passing: cython.Py_ssize_t = 4 * n_groups + 40 * range_starts[range_starts.shape[0] - 1]
    account.claim(4 * n_groups + passing)
    sweep = Sweep(first_byte, block_starts, range_starts, ranges, account)
    result = np.zeros(n_groups, np.int32)
    sweep.number_groups(result)
    account.claim(0, passing + 17 * sweep.sets.hashes.shape[0])  # and the tables that find sets
    return result, np.asarray(sweep.sets.sets)[: sweep.sets.count]
