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

from equivalence.arrays.grouping import grouped

check_source(__name__)

FIRST = 256
"""Initial room for sets."""


def outright_sets(
    first_byte: cython.const[cython.uchar][::1],
    block_starts: NDArray[np.int64],
    range_starts: NDArray[np.int64],
    ranges: NDArray[np.int64],
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
    n_blocks = len(range_starts) - 1
    n_ranges: cython.Py_ssize_t = range_starts[n_blocks]
    passing: cython.Py_ssize_t = 8 * n_groups + 40 * n_ranges
    account.claim(4 * n_groups + passing)
    widths = block_starts[1:] - block_starts[:256]
    n_words: cython.Py_ssize_t = (int(widths.max()) + 31) // 32 or 1
    # for each range, its block, counted from the first one of its byte; a range never contains groups with
    # different first bytes
    places = np.arange(n_blocks) - block_starts[:256].repeat(widths)
    block_of_range: cython.Py_ssize_t[::1] = places.repeat(range_starts[1:] - range_starts[:n_blocks])
    # the ranges that begin or end at each group, twice their number or one more
    starts, sides = grouped(ranges[:n_ranges].astype(np.int32).ravel(), n_groups + 1)
    side_starts: cython.Py_ssize_t[::1] = starts
    side: cython.int[::1] = sides
    sets = Interned(FIRST, 1 + n_words, account=account)
    sets.add(np.zeros(1 + n_words, np.int64))
    # the current set: bit i stands for the i-th block of the current first byte
    words: cython.Py_ssize_t[::1] = np.zeros(n_words, np.int64)
    result = np.zeros(n_groups, np.int32)
    number_of: cython.int[::1] = result
    number: cython.Py_ssize_t = 0
    one: cython.Py_ssize_t = 1  # a literal would be a C int, whose bit 31 is the sign
    with cython.nogil:
        for g in range(n_groups):
            if side_starts[g] < side_starts[g + 1]:
                account.check()
                for k in range(side_starts[g], side_starts[g + 1]):
                    block = block_of_range[side[k] >> 1]
                    words[block >> 5] ^= one << (block & 31)
                at = sets.room(1 + n_words)
                members: cython.Py_ssize_t = 0
                for w in range(n_words):
                    members |= words[w]
                    sets.pool[at + 1 + w] = words[w]
                sets.pool[at] = first_byte[g] if members else 0
                number = sets.intern(1 + n_words)
            number_of[g] = cython.cast(cython.int, number)
    found = sets.lists()[1].reshape(-1, 1 + n_words)
    account.claim(found.nbytes, passing + sets.nbytes)
    return result, found
