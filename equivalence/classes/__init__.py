"""Token classes: which tokens no parser state can tell apart; see `equivalence.classes.classes`."""

from equivalence.classes.classes import OnBudget, Relation, compute_classes
from equivalence.classes.token_classes import TokenClasses

__all__ = ["OnBudget", "Relation", "TokenClasses", "compute_classes"]
