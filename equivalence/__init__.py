"""Token classes: which tokens of a vocabulary a grammar cannot tell apart.

The lower layer of the project: it knows vocabularies and grammars, no tensors, matchers or frameworks.
"""

# ruff: noqa: E402 - missing compiled modules are reported before any of them is imported

from equivalence import source_check

source_check.require()

from equivalence.classes import TokenClasses, compute_classes
from equivalence.classes.explore import Capacity
from equivalence.errors import (
    ArgumentError,
    ArtifactError,
    BatchError,
    BitmaskError,
    BudgetExceeded,
    GrammarError,
    HybridError,
    MatcherError,
    StrategyError,
    UnsupportedGrammar,
    VocabularyError,
)
from equivalence.vocabulary import Vocabulary

__all__ = [
    "ArgumentError",
    "ArtifactError",
    "BatchError",
    "BitmaskError",
    "BudgetExceeded",
    "Capacity",
    "GrammarError",
    "HybridError",
    "MatcherError",
    "StrategyError",
    "TokenClasses",
    "UnsupportedGrammar",
    "Vocabulary",
    "VocabularyError",
    "compute_classes",
]
