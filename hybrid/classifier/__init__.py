"""The parser stack classifier: an automaton over stacks computes masks, without an engine at run time."""

from hybrid.classifier.classifier import Classifier, distinct_classes
from hybrid.classifier.precomputation import build_summaries
from hybrid.classifier.tables import fixed_tables

__all__ = ["Classifier", "build_summaries", "distinct_classes", "fixed_tables"]
