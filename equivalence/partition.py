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

    Groups of one first byte are split by the blocks of that byte first; then classes, whatever their first
    byte, are merged if all contexts treat them alike.

    Raises:
        BudgetExceeded: more bytes than `capacity` allows, or it is too late.
    """
    deadline = deadline or Deadline()
    deadline.check(PHASE)
    account = np.zeros(_kernels.OUT_OF_BYTES + 1, np.int64)
    with deadline.watched(account, _kernels.STOP):
        return _partition(exploration, network, trie, capacity, deadline, account)


def _partition(
    found: Exploration,
    network: Network,
    trie: Trie,
    capacity: Capacity,
    deadline: Deadline,
    account: NDArray[np.int64],
) -> NDArray[np.int32]:
    # two numbers a group here, and three when ids are given their classes
    claim(account, capacity, array_bytes(network), array_bytes(found), 40 * trie.n_groups)
    status, range_sets, words = _kernels.partition_blocks(
        trie.first_byte, found.block_starts, found.range_starts, found.ranges, account, capacity
    )
    if status:
        raise _unfinished(capacity, deadline, account)
    # groups that no block reads outright still differ by first byte
    classes = _kernels.split_unread(range_sets, len(words), trie.first_byte)
    n_classes = _kernels.split_events(classes, found.event_starts, found.events, len(words) + 256, account)
    if n_classes < 0:
        raise _unfinished(capacity, deadline, account)
    tuples = 1024
    while True:
        status, result = _kernels.merge_classes(
            classes, n_classes, range_sets, words, trie.first_byte, found.block_starts, found.user_starts,
            found.users, found.event_starts, found.events, found.queries, found.query_table, found.colors,
            network.context_starts, network.context_below, tuples, account, capacity,
        )  # fmt: skip
        if not status:
            return result
        if status == 2:
            raise _unfinished(capacity, deadline, account)
        tuples *= 8


def _unfinished(capacity: Capacity, deadline: Deadline, account: NDArray[np.int64]) -> BudgetExceeded:
    return deadline.error(PHASE) if account[_kernels.STOP] else out_of_bytes(capacity)
