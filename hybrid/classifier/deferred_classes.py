"""Deferred classes: computing the token classes of a grammar whose first masks came from walks.

What: `DeferredClasses` keeps the grammar's network, and computes the classes from it when they are needed.
From then on the classifier uses them, and matchers move their state over. Masks are the same before and
after.
When: a caller asks a compiled grammar for its classes, saves it, or promotes it.
Limits: if the classes exceed the budget, masks come from walks permanently.
"""

from __future__ import annotations

from equivalence import BudgetExceeded, TokenClasses, UnsupportedGrammar
from equivalence.classes.classes import classes_of_network
from equivalence.deadline import Deadline
from equivalence.network import Network
from hybrid.classifier.classifier import Classifier, distinct_classes
from hybrid.classifier.named_ids import NamedIds
from hybrid.classifier.tables import fixed_tables
from hybrid.values.budget import Budget
from hybrid.values.once import own_lock


class DeferredClasses:
    """The classes of one grammar, computed at most once. Thread-safe.

    Args:
        network: the network that the classifier's walks use.
        classifier: the classifier, which walks until there are classes.
        budget: bounds of the computation.
        ids: the token ids that the grammar names; None if it names none.

    Attributes:
        found: the classes; None until they are computed.
        refusal: why they cannot be computed; empty if that is not known.
    """

    def __init__(
        self, network: Network, classifier: Classifier, budget: Budget, ids: NamedIds | None = None
    ) -> None:
        self.found: TokenClasses | None = None
        self._network: Network | None = network
        self._classifier = classifier
        self._budget = budget
        self._ids = ids
        self.refusal = ""

    def deadline(self) -> Deadline:
        """The deadline of a computation that starts now."""
        return Deadline(self._budget.seconds)

    def compute(self, deadline: Deadline) -> TokenClasses:
        """Return the classes. Compute them if necessary.

        Raises:
            BudgetExceeded: the classes exceed the budget, or the deadline has passed.
        """
        if self.found is not None:
            return self.found
        with own_lock(self):
            if self.found is None:
                self.found = self._find(deadline)
                self._network = None
            return self.found

    def _find(self, deadline: Deadline) -> TokenClasses:
        network, classifier = self._network, self._classifier
        if network is None:
            raise BudgetExceeded(self.refusal)
        vocabulary = classifier.vocabulary
        try:
            classes = classes_of_network(
                network, vocabulary, "acceptance", self._budget.capacity, deadline
            )  # fmt: skip
            texts, grouped = distinct_classes(classes, vocabulary)
            fixed = fixed_tables(network, texts, *vocabulary.flat, deadline)
        except (BudgetExceeded, UnsupportedGrammar) as error:
            if not deadline.is_over:  # another attempt would fail, too
                self._network, self.refusal = None, str(error)
            raise BudgetExceeded(str(error)) from error
        with classifier.lock:
            classifier.take_classes(fixed, grouped)
        return classes if self._ids is None else self._ids.refined(classes, vocabulary)

    @property
    def nbytes(self) -> int:
        """Bytes held, without the classifier."""
        size = 0 if self.found is None else self.found.nbytes
        network = self._network
        return size if network is None else size + network.nbytes
