"""Token classes: which tokens of a vocabulary a grammar cannot tell apart.

The lower layer of the project: it knows vocabularies and grammars, no tensors, matchers or frameworks.
"""

from equivalence.classes import TokenClasses, compute_classes
from equivalence.errors import (
    ArtifactError,
    BitmaskError,
    BudgetExceeded,
    GrammarError,
    HybridError,
    StrategyError,
    UnsupportedGrammar,
    VocabularyError,
)
from equivalence.explore import Capacity
from equivalence.vocabulary import Vocabulary

__all__ = [
    "ArtifactError",
    "BitmaskError",
    "BudgetExceeded",
    "Capacity",
    "GrammarError",
    "HybridError",
    "StrategyError",
    "TokenClasses",
    "UnsupportedGrammar",
    "Vocabulary",
    "VocabularyError",
    "compute_classes",
]
