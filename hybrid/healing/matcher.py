"""A matcher that first reads given bytes, the prefix, and then a grammar; on any strategy, and without
compiling anything.

What: while bytes of the prefix are left, a token is allowed iff these bytes begin with it, or it begins with
these bytes and the grammar reads the rest from its start. After that, the grammar's own matcher decides.
When: after `hybrid.healing.heal`, or for a grammar that begins in the middle of a token.
Limits: stop tokens cannot spell the prefix. If a token ends after the prefix, its rest is read as text, even
if the grammar names token ids.

The tokens that begin with the remaining bytes are one range in byte order. Their rests are read in this
order, so common beginnings are read once, and if a rest is refused, all others with the same refused
beginning are skipped. The masks are cached for each grammar and each remainder of a prefix.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence import ArgumentError, MatcherError, forks
from equivalence.arguments import integer, integer_from
from equivalence.deadline import Deadline
from hybrid.api.matcher import GrammarMatcher
from hybrid.compiled import CompiledGrammar
from hybrid.healing.token_prefixes import prefixes_of
from hybrid.values.arguments import encoded
from hybrid.values.follower import Follower, check_made
from hybrid.values.gather import Gather
from hybrid.values.mask_time import TooSlow, check_time

MOST_PREFIX = 4096
"""Most bytes of a prefix."""

MOST_KEPT = 64
"""Most masks that are cached for each grammar."""

_lock = forks.registered(threading.Lock(), forks.Order.BRIEF)
_kept: weakref.WeakKeyDictionary[CompiledGrammar, dict[Any, NDArray[np.uint32]]] = weakref.WeakKeyDictionary()


class HealingMatcher(GrammarMatcher):
    """Follows one sequence that begins with given bytes. Before the prefix is spelled, there are no limits of
    tokens (`limit_tokens`). If a matcher goes back into the prefix, its limit ends.

    Args:
        compiled_grammar: the grammar, on any strategy.
        prefix: the bytes that the first tokens must spell, at most 4,096; it may be empty.
        override_stop_tokens, terminate_without_stop_token: as for `GrammarMatcher`.

    Raises:
        ArgumentError: the prefix is neither str nor bytes, or too long; or as `GrammarMatcher`.
    """

    def __init__(
        self,
        compiled_grammar: CompiledGrammar,
        prefix: str | bytes,
        *,
        override_stop_tokens: int | Iterable[int] | None = None,
        terminate_without_stop_token: bool = False,
    ) -> None:
        text = encoded(prefix)
        if len(text) > MOST_PREFIX:
            raise ArgumentError(
                f"the prefix has {len(text)} bytes, but the limit is {MOST_PREFIX}; pass only the end of the "
                "prompt, as heal returns it"
            )
        options: dict[str, Any] = {"terminate_without_stop_token": terminate_without_stop_token}
        super().__init__(compiled_grammar, override_stop_tokens=override_stop_tokens, **options)
        # the ids may have been an iterator
        options["override_stop_tokens"] = self._stops or None
        self._new_inner = partial(GrammarMatcher, compiled_grammar, **options)
        self._prefix = text
        self._move(self._follower, (), False)

    def _move(self, follower: Follower, spelled: tuple[int, ...], crossed: bool) -> None:
        """Replace the state at once.

        Args:
            follower: follows the grammar; it is at the start while bytes of the prefix are left.
            spelled: how many bytes of the prefix were read after each of its steps.
            crossed: whether the last of these steps also read a text of the grammar.
        """
        left = self._prefix[spelled[-1] if spelled else 0 :]
        self._follower, self._unspelled, self._spelled, self._crossed = follower, left, spelled, crossed
        if left:
            self.sequence = None  # so that compiled code calls the methods below

    @property
    def left(self) -> bytes:
        """The bytes of the prefix that are not yet spelled."""
        return self._unspelled

    def _fill(self, row: NDArray[np.uint32], debug_print: bool = False) -> bool:
        left = self.left
        if not left:
            return super()._fill(row, debug_print)
        row[:] = self._words(left)
        return True

    def _fill_by_class(self, words: NDArray[np.uint32]) -> Gather | None:
        return None if self.left else super()._fill_by_class(words)

    def _words(self, left: bytes) -> NDArray[np.uint32]:
        """Return the mask if these bytes of the prefix are left, uint32; the result is cached."""
        key = left, self._stops
        with _lock:
            known = _kept.setdefault(self._compiled, {})
            words = known.get(key)
        if words is None:
            words = self._find_words(left)
            with _lock:
                while len(known) >= MOST_KEPT:
                    del known[next(iter(known))]
                known[key] = words
        return words

    def _find_words(self, left: bytes) -> NDArray[np.uint32]:
        vocabulary, stops = self._compiled.vocabulary, frozenset(self._stops)
        beginnings = prefixes_of(vocabulary)
        longer = [token for token in beginnings.longer(left).tolist() if token not in stops]
        rests = [vocabulary.tokens[token][len(left) :] for token in longer]
        reads = _readable(self._new_inner(), rests)
        taken = [token for token, is_read in zip(longer, reads, strict=True) if is_read]
        taken += [token for token in beginnings.within(left) if token not in stops]
        bits = np.zeros(-(-self._size // 32) * 32, np.uint8)
        bits[taken] = 1
        found: NDArray[np.uint32] = np.packbits(bits, bitorder="little").view(np.uint32)
        return found

    def _accept(self, token_id: Any, debug_print: bool) -> bool:
        left = self.left
        if not left:
            return super()._accept(token_id, debug_print)
        token = integer(token_id, "token_id")
        if not 0 <= token < self._size or token in self._stops:
            return False
        text = self._compiled.vocabulary.tokens[token]
        return text != b"" and self._read(text, left)

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """As `GrammarMatcher.accept_string`. The prefix is read first; the text may end inside of it."""
        left = self.left
        if not left:
            return super().accept_string(input_str, debug_print=debug_print)
        return self._read(encoded(input_str), left)

    def _read(self, text: bytes, left: bytes) -> bool:
        """Advance by a text while bytes of the prefix are left. Return whether it is allowed."""
        rest = text[len(left) :]
        if not text.startswith(left) and not left.startswith(text):
            return False
        follower = self._follower
        if rest:
            inner = self._new_inner()
            if not inner.accept_string(rest):
                return False
            follower = inner._follower
        spelled = len(self._prefix) - len(left) + min(len(text), len(left))
        self._move(follower, (*self._spelled, spelled), bool(rest))
        return True

    def rollback(self, num_tokens: int = 1) -> None:
        """As `GrammarMatcher.rollback`; steps inside of the prefix count."""
        steps = integer_from(0, num_tokens, "num_tokens")
        before = steps - (self._follower.n_steps - self._crossed)  # steps of the prefix
        if before <= 0:
            super().rollback(steps)
            return
        check_made(self._n_steps, steps)
        self._move(self._new_inner()._follower, self._spelled[: len(self._spelled) - before], False)

    @property
    def _n_steps(self) -> int:
        return len(self._spelled) + self._follower.n_steps - self._crossed

    def _reads_again(self, steps: int) -> bool:
        return steps <= self._follower.n_steps - self._crossed and super()._reads_again(steps)

    def _become(self, other: Any) -> None:
        self._move(other._follower, other._spelled, other._crossed)

    def reset(self) -> None:
        """Go back to the start, before the prefix."""
        self._move(self._new_inner()._follower, (), False)

    def fork(self) -> HealingMatcher:
        """Return an independent matcher in the same state."""
        twin: Any = super().fork()
        twin._prefix, twin._new_inner = self._prefix, self._new_inner
        twin._move(twin._follower, self._spelled, self._crossed)
        found: HealingMatcher = twin
        return found

    def is_terminated(self) -> bool:
        """As `GrammarMatcher.is_terminated`; False until the prefix is spelled."""
        return not self.left and super().is_terminated()

    def is_completed(self) -> bool:
        """As `GrammarMatcher.is_completed`; False until the prefix is spelled."""
        return not self.left and super().is_completed()

    def forced_within(self, deadline: Deadline) -> str:
        """The rest of the prefix, then what the grammar forces; empty if that rest begins inside of a
        character."""
        left = self.left
        if not left:
            return super().forced_within(deadline)
        try:
            return left.decode() + super().forced_within(deadline)
        except UnicodeDecodeError:
            return ""

    def limit_tokens(self, tokens_left: int | None, *, with_stop_token: bool = False) -> bool | None:
        """As `GrammarMatcher.limit_tokens`.

        Raises:
            MatcherError: bytes of the prefix are left, and the limit is not None.
        """
        left = self.left
        if not left:
            return super().limit_tokens(tokens_left, with_stop_token=with_stop_token)
        if tokens_left is not None:
            raise MatcherError(f"a limit may be set when the prefix is spelled, but {left!r} is left of it")
        return None  # there is no limit; replacing the follower would end the prefix


def _readable(matcher: GrammarMatcher, texts: list[bytes]) -> list[bool]:
    """For each text, find whether the grammar reads it from its start.

    Args:
        matcher: a new matcher, which reads the texts.
        texts: in byte order.

    Raises:
        BudgetExceeded: all of them together take longer than a mask may.
    """
    began, most = perf_counter(), matcher.compiled_grammar.mask_seconds
    found = [False] * len(texts)
    read = b""  # the text that the matcher has read, one byte per step
    at = 0
    while at < len(texts):
        text = texts[at]
        common = 0
        while common < min(len(text), len(read)) and text[common] == read[common]:
            common += 1
        matcher.rollback(len(read) - common)
        read = text[:common]
        while len(read) < len(text):
            try:
                if not matcher.accept_string(text[len(read) : len(read) + 1]):
                    break
            except TooSlow:
                check_time(began, most)  # the byte is read for a mask, and the error says so
                raise
            read = text[: len(read) + 1]
            check_time(began, most)
        if len(read) == len(text):
            found[at] = True
            at += 1
            continue
        # skip all other texts that begin with the same bytes, up to the refused one
        refused = text[: len(read) + 1]
        at += 1
        while at < len(texts) and texts[at].startswith(refused):
            at += 1
    return found
