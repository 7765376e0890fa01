"""The grammar backends for SGLang's scheduler.

What: `Backend` is SGLang's XGrammar backend with our compilers and grammars. SGLang's code still decides what
a request may ask for, and what is refused. `ReasoningBackend` is SGLang's wrapper for models that think
first.
When: made by `adapters.sglang.backend_factory`, one for each scheduler.
Limits: those of `hybrid.Budget`.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import xgrammar
from sglang.srt.constrained.base_grammar_backend import InvalidGrammarObject
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
from sglang.srt.constrained.xgrammar_backend import TokenizerNotSupportedError, XGrammarGrammarBackend

import adapters.xgrammar
from adapters.engines.bounded_compiler import BoundedCompiler
from adapters.engines.cores import pool
from adapters.sglang.grammar import Grammar, ReasoningGrammar, matcher_of, wrapped_anew
from adapters.sglang.grammar_cache import GrammarCache, Key
from adapters.sglang.settings import SETTINGS, cache_bytes
from equivalence import BudgetExceeded, UnsupportedGrammar

logger = logging.getLogger("sglang.equimask")

NOMINAL_BYTES = 2 * 2**20
"""The assumed size of a grammar if ranks must make the same decisions, because its real size depends on what
each rank has done with it. It is the mean of MaskBench's schemas after some hundred tokens (1.4 to 8.8 MB
with 128,000 ids)."""

SMALL_BYTES = 2**10
"""The size of the objects around a grammar."""


class OverBudget(Exception):
    """A compilation exceeded a bound. This is not a `RuntimeError`, which SGLang takes for a wrong
    grammar."""


class GrammarCompiler(BoundedCompiler):
    """Compiles grammars for SGLang; thread-safe.

    Args:
        tokenizer_info, **options: see `adapters.xgrammar.GrammarCompiler`.
    """

    def __init__(self, tokenizer_info: xgrammar.TokenizerInfo, **options: Any) -> None:
        super().__init__(tokenizer_info, settings=SETTINGS, cache_limit_bytes=cache_bytes(), **options)

    def _compiled(self, compile_it: Any) -> Any:
        try:
            return super()._compiled(compile_it)
        except BudgetExceeded as error:
            raise OverBudget(str(error)) from error


def prepare(matcher: adapters.xgrammar.GrammarMatcher) -> None:
    """Compute in the compiling thread what the scheduler's loop would otherwise wait for at each request."""
    compiled = matcher.compiled_grammar
    try:
        len(compiled.relaxed)
        if SETTINGS.keeps_limits():
            matcher.shortest_completion()
    except (UnsupportedGrammar, BudgetExceeded):
        pass  # each request gets a notice
    except Exception:
        logger.exception("The notices of a grammar could not be computed")


class Backend(XGrammarGrammarBackend):
    """SGLang's XGrammar backend with our compilers and grammars.

    Args:
        *arguments, **options: the arguments of SGLang's backend.
        n_ranks: how many processes compile for one model, and must make the same decisions.

    Raises:
        TokenizerNotSupportedError: XGrammar refuses the tokenizer, or SGLang's bitmasks are not as wide as
            the tokenizer's.
    """

    def __init__(self, *arguments: Any, n_ranks: int, **options: Any) -> None:
        self.n_ranks = n_ranks
        super().__init__(*arguments, **options)
        ids = self._tokenizer_info.vocab_size  # some tokenizers count them themselves
        if xgrammar.get_bitmask_shape(1, ids) != xgrammar.get_bitmask_shape(1, self.vocab_size):
            raise TokenizerNotSupportedError(
                f"the tokenizer gives XGrammar {ids} ids, but the model has {self.vocab_size}, so its "
                "bitmasks have another width"
            )
        self.executor: ThreadPoolExecutor = pool_for(self.executor)
        self.grammar_compiler = GrammarCompiler(self._tokenizer_info, deterministic=n_ranks > 1)
        self.cache = cache_for(n_ranks)

    def _new_framing_compiler(self, tokenizer_info: xgrammar.TokenizerInfo) -> GrammarCompiler:
        return GrammarCompiler(tokenizer_info, deterministic=self.n_ranks > 1, cache_enabled=False)

    def compile_framed_grammar(self, grammar: Grammar, frame: Any) -> Any:
        """Compile a grammar within the frame of its message; an `InvalidGrammarObject` if that is impossible.

        The frame contains the text of the grammar, which cannot forbid repeated items or keys.
        """
        if grammar.ctx.hybrid.places is None:
            return super().compile_framed_grammar(grammar, frame)
        refusal = InvalidGrammarObject(
            "the schema has items or keys that must not be repeated (minProperties and others), which is not "
            "supported where special tokens frame the messages; leave out these keywords"
        )
        refusal.is_final = True
        return refusal

    def _from_context(self, ctx: Any, key_string: str, grammar_stats: Any) -> Grammar:
        stops = self.override_stop_tokens
        matcher = matcher_of(ctx, stops)
        prepare(matcher)
        return Grammar(matcher, self.vocab_size, ctx, stops, key_string, grammar_stats)

    def _init_value_dispatch(self, key: Key, *arguments: Any, **options: Any) -> Any:
        """Return the grammar of a request, or an `InvalidGrammarObject` with the reason why there is none."""
        try:
            found = super()._init_value_dispatch(key, *arguments, **options)
        except OverBudget as error:
            logger.warning("Compiling a grammar (%s) exceeded a limit: %s", key[0], error)
            return InvalidGrammarObject(str(error))
        if isinstance(found, InvalidGrammarObject):
            found.is_final = True
        return found


class ReasoningBackend(ReasonerGrammarBackend):
    """SGLang's wrapper for models that think first, over a `Backend`."""

    def __init__(self, grammar_backend: Backend, *arguments: Any, **options: Any) -> None:
        super().__init__(grammar_backend, *arguments, **options)
        self.executor: ThreadPoolExecutor = pool_for(self.executor)
        self.cache = cache_for(grammar_backend.n_ranks)

    def _make_grammar_object(self, *arguments: Any, **options: Any) -> ReasoningGrammar:
        return wrapped_anew(super()._make_grammar_object(*arguments, **options))

    def reset(self) -> None:
        """Drop all grammars, including those of the inner backend."""
        super().reset()
        self.grammar_backend.reset()


def pool_for(theirs: ThreadPoolExecutor) -> ThreadPoolExecutor:
    """Make a pool for compilations with threads for the usable cores. It replaces SGLang's pool, which has
    not been used yet and has threads for all cores of the machine."""
    theirs.shutdown(wait=False)
    return pool()


def cache_for(n_ranks: int) -> GrammarCache:
    """Return the cache of a backend."""

    def size_of(key: Key, grammar: Any) -> int:
        inner = grammar.grammar if isinstance(grammar, ReasoningGrammar) else grammar
        size = SMALL_BYTES + 2 * len(key[1])  # for the key, and for the copy that the grammar keeps
        if n_ranks > 1:
            return size + (0 if isinstance(grammar, InvalidGrammarObject) else NOMINAL_BYTES)
        return size + (inner.ctx.memory_size_bytes if isinstance(inner, Grammar) else 0)

    return GrammarCache(cache_bytes(), size_of, _is_final)


def _is_final(grammar: Any) -> bool:
    """Whether the next request would get the same result: not after a timeout or an unexpected error."""
    return not isinstance(grammar, InvalidGrammarObject) or getattr(grammar, "is_final", False)
