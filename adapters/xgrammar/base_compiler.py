"""Compiling the grammars of calls to XGrammar's compiler.

What: `BaseCompiler` compiles a grammar with `hybrid`. If that refuses the grammar because token classes
cannot be exact, plain XGrammar compiles it. `configure` sets options for programs that do not pass them.
When: used by `GrammarCompiler`, and for compiled grammars from elsewhere.
Limits: those of `hybrid.Budget`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

import xgrammar

import hybrid
from adapters.xgrammar.errors import as_xgrammar
from equivalence import HybridError, UnsupportedGrammar, forks
from hybrid import Vocabulary
from hybrid.values.identity_cache import IdentityCache

_defaults: dict[str, Any] = {}


def configure(**options: Any) -> None:
    """Set default options for all compilers that are made from now on.

    Args:
        **options: options of `hybrid.GrammarCompiler`: strategy, budget, cache_dir and others. Each call
            replaces the options of the call before; a call without options restores the defaults.

    Raises:
        TypeError: `hybrid.GrammarCompiler` has no such option.
    """
    global _defaults
    try:
        inspect.signature(hybrid.GrammarCompiler).bind(None, **options)
    except TypeError as error:
        raise TypeError(f"hybrid.GrammarCompiler {error}") from error
    _defaults = options


def _vocabulary_of(info: xgrammar.TokenizerInfo) -> Vocabulary:
    if info.vocab_size:
        return Vocabulary.from_tokenizer_info(info)
    return Vocabulary.from_bytes([b""])  # for reading texts only: one id that is never allowed


VOCABULARIES = IdentityCache(_vocabulary_of)
"""The vocabulary of each `TokenizerInfo`, which takes 0.8 s for 128,000 ids. XGrammar cannot tell whether two
of them describe the same tokenizer, so each object has its own: keep it and pass it again."""


@forks.with_unlocked_properties
class BaseCompiler:
    """How grammars are compiled for one tokenizer.

    Args:
        tokenizer_info: the tokenizer.
        options: options of `hybrid.GrammarCompiler`.
    """

    def __init__(self, tokenizer_info: xgrammar.TokenizerInfo, options: dict[str, Any]) -> None:
        self._options = {**_defaults, **options}
        self.hybrid = hybrid.GrammarCompiler(VOCABULARIES.get(tokenizer_info), **self._options)

    @cached_property
    def _on_engine(self) -> hybrid.GrammarCompiler:
        options = {**self._options, "strategy": "engine", "cache_dir": None}
        return hybrid.GrammarCompiler(self.hybrid.vocabulary, **options)

    def _compile(
        self, compile_it: Callable[[hybrid.GrammarCompiler], hybrid.CompiledGrammar]
    ) -> hybrid.CompiledGrammar:
        """Compile a grammar by a call to one of our compilers.

        Raises:
            RuntimeError: XGrammar refuses the grammar; other errors of XGrammar's, too.
            HybridError: the grammar is refused for another reason, or exceeds the budget.
        """
        try:
            try:
                return compile_it(self.hybrid)
            except UnsupportedGrammar as error:
                found = compile_it(self._on_engine)
                reason = f"runs in plain XGrammar: strategy={self.hybrid.strategy!r} cannot run it ({error})"
                object.__setattr__(found, "reason", reason)
                return found
        except HybridError as error:
            expected = as_xgrammar(error)
            if expected is error:
                raise
            raise expected from None if expected is error.__cause__ else error.__cause__

    def clear_cache(self) -> None:
        """Drop all compiled grammars. Those in use stay usable."""
        self.hybrid.clear_cache()
        if "_on_engine" in self.__dict__:
            self._on_engine.clear_cache()
