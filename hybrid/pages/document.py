"""A document read token by token: how much of the vocabulary is allowed at each, and what is expected there.

What: `read_document` gives `Step`s, which refer to `Spot`s: equal ones, of which a text has many, are held
once.
When: for `hybrid.pages.facts`.
Limits: `MOST_STEPS` tokens, of which the first `MOST_SPOTS` different places are told in full. Tokens are the
longest that fit (`hybrid.testing.segmentation`), not those of a model's tokenizer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from equivalence import ArgumentError
from hybrid.api.matcher import GrammarMatcher
from hybrid.compiled import CompiledGrammar
from hybrid.explain import Expected, Explanation, Refusal
from hybrid.explain.characters import shown
from hybrid.pages.classes import Allowed, ClassTable
from hybrid.testing.segmentation import tokenize_greedy

MOST_STEPS = 1000
"""Tokens of a document."""

MOST_SPOTS = 250
"""Places that are told in full; about 2 KB of a page each."""

MOST_LEFT = 600
"""Characters behind a refused byte that are shown."""

LEVELS = 10
"""Shades, by the logarithm of the number of allowed tokens."""

LISTED = 24
"""Things that are expected at a place that a page lists."""


KINDS = {
    "key": "key", "literal": "literal", "characters": "character", "pattern": "pattern",
    "terminal": "terminal", "bytes": "character",
}  # fmt: skip
"""Headings of what is expected."""


class Spot(NamedTuple):
    """What is told of a place.

    Attributes:
        explanation: of its matcher.
        listed: some of what it expects.
        n_unlisted: how many more there are.
        allowed: its mask, by classes.
    """

    explanation: Explanation
    listed: tuple[Expected, ...]
    n_unlisted: int
    allowed: Allowed

    @property
    def groups(self) -> list[tuple[str, list[str]]]:
        """What is listed, in words, by kind."""
        found: dict[str, list[str]] = {}
        for one in self.listed:
            words = found.setdefault(KINDS[one.kind], [])
            if one.brief not in words:
                words.append(one.brief)
        return list(found.items())


class Step(NamedTuple):
    """A token.

    Attributes:
        text: what is shown of it.
        n_allowed: tokens that were allowed in its place.
        level: from 0, hardly any, to `LEVELS` - 1, all.
        is_forced: whether all of its text was forced.
        spot: number of the spot before it; -1: not told.
    """

    text: str
    n_allowed: int
    level: int
    is_forced: bool
    spot: int


@dataclass
class Document:
    """A text, read.

    Attributes:
        steps: its tokens, as far as they were taken.
        spots: their places.
        after: number of the spot behind the last step; -1: not told.
        refusal: where it was refused; None: it was read, or cut.
        left: text behind the refused byte.
        n_bytes, n_forced: bytes read, and how many of these were forced.
        n_cut: bytes that were not looked at, as there are too many.
    """

    steps: list[Step] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)
    after: int = -1
    refusal: Refusal | None = None
    left: str = ""
    n_bytes: int = 0
    n_forced: int = 0
    n_cut: int = 0

    @property
    def median_allowed(self) -> int:
        """Tokens allowed, at the median of the steps."""
        return int(np.median([step.n_allowed for step in self.steps])) if self.steps else 0


class _Spots:
    """Spots by what they tell."""

    def __init__(self, document: Document, table: ClassTable, size: int) -> None:
        self._document, self._table = document, table
        self._mask = np.zeros((size + 31) // 32, np.int32)
        self._size = size
        self._known: dict[tuple[bytes, Explanation], int] = {}

    def at(self, matcher: GrammarMatcher) -> tuple[int, Explanation]:
        """The number of the spot where a matcher stands, or -1; and its explanation."""
        told = matcher.explain()
        matcher.fill_next_token_bitmask(self._mask)
        key = self._mask.tobytes() if told.n_allowed < 4096 else b"", told
        number = self._known.get(key, -1)
        if number < 0 and len(self._known) < MOST_SPOTS:
            number = self._known[key] = len(self._document.spots)
            bits = np.unpackbits(self._mask.view(np.uint8), bitorder="little")[: self._size]
            n_unlisted = max(0, len(told.expected) - LISTED) + told.n_more
            spot = Spot(told, told.expected[:LISTED], n_unlisted, self._table.allowed(bits))
            self._document.spots.append(spot)
        return number, told


def read_document(compiled: CompiledGrammar, table: ClassTable, text: bytes, is_whole: bool) -> Document:
    """Read a text by a grammar, which is refused where it has to be whole and is not.

    Raises:
        ArgumentError: no tokens of the vocabulary spell it.
    """
    vocabulary, document = compiled.vocabulary, Document()
    try:
        tokens = tokenize_greedy(vocabulary, text)
    except ValueError as error:
        raise ArgumentError(f"the text cannot be spelled: {error}") from error
    matcher, spots = GrammarMatcher(compiled), _Spots(document, table, vocabulary.size)
    forced = b""
    for place, token in enumerate(tokens):
        if place == MOST_STEPS:
            document.n_cut = len(text) - document.n_bytes
            return document
        number, told = spots.at(matcher)
        forced = max(forced, told.forced.encode(), key=len)
        spelled = vocabulary.tokens[token]
        if not matcher.accept_token(token):
            break
        is_forced = forced.startswith(spelled)
        forced = forced[len(spelled) :] if is_forced else b""
        _add(document, spelled, told, is_forced, number, vocabulary.size)
    else:
        document.after, _ = spots.at(matcher)
        if is_whole and not matcher.is_completed():
            document.refusal = GrammarMatcher(compiled).explain_refusal(text, is_whole=True)
        return document
    refusal = GrammarMatcher(compiled).explain_refusal(text)
    if refusal is None:  # a token that is no text here, such as a stop token's
        document.n_cut = len(text) - document.n_bytes
        return document
    if refusal.offset > document.n_bytes:
        number, told = spots.at(matcher)
        part = text[document.n_bytes : refusal.offset]
        assert matcher.accept_string(part), "it lies before the refused byte"
        _add(document, part, told, False, number, vocabulary.size)
    document.after, _ = spots.at(matcher)
    document.refusal = refusal
    document.left = visible(text[refusal.offset : refusal.offset + 4 * MOST_LEFT])[:MOST_LEFT]
    return document


def _add(
    document: Document, spelled: bytes, told: Explanation, is_forced: bool, number: int, size: int
) -> None:
    level = min(LEVELS - 1, int(LEVELS * math.log(1 + told.n_allowed) / math.log(2 + size)))
    document.steps.append(Step(visible(spelled), told.n_allowed, level, is_forced, number))
    document.n_bytes += len(spelled)
    document.n_forced += len(spelled) if is_forced else 0


def visible(text: bytes) -> str:
    """Text of a document as a page shows it: ends of lines are kept, with a mark before them, and what is not
    printed is written as an escape."""
    lines = text.decode("utf-8", "backslashreplace").replace("\t", "\u21e5   ").split("\n")
    return "\u21b5\n".join(shown(line, len(line) + 1) for line in lines)
