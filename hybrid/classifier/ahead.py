"""Building a classifier ahead of time: all states that its automaton can reach.

What: every pending set, from every context of the network on, is read on every symbol that may lie below it;
what then remains is read in turn. No stack is needed: the network's below sets say what may lie where.
When: once per grammar, after its classes: 1 ms for arithmetic, 4 for JSON, 44 for C++ (llama3).
Limits: below sets allow more stacks than occur, so that some states are never used. What is left out where
the budget is used up is computed on demand, to the same masks.
"""

from __future__ import annotations

import numpy as np

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded
from equivalence.network import Network
from hybrid.classifier import _kernels
from hybrid.classifier.tables import Fixed, Store, Summaries, no_summaries


def build_summaries(
    fixed: Fixed, network: Network, *, limit: int, states: int, deadline: Deadline | None = None
) -> tuple[Summaries, str]:
    """All summaries that can be asked for, and why there are not all of them (empty if there are).

    Args:
        fixed: the tables of the same network.
        network: the network.
        limit: bytes of the tables.
        states: summaries at most.
        deadline: when to give up.
    """
    store = Store(fixed, limit, no_summaries(fixed))
    deadline = deadline or Deadline()
    below = np.stack([network.below_symbols, network.below_of_symbol], axis=1)
    seen = np.full((1024, 3), -1, np.int64)
    queue = np.zeros((512, 2), np.int64)
    progress = np.zeros(3, np.int64)
    while True:
        status = int(
            _kernels.build_ahead(
                store.table, network.contexts, network.context_starts, network.context_below, below,
                network.below_starts, seen, queue, progress,
            )
        )  # fmt: skip
        if status == 0:
            return store.known, ""
        if int(store.counts[_kernels.N_SUMMARIES]) > states:
            return store.known, f"more than {states} summaries"
        if deadline.is_over:
            return store.known, "more seconds than the budget has for it"
        if status == _kernels.QUEUE_FULL:
            seen = _kernels.rehashed(seen)
            queue = np.concatenate([queue, np.zeros_like(queue)])
            continue
        try:
            store.grow(status)
        except BudgetExceeded:
            return store.known, f"more than {limit} bytes"
