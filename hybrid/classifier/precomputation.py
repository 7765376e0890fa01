"""Building a classifier ahead of time: all states that its automaton can reach.

What: from each context of the network on, each pending set is read on each symbol that may lie below it, and
what then remains is read in turn. This needs no stack, because the network's below sets say what may lie
where.
When: once for each grammar, after its classes: 1 ms for arithmetic, 4 for JSON, 44 for C++ (llama3).
Limits: below sets allow more stacks than occur, so some states are never used. States that exceed the budget
are computed on demand, with the same masks.
"""

from __future__ import annotations

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded
from equivalence.network import Network
from hybrid.classifier.reachable import reachable_of
from hybrid.classifier.store import Store
from hybrid.classifier.summaries import Summaries
from hybrid.classifier.summary_closure import SummaryClosure
from hybrid.classifier.tables import Fixed

STATES = 256
"""How many states are read between two checks of the deadline, which takes a few milliseconds."""


def build_summaries(
    fixed: Fixed, network: Network, *, limit: int, states: int, deadline: Deadline | None = None
) -> tuple[Summaries, str]:
    """Compute all summaries that can be needed.

    Args:
        fixed: the tables of the same network.
        network: the network.
        limit: the maximum number of bytes of the tables.
        states: the maximum number of summaries; it may be exceeded a little.
        deadline: when to give up.

    Returns:
        The summaries, and why some are missing (empty if none are).
    """
    store = Store(fixed, limit)
    deadline = deadline or Deadline()
    n_contexts = len(network.below().contexts)
    closure = SummaryClosure(store, reachable_of(network))
    try:
        while closure.run(STATES, n_contexts):
            if store.summaries.n_known > states:
                return store.summaries, f"they need more than {states} summaries"
            if deadline.is_over:
                return store.summaries, "the time limit was reached"
    except BudgetExceeded:
        return store.summaries, f"they need more than {limit} bytes"
    return store.summaries, ""
