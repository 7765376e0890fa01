"""Grammar-constrained decoding with exact masks, behind XGrammar's interface.

What: a `GrammarCompiler` compiles grammars for a `Vocabulary`. A `GrammarMatcher` follows one sequence
through a `CompiledGrammar`: it fills the mask for the next token, and accepts the chosen token. A
`BatchGrammarMatcher` does this for many sequences at once. These classes have the methods of XGrammar's
classes with the same names, and bitmasks have XGrammar's layout.
When: in your own decoding loop (docs/usage.md). For engines and libraries, see `adapters`.
Limits: masks are computed on the CPU. `hybrid.device` can apply them on a GPU.
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
