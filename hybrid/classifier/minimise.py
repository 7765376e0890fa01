"""Merging pending sets that behave alike, by partition refinement (Moore 1956).

What: two pending sets are one if on every symbol they name the same classes and leave sets behind that are
one again; the states of the automaton that reads stacks from the top become as few as its rows allow.
When: after `build_summaries` has built all of them. An automaton that is still growing must not be merged:
what is not known yet of two sets may tell them apart.
Limits: sets that were read on different symbols are not compared, though no stack may tell them apart.

Measured (llama3): little is left to merge. C++ keeps all 595 sets and 2,890 rows, XML 145 of 158 and 339 of
354, the C-like grammar 1,031 of 1,047 and 5,893 of 5,909. It takes 3 to 6 % of `build_summaries` (9 % of 0.7
ms for arithmetic), and leaves half of the memory, as spare room goes too (C++ 2.3 MB to 1.0).
"""

from __future__ import annotations

import numpy as np

from hybrid.classifier import _kernels
from hybrid.classifier.rows import interned, table_of, used_lists, used_rows
from hybrid.classifier.tables import Summaries


def minimised(known: Summaries) -> Summaries:
    """The same masks from as few pending sets as possible, in tables without spare room for more.

    Args:
        known: all summaries that stacks can ask for, as `build_summaries` gives them without a cause.
    """
    rows, row_starts = used_rows(known)
    starts, pool = used_lists(known.pendings)
    n = len(starts) - 1
    blocks = np.empty(n, np.int64)
    _kernels.merge_alike(rows, row_starts, blocks)
    # blocks are numbered by first member: the first of a new number stands for its block, and the empty
    # set, whose number 0 the kernels know, stays 0
    members = np.unique(blocks, return_index=True)[1]
    stays = np.zeros(n, np.bool_)
    stays[members] = True
    rows = rows[stays[rows[:, 0]]]
    rows[:, 0] = blocks[rows[:, 0]]
    rows[:, 3] = blocks[rows[:, 3]]
    first = known.first.copy()
    found = first[:, 1] >= 0
    first[found, 1] = blocks[first[found, 1]]
    lengths = np.diff(starts)
    kept = pool[np.repeat(stays, lengths)]
    new_starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[members])])
    return Summaries(first, table_of(rows), interned(new_starts, kept), known.masks, known.units, True)
