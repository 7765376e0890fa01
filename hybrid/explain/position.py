"""What a matcher's grammar allows where it stands, in words.

What: `explain` asks the matcher for its mask, and the reading beside it (`hybrid.explain.words`) for names.
What may come next is the matcher's answer alone: words that it contradicts are dropped, and bytes that it
takes and no word covers are listed as they are. Where there are no words, literals are found by probing: a
byte, and what is forced behind it.
When: behind `GrammarMatcher.explain`.
Limits: `MOST_EXPECTED` things. Literals and keys hold to their last byte, sets of characters for some of
them; a pattern or a terminal is what the grammar has there, and may be bounded by more than its own text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from hybrid.explain.characters import spans
from hybrid.explain.explanation import ANY_CASE, Expected, Explanation
from hybrid.explain.found import Found
from hybrid.explain.pointer import pointer_of
from hybrid.explain.words import Words

MOST_EXPECTED = 64
"""Things that an explanation lists."""

MOST_PROBED = 24
"""Bytes behind which literals are looked for where there are no words."""

UNASKED = "what may follow, and how many tokens are allowed"

MOST_LITERAL = 200
"""Bytes of a literal that is held against the matcher, or found by probing."""


class Stands(Protocol):
    """What is asked of a matcher: `hybrid.GrammarMatcher` has it."""

    def fork(self) -> Any: ...
    def rollback(self, num_tokens: int = 1) -> None: ...
    def accept_string(self, input_str: str | bytes) -> bool: ...
    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0) -> bool: ...
    def forced_within(self, deadline: Deadline) -> str: ...
    def is_completed(self) -> bool: ...
    def is_terminated(self) -> bool: ...


def explain(
    matcher: Stands, words: Words, text: bytes, tokens: Sequence[bytes], singles: NDArray[np.int64],
    is_schema: bool, deadline: Deadline,
) -> Explanation:  # fmt: skip
    """What is allowed where a matcher stands, which stays as it is.

    Args:
        matcher: the matcher.
        words: of its grammar.
        text: what it has read.
        tokens: bytes of each id of the vocabulary.
        singles: of `hybrid.explain.words.Wording.singles`.
        is_schema: whether the texts are JSON.
        deadline: when the answer has to be there; the mask has a bound of its own.
    """
    size = len(tokens)
    pointer = pointer_of(text) if is_schema else None
    if matcher.is_terminated():
        return Explanation(size, 0, True, True, "", frozenset(), (), pointer=pointer)
    if deadline.is_over:
        return Explanation(
            size, 0, False, False, "", frozenset(), (), pointer=pointer, unsaid=(UNASKED,), cut_short=True
        )
    mask = np.zeros((size + 31) // 32, np.int32)
    matcher.fill_next_token_bitmask(mask)
    allowed = np.unpackbits(mask.view(np.uint8), bitorder="little")[:size]
    fork = matcher.fork()
    following = _next_bytes(fork, allowed, singles, deadline)
    with deadline.part(0.5) as part:  # words without end leave time for what is forced
        found = words.at(text, part)
        if found.expected:
            expected = _held(fork, found, following, part)
        else:
            expected = _probed(matcher, following, part)
        is_cut = found.cut_short or part.is_over
    forced = _forced(matcher, deadline)
    return Explanation(
        size, int(allowed.sum()), False, matcher.is_completed(), forced,
        following,
        tuple(expected[:MOST_EXPECTED]), max(0, len(expected) - MOST_EXPECTED), found.rules, pointer,
        (found.unsaid,) if found.unsaid else (), is_cut or deadline.is_over,
    )  # fmt: skip


def _next_bytes(
    fork: Stands, allowed: NDArray[np.uint8], singles: NDArray[np.int64], deadline: Deadline
) -> frozenset[int]:
    """The bytes that may come next: the mask's, of bytes that are tokens, and what is tried of the others."""
    found = set(np.flatnonzero((singles >= 0) & (allowed[singles] == 1)).tolist())
    for byte in np.flatnonzero(singles < 0).tolist():
        if deadline.is_over:
            break
        if fork.accept_string(bytes([byte])):
            fork.rollback(1)
            found.add(byte)
    return frozenset(found)


def _held(fork: Stands, found: Found, following: frozenset[int], deadline: Deadline) -> list[Expected]:
    """The words that the matcher does not contradict, and the bytes that none of them covers."""
    kept: list[Expected] = []
    covered: set[int] = set()
    is_open = False  # what goes on within a character covers more than is known here
    for one in found.expected:
        if deadline.is_over:
            return kept  # what is left is not known to be covered by no word
        rest = found.rest[one]
        if isinstance(rest, bytes):
            rest = rest[:MOST_LITERAL]
            if rest[0] in following and fork.accept_string(rest):
                fork.rollback(1)
                kept.append(one)
                covered |= set(_cases(rest[0]) if one.detail == ANY_CASE else rest[:1])
        elif rest is None or rest & following:
            kept.append(one)
            covered |= rest or set()
            is_open = is_open or rest is None
    left = following - covered
    if left and not is_open:
        kept.append(Expected("bytes", spans(left)))
    return kept


def _forced(matcher: Stands, deadline: Deadline) -> str:
    """The text that is forced; within a character there is no text that could be given."""
    try:
        return matcher.forced_within(deadline)
    except UnicodeDecodeError:
        return ""


def _cases(byte: int) -> bytes:
    """A byte as a letter of either case."""
    return bytes([byte]).lower() + bytes([byte]).upper()


def _probed(matcher: Stands, following: frozenset[int], deadline: Deadline) -> list[Expected]:
    """Literals found by trying: a byte, and the text that is forced behind it."""
    if len(following) > MOST_PROBED:
        return [Expected("bytes", spans(following))]
    found, rest = [], set()
    for byte in sorted(following):
        fork = matcher.fork()
        forced = ""
        if (
            byte < 0x80
            and not deadline.is_over
            and fork.accept_string(bytes([byte]))
            and not fork.is_terminated()
        ):
            forced = _forced(fork, deadline)[:MOST_LITERAL]
        if forced:
            found.append(Expected("literal", chr(byte) + forced))
        else:
            rest.add(byte)
    if rest:
        found.append(Expected("bytes", spans(rest)))
    return found
