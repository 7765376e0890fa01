"""Forced text as tokens: those that the model's own tokenizer would write.

What: if the grammar allows only one continuation, `Forced` finds the token with which the model would most
likely begin it. The text before matters, because a tokenizer looks to the left. The text after matters, too:
forced text that is the beginning of a longer token may be written by that token.
When: by `hybrid.drafts.model`.
Limits: a tokenizer may do anything. Ids whose bytes are not those of the text are not used. If the text so
far is not divided as the tokenizer would divide it, the forced text is divided by itself. Without a
tokenizer, the longest token that fits is used; byte pair encodings do the same with most short words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from equivalence import Vocabulary
from hybrid.healing.token_prefixes import prefixes_of
from hybrid.values.arguments import whole_characters

Encode: TypeAlias = Callable[[str], Iterable[int]]
"""Text to ids, without ids that mark beginning and end."""

SURE, UNSURE = 0.95, 0.5
"""Shares of forced tokens before anything was counted. Where the text may be part of a longer token the model
often writes that one, as in ``": "`` before a string."""

MOST_KEPT = 4096
"""Answers kept; all are forgotten then."""

MOST_BYTES = 512
"""Of a text that is encoded: a draft has a few tokens."""


class Forced:
    """First tokens of forced texts.

    Args:
        vocabulary: the vocabulary.
        stops: the ids that end the sequence; they spell no text.
        encode: the model's tokenizer. None: use the longest token that fits.
    """

    def __init__(self, vocabulary: Vocabulary, stops: Iterable[int], encode: Encode | None) -> None:
        self._tokens, self._stops, self._encode = vocabulary.tokens, frozenset(stops), encode
        self._beginnings = prefixes_of(vocabulary)
        self._known: dict[tuple[bytes, bytes], tuple[int, float]] = {}

    def first_after(self, last: Iterable[int], text: bytes) -> tuple[int, float]:
        """Return what `first` returns after some tokens (below 0: no token). An empty text forces nothing."""
        if not text:
            return -1, 0.0
        return self.first(b"".join(self._tokens[token] for token in last if token >= 0), text)

    def first(self, before: bytes, text: bytes) -> tuple[int, float]:
        """Return the token with which forced text most likely begins, and its share; -1 and 0 if there is
        none.

        Args:
            before: the text of the last tokens.
            text: the forced text, not empty.
        """
        text = text[:MOST_BYTES]
        known = self._known.get((before, text))
        if known is None:
            token = self._written(before, text)
            known = token, 0.0 if token < 0 else UNSURE if len(self._beginnings.longer(text)) else SURE
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[before, text] = known
        return known

    def _written(self, before: bytes, text: bytes) -> int:
        for left in (before, b""):
            token = self._encoded(left, text)
            if token >= 0:
                return token
        return self._beginnings.longest(text, self._stops)

    def _encoded(self, left: bytes, text: bytes) -> int:
        """Return the token that the tokenizer writes after some bytes; -1 if no token begins there."""
        if self._encode is None:
            return -1
        try:
            ids = list(self._encode(whole_characters(left + text)))
        except UnicodeDecodeError:
            return -1
        at = 0
        for token in ids:
            if not 0 <= token < len(self._tokens) or token in self._stops:
                return -1
            read = self._tokens[token]
            if at == len(left):
                return token if read and text.startswith(read) else -1
            if (left + text)[at : at + len(read)] != read:
                return -1
            at += len(read)
        return -1
