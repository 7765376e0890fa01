"""XGrammar's own compiler, for the whole vocabulary or for one token of each class.

What: `Engines` makes the vocabularies for which XGrammar compiles, and calls its compiler through the guard.
When: by `hybrid.compile.compilation`, for the strategies "engine" and "representatives".
Limits: XGrammar cannot be interrupted; see `hybrid.guard`. Thread-safe.
"""

from __future__ import annotations

from functools import cached_property

import xgrammar

from equivalence import TokenClasses, Vocabulary, forks
from equivalence.deadline import Deadline
from hybrid.guard import Guard
from hybrid.xgrammar.sanitize import prefix_closed


@forks.with_unlocked_properties
class Engines:
    """XGrammar's compiler for one vocabulary.

    Args:
        vocabulary: the whole vocabulary.
        n_jobs: number of XGrammar's threads.
        guard: calls XGrammar.
    """

    def __init__(self, vocabulary: Vocabulary, n_jobs: int, guard: Guard) -> None:
        self._vocabulary, self._n_jobs, self._guard = vocabulary, n_jobs, guard

    @cached_property
    def _plain(self) -> xgrammar.GrammarCompiler:
        return xgrammar.GrammarCompiler(
            self._vocabulary.tokenizer_info, max_threads=self._n_jobs, cache_enabled=False
        )

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._vocabulary.tokens))

    def whole(self, grammar: xgrammar.Grammar, deadline: Deadline) -> xgrammar.CompiledGrammar:
        """Compile a grammar for the whole vocabulary. Errors are those of `over`."""
        vocabulary = self._vocabulary.tokens, self._vocabulary.stop_token_ids, self._longest
        return self._guard.compile(self._plain, vocabulary, self._n_jobs, grammar, deadline)

    def over(
        self, classes: TokenClasses, grammar: xgrammar.Grammar, deadline: Deadline
    ) -> tuple[xgrammar.CompiledGrammar, int]:
        """Compile a grammar for the representatives of its classes. Return it with the id of its stop token.

        The ids are the classes, followed by the missing prefixes; the stop token is the last id.

        Raises:
            GrammarError: XGrammar refuses the grammar, or would crash.
            BudgetExceeded: the deadline is over, or it would take too long.
        """
        tokens = [self._vocabulary.tokens[token_id] for token_id in classes.representatives.tolist()]
        tokens += prefix_closed(tokens)
        stop = len(tokens)
        tokens.append(b"")
        info = xgrammar.TokenizerInfo(
            tokens, xgrammar.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=[stop]
        )
        compiler = xgrammar.GrammarCompiler(info, max_threads=self._n_jobs, cache_enabled=False)
        vocabulary = tokens, [stop], max(map(len, tokens))
        return self._guard.compile(compiler, vocabulary, self._n_jobs, grammar, deadline), stop
