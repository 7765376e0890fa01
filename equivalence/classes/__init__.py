"""Token classes: sets of tokens that no parser state distinguishes; see `equivalence.classes.classes`."""

from equivalence.classes.classes import Relation, compute_classes
from equivalence.classes.token_classes import TokenClasses

__all__ = ["Relation", "TokenClasses", "compute_classes"]
