# cython: language_level=3
# mypy: ignore-errors
"""Refinement: separates groups that some block of their first byte treats differently.

What: at first, groups that the same blocks read completely are one class. Then each block splits classes by
the outcomes of the groups that it does not read completely.
When: in the middle of the partition. `equivalence.classes.class_merging` then merges classes that all
contexts treat the same.
Limits: pairs are compared exactly. Their table is charged to an `Account`, which is checked for each block.
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
"""Initial room for the parts of a block."""

PART_BYTES = 64
"""At most this many bytes of a table for each part, also while it grows."""


def split_classes(
    range_sets: cython.const[cython.int][::1],
    n_sets: cython.Py_ssize_t,
    first_byte: cython.const[cython.uchar][::1],
    event_starts: cython.const[cython.Py_ssize_t][::1],
    events: cython.const[cython.Py_ssize_t][:, ::1],
    account: Account,
) -> tuple[NDArray[np.int32], int]:
    """Separate groups that some block treats differently.

    Args:
        range_sets: int32[G], the set of blocks that reads each group, see `equivalence.classes.block_sets`.
        n_sets: number of these sets.
        first_byte: uint8[G]; it separates groups that no block reads completely.
        event_starts: int64[blocks + 1], where the events of each block begin.
        events: int64[n, 2], rows (group, outcome); rows after the last start are ignored.
        account: is charged for the classes, which are kept, and for a temporary table.

    Returns:
        (the class of each group, int32[G]; the number of class numbers, some of which have no groups).

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    n_groups: cython.Py_ssize_t = range_sets.shape[0]
    account.claim(4 * n_groups)
    found = np.empty(n_groups, np.int32)
    classes: cython.int[::1] = found
    passing: cython.Py_ssize_t = PART_BYTES * int(np.diff(event_starts).max(initial=0))
    account.claim(passing)
    parts = Interned(FIRST, 2)  # of one block: [class before, outcome]
    n_classes: cython.Py_ssize_t = n_sets + 256
    with cython.nogil:
        for g in range(n_groups):
            classes[g] = range_sets[g]
            if classes[g] == 0:
                classes[g] = cython.cast(cython.int, n_sets + cython.cast(cython.Py_ssize_t, first_byte[g]))
        for block in range(event_starts.shape[0] - 1):
            account.check()
            parts.clear(event_starts[block + 1] - event_starts[block])
            for e in range(event_starts[block], event_starts[block + 1]):
                group = events[e, 0]
                part = parts.pair(classes[group], events[e, 1])
                classes[group] = cython.cast(cython.int, n_classes + part)
            n_classes += parts.count
    account.claim(0, passing)
    return found, n_classes
