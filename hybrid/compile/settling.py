"""Settling: token classes for a grammar whose first masks were walked.

What: a `Settling` keeps what classes are found from, and finds them when they are asked for; the classifier
goes on with them, and matchers bring over what they hold. Masks are the same before and after.
When: by `hybrid.compile.promotion` once walks have taken as long as classes do (`hybrid.compile.rule`), and
by whoever asks a compiled grammar for its classes.
Limits: bounded by the budget; what exceeds it is walked for good.
"""

from __future__ import annotations

import threading

from equivalence import BudgetExceeded, TokenClasses, forking
from equivalence.classes.classes import classes_of_network
from equivalence.deadline import Deadline
from equivalence.network import Network
from hybrid.classifier import Classifier, distinct_classes, fixed_tables
from hybrid.classifier.reachable import reachable_of
from hybrid.classifier.token_ids import NamedIds
from hybrid.compile.strategy import Budget


class Settling:
    """The classes of one grammar, found at most once; thread-safe.

    Args:
        network: that the classifier's walks were made of.
        classifier: walks, until there are classes.
        budget: bounds of finding them.
        ids: the ids that the grammar names; None: it names none.

    Attributes:
        found: the classes; None as long as there are none.
    """

    def __init__(
        self, network: Network, classifier: Classifier, budget: Budget, ids: NamedIds | None = None
    ) -> None:
        self.found: TokenClasses | None = None
        self._network: Network | None = network
        self._classifier = classifier
        self._budget = budget
        self._ids = ids
        self._refusal = ""
        self._lock = forking.listed(threading.Lock(), forking.Order.SLOW)

    def deadline(self) -> Deadline:
        """That of finding them now."""
        return Deadline(self._budget.seconds)

    def settle(self, deadline: Deadline) -> TokenClasses:
        """The classes, found now if they were not before.

        Raises:
            BudgetExceeded: they are more than the budget allows, or it is too late.
        """
        if self.found is not None:
            return self.found
        with self._lock:
            if self.found is None:
                self.found = self._find(deadline)
                self._network = None
            return self.found

    def _find(self, deadline: Deadline) -> TokenClasses:
        network, classifier = self._network, self._classifier
        if network is None:
            raise BudgetExceeded(self._refusal)
        vocabulary = classifier.vocabulary
        try:
            classes = classes_of_network(
                network, vocabulary, "acceptance", self._budget.capacity, deadline
            )  # fmt: skip
            texts, grouped = distinct_classes(classes, vocabulary)
            fixed = fixed_tables(network, texts, *vocabulary.flat, deadline, classes.met)
            reachable = reachable_of(network)
        except BudgetExceeded as error:
            if not deadline.is_over:  # then it would be the same the next time
                self._network, self._refusal = None, str(error)
            raise
        with classifier.lock:
            classifier.take_classes(fixed, grouped, reachable)
        return classes.settled() if self._ids is None else self._ids.refined(classes, vocabulary)

    @property
    def nbytes(self) -> int:
        """Bytes held besides the classifier."""
        size = 0 if self.found is None else self.found.nbytes
        network = self._network
        return size if network is None else size + network.nbytes
