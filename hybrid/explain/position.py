"""Explain what a grammar allows where a matcher is.

What: `explain` gets the mask from the matcher, and words from a reading of the same text
(`hybrid.explain.explainer`). The matcher alone decides what may come next: words that it contradicts are
dropped, and allowed bytes that no word covers are listed as bytes. If there are no words, literals are found
by probing: try a byte, and see what must follow it.
When: used by `GrammarMatcher.explain`.
Limits: at most `MOST_EXPECTED` things are listed. A literal or a key is allowed to its last byte; of a set,
at least one character is allowed. A pattern or a terminal is what the grammar has at this place; the grammar
may restrict it further.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from hybrid.explain.characters import spans
from hybrid.explain.explainer import TextExplainer
from hybrid.explain.explanation import ANY_CASE, Expected, Explanation, Located

JSON_SPACE, CONTROLS = frozenset(b"\t\n\r "), frozenset(range(32))

MOST_EXPECTED = 64
"""Most things that an explanation lists."""

MOST_PROBED = 24
"""Most bytes that are probed for literals if there are no words."""

UNASKED = "there was no time to find out what may come next and how many tokens are allowed"

MOST_LITERAL = 200
"""Most bytes of a literal that the matcher checks, or that probing finds."""

_PARTS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[{}\[\],:]', re.DOTALL)


Matcher = Any
"""A `hybrid.GrammarMatcher`; its module imports this one."""


def explain(matcher: Matcher, words: TextExplainer, deadline: Deadline) -> Explanation:
    """Explain what is allowed where a matcher is. The matcher's state does not change.

    Args:
        matcher: the matcher.
        words: finds words for its text.
        deadline: the deadline of the answer; the mask has its own time limit.
    """
    compiled, text = matcher.compiled_grammar, matcher._follower.text_read()
    tokens = compiled.vocabulary.tokens
    singles = compiled.explainer.singles(tokens, matcher._stops)
    if _may_read_ids(matcher):
        singles = np.full(256, -1, np.int64)  # a token may be allowed although its byte is not
    size = len(tokens)
    pointer = None if compiled.schema is None else pointer_of(text)
    if matcher.is_terminated():
        return Explanation(size, 0, True, True, "", frozenset(), (), pointer=pointer)
    if deadline.is_over:
        return Explanation(
            size, 0, False, False, "", frozenset(), (), pointer=pointer, omitted=(UNASKED,), cut_short=True
        )
    mask = np.zeros((size + 31) // 32, np.int32)
    matcher._fill(mask.view(np.uint32))  # which metrics do not count
    allowed = np.unpackbits(mask.view(np.uint8), bitorder="little")[:size]
    fork = matcher.fork()
    following = _next_bytes(fork, allowed, singles, deadline)
    part = deadline.part(0.5)  # leave time to find the forced text
    # names are of the grammar's text, which has not begun if a prefix must be spelled
    found = Located([], {}) if matcher._unspelled else words.at(text, part)
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
        (found.omitted,) if found.omitted else (), is_cut or deadline.is_over,
    )  # fmt: skip


def _may_read_ids(matcher: Matcher) -> bool:
    """Whether the grammar may name token ids, so that a mask does not say which texts are allowed."""
    compiled = matcher.compiled_grammar
    if compiled.classifier is not None:
        return not compiled.classifier.by_text
    return compiled.strategy == "engine" and matcher.tokens_left is None  # such grammars have no limits


def _next_bytes(
    fork: Matcher, allowed: NDArray[np.uint8], singles: NDArray[np.int64], deadline: Deadline
) -> frozenset[int]:
    """The bytes that may come next. The mask tells this for bytes that are tokens; the others are tried."""
    found = set(np.flatnonzero((singles >= 0) & (allowed[singles] == 1)).tolist())
    for byte in np.flatnonzero(singles < 0).tolist():
        if deadline.is_over:
            break
        if fork.accept_string(bytes([byte])):
            fork.rollback(1)
            found.add(byte)
    return frozenset(found)


def _held(fork: Matcher, found: Located, following: frozenset[int], deadline: Deadline) -> list[Expected]:
    """The words that the matcher confirms, and the allowed bytes that none of them covers."""
    kept: list[Expected] = []
    covered: set[int] = set()
    is_open = False  # whether a character is incomplete: what it covers is unknown
    for one in found.expected:
        if deadline.is_over:
            return kept  # the remaining bytes may be covered by words that were not checked
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
        kept += _in_words(left)
    return kept


def _forced(matcher: Matcher, deadline: Deadline) -> str:
    """The text that must come next; empty inside of a character."""
    try:
        return str(matcher.forced_within(deadline))
    except UnicodeDecodeError:
        return ""


def _cases(byte: int) -> bytes:
    """A byte in lower and upper case."""
    return bytes([byte]).lower() + bytes([byte]).upper()


def _probed(matcher: Matcher, following: frozenset[int], deadline: Deadline) -> list[Expected]:
    """Find literals by probing: try each byte, and see what must follow it."""
    if len(following) > MOST_PROBED:
        return _in_words(following)
    found, rest = [], set()
    for byte in sorted(following):
        forced = ""
        if byte < 0x80 and not deadline.is_over:
            fork = matcher.fork()
            if fork.accept_string(bytes([byte])) and not fork.is_terminated():
                forced = _forced(fork, deadline)[:MOST_LITERAL]
        if forced:
            found.append(Expected("literal", chr(byte) + forced))
        else:
            rest.add(byte)
    if rest:
        found += _in_words(frozenset(rest))
    return found


def _in_words(values: frozenset[int]) -> list[Expected]:
    """Name a set of bytes, with JSON's white space apart from the others."""
    others = values - JSON_SPACE
    is_apart = others and values >= JSON_SPACE and others.isdisjoint(CONTROLS)
    return [Expected("bytes", spans(part)) for part in ((others, JSON_SPACE) if is_apart else (values,))]


def pointer_of(text: bytes) -> str:
    """The JSON pointer (RFC 6901) of the value that contains the end of an unfinished JSON text.

    "" is the whole document. In an object, before a key is complete, it is the pointer of the object. For
    other texts the pointer is meaningless.
    """
    path: list[str | int | None] = []  # None: an object before its first key
    key = b""
    for match in _PARTS.finditer(text):
        part = match[0]
        if part == b"{":
            path.append(None)
        elif part == b"[":
            path.append(0)
        elif part in (b"}", b"]"):
            if path:
                path.pop()
        elif not path:
            continue
        elif part == b",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif part == b":":
            path[-1] = _unquoted(key)
        else:
            key = part
    words = [str(step) for step in path if step is not None]
    return "".join("/" + word.replace("~", "~0").replace("/", "~1") for word in words)


def _unquoted(key: bytes) -> str:
    text = key.decode("utf-8", "replace")
    try:
        return str(json.loads(text))
    except ValueError:
        return text.strip('"')
