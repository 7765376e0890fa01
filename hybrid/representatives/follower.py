"""The follower that runs XGrammar, for the strategies "representatives" and "engine".

What: on "representatives", XGrammar decides a mask for the classes, and the gather expands it. A token is
accepted by giving XGrammar its own bytes, because tokens of one class have equal masks but may lead to
different states (docs/theory.md). The follower has its own set of stop tokens, outside of all classes.
When: made by `hybrid.api.matcher.follower_of`, one for each sequence. Different followers may be used in
different threads.
Limits: masks and steps are computed by XGrammar, which cannot be interrupted. With `Budget.mask_seconds`,
those of grammars that may be very ambiguous are given up (`bounded_calls`). Then the follower has a new
matcher, which reads the text again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import methodcaller
from time import perf_counter
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
import xgrammar
from numpy.typing import NDArray

from equivalence import MatcherError
from equivalence.deadline import Deadline
from hybrid.representatives.bounded_calls import within
from hybrid.values.arguments import whole_characters
from hybrid.values.follower import ENDED, Compiled, Follower, check_made, joined
from hybrid.values.gather import Gather
from hybrid.values.mask_time import A_TEXT, A_TOKEN, TooSlow, check_time, seconds_of_text

Answer = TypeVar("Answer")
Reading = Callable[[xgrammar.GrammarMatcher], bool]


class EngineFollower(Follower):
    """Follows one sequence with XGrammar.

    Args:
        compiled: a compiled grammar with an engine.
        stops: ids that end the sequence.
        ends_without_stop: whether the sequence ends as soon as it can.
        temperature: as in XGrammar, for grammars that set temperatures.

    Attributes:
        ends_without_stop: the argument of this name.
    """

    def __init__(
        self, compiled: Compiled, stops: tuple[int, ...], ends_without_stop: bool, temperature: float | None
    ) -> None:
        options: dict[str, Any] = {"terminate_without_stop_token": ends_without_stop}
        if temperature is not None:
            options["default_temperature"] = temperature
        if compiled.gather is None and stops != compiled.vocabulary.stop_token_ids:
            options["override_stop_tokens"] = list(stops)
        assert compiled.engine is not None
        self._new_matcher = partial(xgrammar.GrammarMatcher, compiled.engine, **options)
        self._matcher: xgrammar.GrammarMatcher | None = self._new_matcher()
        self._compiled = compiled
        self.ends_without_stop = ends_without_stop
        self._read: list[int | bytes | None] = []  # None: a stop token
        # the rest depends only on the compiled grammar and the stop ids
        vocabulary = compiled.vocabulary
        self._tokens = vocabulary.tokens
        self.size = vocabulary.size
        # the bits of a row's last word that stand for ids
        self._last_bits = np.uint32((1 << ((self.size & 31) or 32)) - 1)
        self._stops, self._stop_set = stops, frozenset(stops)
        self._mask_seconds = compiled.mask_seconds
        self._is_bounded = compiled.mask_seconds is not None and compiled.may_be_slow
        self._gather = compiled.gather
        classes = compiled.classes
        # the vocabulary's ids, or the classes followed by missing prefixes and the stop token
        inner_size = compiled.engine.tokenizer_info.vocab_size
        self._write_to(torch.empty((1, (inner_size + 31) // 32), dtype=torch.int32, device="cpu"))
        # stop ids of the vocabulary without text that are not in `stops`: XGrammar reads them as empty text
        stopped = set(vocabulary.stop_token_ids) - self._stop_set
        self._void_words = [(t >> 5, np.uint32(1 << (t & 31))) for t in stopped if not self._tokens[t]]
        # those with text are ordinary text here, but XGrammar's tables were made for its own stop tokens and
        # do not have them
        self._revived = sorted(t for t in stopped if self._tokens[t]) if self._gather is None else []
        if self._gather is None or classes is None:
            return
        self._stop_class = compiled.engine_stop
        self._class_of_token = classes.class_of_token
        # if some bit is 0 in every mask, masks must always be applied
        classless_stops = sum(int(classes.class_of_token[t] < 0) for t in stops)
        self._always_applied = compiled.classless > classless_stops

    def _write_to(self, class_mask: torch.Tensor) -> None:
        """Let XGrammar write its masks to this row."""
        self._class_mask = class_mask
        self._class_words: NDArray[np.uint32] = class_mask.numpy()[0].view(np.uint32)

    @property
    def _inner(self) -> xgrammar.GrammarMatcher:
        """XGrammar's matcher. If a call of the last one was given up, a new one."""
        if self._matcher is None:
            self._write_to(torch.empty_like(self._class_mask))
            matcher = self._new_matcher()
            reads = [self._reading(read) for read in self._read]
            seconds = seconds_of_text(self._mask_seconds, self.text_read())
            assert seconds is not None
            taken, _ = within(seconds, "reading a text again", lambda: all(read(matcher) for read in reads))
            assert taken, "the text so far must be accepted again"
            self._matcher = matcher
        return self._matcher

    def _call(self, seconds: float | None, phase: str, call: Callable[[Any], Answer]) -> Answer:
        """Call XGrammar's matcher, and give up the call and the matcher after some seconds."""
        if not self._is_bounded or seconds is None:
            return call(self._inner)
        matcher = self._inner
        self._matcher = None
        answer, error = within(seconds, phase, partial(call, matcher))
        self._matcher = matcher
        if error is not None:
            raise error
        found: Answer = answer
        return found

    def fill(self, words: Any, debug_print: bool = False) -> bool:
        """See `Follower.fill`."""
        row: NDArray[np.uint32] = words
        began = perf_counter()
        needed = self._fill_inner(debug_print)
        if self._gather is None:
            check_time(began, self._mask_seconds)
            row[:] = self._class_words
            row[-1] &= self._last_bits  # XGrammar does not write the bits after the last id
            for word, bit in self._void_words:
                row[word] &= ~bit
            for token in self._revived:
                bit = np.uint32(1 << (token & 31))
                row[token >> 5] &= ~bit
                if self._inner.fork().accept_token(token):
                    row[token >> 5] |= bit
            if self._revived:
                return self._forbids(row)
            return needed or bool(self._void_words)
        check_time(began, self._mask_seconds)
        self._gather.expand(self._class_words, row, self._stops, self._can_stop)
        # XGrammar may also forbid the text of a stop token, or a missing prefix
        return self._always_applied or (needed and self._forbids(row))

    def fill_by_class(self, words: Any) -> Gather | None:
        """See `Follower.fill_by_class`."""
        gather = self._gather
        if gather is None or gather.n_classes // 32 >= len(words):
            return None
        began = perf_counter()
        self._fill_inner(False)
        check_time(began, self._mask_seconds)
        last, rest = gather.n_classes >> 5, gather.n_classes & 31
        words[:last] = self._class_words[:last]
        # the engine has its own bits after those of the classes
        behind = int(self._class_words[last]) & ((1 << rest) - 1)
        words[last] = behind | self._can_stop << rest
        return gather

    def _fill_inner(self, debug_print: bool) -> bool:
        """Let XGrammar fill `_class_words`. Return whether it says that they forbid anything."""
        self._inner  # noqa: B018 - a new one writes to a new row
        mask = self._class_mask
        try:
            if self._gather is None:
                # use our own row: XGrammar ignores strides, and may not write a mask in which all bits are
                # set
                mask.fill_(-1)
            return self._call(
                self._mask_seconds,
                "a mask",
                lambda matcher: bool(matcher.fill_next_token_bitmask(mask, 0, debug_print=debug_print)),
            )
        except RuntimeError as error:
            self._refuse_ended(error)

    @property
    def _can_stop(self) -> bool:
        """Whether XGrammar's mask for the classes allows the sequence to stop."""
        return bool(int(self._class_words[self._stop_class >> 5]) >> (self._stop_class & 31) & 1)

    def _refuse_ended(self, error: RuntimeError) -> NoReturn:
        """Raise XGrammar's error, as a `MatcherError` if the matcher has terminated."""
        if self._matcher is not None and self._matcher.is_terminated():
            raise MatcherError(ENDED) from error
        raise error

    def _forbids(self, row: NDArray[np.uint32]) -> bool:
        """Whether some bit of an expanded row is 0."""
        if len(row) > 1 and row[0] != 0xFFFFFFFF:  # usual, and quick to find
            return True
        return bool((row[:-1] != 0xFFFFFFFF).any()) or bool(~row[-1] & self._last_bits)

    def accept_token(self, token: int, debug_print: bool = False) -> bool:
        """See `Follower.accept_token`."""
        if token in self._stop_set:
            stop = token if self._gather is None else self._stop_class
            return self._advance(None, methodcaller("accept_token", stop, debug_print=debug_print))
        # a stop id of the vocabulary without text: XGrammar would read it as empty text
        if not self._tokens[token] if self._gather is None else self._class_of_token[token] < 0:
            return False
        return self._advance(token, self._reading(token, debug_print))

    def accept_string(self, text: bytes, debug_print: bool = False) -> bool:
        """See `Follower.accept_string`."""
        return self._advance(text, self._reading(text, debug_print))

    def _reading(self, read: int | bytes | None, debug_print: bool = False) -> Reading:
        """Return a function that lets a matcher of XGrammar read something."""
        if read is None:
            read = self._stops[0] if self._gather is None else self._stop_class
        elif isinstance(read, int) and self._gather is not None:
            read = self._tokens[read]
        method = "accept_string" if isinstance(read, bytes) else "accept_token"
        return methodcaller(method, read, debug_print=debug_print)

    def _advance(self, read: int | bytes | None, reading: Reading) -> bool:
        """Let XGrammar read something, and record it."""
        made = len(self._read)
        phase, seconds = A_TOKEN, self._mask_seconds
        if isinstance(read, bytes):
            phase, seconds = A_TEXT, seconds_of_text(seconds, read)
        try:
            if not self._call(seconds, phase, reading):
                return False
            self._read.append(read)
        except BaseException:  # Ctrl-C may have come after XGrammar had read it
            if self._matcher is not None and self._has_made(made + 1):
                self._matcher.rollback(1)
            del self._read[made:]
            raise
        return True

    def _has_made(self, steps: int) -> bool:
        """Whether XGrammar's matcher has made at least so many steps."""
        try:
            self._inner.fork().rollback(steps)
        except RuntimeError:
            return False
        return True

    def text_read(self) -> bytes:
        """See `Follower.text_read`."""
        return joined(self._read, self._tokens)

    def last_read(self, most: int) -> list[int]:
        """Return at most `most` of the last ids that were read, without stop tokens and only those after the
        last text."""
        found: list[int] = []
        for one in reversed(self._read):
            if one is None:
                continue
            if not isinstance(one, int) or len(found) == most:
                break
            found.append(one)
        return found[::-1]

    def rollback(self, steps: int) -> None:
        """See `Follower.rollback`."""
        check_made(self.n_steps, steps)
        made = len(self._read)
        try:
            if self._matcher is not None:
                self._matcher.rollback(steps)
            del self._read[made - steps :]
        except BaseException:  # as in `_advance`
            if self._matcher is not None and not self._has_made(made):
                del self._read[made - steps :]
            raise

    @property
    def n_steps(self) -> int:
        """See `Follower.n_steps`."""
        return len(self._read)

    def reads_again(self, steps: int) -> bool:
        """See `Follower.reads_again`."""
        return False

    def reset(self) -> None:
        """See `Follower.reset`."""
        try:
            self._reset()
        except BaseException:  # a second time changes nothing
            self._reset()
            raise

    def _reset(self) -> None:
        if self._matcher is not None:
            self._matcher.reset()
        self._read = []

    def fork(self) -> EngineFollower:
        """See `Follower.fork`."""
        twin = EngineFollower.__new__(EngineFollower)
        twin.__dict__.update(self.__dict__)
        twin._matcher = None if self._matcher is None else self._matcher.fork()
        twin._read = self._read[:]
        twin._write_to(self._class_mask.clone())
        return twin

    @property
    def temperature(self) -> float | None:
        """The sampling temperature that the grammar asks for here."""
        return self._inner.temperature

    def is_terminated(self) -> bool:
        """See `Follower.is_terminated`."""
        return bool(self._inner.is_terminated())

    def is_completed(self) -> bool:
        """See `Follower.is_completed`."""
        return bool(self._inner.is_completed())

    def find_jump_forward_string(self, deadline: Deadline) -> str:
        """See `Follower.find_jump_forward_string`."""
        return whole_characters(self.forced_bytes())

    def forced_bytes(self) -> bytes:
        """Return the bytes that must come next; none if XGrammar might not return."""
        if self._compiled.may_force_endless_text:
            return b""
        try:
            find = methodcaller("find_jump_forward_string")
            text: str = self._call(self._mask_seconds, "forced text", find)
            return text.encode()
        except TooSlow:
            return b""
        except UnicodeDecodeError as error:  # the text begins or ends inside of a character
            return bytes(error.object)
        except RuntimeError as error:
            self._refuse_ended(error)

    def get_captures(self, deduplicate: bool) -> list[tuple[str, bytes]]:
        """See `Follower.get_captures`."""
        return list(self._inner.get_captures(deduplicate=deduplicate))
