"""The partition: groups of byte strings that no context tells apart.

What: two byte strings share a class iff every context treats them alike: each reads both outright, or
neither, or both with the same feature. Class -1: no context reads it, so its bit is 0 in every mask.
When: the last step of `equivalence.classes.compute_classes`.
Limits: none; signatures are compared exactly, never by hash alone.

Rejected: summing random weights per token (a prototype's way) needs a separate check of the result, which
costs as much as this does; splitting context by context touches every token for every context (0.2 s for
200 contexts).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equivalence import _kernels
from equivalence.explore import Exploration
from equivalence.network import Network
from equivalence.trie import Trie


def partition(exploration: Exploration, network: Network, trie: Trie) -> NDArray[np.int32]:
    """int32[groups]: the class of each group, dense from 0; -1 = no context reads it.

    Groups of one first byte are split by the blocks of that byte first; then classes, whatever their first
    byte, are merged if all contexts treat them alike.
    """
    found = exploration
    range_sets, words = _kernels.partition_blocks(
        trie.first_byte, found.block_starts, found.range_starts, found.ranges
    )
    # groups that no block reads outright still differ by first byte
    classes = _kernels.split_unread(range_sets, len(words), trie.first_byte)
    n_classes = _kernels.split_events(classes, found.event_starts, found.events, len(words) + 256)
    tuples = 1024
    while True:
        status, result = _kernels.merge_classes(
            classes, n_classes, range_sets, words, trie.first_byte, found.block_starts, found.user_starts,
            found.users, found.event_starts, found.events, found.queries, found.query_table, found.colors,
            network.context_starts, network.context_below, tuples,
        )  # fmt: skip
        if not status:
            return result
        tuples *= 8
