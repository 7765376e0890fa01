"""The partition: classes of byte strings that no context distinguishes.

What: two byte strings share a class if and only if every context treats them the same: it rejects both, or
reads both completely, or gives both the same feature. Class -1: every context rejects them, so their bits are
0 in every mask.
When: the last step of `equivalence.classes.classes.compute_classes`.
Limits: `Capacity.bytes`. Signatures are compared exactly, never by a hash alone.

Rejected: adding up random weights for each token. The result needs a separate check, which takes as long as
this algorithm. Rejected: splitting context by context, which reads every token for every context (0.2 s for
200 contexts).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.account import Account
from equivalence.classes.block_sets import outright_sets
from equivalence.classes.class_merging import merge_classes
from equivalence.classes.explore import Capacity, Exploration, array_bytes, out_of_bytes
from equivalence.deadline import Deadline
from equivalence.network import Network
from equivalence.runs import ClassRuns
from equivalence.runs.boundaries import divide_into_runs
from equivalence.trie import Trie
from equivalence.walks.merging import Rounds

PHASE = "the partition"


def partition_runs(
    exploration: Exploration,
    network: Network,
    trie: Trie,
    byte_starts: NDArray[np.int64],
    *,
    capacity: Capacity = Capacity(),
    deadline: Deadline | None = None,
) -> ClassRuns:
    """Compute the class of each run of groups, numbered from 0 without gaps; -1: no context accepts it.

    Neighbouring groups that no range and no event separates are one run. All further steps only look at runs;
    a schema has a few thousand. Runs that all contexts treat the same are one class, whatever their first
    bytes.

    Args:
        byte_starts: int64[257], the first group of each first byte.

    Raises:
        BudgetExceeded: more bytes than `capacity` allows, or the deadline has passed.
    """
    with (deadline or Deadline()).stopping(PHASE) as stop:
        account = Account(stop, capacity.bytes, str(out_of_bytes(capacity)))
        return _partition(exploration, network, trie, byte_starts, account)


def _partition(
    found: Exploration, network: Network, trie: Trie, byte_starts: NDArray[np.int64], account: Account
) -> ClassRuns:
    walked = found.walked
    n_ranges, n_events = int(walked.range_starts[-1]), int(walked.event_starts[-1])
    account.claim(network.nbytes + array_bytes(found) + found.queries.nbytes)
    # two numbers for each group here, and three when ids get their classes
    account.claim(40 * trie.n_groups + 16 * (n_ranges + n_events))
    starts, first_byte, ranges, events = divide_into_runs(
        walked.ranges[:n_ranges], walked.events[:n_events], byte_starts, trie.first_byte
    )
    range_sets, words = outright_sets(first_byte, walked.block_starts, walked.range_starts, ranges, account)
    owners = np.repeat(np.arange(len(walked.event_starts) - 1), np.diff(walked.event_starts))
    rounds = Rounds(
        first_byte, np.zeros(len(first_byte), np.int64), range_sets, words, walked.block_starts[None],
        walked.user_starts[None], walked.users, owners, events,
    )  # fmt: skip
    result = merge_classes(rounds, found.queries, found.colors, network.below(), account)
    return ClassRuns(starts, result)
