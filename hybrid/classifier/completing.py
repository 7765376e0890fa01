"""Completing a classifier in use: the states that no stack has asked for yet are found in its own tables.

What: `Completing` does in small pieces, in the tables of the current session, what
`hybrid.classifier.precomputation` does in separate tables. No number changes its meaning, so matchers keep
their configurations, and steps and masks stay cached.
When: if a grammar that began on demand is promoted (`hybrid.compile.promotion`), in another thread or at
once.
Limits: it gives up if a bound is reached, or if a new session takes over. What was found stays, as if stacks
had asked for it.

A piece is bounded by the number of states that it reads. Matchers wait for the classifier's lock no longer
than one piece takes (docs/strategies.md).

Rejected: building in separate tables, and starting a new session with them. Matchers would have to move their
stacks one by one (100 us each), and all cached steps and rows would be computed again, which costs the next
documents more than the missing states do.
"""

from __future__ import annotations

from equivalence import BudgetExceeded
from hybrid.classifier.building import Builder
from hybrid.classifier.classifier import Classifier
from hybrid.classifier.minimise import minimised
from hybrid.classifier.reachable import Reachable

PIECE = 4
"""States that a piece reads, 3 to 30 us each for most grammars; what surrounds a piece takes 7 us."""

CONTEXTS = 2
"""Contexts of the network that a piece begins: the first reading of one walks all classes."""


class Completing:
    """The completion of one classifier, piece by piece.

    Args:
        classifier: one whose states are found on demand.
        reachable: what stacks its network allows.
        states: rows of the automaton at most.
        limit: bytes of the session's tables at most.
    """

    def __init__(self, classifier: Classifier, reachable: Reachable, *, states: int, limit: int) -> None:
        self._classifier = classifier
        self._session = classifier.session
        self._builder = Builder(self._session.store, reachable)
        self._states, self._limit = states, limit

    def piece(self) -> bool:
        """Read some more; whether anything is left to be read.

        Raises:
            BudgetExceeded: a bound was met, or a new session has taken over.
        """
        with self._classifier.lock:
            session = self._session
            if session is not self._classifier.session:
                raise BudgetExceeded("its tables were used up meanwhile")
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
        """Let later sessions, and what is written to files, begin with all that is known now.

        Raises:
            BudgetExceeded: a new session has taken over.
        """
        with self._classifier.lock:
            if self._session is not self._classifier.session:
                raise BudgetExceeded("its tables were used up meanwhile")
            known = self._session.store.known.copied()
        self._classifier.complete_with(minimised(known))
