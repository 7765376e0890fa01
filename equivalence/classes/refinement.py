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
from cython.cimports.equivalence.arrays.hashing import mix
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)

FIRST = 256
"""The initial size of the table."""

OLD = cython.declare(cython.Py_ssize_t, 0)  # columns of the table
OUTCOME = cython.declare(cython.Py_ssize_t, 1)
NUMBER = cython.declare(cython.Py_ssize_t, 2)


@cython.final
@cython.cclass
class Parts:
    """The parts into which one block after the other splits classes.

    `table` is a hash table of the current block's parts: (class before, outcome, class after). Parts of
    earlier blocks have lower numbers, and count as empty places.

    Args:
        count: number of classes so far, at least 1; each new part gets the next number.
        account: is charged for the table.
    """

    def __init__(self, count: cython.Py_ssize_t, account: Account) -> None:
        self.count = count
        self.account = account
        account.claim(24 * FIRST)
        self.table = np.zeros((FIRST, 3), np.int64)

    def make_room(self, n_events):
        """Make the table at least twice as large as the number of a block's events."""
        old: cython.Py_ssize_t = self.table.shape[0]
        size: cython.Py_ssize_t = old
        while size < 2 * n_events:
            size *= 2
        self.account.claim(24 * size, 24 * old)
        # zeros are empty places: all classes of blocks have higher numbers
        self.table = np.zeros((size, 3), np.int64)

    def part(self, old, outcome, first_new):
        """The class of what is in class `old` and has an outcome. The block's parts begin at `first_new`."""
        last: cython.Py_ssize_t = self.table.shape[0] - 1
        slot = mix(mix(9, old), outcome) & last
        while self.table[slot, NUMBER] >= first_new:
            if self.table[slot, OLD] == old and self.table[slot, OUTCOME] == outcome:
                return self.table[slot, NUMBER]
            slot = (slot + 1) & last
        number = self.count
        self.table[slot, OLD] = old
        self.table[slot, OUTCOME] = outcome
        self.table[slot, NUMBER] = number
        self.count = number + 1
        return number


def split(parts, classes, event_starts, events):
    """Split classes by the events of each block."""
    for block in range(event_starts.shape[0] - 1):
        begin = event_starts[block]
        end = event_starts[block + 1]
        if begin == end:
            continue
        parts.account.check()
        if parts.table.shape[0] < 2 * (end - begin):
            with cython.gil:
                parts.make_room(end - begin)
        first_new = parts.count
        for e in range(begin, end):
            group = events[e, 0]
            old = cython.cast(cython.Py_ssize_t, classes[group])
            classes[group] = cython.cast(cython.int, parts.part(old, events[e, 1], first_new))


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
    parts: Parts = Parts(n_sets + 256, account)
    with cython.nogil:
        for g in range(n_groups):
            classes[g] = range_sets[g]
            if classes[g] == 0:
                classes[g] = cython.cast(cython.int, n_sets + cython.cast(cython.Py_ssize_t, first_byte[g]))
        split(parts, classes, event_starts, events)
    account.claim(0, 24 * parts.table.shape[0])
    return found, parts.count
