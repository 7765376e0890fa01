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
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)

FIRST = 256
"""Initial room for sets."""


@cython.final
@cython.cclass
class Sweep:
    """A pass over the groups in order. A range never contains groups with different first bytes.

    Attributes:
        words: the current set, in 32-bit words: bit i stands for the i-th block of the current first byte.
        sets: the sets so far, as [first byte, words ...]; number 0 is the empty set of every first byte.
    """

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
        self.n_words = (widest + 31) // 32
        self.words = np.zeros(self.n_words, np.int64)
        self.sets = Interned(FIRST, 1 + self.n_words, account=account)
        self.sets.add(np.zeros(1 + self.n_words, np.int64))
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
        one: cython.Py_ssize_t = 1  # a literal would be a C int, whose bit 31 is the sign
        t: cython.Py_ssize_t = 0
        for i in range(self.n_bounds):
            self.account.check()
            g = self.bounds[i]
            while t < self.ends[g]:
                self.words[self.toggles[t] >> 5] ^= one << (self.toggles[t] & 31)
                t += 1
            self.numbers[i] = cython.cast(cython.int, self.current_set(self.first_byte[g]))

    def current_set(self, first_byte):
        """The number of the current set.

        Raises:
            BudgetExceeded: no bytes are left.
        """
        at = self.sets.room(1 + self.n_words)
        members: cython.Py_ssize_t = 0
        for w in range(self.n_words):
            members |= self.words[w]
            self.sets.pool[at + 1 + w] = self.words[w]
        self.sets.pool[at] = first_byte if members else 0
        return self.sets.intern(1 + self.n_words)

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
        (the number of each group, int32[G]; the first byte and the words of each number's set,
            int64[numbers, 1 + words]). Number 0 means that no block reads the group. Bit i of the words of 32
            bits stands for the i-th block of the byte.

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    n_groups: cython.Py_ssize_t = first_byte.shape[0]
    passing: cython.Py_ssize_t = 4 * n_groups + 40 * range_starts[range_starts.shape[0] - 1]
    account.claim(4 * n_groups + passing)
    sweep = Sweep(first_byte, block_starts, range_starts, ranges, account)
    result = np.zeros(n_groups, np.int32)
    sweep.number_groups(result)
    sets = sweep.sets.lists()[1].reshape(-1, 1 + sweep.n_words)
    account.claim(sets.nbytes, passing + sweep.sets.nbytes)
    return result, sets
