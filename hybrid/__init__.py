"""Grammar-constrained decoding over classes of interchangeable tokens: XGrammar's interface, exact masks.

`GrammarCompiler`, `CompiledGrammar`, `GrammarMatcher` and `BatchGrammarMatcher` have the methods and
meanings of XGrammar's classes of the same names; bitmasks are XGrammar's too.
"""

from xgrammar import bitmask_dtype

from equivalence import (
    ArgumentError,
    ArtifactError,
    BatchError,
    BitmaskError,
    BudgetExceeded,
    GrammarError,
    HybridError,
    MatcherError,
    StrategyError,
    TokenClasses,
    UnsupportedGrammar,
    Vocabulary,
    VocabularyError,
    compute_classes,
)
from hybrid.api.batch import BatchGrammarMatcher
from hybrid.api.bitmask import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    get_bitmask_shape,
    reset_token_bitmask,
)
from hybrid.api.compiler import GrammarCompiler
from hybrid.api.matcher import GrammarMatcher
from hybrid.compiled import CompiledGrammar
from hybrid.explain import Expected, Explanation, Refusal
from hybrid.json_schema import SchemaRefused
from hybrid.values.budget import Budget
from hybrid.values.version import __version__ as __version__

__all__ = [
    "ArgumentError", "ArtifactError", "BatchError", "BatchGrammarMatcher", "BitmaskError", "Budget",
    "BudgetExceeded", "CompiledGrammar", "Expected", "Explanation", "GrammarCompiler", "GrammarError",
    "GrammarMatcher", "HybridError", "MatcherError", "Refusal", "SchemaRefused", "StrategyError",
    "TokenClasses", "UnsupportedGrammar", "Vocabulary", "VocabularyError", "allocate_token_bitmask",
    "apply_token_bitmask_inplace", "bitmask_dtype", "compute_classes", "get_bitmask_shape",
    "reset_token_bitmask",
]  # fmt: skip
