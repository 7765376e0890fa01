"""The partition: groups of byte strings that no context tells apart.

What: two byte strings share a class iff every context treats them alike: each reads both outright, or
neither, or both with the same feature. Class -1: no context reads it, so its bit is 0 in every mask.
When: the last step of `equivalence.classes.compute_classes`.
Limits: `Capacity.bytes`; signatures are compared exactly, never by hash alone.

Rejected: summing random weights per token (a prototype's way) needs a separate check of the result, which
costs as much as this does; splitting context by context touches every token for every context (0.2 s for
200 contexts).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equivalence import _kernels
from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded
from equivalence.explore import Capacity, Exploration, array_bytes, claim, out_of_bytes
from equivalence.network import Network
from equivalence.runs import ClassRuns
from equivalence.runs.cutting import cut_groups
from equivalence.trie import Trie

PHASE = "the partition"


def partition(
    exploration: Exploration,
    network: Network,
    trie: Trie,
    *,
    capacity: Capacity = Capacity(),
    deadline: Deadline | None = None,
) -> NDArray[np.int32]:
    """int32[groups]: the class of each group, dense from 0; -1 = no context reads it.

    Raises:
        BudgetExceeded: as `partition_runs`.
    """
    byte_starts = np.searchsorted(trie.first_byte, np.arange(257)).astype(np.int64)
    runs = partition_runs(exploration, network, trie, byte_starts, capacity=capacity, deadline=deadline)
    return np.repeat(runs.classes, np.diff(runs.starts))


def partition_runs(
    exploration: Exploration,
    network: Network,
    trie: Trie,
    byte_starts: NDArray[np.int64],
    *,
    capacity: Capacity = Capacity(),
    deadline: Deadline | None = None,
) -> ClassRuns:
    """The class of each group, dense from 0, run by run; -1 = no context reads it.

    Groups that no range and no event tells apart are one run, and what follows looks at runs only: a schema
    has some thousands. Runs of one first byte are split by the blocks of that byte first; then classes,
    whatever their first byte, are merged if all contexts treat them alike.

    Args:
        byte_starts: int64[257], the first group of each first byte.

    Raises:
        BudgetExceeded: more bytes than `capacity` allows, or it is too late.
    """
    deadline = deadline or Deadline()
    deadline.check(PHASE)
    account = np.zeros(_kernels.OUT_OF_BYTES + 1, np.int64)
    with deadline.watched(account, _kernels.STOP):
        return _partition(exploration, network, trie, byte_starts, capacity, deadline, account)


def _partition(
    found: Exploration,
    network: Network,
    trie: Trie,
    byte_starts: NDArray[np.int64],
    capacity: Capacity,
    deadline: Deadline,
    account: NDArray[np.int64],
) -> ClassRuns:
    n_ranges, n_events = int(found.range_starts[-1]), int(found.event_starts[-1])
    # two numbers a group here, and three when ids are given their classes
    claim(
        account, capacity, array_bytes(network), array_bytes(found), 40 * trie.n_groups,
        16 * (n_ranges + n_events),
    )  # fmt: skip
    starts, first_byte, ranges, events = cut_groups(
        found.ranges[:n_ranges], found.events[:n_events], byte_starts, trie.first_byte
    )
    status, range_sets, words = _kernels.partition_blocks(
        first_byte, found.block_starts, found.range_starts, ranges, account, capacity
    )
    if status:
        raise _unfinished(capacity, deadline, account)
    # runs that no block reads outright still differ by first byte
    classes = _kernels.split_unread(range_sets, len(words), first_byte)
    n_classes = _kernels.split_events(classes, found.event_starts, events, len(words) + 256, account)
    if n_classes < 0:
        raise _unfinished(capacity, deadline, account)
    tuples = 1024
    while True:
        status, result = _kernels.merge_classes(
            classes, n_classes, range_sets, words, first_byte, found.block_starts, found.user_starts,
            found.users, found.event_starts, events, found.queries, found.query_table, found.colors,
            network.context_starts, network.context_below, tuples, account, capacity,
        )  # fmt: skip
        if not status:
            return ClassRuns(starts, result)
        if status == 2:
            raise _unfinished(capacity, deadline, account)
        tuples *= 8


def _unfinished(capacity: Capacity, deadline: Deadline, account: NDArray[np.int64]) -> BudgetExceeded:
    return deadline.error(PHASE) if account[_kernels.STOP] else out_of_bytes(capacity)
