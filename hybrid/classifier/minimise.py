# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Merging pending sets with equal behaviour, by partition refinement (Moore 1956).

What: two pending sets are merged if on every symbol they give the same classes, and the sets that they
leave are merged, too. The automaton that reads stacks from the top gets as few states as its rows allow.
When: after `build_summaries` has computed all of them. An automaton that is still growing must not be
minimised: two sets may differ in what is not known yet.
Limits: sets that were read on different symbols are not compared, although perhaps no stack distinguishes
them. Indices are checked, which costs a few per cent of 0.1 to 1 ms.

Measured (llama3): there is little to merge. C++ keeps all 595 sets and 2,890 rows, XML 145 of 158 and 339
of 354, the C-like grammar 1,031 of 1,047 and 5,893 of 5,909. It takes 3 to 6 % of the time of
`build_summaries` (9 % of 0.7 ms for arithmetic), and halves the memory, because spare room is dropped, too
(C++ 2.3 MB to 1.0).
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.hybrid.classifier.summaries import Summaries
from numpy.typing import NDArray

from equivalence import built
from hybrid.classifier.summaries import summaries_of

built.check(__name__, EQUIMASK_SOURCE)

Integers = NDArray[np.int64]


def minimised(known: Summaries) -> Summaries:
    """The same masks from as few pending sets as possible, in tables without spare room.

    Args:
        known: all summaries that stacks can need, as `build_summaries` gives them when none are missing.
    """
    rows, row_starts = known.used_rows()
    starts, pool = known.pendings.lists()
    n = len(starts) - 1
    blocks = alike(rows, row_starts)
    # blocks are numbered by their first member, which represents the block. The empty set keeps its
    # number 0, on which other code relies
    members = np.unique(blocks, return_index=True)[1]
    stays = np.zeros(n, np.bool_)
    stays[members] = True
    rows = rows[stays[rows[:, 0]]]
    rows[:, 0] = blocks[rows[:, 0]]
    rows[:, 3] = blocks[rows[:, 3]]
    first = known.first_rows()
    found = first[:, 1] >= 0
    first[found, 1] = blocks[first[found, 1]]
    lengths = np.diff(starts)
    kept = pool[np.repeat(stays, lengths)]
    new_starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[members])])
    masks, units = known.masks.lists(), known.units.lists()
    return summaries_of(first, rows, (new_starts, kept), masks, units, known.n_words, True)


def alike(
    rows: cython.const[cython.Py_ssize_t][:, ::1], row_starts: cython.const[cython.Py_ssize_t][::1]
) -> Integers:
    """The block of each pending set, int64[sets], numbered by first member.

    Blocks are split until the members of each have equal rows (symbol, mask, block below). Passes are
    repeated while the number of blocks grows, so every pass but the last splits at least one.

    Args:
        rows, row_starts: the results of `Summaries.used_rows`.
    """
    n: cython.Py_ssize_t = row_starts.shape[0] - 1
    result = np.zeros(n, np.int64)
    blocks: cython.Py_ssize_t[::1] = result
    after: cython.Py_ssize_t[::1] = np.empty(n, np.int64)
    width: cython.Py_ssize_t = (n + 3 * rows.shape[0]) // max(n, 1) + 1
    n_blocks: cython.Py_ssize_t = 0
    while True:
        known = Interned(n + 1, width)
        with cython.nogil:
            for p in range(n):
                at = known.room(1 + 3 * (row_starts[p + 1] - row_starts[p]))
                length: cython.Py_ssize_t = 1
                known.pool[at] = blocks[p]
                for k in range(row_starts[p], row_starts[p + 1]):
                    known.pool[at + length] = rows[k, 1]
                    known.pool[at + length + 1] = rows[k, 2]
                    known.pool[at + length + 2] = blocks[rows[k, 3]]
                    length += 3
                after[p] = known.intern(length)
        blocks[:] = after
        if known.count == n_blocks:
            return result
        n_blocks = known.count
