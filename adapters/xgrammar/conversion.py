"""Converting objects of plain XGrammar.

What: `wrap` returns our equivalent of a compiler or compiled grammar of XGrammar.
When: if another library calls plain XGrammar and passes the result on.
Limits: matchers of XGrammar are not converted, because they do not tell what they have read. Our batches
accept them.
"""

from __future__ import annotations

from typing import Any

import xgrammar

import hybrid
from adapters.xgrammar.compiled import CompiledGrammar, taken_over
from adapters.xgrammar.compiler import GrammarCompiler
from hybrid.values.identity_cache import IdentityCache


def wrap(made: Any, *, tokenizer_info: xgrammar.TokenizerInfo | None = None, **options: Any) -> Any:
    """Our equivalent of an object of XGrammar.

    Args:
        made: an `xgrammar.GrammarCompiler` or `xgrammar.CompiledGrammar`. Our own objects, and grammars,
            tokenizers and matchers of XGrammar, are returned unchanged.
        tokenizer_info: the object that `made` was made with. For the same object, the vocabulary is made only
            once; otherwise for each call (0.8 s for 128,000 ids).
        **options: options of `hybrid.GrammarCompiler`.

    Raises:
        TypeError: `made` is of another kind.
    """
    if isinstance(made, (CompiledGrammar, GrammarCompiler, hybrid.GrammarMatcher)):
        return made
    if isinstance(made, xgrammar.GrammarCompiler):
        if tokenizer_info is None:  # XGrammar's grammars have it, but its compiler does not
            tokenizer_info = made.compile_grammar('root ::= ""').tokenizer_info
        return GrammarCompiler(tokenizer_info, **{"cache_limit_bytes": made.cache_limit_bytes, **options})
    if isinstance(made, xgrammar.CompiledGrammar):
        return taken_over(made, tokenizer_info, **options)
    if isinstance(made, (xgrammar.Grammar, xgrammar.TokenizerInfo, xgrammar.GrammarMatcher)):
        return made
    raise TypeError(
        "the argument must be one of XGrammar's objects (GrammarCompiler, CompiledGrammar, "
        "GrammarMatcher, Grammar or TokenizerInfo), but is of type "
        f"{type(made).__module__}.{type(made).__name__}"
    )


def _for_matchers(plain: xgrammar.CompiledGrammar) -> CompiledGrammar:
    """Return the grammar without a reference to XGrammar's, which `_wrapped` would otherwise keep alive
    forever."""
    wrapped = taken_over(plain)
    return CompiledGrammar(wrapped.hybrid, wrapped.tokenizer_info)


_wrapped = IdentityCache(_for_matchers)


def grammar_of(given: Any) -> CompiledGrammar:
    """Our compiled grammar for one of XGrammar's, made once.

    Raises:
        ValueError: it is not a compiled grammar.
    """
    if isinstance(given, CompiledGrammar):
        return given
    if isinstance(given, xgrammar.CompiledGrammar):
        return _wrapped.get(given)
    raise ValueError(
        f"compiled_grammar must be a CompiledGrammar, but is of type {type(given).__name__}; compile it first"
    )
