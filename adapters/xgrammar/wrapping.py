"""What plain XGrammar made, taken over.

What: `wrap` gives for a compiler or compiled grammar of XGrammar's the one here that means the same.
When: where another library calls plain XGrammar, and hands over the result.
Limits: XGrammar's matchers do not tell what they have read, so they stay what they are; our batches take
them.
"""

from __future__ import annotations

from typing import Any

import xgrammar

import hybrid
from adapters.by_identity import ByIdentity
from adapters.xgrammar.compiled import CompiledGrammar, taken_over
from adapters.xgrammar.compiler import GrammarCompiler
from adapters.xgrammar.errors import with_its_errors


@with_its_errors
def wrap(made: Any, *, tokenizer_info: xgrammar.TokenizerInfo | None = None, **options: Any) -> Any:
    """The object of this package that does what one of XGrammar's does.

    Args:
        made: an `xgrammar.GrammarCompiler` or `xgrammar.CompiledGrammar`. What is ours already, and grammars,
            tokenizers and matchers of XGrammar's, come back as they are.
        tokenizer_info: the object that it was made with: for the same object a vocabulary is made once, else
            for each call (0.8 s for 128,000 ids).
        **options: of `hybrid.GrammarCompiler`.

    Raises:
        TypeError: an object of another kind.
    """
    if isinstance(made, (CompiledGrammar, GrammarCompiler, hybrid.GrammarMatcher)):
        return made
    if isinstance(made, xgrammar.GrammarCompiler):
        if tokenizer_info is None:  # XGrammar's compiler does not give it, but its grammars do
            tokenizer_info = made.compile_grammar('root ::= ""').tokenizer_info
        return GrammarCompiler(tokenizer_info, **{"cache_limit_bytes": made.cache_limit_bytes, **options})
    if isinstance(made, xgrammar.CompiledGrammar):
        return taken_over(made, tokenizer_info, **options)
    if isinstance(made, (xgrammar.Grammar, xgrammar.TokenizerInfo, xgrammar.GrammarMatcher)):
        return made
    raise TypeError(
        f"{type(made).__module__}.{type(made).__name__} is given, allowed are objects of XGrammar's: "
        "GrammarCompiler, CompiledGrammar, GrammarMatcher, Grammar and TokenizerInfo"
    )


def _for_matchers(plain: xgrammar.CompiledGrammar) -> CompiledGrammar:
    """The same without a hold on XGrammar's, which `_wrapped` would otherwise keep alive for ever."""
    wrapped = taken_over(plain)
    return CompiledGrammar(wrapped.hybrid, wrapped.tokenizer_info)


_wrapped = ByIdentity(_for_matchers)


def grammar_of(given: Any) -> CompiledGrammar:
    """A compiled grammar of ours, made once for one of XGrammar's.

    Raises:
        ValueError: neither.
    """
    if isinstance(given, CompiledGrammar):
        return given
    if isinstance(given, xgrammar.CompiledGrammar):
        return _wrapped.of(given)
    raise ValueError(
        f"compiled_grammar is {type(given).__name__}, allowed is a CompiledGrammar; compile it first"
    )
