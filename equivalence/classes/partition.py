"""The partition: groups of byte strings that no context tells apart.

What: two byte strings share a class iff every context treats them alike: each reads both outright, or
neither, or both with the same feature. Class -1: no context reads it, so its bit is 0 in every mask.
When: the last step of `equivalence.classes.classes.compute_classes`.
Limits: `Capacity.bytes`; signatures are compared exactly, never by hash alone.

Rejected: summing random weights per token (a prototype's way) needs a separate check of the result, which
costs as much as this does; splitting context by context touches every token for every context (0.2 s for
200 contexts).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.account import Account
from equivalence.classes.explore import Capacity, Exploration, array_bytes, out_of_bytes
from equivalence.classes.merging import Blocks, Features, merge_classes
from equivalence.classes.outright import outright_sets
from equivalence.classes.splitting import split_classes
from equivalence.deadline import Deadline
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
    with (deadline or Deadline()).stopping(PHASE) as stop:
        account = Account(stop, capacity.bytes, str(out_of_bytes(capacity)))
        return _partition(exploration, network, trie, byte_starts, account)


def _partition(
    found: Exploration, network: Network, trie: Trie, byte_starts: NDArray[np.int64], account: Account
) -> ClassRuns:
    n_ranges, n_events = int(found.range_starts[-1]), int(found.event_starts[-1])
    account.claim(array_bytes(network) + array_bytes(found))
    # two numbers a group here, and three when ids are given their classes
    account.claim(40 * trie.n_groups + 16 * (n_ranges + n_events))
    starts, first_byte, ranges, events = cut_groups(
        found.ranges[:n_ranges], found.events[:n_events], byte_starts, trie.first_byte
    )
    range_sets, words = outright_sets(first_byte, found.block_starts, found.range_starts, ranges, account)
    classes, n_classes = split_classes(
        range_sets, len(words), first_byte, found.event_starts, events, account
    )
    blocks = Blocks(classes, range_sets, words, first_byte, found.block_starts, found.event_starts, events)
    features = Features(
        found.queries, found.query_table, found.colors, network.context_starts, network.context_below, account
    )
    result = merge_classes(n_classes, blocks, features, found.user_starts, found.users, account)
    return ClassRuns(starts, result)
