"""The grammar of one request, with the methods of SGLang's grammars.

What: `Grammar` is SGLang's grammar for XGrammar with our matcher. `ReasoningGrammar` is SGLang's wrapper for
models that think first. Both fill the rows of a batch in one call.
When: made by `adapters.sglang.backend`. `adapters.sglang.request` tells them about their requests.
Limits: none of their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammar

import adapters.xgrammar
from adapters.engines.bounded_compiler import IN_DRAFTS_ONLY, allow_only_stops
from adapters.engines.limits import limited
from hybrid.api.logits import empty_rows

logger = logging.getLogger("sglang.equimask")

BATCHES = adapters.xgrammar.BatchGrammarMatcher()


def fill_rows(entries: list[Any], vocab_mask: torch.Tensor) -> None:
    """Overwrite rows of a bitmask: our masks in one call, all others one by one.

    Args:
        entries: SGLang's pairs of a row and a grammar, of its classes or ours.
        vocab_mask: the bitmask. Other rows stay as they are.
    """
    ours: list[tuple[int, Grammar]] = []
    for entry in entries:
        grammar = constraining(entry.grammar)
        if grammar is None:
            entry.grammar.fill_vocab_mask(vocab_mask, entry.row)
        else:
            grammar.know_limit()
            ours.append((entry.row, grammar))
    if len(ours) > 1:
        try:
            matchers = [grammar.matcher for _, grammar in ours]
            BATCHES.batch_fill_next_token_bitmask(matchers, vocab_mask, [row for row, _ in ours])
            leave_tokens(ours, vocab_mask)
            return
        except Exception:
            logger.exception("Filling all masks of a batch in one call failed; they are filled one by one")
    for row, grammar in ours:
        grammar.fill_vocab_mask(vocab_mask, row)


def leave_tokens(filled: Iterable[tuple[int, Grammar]], vocab_mask: torch.Tensor) -> None:
    """Allow the stop tokens in rows whose grammars allow no token, such as `root ::= root`. The grammar
    rejects them, which ends its request.

    SGLang's sampler makes NaN of an empty row. On a CPU, torch then refuses the whole batch, which ends the
    scheduler with all requests.
    """
    of = dict(filled)
    for row in empty_rows(vocab_mask.numpy(), [*of]):
        allow_only_stops(vocab_mask, row, of[row].matcher.stop_token_ids)


class Grammar(XGrammarGrammar):
    """Follows one request. An error ends this request, and not SGLang's scheduler.

    If a mask fails, only the stop tokens are allowed, and the next token is rejected. So no token that the
    grammar forbids is sent. Drafts that are taken back do no harm.

    Attributes:
        failed_at: how many tokens had been read before an error; None if there was none.
        learned: how many tokens a draft model has learned (`adapters.sglang.chains`).
        served_request: the `adapters.sglang.request.ServedRequest` of its request; None for cached grammars.
        most_tokens: the limit of tokens if the text must end within it; else None.
        thoughts: how many of these tokens were read before the grammar started.
        in_drafts: whether drafts are being read, which SGLang will take back.
        unread: how many of the last tokens are drafts after an error, which the matcher has not read.
    """

    matcher: adapters.xgrammar.GrammarMatcher
    failed_at: int | None = None
    learned = 0
    served_request: Any = None
    most_tokens: int | None = None
    thoughts = 0
    in_drafts = False
    unread = 0

    fill_vocab_mask_batched = staticmethod(fill_rows)

    def accept_token(self, token: int) -> None:
        """Advance by a token. Tokens after the end of the grammar are ignored.

        Raises:
            ValueError: the grammar does not allow the token here; SGLang then ends the request. Drafts raise
                no errors: after such a draft, only stop tokens are allowed until it is taken back.
        """
        if self.is_terminated():
            return
        self.current_token = token
        was_fine = self.failed_at is None
        if was_fine and self._takes(token):
            self.accepted_tokens.append(token)
            return
        if self.in_drafts:  # SGLang's walk does not expect errors; it will take the token back
            self.accepted_tokens.append(token)
            self.unread += 1
            if was_fine:
                self.failed_at = len(self.accepted_tokens)
            return
        last = ", ".join(map(str, self.accepted_tokens[-16:]))
        why = "is not allowed" if self.failed_at is None else "is rejected after an error, which was logged,"
        message = (
            f"Token {token} {why} after {len(self.accepted_tokens)} tokens (the last are: {last}) of the "
            f"grammar {str(self.key_string)[:400]}"
        )
        if self.served_request is not None and not self.in_drafts:
            self.served_request.abort(message)
        raise ValueError(message)

    def _takes(self, token: int) -> bool:
        try:
            return bool(self.matcher.accept_token(token))
        except Exception:  # noqa: BLE001 - any error ends only this request
            self._fail("token")
        return False

    def rollback(self, k: int) -> None:
        """Take back the last tokens, including those after the end."""
        left, unread = len(self.accepted_tokens) - k, min(k, self.unread)
        self.unread -= unread
        try:
            self.matcher.rollback(k - unread)
        except Exception:  # noqa: BLE001
            self._fail("rollback")
            self.failed_at = 0  # its state is unknown
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

    def end_by(self, stops: set[int]) -> None:
        """Add ids that end the grammar. To be called before the first token."""
        size, known = self.matcher.compiled_grammar.vocabulary.size, set(self.matcher.stop_token_ids)
        more = {stop for stop in stops if 0 <= stop < size} - known
        if more:
            self.override_stop_tokens = sorted(known | more)
            self.matcher = matcher_of(self.ctx, self.override_stop_tokens)

    def keep_limit(self) -> str | None:
        """Tell the matcher how many tokens are left, if the text must end within them. Return why that is
        impossible, or None."""
        if self.most_tokens is None or self.failed_at is not None:
            return None
        why = self.matcher.limit_error
        left = self.most_tokens - self.thoughts - len(self.accepted_tokens)
        if why is None and self.matcher.tokens_left != left:
            why = limited(self.matcher, left)
        if why is not None and not self.in_drafts:  # drafts may be taken back
            self.most_tokens = None
            self.matcher.limit_tokens(None)
        return why

    def know_limit(self) -> None:
        """`keep_limit`, with a notice to the request if that is impossible."""
        if self.most_tokens is None:
            return
        try:
            why = self.keep_limit()
        except Exception:
            self.most_tokens = None
            logger.exception("A text may be cut off at its token limit, because of an error")
            return
        if why is not None and not self.in_drafts and self.served_request is not None:
            self.served_request.report_limit_error(why)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Overwrite a row with the mask of the next token; after an error, with the stop tokens."""
        self.know_limit()
        if self.failed_at is None:
            try:
                self.matcher.fill_next_token_bitmask(vocab_mask, idx)
                leave_tokens([(idx, self)], vocab_mask)
                return
            except Exception:  # noqa: BLE001
                self._fail("mask")
        allow_only_stops(vocab_mask, idx, self.matcher.stop_token_ids)

    def copy(self) -> Grammar:
        """Make a new object for the same grammar, at its start."""
        stats = self.grammar_stats
        if stats:
            stats = dataclasses.replace(stats, is_cache_hit=True, tree_traversal_time=[])
        stops = self.override_stop_tokens
        matcher = matcher_of(self.ctx, stops)
        return type(self)(matcher, self.vocab_size, self.ctx, stops, self.key_string, stats)

    def _fail(self, what: str) -> None:
        """Record the error that is being handled."""
        self.failed_at = len(self.accepted_tokens)
        unless = IN_DRAFTS_ONLY if self.in_drafts else ""
        logger.exception("The %s of a structured output failed; its request is ended%s", what, unless)


class ReasoningGrammar(ReasonerGrammarObject):
    """SGLang's wrapper of a grammar that starts after the model has thought, with batched masks. It counts
    the tokens of thoughts, because they count against the request's limit of tokens."""

    fill_vocab_mask_batched = staticmethod(fill_rows)

    def accept_token(self, token: int) -> None:
        """Advance by a token of the thoughts or of the grammar."""
        is_thought = not (self.reasoning_in_grammar or self._is_generation())
        super().accept_token(token)
        if isinstance(self.grammar, Grammar):
            self.grammar.thoughts += is_thought

    def rollback(self, k: int) -> None:
        """Take back the last tokens, including thoughts."""
        if not isinstance(self.grammar, Grammar):
            super().rollback(k)
            return
        before = len(self.grammar.accepted_tokens)
        super().rollback(k)
        self.grammar.thoughts -= k - (before - len(self.grammar.accepted_tokens))

    def copy(self) -> ReasoningGrammar:
        """Return a copy in the same state."""
        return wrapped_anew(super().copy())


def wrapped_anew(made: ReasonerGrammarObject) -> ReasoningGrammar:
    """Return a wrapper that SGLang has made, as an object of our class, which fills batches in one call."""
    made.__class__ = ReasoningGrammar
    return made


def matcher_of(compiled: Any, stops: Any) -> adapters.xgrammar.GrammarMatcher:
    """Our matcher of a compiled grammar. Rollback is unlimited."""
    return adapters.xgrammar.GrammarMatcher(compiled, override_stop_tokens=stops)


def constraining(grammar: Any) -> Grammar | None:
    """Our grammar, if it alone decides about a row; else None."""
    if isinstance(grammar, ReasoningGrammar):
        if grammar.reasoning_in_grammar or not grammar._is_generation():
            return None
        grammar = grammar.grammar
    return grammar if isinstance(grammar, Grammar) and grammar.failed_at is None else None


@contextlib.contextmanager
def reading_drafts(grammar: Any) -> Iterator[None]:
    """A context in which a grammar reads drafts that will be taken back. Errors there do not end the
    request."""
    inner = grammar.grammar if isinstance(grammar, ReasoningGrammar) else grammar
    if not isinstance(inner, Grammar):
        yield
        return
    inner.in_drafts = True
    try:
        yield
    finally:
        inner.in_drafts = False
