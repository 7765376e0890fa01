"""From a call for XGrammar's compiler to what our matchers run on.

What: `Compiling` has a grammar compiled as `hybrid` would, and where that refuses because token classes
cannot be kept exact, by plain XGrammar; `configure` says how, for programs that do not say it themselves.
When: behind `GrammarCompiler`, and for compiled grammars that come from elsewhere.
Limits: those of `hybrid.Budget`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import xgrammar

import hybrid
from adapters.xgrammar.vocabularies import vocabulary_of
from equivalence import UnsupportedGrammar, forking

_defaults: dict[str, Any] = {}


def configure(**options: Any) -> None:
    """Give the options of all compilers that are made from now on, where these do not give their own.

    Args:
        **options: of `hybrid.GrammarCompiler`: strategy, budget, cache_dir and others; those of the last call
            count, and none at all are the defaults.
    """
    global _defaults
    _defaults = options


@forking.with_listed_properties
class Compiling:
    """How grammars are compiled for one tokenizer.

    Args:
        tokenizer_info: the tokenizer.
        options: of `hybrid.GrammarCompiler`.
    """

    def __init__(self, tokenizer_info: xgrammar.TokenizerInfo, options: dict[str, Any]) -> None:
        self._options = {**_defaults, **options}
        self.hybrid = hybrid.GrammarCompiler(vocabulary_of(tokenizer_info), **self._options)

    @cached_property
    def _on_engine(self) -> hybrid.GrammarCompiler:
        options = {**self._options, "strategy": "engine", "cache_dir": None}
        return hybrid.GrammarCompiler(self.hybrid.vocabulary, **options)

    def compiled(
        self, compile_it: Callable[[hybrid.GrammarCompiler], hybrid.CompiledGrammar]
    ) -> hybrid.CompiledGrammar:
        """What a call makes of one of our compilers.

        Raises:
            HybridError: the grammar is refused, or exceeds the budget.
        """
        try:
            return compile_it(self.hybrid)
        except UnsupportedGrammar:
            return compile_it(self._on_engine)

    def clear_cache(self) -> None:
        """Forget all compiled grammars."""
        self.hybrid.clear_cache()
        if "_on_engine" in self.__dict__:
            self._on_engine.clear_cache()
