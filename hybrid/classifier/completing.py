"""Completing a running classifier: computing the missing states in its own tables.

What: `Completing` does the work of `hybrid.classifier.precomputation`, but in small pieces, and in the
tables of the session that matchers use. No number changes its meaning, so matchers keep their
configurations, cached steps and masks, and nothing has to be moved.
When: a grammar that was compiled on demand is promoted (`hybrid.compile.promotion`).
Limits: it gives up if a bound is reached or a new session starts meanwhile. Its results are kept, as if
stacks had needed them.

The number of states that it reads bounds each piece. Matchers wait for the classifier's lock for at most
the time of one piece (docs/strategies.md).

Rejected: building in separate tables and starting a new session from them. Matchers would have to move
their stacks one by one (100 us each), and all cached steps and rows would have to be computed again, which
costs the next documents more than the missing states do.
"""

from __future__ import annotations

from equivalence import BudgetExceeded
from hybrid.classifier.building import Builder
from hybrid.classifier.classifier import Classifier
from hybrid.classifier.minimise import minimised
from hybrid.classifier.reachable import Reachable

PIECE = 4
"""States that a piece reads, 3 to 30 us each for most grammars. The overhead of a piece is 7 us."""

CONTEXTS = 2
"""Contexts of the network that a piece begins: the first reading of a context walks all classes."""


class Completing:
    """The completion of one classifier, piece by piece.

    Args:
        classifier: a classifier whose states are computed on demand.
        reachable: which stacks its network allows.
        states: most rows of the automaton.
        limit: most bytes of the session's tables.
    """

    def __init__(self, classifier: Classifier, reachable: Reachable, *, states: int, limit: int) -> None:
        self._classifier = classifier
        self._session = classifier.session
        self._builder = Builder(self._session.store, reachable)
        self._states, self._limit = states, limit

    def piece(self) -> bool:
        """Do one piece of the work. Return whether work is left.

        Raises:
            BudgetExceeded: a bound is reached, or a new session has started.
        """
        with self._classifier.lock:
            session = self._session
            if session is not self._classifier.session:
                raise BudgetExceeded("its tables became full meanwhile, and were replaced")
            store = session.store
            if store.known.n_known > self._states:
                raise BudgetExceeded(f"more than {self._states} states")
            before = store.bound(min(self._limit, store.limit))
            try:
                return self._builder.run(PIECE, CONTEXTS)
            except BudgetExceeded as error:
                raise BudgetExceeded(f"more than {self._limit} bytes") from error
            finally:
                store.bound(before)

    def finish(self) -> None:
        """Let later sessions, and files, start with everything that is known now.

        Raises:
            BudgetExceeded: a new session has started.
        """
        with self._classifier.lock:
            if self._session is not self._classifier.session:
                raise BudgetExceeded("its tables became full meanwhile, and were replaced")
            known = self._session.store.known.copied()
        self._classifier.complete_with(minimised(known))
