"""Promotion: computing all missing states of a classifier, in its own tables.

What: `promote_classifier` computes all states now. `Promotion` does it in pieces, in the tables of the
session that matchers use. No number changes its meaning, so matchers keep their configurations, cached steps
and masks, and nothing has to be moved.
When: for a new classifier whose states are computed ahead of time (1 ms for arithmetic, 4 for JSON, 44 for
C++ with Llama 3's vocabulary); for grammars compiled with ``static=True``; and by `CompiledGrammar.promote`.
Limits: it gives up if a limit is reached or a new session starts in the meantime. Its results so far are
kept, as if stacks had needed them. Below sets allow more stacks than occur, so some states are never used.

Each piece reads a limited number of states, and matchers wait for the classifier's lock for at most one piece
(docs/strategies.md).

Rejected: building in separate tables and starting a new session from them. Each matcher would have to move
its stacks (100 us), and all cached steps and rows would have to be computed again, which costs the next
documents more than the missing states do.

Rejected: promoting grammars in the background when they are used a lot. A token with its mask takes as long
with states on demand, up to its 99.99th percentile, from the first document on, and computing all states took
5 to 15 ms of CPU time a JSON schema, 87 for SQL and 194 for a grammar like C (docs/strategies.md).
"""

from __future__ import annotations

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline
from equivalence.network import Below, below_of
from hybrid.classifier.classifier import Classifier
from hybrid.classifier.summary_closure import SummaryClosure
from hybrid.values.budget import Budget
from hybrid.values.once import own_lock

REPLACED = (
    "the classifier's tables became full and were replaced before all its states were computed; raise "
    "Budget.table_bytes"
)
"""The message of the error if a new session has started."""

PIECE = 4
"""States that a piece reads, 3 to 30 us each for most grammars. The overhead of a piece is 7 us."""

CONTEXTS = 2
"""Contexts of the network that a piece begins: the first reading of a context walks all classes."""

UNUSED_PIECE = 256
"""States that a piece reads, and contexts that it begins, while no matcher can wait for it."""

PHASE = "the classifier's states"
"""The name of this computation in errors."""


class Promotion:
    """The completion of one classifier, piece by piece.

    Args:
        classifier: a classifier whose states are computed on demand.
        below: what may lie below each state of its network.
        states: the maximum number of rows of the automaton.
        limit: the maximum number of bytes of the session's tables.
        deadline: when to give up. It is checked within each state, which may take seconds if representatives
            are long.
    """

    def __init__(
        self, classifier: Classifier, below: Below, *, states: int, limit: int,
        deadline: Deadline | None = None,
    ) -> None:  # fmt: skip
        self._classifier = classifier
        self._session = classifier.session
        self._closure = SummaryClosure(self._session.store, below)
        self._states, self._limit = states, limit
        self._deadline = deadline or Deadline()

    def piece(self) -> bool:
        """Do one piece of the work. Return whether work is left.

        Raises:
            BudgetExceeded: a limit is reached, the deadline has passed, or a new session has started.
        """
        with self._classifier.lock:
            session = self._session
            if session is not self._classifier.session:
                raise BudgetExceeded(REPLACED)
            store = session.store
            if store.summaries.n_pairs > self._states:
                raise BudgetExceeded(
                    f"the classifier needs more than {self._states} states; raise Budget.states"
                )
            before = store.bound(min(self._limit, store.limit))
            size = (PIECE, CONTEXTS) if self._classifier.is_used else (UNUSED_PIECE, UNUSED_PIECE)
            store.account.stop_by(self._deadline.stopping(PHASE))
            try:
                return self._closure.run(*size)
            except BudgetExceeded as error:
                if self._deadline.is_over:
                    raise
                raise BudgetExceeded(
                    f"the classifier's states need more than {self._limit} bytes; raise Budget.table_bytes"
                ) from error
            finally:
                store.account.stop_by(None)
                store.bound(before)

    def finish(self) -> None:
        """Let later sessions, and files, start with everything that is known now.

        Raises:
            BudgetExceeded: a new session has started.
        """
        with self._classifier.lock:
            if self._session is not self._classifier.session:
                raise BudgetExceeded(REPLACED)
            known = self._session.store.summaries.copied()
        self._classifier.complete_with(known.completed())


def promote_classifier(classifier: Classifier, budget: Budget, deadline: Deadline | None = None) -> bool:
    """Compute all states of a classifier that has classes, unless they are known. A call waits for another
    one that does it: two would replace each other's tables.

    Args:
        classifier: the classifier.
        budget: limits of the tables.
        deadline: when to give up.

    Returns:
        Whether this call did it.

    Raises:
        BudgetExceeded: the bytes or states exceed the budget, or the deadline has passed. The states computed
            so far are kept.
    """
    with own_lock(classifier):
        if classifier.is_complete:
            return False
        fixed, deadline = classifier.fixed, deadline or Deadline()
        most = max(budget.states, fixed.parser.automaton.n_states)
        with deadline.stopping(PHASE) as stop:
            below = below_of(fixed.parser.net, fixed.start, most, stop)
        # a quarter of the bytes is for the tables of states
        work = Promotion(
            classifier, below, states=4 * budget.states, limit=classifier.limit // 4, deadline=deadline
        )
        while work.piece():
            pass
        work.finish()
        if not classifier.is_used:
            with classifier.lock:
                classifier.renew()  # a session that starts with all states has fewer, and larger tables
        return True
