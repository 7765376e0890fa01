"""XGrammar's own compiler: over the whole vocabulary, or over one token for each class.

What: `Engines` makes the vocabularies that XGrammar compiles for, and calls its compiler through the guard.
When: by `hybrid.compile.compilation`, for the strategies "engine" and "representatives".
Limits: XGrammar cannot be interrupted; `hybrid.xgrammar.guard` says what is done about it. Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import xgrammar

from equivalence import GrammarError, HybridError, TokenClasses, Vocabulary, forking
from equivalence.classes.byte_strings import Features
from equivalence.deadline import Deadline
from hybrid.representatives.token_level import in_engine_ids
from hybrid.xgrammar.guard import Guard
from hybrid.xgrammar.messages import shortened
from hybrid.xgrammar.sanitize import prefix_closed


class Engines:
    """XGrammar's compiler for one vocabulary.

    Args:
        vocabulary: the whole one.
        n_jobs: XGrammar's threads.
        guard: calls XGrammar.
    """

    def __init__(self, vocabulary: Vocabulary, n_jobs: int, guard: Guard) -> None:
        self._vocabulary, self._n_jobs, self._guard = vocabulary, n_jobs, guard
        self._lock = forking.listed(threading.Lock(), forking.Order.SLOW)
        self._plain: xgrammar.GrammarCompiler | None = None

    def whole(self, grammar: xgrammar.Grammar, deadline: Deadline) -> xgrammar.CompiledGrammar:
        """A grammar compiled over the whole vocabulary; errors are those of `over`."""
        with self._lock:
            if self._plain is None:
                self._plain = xgrammar.GrammarCompiler(
                    self._vocabulary.tokenizer_info, max_threads=self._n_jobs, cache_enabled=False
                )
        tokens, stops = self._vocabulary.tokens, self._vocabulary.stop_token_ids
        return self._compiled(self._plain, tokens, stops, grammar, deadline)

    def trusted(self, grammar: xgrammar.Grammar, deadline: Deadline) -> xgrammar.CompiledGrammar:
        """A grammar compiled over the whole vocabulary and, behind it, the prefixes that it lacks."""
        tokens = list(self._vocabulary.tokens)
        tokens += prefix_closed(tokens)
        return self._over(tokens, self._vocabulary.stop_token_ids, grammar, deadline)

    def representatives(
        self, serialized: dict[str, Any], features: Features, classes: TokenClasses
    ) -> tuple[list[bytes], int, dict[str, Any], bool]:
        """The vocabulary of a grammar's representatives: class by class, then what XGrammar needs besides.

        Returns:
            The tokens by id, the id of the stop token, the serialised grammar in these ids, and whether that
            differs from the grammar that was given.
        """
        tokens = [self._vocabulary.tokens[token_id] for token_id in classes.representatives.tolist()]
        tokens += prefix_closed(tokens)
        stop = len(tokens)
        last = [b""]
        if features.named:
            serialized, with_void = in_engine_ids(serialized, classes, stop + 1)
            last += [b""] * with_void
        return tokens + last, stop, serialized, bool(features.named)

    def over(
        self, tokens: Sequence[bytes], stop: int, grammar: xgrammar.Grammar, deadline: Deadline
    ) -> xgrammar.CompiledGrammar:
        """A grammar compiled over some tokens, one of which is the stop token.

        Raises:
            GrammarError: XGrammar refuses it, or would not survive it.
            BudgetExceeded: it is too late to begin, or it would take too long.
        """
        return self._over(tokens, [stop], grammar, deadline)

    def _over(
        self, tokens: Sequence[bytes], stops: Sequence[int], grammar: xgrammar.Grammar, deadline: Deadline
    ) -> xgrammar.CompiledGrammar:
        info = xgrammar.TokenizerInfo(
            list(tokens), xgrammar.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=list(stops)
        )
        compiler = xgrammar.GrammarCompiler(info, max_threads=self._n_jobs, cache_enabled=False)
        return self._compiled(compiler, tokens, stops, grammar, deadline)

    def _compiled(
        self,
        compiler: xgrammar.GrammarCompiler,
        tokens: Sequence[bytes],
        stops: Sequence[int],
        grammar: xgrammar.Grammar,
        deadline: Deadline,
    ) -> xgrammar.CompiledGrammar:
        try:
            return self._guard.compile(compiler, (tokens, stops), self._n_jobs, grammar, deadline)
        except HybridError:
            raise
        except RuntimeError as error:
            raise GrammarError(f"XGrammar cannot compile the grammar: {shortened(error)}") from error
