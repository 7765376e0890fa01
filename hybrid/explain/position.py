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

from hybrid.explain.characters import spans
from hybrid.explain.explanation import ANY_CASE, Expected, Explanation
from hybrid.explain.found import Found
from hybrid.explain.pointer import pointer_of
from hybrid.explain.words import Words

MOST_EXPECTED = 64
"""Things that an explanation lists."""

MOST_PROBED = 24
"""Bytes behind which literals are looked for where there are no words."""

MOST_LITERAL = 200
"""Bytes of a literal that is held against the matcher, or found by probing."""


class Stands(Protocol):
    """What is asked of a matcher: `hybrid.GrammarMatcher` has it."""

    def fork(self) -> Any: ...
    def rollback(self, num_tokens: int = 1) -> None: ...
    def accept_string(self, input_str: str | bytes) -> bool: ...
    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0) -> bool: ...
    def find_jump_forward_string(self) -> str: ...
    def is_completed(self) -> bool: ...
    def is_terminated(self) -> bool: ...


def explain(
    matcher: Stands, words: Words, text: bytes, tokens: Sequence[bytes], singles: NDArray[np.int64],
    is_schema: bool,
) -> Explanation:  # fmt: skip
    """What is allowed where a matcher stands, which stays as it is.

    Args:
        matcher: the matcher.
        words: of its grammar.
        text: what it has read.
        tokens: bytes of each id of the vocabulary.
        singles: of `hybrid.explain.words.Wording.singles`.
        is_schema: whether the texts are JSON.
    """
    size = len(tokens)
    pointer = pointer_of(text) if is_schema else None
    if matcher.is_terminated():
        return Explanation(size, 0, True, True, "", frozenset(), (), pointer=pointer)
    mask = np.zeros((size + 31) // 32, np.int32)
    matcher.fill_next_token_bitmask(mask)
    allowed = np.unpackbits(mask.view(np.uint8), bitorder="little")[:size]
    fork = matcher.fork()
    following = _next_bytes(fork, allowed, singles)
    found = words.at(text)
    expected = _held(fork, found, following) if found.expected else _probed(matcher, following)
    return Explanation(
        size, int(allowed.sum()), False, matcher.is_completed(), _forced(matcher),
        following,
        tuple(expected[:MOST_EXPECTED]), max(0, len(expected) - MOST_EXPECTED), found.rules, pointer,
        (found.unsaid,) if found.unsaid else (),
    )  # fmt: skip


def _next_bytes(fork: Stands, allowed: NDArray[np.uint8], singles: NDArray[np.int64]) -> frozenset[int]:
    """The bytes that may come next: the mask's, of bytes that are tokens, and what is tried of the others."""
    found = set(np.flatnonzero((singles >= 0) & (allowed[singles] == 1)).tolist())
    for byte in np.flatnonzero(singles < 0).tolist():
        if fork.accept_string(bytes([byte])):
            fork.rollback(1)
            found.add(byte)
    return frozenset(found)


def _held(fork: Stands, found: Found, following: frozenset[int]) -> list[Expected]:
    """The words that the matcher does not contradict, and the bytes that none of them covers."""
    kept: list[Expected] = []
    covered: set[int] = set()
    is_open = False  # what goes on within a character covers more than is known here
    for one in found.expected:
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


def _forced(matcher: Stands) -> str:
    """The text that is forced; within a character there is no text that could be given."""
    try:
        return matcher.find_jump_forward_string()
    except UnicodeDecodeError:
        return ""


def _cases(byte: int) -> bytes:
    """A byte as a letter of either case."""
    return bytes([byte]).lower() + bytes([byte]).upper()


def _probed(matcher: Stands, following: frozenset[int]) -> list[Expected]:
    """Literals found by trying: a byte, and the text that is forced behind it."""
    if len(following) > MOST_PROBED:
        return [Expected("bytes", spans(following))]
    found, rest = [], set()
    for byte in sorted(following):
        fork = matcher.fork()
        forced = ""
        if byte < 0x80 and fork.accept_string(bytes([byte])) and not fork.is_terminated():
            forced = _forced(fork)[:MOST_LITERAL]
        if forced:
            found.append(Expected("literal", chr(byte) + forced))
        else:
            rest.add(byte)
    if rest:
        found.append(Expected("bytes", spans(rest)))
    return found
