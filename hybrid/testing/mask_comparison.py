"""Comparing the masks of a compiled grammar with plain XGrammar's, bit for bit.

What: runs one of our matchers and a plain `xgrammar.GrammarMatcher` side by side along a token sequence
(`compare_along`) or a random walk (`compare_walk`). It compares every mask over all ids and every answer of
``accept_token``, and times both. `flags_of` and `bits_of` read masks.
When: in tests, in benchmarks before any number is reported, and in the demonstration.
Limits: it shows that masks agree in the states that it visits, and proves nothing about others.

If two masks differ, XGrammar's own ``accept_token`` on a fork decides. If it agrees with ours, XGrammar
contradicts itself: this is a *contradiction*, which is counted and listed. Everything else is a *difference*,
which is our error.
"""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import xgrammar

from hybrid.api.matcher import GrammarMatcher
from hybrid.testing.comparison import KEEP, Comparison, Disagreement
from hybrid.testing.random_walk import Walker

TEXT_KEPT = 240
"""Bytes kept of the text that leads to a disagreement (its ids are kept in full)."""


def compare_along(
    compiled: Any, plain_compiled: xgrammar.CompiledGrammar, token_ids: Sequence[int], *,
    matcher: Any = None, max_differences: int = 100, deadline: float = math.inf,
) -> Comparison:  # fmt: skip
    """Compare both matchers from the start along a token sequence.

    At each step, and after the last token, both masks are compared; the token is given to both sides. If both
    refuse a token, the run ends (``complete`` is then False). At the end, every stop token is tried on forks
    of both.

    Args:
        compiled: our compiled grammar; a plain `xgrammar.CompiledGrammar` works, too.
        plain_compiled: the same grammar compiled by plain XGrammar over the same vocabulary; or by us, on
            another strategy: then everything that is found is our error, including contradictions.
        token_ids: the tokens; a stop token ends the run.
        matcher: one of our matchers at its start, to use instead of a new one.
        max_differences: if there are more differences, the run ends early.
        deadline: a time of `time.perf_counter`; the run ends early at the first mask after it.
    """
    pair = _Pair(compiled, plain_compiled, matcher)
    result = pair.result
    for place, token_id in enumerate(token_ids):
        agreed = pair.compare_masks() and pair.advance(int(token_id))
        if not agreed or result.difference_count > max_differences or perf_counter() >= deadline:
            result.complete = False
            return result
        if pair.plain.is_terminated():
            result.complete = place + 1 == len(token_ids)
            return result
    if pair.compare_masks():
        pair.compare_stop_tokens()
    return result


def compare_walk(
    compiled: Any, plain_compiled: xgrammar.CompiledGrammar, seed: int, steps: int, *,
    matcher: Any = None, by_kind: float = 0.5, max_differences: int = 100, deadline: float = math.inf,
) -> Comparison:  # fmt: skip
    """Compare both matchers along a random walk through allowed tokens.

    Each token is drawn from the mask that both sides agree on, after contradictions are settled. If
    ``accept_token`` refuses it, it is listed and another one is drawn. If the grammar has ended, or nothing
    is allowed, both sides are reset and the walk continues.

    Args:
        compiled, plain_compiled, matcher, max_differences, deadline: as in `compare_along`.
        seed: the seed of the random generator; equal arguments give equal walks.
        steps: number of masks to compare.
        by_kind: the share of draws that choose a kind of first bytes (quotes, brackets, letters ...)
            uniformly, then a byte of that kind, then a token with that byte. Draws that are uniform over
            tokens hardly ever leave a string, where nearly the whole vocabulary is allowed; these do.
    """
    pair = _Pair(compiled, plain_compiled, matcher)
    result = pair.result
    rng = random.Random(seed)
    walker = Walker(rng, pair.tokens, pair.stops, by_kind)
    for _ in range(steps):
        failed = not pair.compare_masks() or result.difference_count > max_differences
        if failed or perf_counter() >= deadline:
            result.complete = False
            return result
        # continue with our mask if only contradictions were found
        allowed = bits_of(pair.mask if pair.clean else pair.plain_mask, pair.size)
        moved = False
        while not moved and allowed.any():
            token_id = walker.draw_from(allowed)
            if pair.plain.fork().accept_token(token_id):
                if not pair.advance(token_id):
                    result.complete = False
                    return result
                moved = True
            else:
                pair.note(result.shared_errors, "mask", token_id, True, True, False)
                allowed[token_id] = False
        if not moved or pair.plain.is_terminated():
            pair.reset()
    return result


class _Pair:
    """Both matchers, their masks and the tokens that they have read. Each check of this module is a
    method."""

    def __init__(self, compiled: Any, plain_compiled: xgrammar.CompiledGrammar, matcher: Any) -> None:
        self.plain: Any = _matcher_of(plain_compiled)
        self.ours: Any = _matcher_of(compiled) if matcher is None else matcher
        info = plain_compiled.tokenizer_info
        self.size: int = info.vocab_size
        self.tokens: Sequence[bytes]
        if hasattr(compiled, "vocabulary"):
            self.tokens = compiled.vocabulary.tokens
        else:
            known = list(info.decoded_vocab)
            self.tokens = known + [b""] * (self.size - len(known))
        self.stops: tuple[int, ...] = tuple(self.plain.stop_token_ids)
        self.bitmask: Any = xgrammar.allocate_token_bitmask(1, self.size)
        self.plain_bitmask: Any = xgrammar.allocate_token_bitmask(1, self.size)
        # A fill must write the whole row. The two rows start with different contents, so that a word that one
        # side does not write shows up as a difference.
        self.bitmask.fill_(0x55555555)
        self.plain_bitmask.fill_(-1)
        self.mask: npt.NDArray[np.int32] = self.bitmask.numpy()[0]
        self.plain_mask: npt.NDArray[np.int32] = self.plain_bitmask.numpy()[0]
        self._xor = np.empty_like(self.mask)
        self._last_word = np.int32((1 << self.size % 32) - 1)
        self.result = Comparison()
        self.prefix: list[int] = []
        self.clean = True

    def note(
        self, where: list[Disagreement], kind: str, token_id: int, ours: bool, plain: bool,
        accepted: bool | None = None, note: str = "",
    ) -> None:  # fmt: skip
        """Add a disagreement to a list, unless the list is full."""
        if len(where) < KEEP:
            token = self.tokens[token_id] if 0 <= token_id < len(self.tokens) else b""
            text = b"".join(self.tokens[i] for i in self.prefix[-TEXT_KEPT:])[-TEXT_KEPT:]
            step = self.result.accepted
            where.append(
                Disagreement(
                    kind, step, token_id, token, tuple(self.prefix), text, ours, plain, accepted, note
                )
            )

    def differ(self, kind: str, token_id: int, ours: bool, plain: bool, note: str = "") -> None:
        self.result.difference_count += 1
        self.note(self.result.differences, kind, token_id, ours, plain, None, note)

    def _timed(self, call: Callable[..., Any], times: array[float], *arguments: Any) -> Any:
        started = perf_counter()
        answer = call(*arguments)
        times.append(perf_counter() - started)
        return answer

    def _both(self, ours: Callable[[], Any], plain: Callable[[], Any], token_id: int) -> tuple[Any, Any]:
        """Call both sides. They take turns at being first, because the first call warms the caches for the
        second.

        If ours raises an exception, this is a difference, and our result is None.
        """
        plain_first = bool(self.result.masks & 1)
        plain_answer = plain() if plain_first else None
        try:
            answer = ours()
        except Exception as error:  # noqa: BLE001 - reported with the tokens that led to it
            answer = None
            self.differ("error", token_id, False, True, repr(error))
        return answer, plain_answer if plain_first else plain()

    def compare_masks(self) -> bool:
        """Fill and compare both masks. Return False if ours raised an exception."""
        times = self.result.times
        need_apply, _ = self._both(
            lambda: self._timed(self.ours.fill_next_token_bitmask, times.fill, self.bitmask),
            lambda: self._timed(self.plain.fill_next_token_bitmask, times.plain_fill, self.plain_bitmask),
            -1,
        )
        self.clean = True
        self.result.masks += 1
        if need_apply is None:
            return False
        np.bitwise_xor(self.mask, self.plain_mask, out=self._xor)
        if self.size % 32:
            self._xor[-1] &= self._last_word
        if self._xor.any():
            self._judge(np.flatnonzero(bits_of(self._xor, self.size)))
        else:
            self.result.equal += 1
        if not need_apply and not bits_of(self.mask, self.size).all():
            self.differ("need_apply", -1, False, True)
        return True

    def _judge(self, token_ids: npt.NDArray[np.int64]) -> None:
        """Ask XGrammar's ``accept_token`` for each differing bit which mask is right."""
        result = self.result
        contradictions = differences = 0
        for token_id in token_ids.tolist():
            ours = bool(int(self.mask[token_id >> 5]) >> (token_id & 31) & 1)
            accepted = bool(self.plain.fork().accept_token(token_id))
            if accepted == ours:
                contradictions += 1
                self.note(result.contradictions, "mask", token_id, ours, not ours, accepted)
            else:
                differences += 1
                self.note(result.differences, "mask", token_id, ours, not ours, accepted)
        result.contradiction_count += contradictions
        result.difference_count += differences
        result.contradicted_masks += contradictions > 0
        result.different_masks += differences > 0
        self.clean = not differences

    def advance(self, token_id: int) -> bool:
        """Give a token to both. Return whether both accept it."""
        times = self.result.times
        ours, plain = self._both(
            lambda: self._timed(self.ours.accept_token, times.accept, token_id),
            lambda: self._timed(self.plain.accept_token, times.plain_accept, token_id),
            token_id,
        )
        if ours is None:
            return False
        if bool(ours) != bool(plain):
            self.differ("accept", token_id, bool(ours), bool(plain))
            return False
        if not plain:
            return False
        self.prefix.append(token_id)
        self.result.accepted += 1
        ended, plain_ended = bool(self.ours.is_terminated()), bool(self.plain.is_terminated())
        if ended != plain_ended:
            self.differ("terminated", token_id, ended, plain_ended)
            return False
        return True

    def compare_stop_tokens(self) -> None:
        """Try each stop token on forks of both, and compare whether it is accepted and ends the sequence."""
        for token_id in self.stops:
            plain = self.plain.fork()
            expected, plain_ended = bool(plain.accept_token(token_id)), bool(plain.is_terminated())
            try:
                ours = self.ours.fork()
                answer, ended = bool(ours.accept_token(token_id)), bool(ours.is_terminated())
            except Exception as error:  # noqa: BLE001 - as above
                self.differ("error", token_id, False, expected, repr(error))
                continue
            if answer != expected:
                self.differ("accept", token_id, answer, expected)
            elif ended != plain_ended:
                self.differ("terminated", token_id, ended, plain_ended)

    def reset(self) -> None:
        self.ours.reset()
        self.plain.reset()
        self.prefix.clear()


def _matcher_of(compiled: Any) -> Any:
    """Make a matcher of a grammar that either side has compiled."""
    if isinstance(compiled, xgrammar.CompiledGrammar):
        return xgrammar.GrammarMatcher(compiled)
    return GrammarMatcher(compiled)


def flags_of(matcher: GrammarMatcher) -> npt.NDArray[np.bool_]:
    """Return the mask of a matcher as a flag for each id."""
    size = matcher.compiled_grammar.vocabulary.size
    bitmask = xgrammar.allocate_token_bitmask(1, size)
    matcher.fill_next_token_bitmask(bitmask)
    return bits_of(bitmask[0], size)


def bits_of(words: Any, size: int) -> npt.NDArray[np.bool_]:
    """Return a flag for each id, for each row of a tensor or an array of words (bit i of a mask is bit i % 32
    of word i // 32)."""
    octets = np.asarray(words).view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little")[..., :size].view(np.bool_)
