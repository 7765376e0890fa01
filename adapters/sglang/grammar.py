"""The grammar of one request, with the methods of SGLang's.

What: `Grammar` is SGLang's own for XGrammar, over our matcher; `ReasoningGrammar` is its wrapper for models
that think first. Both fill the rows of a batch in one call.
When: made by `adapters.sglang.backend`.
Limits: SGLang hands no backend the stop tokens of a request, only those of the model.
"""

from __future__ import annotations

import dataclasses
import logging
from functools import cache
from typing import Any

import torch
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammar

import adapters.xgrammar
from adapters.engines.serving import allow_only_stops

logger = logging.getLogger("sglang.equimask")


class Grammar(XGrammarGrammar):
    """Follows one request. An error ends this request, where SGLang's scheduler would end.

    Where a mask fails, it allows nothing but the stop tokens, and the token that is taken from it is
    rejected: nothing that the grammar forbids gets out. Drafts that are taken back are none the worse.

    Attributes:
        failed_at: how many tokens had been read where something failed; None if nothing has.
        learned: how many tokens a draft model has counted (`adapters.sglang.chains`).
    """

    failed_at: int | None = None
    learned = 0

    def accept_token(self, token: int) -> None:
        """Advance by a token; what follows the end of the grammar is not read.

        Raises:
            ValueError: the grammar does not allow the token here, on which SGLang ends the request.
        """
        if self.is_terminated():
            return
        self.current_token = token
        if self.failed_at is None and self._takes(token):
            self.accepted_tokens.append(token)
            return
        last = ", ".join(map(str, self.accepted_tokens[-16:]))
        why = "is not allowed" if self.failed_at is None else "is rejected after an error, which was logged,"
        raise ValueError(
            f"Token {token} {why} after {len(self.accepted_tokens)} tokens (the last are: {last}) of the "
            f"grammar {str(self.key_string)[:400]}"
        )

    def _takes(self, token: int) -> bool:
        try:
            return bool(self.matcher.accept_token(token))
        except Exception:  # noqa: BLE001 - whatever it is, it is this request's
            self._fail("token")
        return False

    def rollback(self, k: int) -> None:
        """Take back the last tokens, over the end too."""
        left = len(self.accepted_tokens) - k
        try:
            self.matcher.rollback(k)
        except Exception:  # noqa: BLE001
            self._fail("rollback")
            self.failed_at = 0  # where it is now is not known
        del self.accepted_tokens[max(left, 0) :]
        if self.failed_at and left < self.failed_at:
            self.failed_at = None

    def is_terminated(self) -> bool:
        """Whether the request has ended."""
        try:
            return bool(self.matcher.is_terminated())
        except Exception:  # noqa: BLE001
            self._fail("end")
        return False

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Overwrite a row with the mask of the next token; with the stop tokens after an error."""
        if self.failed_at is None:
            try:
                self.matcher.fill_next_token_bitmask(vocab_mask, idx)
                return
            except Exception:  # noqa: BLE001
                self._fail("mask")
        allow_only_stops(vocab_mask, idx, self.matcher.stop_token_ids)

    @staticmethod
    def fill_vocab_mask_batched(entries: list[Any], vocab_mask: torch.Tensor) -> None:
        """Overwrite the rows of many grammars."""
        fill_rows(entries, vocab_mask)

    def copy(self) -> Grammar:
        """Another one of the same grammar, at its start."""
        stats = self.grammar_stats
        if stats:
            stats = dataclasses.replace(stats, is_cache_hit=True, tree_traversal_time=[])
        return type(self)(
            matcher_of(self.ctx, self.override_stop_tokens),
            self.vocab_size,
            self.ctx,
            self.override_stop_tokens,
            self.key_string,
            stats,
        )

    def _fail(self, what: str) -> None:
        """Note an error, which is being handled."""
        self.failed_at = len(self.accepted_tokens)
        logger.exception("The %s of a structured output failed, which ends its request", what)


class ReasoningGrammar(ReasonerGrammarObject):
    """SGLang's wrapper of a grammar that begins when the model has thought, for batches of such rows."""

    @staticmethod
    def fill_vocab_mask_batched(entries: list[Any], vocab_mask: torch.Tensor) -> None:
        """Overwrite the rows of many grammars."""
        fill_rows(entries, vocab_mask)

    def copy(self) -> ReasoningGrammar:
        """Another one, where this one is."""
        return wrapped_anew(super().copy())


def wrapped_anew(made: ReasonerGrammarObject) -> ReasoningGrammar:
    """What SGLang made, which names its own class there, with our way to fill batches."""
    made.__class__ = ReasoningGrammar
    return made


def matcher_of(compiled: Any, stops: Any) -> adapters.xgrammar.GrammarMatcher:
    """Our matcher of a compiled grammar; rollback has no bound."""
    return adapters.xgrammar.GrammarMatcher(compiled, override_stop_tokens=stops)


@cache
def _batches() -> adapters.xgrammar.BatchGrammarMatcher:
    return adapters.xgrammar.BatchGrammarMatcher()


def fill_rows(entries: list[Any], vocab_mask: torch.Tensor) -> None:
    """Overwrite rows of a bitmask: those that are masks of ours together, all others one by one.

    Args:
        entries: SGLang's pairs of a row and a grammar of its classes or ours.
        vocab_mask: rows that are not listed are left as they are.
    """
    ours: list[tuple[int, Grammar]] = []
    for entry in entries:
        grammar = constraining(entry.grammar)
        if grammar is None:
            entry.grammar.fill_vocab_mask(vocab_mask, entry.row)
        else:
            ours.append((entry.row, grammar))
    if len(ours) > 1:
        try:
            matchers = [grammar.matcher for _, grammar in ours]
            _batches().batch_fill_next_token_bitmask(matchers, vocab_mask, [row for row, _ in ours])
            return
        except Exception:
            logger.exception("The masks of a batch failed together; each one is made alone")
    for row, grammar in ours:
        grammar.fill_vocab_mask(vocab_mask, row)


def constraining(grammar: Any) -> Grammar | None:
    """The grammar of ours that alone decides about a row; None where something else has a say."""
    if isinstance(grammar, ReasoningGrammar):
        if grammar.reasoning_in_grammar or not grammar._is_generation():
            return None
        grammar = grammar.grammar
    return grammar if isinstance(grammar, Grammar) and grammar.failed_at is None else None
