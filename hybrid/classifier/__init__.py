"""The parser stack classifier: an automaton over stacks computes masks, without an engine at run time."""

from hybrid.classifier.classifier import Classifier, distinct_classes
from hybrid.classifier.tables import fixed_tables

__all__ = ["Classifier", "distinct_classes", "fixed_tables"]
