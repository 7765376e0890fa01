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
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from equivalence import ArgumentError, MatcherError, forks
from equivalence.arguments import flag, integer, integer_from
from hybrid.api.bitmask import Rows, row_number
from hybrid.api.calls import count_masks
from hybrid.api.draft_tree import traverse
from hybrid.api.matcher import GrammarMatcher
from hybrid.compiled import CompiledGrammar
from hybrid.completion.completion import Completion
from hybrid.healing.token_prefixes import prefixes_of
from hybrid.values.arguments import encoded
from hybrid.values.mask_time import check_time

MOST_PREFIX = 4096
"""Most bytes of a prefix."""

MOST_KEPT = 64
"""Most masks that are cached for each grammar."""

_lock = forks.registered(threading.Lock(), forks.Order.BRIEF)
_kept: weakref.WeakKeyDictionary[CompiledGrammar, dict[Any, NDArray[np.uint32]]] = weakref.WeakKeyDictionary()


class HealingMatcher:
    """Follows one sequence that begins with given bytes. The methods are those of `GrammarMatcher`, but
    it has no `limit_tokens`, `tokens_left`, `limit_error`, `explain`, `explain_refusal`, `get_captures` and
    `max_rollback_tokens`, and batches do not take it. Once the prefix is spelled, `inner` has all of them.

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
        begin = partial(
            GrammarMatcher, compiled_grammar, terminate_without_stop_token=terminate_without_stop_token
        )
        self._inner = begin(override_stop_tokens=override_stop_tokens)
        # the ids may have been an iterator
        self._new_inner = partial(begin, override_stop_tokens=self._inner.stop_token_ids or None)
        self._prefix = text
        self._size = compiled_grammar.vocabulary.size
        self._tokens = compiled_grammar.vocabulary.tokens
        # how many bytes of the prefix were read after each of its steps
        self._spelled: tuple[int, ...] = ()
        self._crossed = False  # whether the last of these steps also read a text of the grammar

    @property
    def compiled_grammar(self) -> CompiledGrammar:
        """The grammar that this matcher follows after the prefix."""
        return self._inner.compiled_grammar

    @property
    def stop_token_ids(self) -> list[int]:
        """The ids that end this sequence."""
        return self._inner.stop_token_ids

    @property
    def left(self) -> bytes:
        """The bytes of the prefix that are not yet spelled."""
        return self._prefix[self._spelled[-1] if self._spelled else 0 :]

    @property
    def inner(self) -> GrammarMatcher | None:
        """The grammar's own matcher if the prefix is spelled; else None."""
        return None if self.left else self._inner

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0, *, debug_print: bool = False) -> bool:
        """As `GrammarMatcher.fill_next_token_bitmask`."""
        if not self.left:
            return self._inner.fill_next_token_bitmask(bitmask, index, debug_print=debug_print)
        count_masks(1)
        return self._fill(self._rows_of(bitmask).row(row_number(index)))

    def _rows_of(self, bitmask: Any) -> Rows:
        """Check a bitmask, and return its rows."""
        return self._inner._rows_of(bitmask)

    def _fill(self, row: NDArray[np.uint32]) -> bool:
        """Overwrite a row of words with the mask. Return whether it forbids anything."""
        left = self.left
        if not left:
            return self._inner._fill(row)
        row[:] = self._words(left)
        return True

    def _words(self, left: bytes) -> NDArray[np.uint32]:
        """Return the mask if these bytes of the prefix are left, uint32; the result is cached."""
        compiled = self._inner.compiled_grammar
        key = (left, tuple(self._inner.stop_token_ids))
        with _lock:
            known = _kept.setdefault(compiled, {})
            words = known.get(key)
        if words is None:
            words = self._find_words(left)
            with _lock:
                while len(known) >= MOST_KEPT:
                    del known[next(iter(known))]
                known[key] = words
        return words

    def _find_words(self, left: bytes) -> NDArray[np.uint32]:
        beginnings = prefixes_of(self._inner.compiled_grammar.vocabulary)
        stops = frozenset(self._inner.stop_token_ids)
        longer = [token for token in beginnings.longer(left).tolist() if token not in stops]
        rests = [self._tokens[token][len(left) :] for token in longer]
        taken = [token for token, reads in zip(longer, _readable(self._inner, rests), strict=True) if reads]
        taken += [token for token in beginnings.within(left) if token not in stops]
        bits = np.zeros(-(-self._size // 32) * 32, np.uint8)
        bits[taken] = 1
        found: NDArray[np.uint32] = np.packbits(bits, bitorder="little").view(np.uint32)
        return found

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """As `GrammarMatcher.accept_token`."""
        left = self.left
        if not left:
            return self._inner.accept_token(token_id, debug_print=debug_print)
        token = integer(token_id, "token_id")
        if not 0 <= token < self._size or token in self._inner.stop_token_ids or not self._tokens[token]:
            return False
        return self._read(self._tokens[token], left)

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """As `GrammarMatcher.accept_string`. The prefix is read first; the text may end inside of it."""
        left = self.left
        if not left:
            return self._inner.accept_string(input_str, debug_print=debug_print)
        return self._read(encoded(input_str), left)

    def _read(self, text: bytes, left: bytes) -> bool:
        """Advance by a text while bytes of the prefix are left. Return whether it is allowed."""
        rest = text[len(left) :]
        if not text.startswith(left) and not left.startswith(text):
            return False
        inner = self._inner.fork() if rest else self._inner
        if rest and not inner.accept_string(rest):
            return False
        spelled = *self._spelled, len(self._prefix) - len(left) + min(len(text), len(left))
        crossed = bool(rest)
        self._inner, self._spelled, self._crossed = inner, spelled, crossed
        return True

    def rollback(self, num_tokens: int = 1) -> None:
        """As `GrammarMatcher.rollback`; steps inside of the prefix count."""
        steps = integer_from(0, num_tokens, "num_tokens")
        within = self._inner._follower.n_steps
        before = steps - (within - self._crossed)
        if before <= 0:
            self._inner.rollback(steps)
            return
        left = len(self._spelled) - before
        if left < 0:
            raise MatcherError(f"cannot roll back {steps} steps: only {steps + left} were made")
        inner, spelled = self._inner.fork(), self._spelled[:left]
        inner.rollback(within)
        self._inner, self._spelled, self._crossed = inner, spelled, False

    @property
    def _n_steps(self) -> int:
        """As `GrammarMatcher._n_steps`; steps inside of the prefix count."""
        return len(self._spelled) + self._inner._follower.n_steps - self._crossed

    def _go_back(self, made: int, before: HealingMatcher | None) -> None:
        """As `GrammarMatcher._go_back`."""
        steps, inner = self._n_steps - made, self._inner._follower
        if before is not None and inner.reads_again(min(steps, inner.n_steps)):
            self.__dict__.update(before.__dict__)
        else:
            self.rollback(steps)

    def reset(self) -> None:
        """Go back to the start, before the prefix."""
        self._inner, self._spelled, self._crossed = self._new_inner(), (), False

    def fork(self) -> HealingMatcher:
        """Return an independent matcher in the same state."""
        twin = HealingMatcher.__new__(HealingMatcher)
        twin.__dict__.update(self.__dict__)
        twin._inner = self._inner.fork()
        return twin

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ArgumentError("a matcher cannot be copied or pickled: matcher.fork() makes an independent one")

    @property
    def temperature(self) -> float | None:
        """As `GrammarMatcher.temperature`."""
        return self._inner.temperature

    def is_terminated(self) -> bool:
        """As `GrammarMatcher.is_terminated`; False until the prefix is spelled."""
        return not self.left and self._inner.is_terminated()

    def is_completed(self) -> bool:
        """As `GrammarMatcher.is_completed`; False until the prefix is spelled."""
        return not self.left and self._inner.is_completed()

    def shortest_completion(self) -> list[int] | None:
        """As `GrammarMatcher.shortest_completion`; it begins with the remaining bytes of the prefix."""
        left = self.left
        if not left:
            return self._inner.shortest_completion()
        return self._completion().shortest(b"", None, left)[0]

    def can_complete_within(self, tokens_left: int, *, brief: bool = False) -> bool | None:
        """As `GrammarMatcher.can_complete_within`; tokens that spell the prefix count."""
        left = self.left
        if not left:
            return self._inner.can_complete_within(tokens_left, brief=brief)
        most, brief = integer_from(0, tokens_left, "tokens_left"), flag(brief, "brief")
        return self._completion().can_complete(b"", None, most, brief, left)[0]

    def fill_limited_bitmask(self, bitmask: Any, tokens_left: int, index: int = 0) -> bool:
        """As `GrammarMatcher.fill_limited_bitmask`; tokens that spell the prefix count."""
        left = self.left
        if not left:
            return self._inner.fill_limited_bitmask(bitmask, tokens_left, index)
        most = integer_from(1, tokens_left, "tokens_left")
        row = self._rows_of(bitmask).row(row_number(index))
        words = self._words(left).copy()
        self._completion().restrict(b"", None, most, words, left)
        row[:] = words
        return True

    def _completion(self) -> Completion:
        return self.compiled_grammar.completions.of(self._inner._stops)

    def find_jump_forward_string(self) -> str:
        """Return the forced text: the rest of the prefix, then what the grammar forces at its start.

        It is empty if the rest of the prefix begins inside of a character.
        """
        left = self.left
        if not left:
            return self._inner.find_jump_forward_string()
        try:
            return left.decode() + self._inner.find_jump_forward_string()
        except UnicodeDecodeError:
            return ""

    traverse_draft_tree = traverse


def _readable(matcher: GrammarMatcher, texts: list[bytes]) -> list[bool]:
    """For each text, find whether the grammar reads it from its start.

    Args:
        matcher: a matcher before any text. Its state does not change.
        texts: in byte order.

    Raises:
        BudgetExceeded: all of them together take longer than a mask may.
    """
    began, most = perf_counter(), matcher.compiled_grammar.mask_seconds
    reader = matcher.fork()
    found = [False] * len(texts)
    read = b""  # the text that the reader has read, one byte per step
    at = 0
    while at < len(texts):
        text = texts[at]
        common = 0
        while common < min(len(text), len(read)) and text[common] == read[common]:
            common += 1
        reader.rollback(len(read) - common)
        read = text[:common]
        while len(read) < len(text) and reader.accept_string(text[len(read) : len(read) + 1]):
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
