# cython: language_level=3
# mypy: ignore-errors
"""Merging: joins classes that all contexts treat the same, whatever their first bytes.

What: each class is described by a list of (context, feature), and equal lists get equal numbers. Feature 1
means that every stack accepts the tokens. In a context with several below sets, a feature is the number of
the list of their colors.
When: the last step of the partition.
Limits: lists are compared exactly. Their memory is charged to an `Account`, which is checked for each context
of a class.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.grouping import grouped

check_source(__name__)

NOTHING = cython.declare(cython.Py_ssize_t, 0)
OUTRIGHT = cython.declare(cython.Py_ssize_t, -1)  # other values: 1 + outcome

UNKNOWN = cython.declare(cython.int, -2)  # a class that is not merged yet


@cython.final
@cython.cclass
class ClassMerging:
    """The lists that describe classes; for the arguments, see `merge_classes`.

    Attributes:
        group_starts, places: the rows of `events`, by group; `block_of_event`: the block of each row.
        value: what each block of the current first byte does with the current group: `NOTHING`, `OUTRIGHT`,
            or 1 + its outcome.
        tuples: the colors of contexts with several below sets.
        lists: the lists.
    """

    def __init__(
        self, range_sets, set_words, first_byte, events, walked, queries, colors, below, account
    ) -> None:
        self.range_sets, self.set_words, self.first_byte = range_sets, set_words, first_byte
        self.events, self.users = events, walked.users
        self.block_starts, self.user_starts = walked.block_starts, walked.user_starts
        self.queries, self.colors = queries, colors
        self.context_starts, self.context_below = below.context_starts, below.context_below
        self.account = account
        n_events = np.diff(walked.event_starts)
        groups = events[: n_events.sum(), 0].astype(np.int32)
        self.group_starts, self.places = grouped(groups, len(first_byte))
        self.block_of_event = np.arange(len(n_events), dtype=np.int32).repeat(n_events)
        self.value = np.zeros(np.diff(walked.block_starts).max(), np.int64)
        self.tuples = Interned(64, 4, account=account)
        self.lists = Interned(1024, 32, account=account)

    def feature(self, context, outcome):
        """The feature of an outcome in a context. 0: no stack accepts it; 1: every stack does.

        Raises:
            BudgetExceeded: no bytes left.
            LookupError: there is no query for the outcome.
        """
        begin = self.context_starts[context]
        n_below = self.context_starts[context + 1] - begin
        at = self.tuples.room(n_below)
        color: cython.Py_ssize_t = 0
        none: cython.bint = True
        every: cython.bint = True
        for k in range(n_below):
            place = self.queries.room(2)
            self.queries.pool[place] = outcome
            self.queries.pool[place + 1] = self.context_below[begin + k]
            query = self.queries.find(2)
            if query < 0:
                with cython.gil:
                    raise LookupError(f"there is no query for outcome {outcome} of context {context}")
            color = self.colors[query]
            none = none and color == 0
            every = every and color == 1
            self.tuples.pool[at + k] = color
        if none:
            return 0
        if every:
            return 1
        return color if n_below == 1 else 2 + self.tuples.intern(n_below)

    def evaluate(self, group, first_block, n_blocks):
        """Record what each block of its first byte does with a group."""
        words = self.range_sets[group]
        for i in range(n_blocks):
            is_read = (self.set_words[words, 1 + (i >> 5)] >> (i & 31)) & 1
            self.value[i] = OUTRIGHT if is_read else NOTHING
        for k in range(self.group_starts[group], self.group_starts[group + 1]):
            event = self.places[k]
            self.value[self.block_of_event[event] - first_block] = self.events[event, 1] + 1

    def number(self, group):
        """The number of the list of a group's class; -1 if the list is empty."""
        first_byte = cython.cast(cython.Py_ssize_t, self.first_byte[group])
        first_block = self.block_starts[first_byte]
        begin = self.user_starts[first_byte]
        end = self.user_starts[first_byte + 1]
        start = self.lists.room(2 * (end - begin))
        at: cython.Py_ssize_t = start
        self.evaluate(group, first_block, self.block_starts[first_byte + 1] - first_block)
        for u in range(begin, end):
            value = self.value[self.users[u, 1] - first_block]
            if value == NOTHING:
                continue
            self.account.check()
            feature = 1
            if value != OUTRIGHT:
                feature = self.feature(self.users[u, 0], value - 1)
                if feature == 0:
                    continue
            self.lists.pool[at] = self.users[u, 0]
            self.lists.pool[at + 1] = feature
            at += 2
        return self.lists.intern(at - start) if at > start else -1


def merge_classes(
    classes: cython.const[cython.int][::1],
    n_classes: cython.Py_ssize_t,
    range_sets: NDArray[np.int32],
    set_words: NDArray[np.int64],
    first_byte: NDArray[np.uint8],
    events: NDArray[np.int64],
    walked: Any,
    queries: Interned,
    colors: NDArray[np.int64],
    below: Any,
    account: Account,
) -> NDArray[np.int32]:
    """Merge classes that all contexts treat the same.

    Args:
        classes, n_classes: the result of `equivalence.classes.refinement`, by group.
        range_sets, set_words: the sets of blocks that read groups completely, see
            `equivalence.classes.block_sets`.
        first_byte: uint8[G], the first byte of each group.
        events: int64[n, 2], rows (group, outcome) of each block; rows after the last start are ignored.
        walked: where the blocks, events and users are (`equivalence.walks.outcomes.Walked`).
        queries, colors: the result of `find_queries`, and the color of each, int64.
        below: the below sets of each context (`equivalence.network.Below`).
        account: is charged for everything.

    Returns:
        int32[G], the class of each group, numbered from 0 without gaps; -1: no context accepts it.

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    n_groups: cython.Py_ssize_t = classes.shape[0]
    account.claim(4 * n_classes + 12 * n_groups + 8 * len(events))
    merging = ClassMerging(range_sets, set_words, first_byte, events, walked, queries, colors, below, account)
    found = np.empty(n_groups, np.int32)
    result: cython.int[::1] = found
    merged: cython.int[::1] = np.full(n_classes, UNKNOWN, np.int32)
    with cython.nogil:
        for g in range(n_groups):
            if merged[classes[g]] == UNKNOWN:
                merged[classes[g]] = cython.cast(cython.int, merging.number(g))
            result[g] = merged[classes[g]]
    return found
