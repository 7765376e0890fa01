# cython: language_level=3
# mypy: ignore-errors
"""The suffixes of byte strings: their numbers, and byte strings of the pending ones.

What: a suffix is a node of the trie of the *reversed* strings; node 0 is the empty suffix. `suffixes_of`
numbers the suffixes. `mark_pending` and `strings_of` make a small vocabulary of the suffixes that outcomes
leave to be read.
When: once for each vocabulary (`equivalence.trie.trie`), and in explorations with many outcomes.
Limits: suffixes must have the numbers of `suffixes_of`: the parent of a suffix has a lower number.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.pairs import Pairs
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)

FIRST_ROWS = 4096
"""Suffixes that fit at first."""


def suffixes_of(
    data: cython.const[cython.uchar][::1], offsets: cython.const[cython.Py_ssize_t][::1]
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32]]:
    """Make the trie of the reversed strings; its nodes are all suffixes.

    Args:
        data: uint8, the strings side by side.
        offsets: int64[G + 1], where each begins; ascending, the last one is the length of `data`.

    Returns:
        (each suffix without its first byte, int32[S]; that byte, uint8[S]; the suffix that equals each whole
            string, int32[G]).
    """
    suffixes: Pairs = Pairs(FIRST_ROWS, Account())  # the rest of each suffix, and its first byte
    whole: cython.int[::1] = np.zeros(offsets.shape[0] - 1, np.int32)
    with cython.nogil:
        for g in range(whole.shape[0]):
            current: cython.Py_ssize_t = 0
            for i in range(offsets[g + 1] - 1, offsets[g] - 1, -1):
                current = suffixes.number(current, data[i])
            whole[g] = cython.cast(cython.int, current)
    rows = np.frombuffer(suffixes.rows, np.int32).reshape(-1, 4)[: suffixes.count]
    return rows[:, 0].copy(), rows[:, 1].astype(np.uint8), np.asarray(whole)


def mark_pending(
    outcomes: Interned,
    begin: cython.Py_ssize_t,
    noted: cython.uchar[::1],
    parent: cython.const[cython.int][::1],
) -> int:
    """Mark the suffixes that outcomes leave to be read, unless earlier calls have marked them.

    Args:
        outcomes: lists [label, (port, suffix) ...]; a negative port has no suffix.
        begin: the first outcome to examine; earlier calls have examined those before it.
        noted: uint8[S], changed: 1 for a new suffix, 2 for one that an earlier call has marked.
        parent: int32[S], from `suffixes_of`.

    Returns:
        The number of new suffixes.
    """
    n: cython.Py_ssize_t = 0
    marks = np.asarray(noted)
    marks += (marks == 1).view(np.uint8)
    with cython.nogil:
        for outcome in range(begin, outcomes.count):
            at = outcomes.starts[outcome] + 1
            while at < outcomes.starts[outcome + 1]:
                if outcomes.pool[at] >= 0:
                    suffix = outcomes.pool[at + 1]
                    while suffix != 0 and not noted[suffix]:
                        noted[suffix] = 1
                        n += 1
                        # after the first call few are new; shorter ones are marked with them, because in a
                        # run of blanks each suffix leaves the next shorter one
                        suffix = parent[suffix] if begin > 0 else 0
                at += 2
    return n


def strings_of(
    order: cython.const[cython.int][::1],
    wanted: cython.const[cython.uchar][::1],
    parent: cython.const[cython.int][::1],
    first_byte: cython.const[cython.uchar][::1],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32]]:
    """The suffixes that are marked with 1, as sorted byte strings.

    Args:
        order: int32[S - 1], all suffixes except the empty one, in byte order.
        wanted: uint8[S], the marks.
        parent, first_byte: from `suffixes_of`.

    Returns:
        (the strings side by side, uint8; where each begins, int64[n + 1]; the suffix of each, int32[n]).
    """
    n: cython.Py_ssize_t = 0
    total: cython.Py_ssize_t = 0
    suffix: cython.Py_ssize_t
    with cython.nogil:
        for i in range(order.shape[0]):
            suffix = order[i]
            if wanted[suffix] == 1:
                n += 1
                while suffix != 0:
                    total += 1
                    suffix = parent[suffix]
    data: cython.uchar[::1] = np.empty(total, np.uint8)
    offsets: cython.Py_ssize_t[::1] = np.zeros(n + 1, np.int64)
    numbers: cython.int[::1] = np.empty(n, np.int32)
    n = total = 0
    with cython.nogil:
        for i in range(order.shape[0]):
            suffix = order[i]
            if wanted[suffix] == 1:
                numbers[n] = cython.cast(cython.int, suffix)
                n += 1
                while suffix != 0:
                    data[total] = first_byte[suffix]
                    total += 1
                    suffix = parent[suffix]
                offsets[n] = total
    return np.asarray(data), np.asarray(offsets), np.asarray(numbers)
