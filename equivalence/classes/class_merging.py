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


@cython.final
@cython.cclass
class Features:
    """The features of outcomes in contexts.

    Args:
        queries: the result of `find_queries`.
        colors: int64, the color of each query.
        context_starts, context_below: where the below sets of each context begin, and those sets.
        account: is charged for lists of colors.
    """

    def __init__(self, queries, colors, context_starts, context_below, account) -> None:
        self.queries = queries
        self.colors = colors
        self.context_starts = context_starts
        self.context_below = context_below
        self.tuples = Interned(64, 4, account=account)

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


@cython.final
@cython.cclass
class Blocks:
    """Blocks, and what they do with one group of each class.

    Args:
        classes: int32[G], the result of `equivalence.classes.refinement`.
        range_sets, set_words: the sets of blocks that read groups completely, see
            `equivalence.classes.block_sets`.
        first_byte: uint8[G], the first byte of each group.
        block_starts: int64[257], where the blocks of each first byte start.
        event_starts, events: rows (group, outcome) of each block.
    """

    def __init__(
        self, classes, range_sets, set_words, first_byte, block_starts, event_starts, events
    ) -> None:
        self.classes = classes
        self.range_sets = range_sets
        self.set_words = set_words
        self.first_byte = first_byte
        self.block_starts = block_starts
        self.events = events
        n_events = event_starts[len(event_starts) - 1]
        group_of_event = np.asarray(events)[:n_events, 0].astype(np.int32)
        self.group_starts, self.places = grouped(group_of_event, len(first_byte))
        self.block_of_event = np.repeat(
            np.arange(len(event_starts) - 1, dtype=np.int32), np.diff(event_starts)
        )
        widest: cython.Py_ssize_t = 0
        for b in range(256):
            widest = max(widest, self.block_starts[b + 1] - self.block_starts[b])
        self.value = np.zeros(widest, np.int64)

    def choose(self, n_classes):
        """Choose a group as the example of each class."""
        self.example = np.full(n_classes, -1, np.int64)
        with cython.nogil:
            for g in range(self.classes.shape[0]):
                if self.example[self.classes[g]] < 0:
                    self.example[self.classes[g]] = g

    def evaluate(self, number):
        """Record what each block does with a class: `NOTHING`, `OUTRIGHT`, or 1 + its outcome."""
        group = self.example[number]
        first_byte = cython.cast(cython.Py_ssize_t, self.first_byte[group])
        first_block = self.block_starts[first_byte]
        n_here = self.block_starts[first_byte + 1] - first_block
        words = self.range_sets[group]
        for i in range(n_here):
            is_read = (self.set_words[words, 1 + (i >> 5)] >> (i & 31)) & 1
            self.value[i] = OUTRIGHT if is_read else NOTHING
        for k in range(self.group_starts[group], self.group_starts[group + 1]):
            event = self.places[k]
            self.value[self.block_of_event[event] - first_block] = self.events[event, 1] + 1


@cython.final
@cython.cclass
class ClassMerging:
    """Classes, and the lists that describe them."""

    def __init__(self, blocks, features, user_starts, users, account) -> None:
        self.blocks = blocks
        self.features = features
        self.user_starts = user_starts
        self.users = users
        self.lists = Interned(1024, 32, account=account)
        self.account = account

    def spell(self, number):
        """Write the list of a class to the end of the pool of lists. Return its length."""
        first_byte = cython.cast(cython.Py_ssize_t, self.blocks.first_byte[self.blocks.example[number]])
        first_block = self.blocks.block_starts[first_byte]
        begin = self.user_starts[first_byte]
        end = self.user_starts[first_byte + 1]
        start = self.lists.room(2 * (end - begin))
        at: cython.Py_ssize_t = start
        self.blocks.evaluate(number)
        for u in range(begin, end):
            value = self.blocks.value[self.users[u, 1] - first_block]
            if value == NOTHING:
                continue
            self.account.check()
            feature = 1
            if value != OUTRIGHT:
                feature = self.features.feature(self.users[u, 0], value - 1)
                if feature == 0:
                    continue
            self.lists.pool[at] = self.users[u, 0]
            self.lists.pool[at + 1] = feature
            at += 2
        return at - start

    def merge(self, merged):
        """Write the number of each class's list; an empty list gets none. `merged` must contain -1."""
        for number in range(merged.shape[0]):
            if self.blocks.example[number] < 0:
                continue
            length = self.spell(number)
            if length:
                merged[number] = cython.cast(cython.int, self.lists.intern(length))


def merge_classes(
    n_classes: cython.Py_ssize_t,
    blocks: Blocks,
    features: Features,
    user_starts: cython.const[cython.Py_ssize_t][::1],
    users: cython.const[cython.Py_ssize_t][:, ::1],
    account: Account,
) -> NDArray[np.int32]:
    """Merge classes that all contexts treat the same.

    Args:
        n_classes: number of class numbers in `blocks`.
        blocks: the blocks, their sets and events, and the classes so far.
        features: the features of outcomes.
        user_starts: int64[257], where the users of each first byte start.
        users: int64[n, 2], rows (context, block).
        account: is charged for everything.

    Returns:
        int32[G], the class of each group, numbered from 0 without gaps; -1: no context accepts it.

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    n_groups: cython.Py_ssize_t = blocks.classes.shape[0]
    account.claim(12 * n_classes + 12 * n_groups + 8 * blocks.places.shape[0])
    blocks.choose(n_classes)
    found = np.empty(n_groups, np.int32)
    result: cython.int[::1] = found
    merged: cython.int[::1] = np.full(n_classes, -1, np.int32)
    merging = ClassMerging(blocks, features, user_starts, users, account)
    with cython.nogil:
        merging.merge(merged)
        for g in range(n_groups):
            result[g] = merged[blocks.classes[g]]
    return found
