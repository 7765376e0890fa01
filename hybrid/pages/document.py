"""Reading a document token by token: how many tokens are allowed at each place, and what is expected there.

What: `read_document` returns a `Document` of `Step`s. Each step refers to a `Spot`, the description of a
place; places with equal descriptions share one.
When: used by `hybrid.pages.facts`.
Limits: at most `MOST_STEPS` tokens, and `MOST_SPOTS` different descriptions. The text is cut into the longest
tokens that fit (`hybrid.testing.segmentation`), not into those of a model's tokenizer.
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
from hybrid.testing.mask_comparison import bits_of
from hybrid.testing.segmentation import tokenize_greedy

MOST_STEPS = 1000
"""Most tokens of a document that are read."""

MOST_SPOTS = 250
"""Most different descriptions of places; each takes about 2 KB of a page."""

MOST_LEFT = 600
"""Most characters that are shown from a refused byte on."""

LEVELS = 10
"""Number of shades, by the logarithm of the number of allowed tokens."""

LISTED = 24
"""Most expected things that a page lists for a place."""


KINDS = {
    "key": "key", "literal": "literal", "characters": "character", "pattern": "pattern",
    "terminal": "terminal", "bytes": "character",
}  # fmt: skip
"""For each kind of expected things, its heading."""


class Spot(NamedTuple):
    """The description of a place in a text.

    Attributes:
        explanation: the explanation of a matcher at this place.
        listed: some of the things that it expects.
        n_unlisted: how many more there are.
        allowed: the classes that the mask allows.
    """

    explanation: Explanation
    listed: tuple[Expected, ...]
    n_unlisted: int
    allowed: Allowed

    @property
    def groups(self) -> list[tuple[str, list[str]]]:
        """The listed things in words, grouped by kind."""
        found: dict[str, list[str]] = {}
        for one in self.listed:
            words = found.setdefault(KINDS[one.kind], [])
            if one.brief not in words:
                words.append(one.brief)
        return list(found.items())


class Step(NamedTuple):
    """A token.

    Attributes:
        text: the text that is shown for it.
        n_allowed: how many tokens were allowed at this place.
        level: shade by `n_allowed`, from 0 (hardly any) to `LEVELS` - 1 (all).
        is_forced: whether all of its text was forced.
        spot: number of the spot before it; -1: there is no description.
    """

    text: str
    n_allowed: int
    level: int
    is_forced: bool
    spot: int


@dataclass
class Document:
    """A text that was read.

    Attributes:
        steps: its tokens, up to the first refused one.
        spots: the descriptions of places.
        after: number of the spot after the last step; -1: there is no description.
        refusal: where it was refused, or where there was no time to check more; else None.
        left: the text from the refused byte on.
        n_bytes, n_forced: how many bytes were read, and how many of these were forced.
        n_cut: how many bytes are not shown because there are too many tokens. A refusal may be among them.
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
        """The median over the steps of the number of allowed tokens."""
        return int(np.median([step.n_allowed for step in self.steps])) if self.steps else 0


class _Spots:
    """The spots of a document, found by their content."""

    def __init__(self, document: Document, table: ClassTable, size: int) -> None:
        self._document, self._table = document, table
        self._mask = np.zeros((size + 31) // 32, np.int32)
        self._size = size
        self._known: dict[tuple[bytes, Explanation], int] = {}

    def at(self, matcher: GrammarMatcher) -> tuple[int, Explanation]:
        """Return the number of the spot at which a matcher stands, or -1; and its explanation."""
        told = matcher.explain()
        matcher.fill_next_token_bitmask(self._mask)
        key = self._mask.tobytes() if told.n_allowed < 4096 else b"", told
        number = self._known.get(key, -1)
        if number < 0 and len(self._known) < MOST_SPOTS:
            number = self._known[key] = len(self._document.spots)
            bits = bits_of(self._mask, self._size)
            n_unlisted = max(0, len(told.expected) - LISTED) + told.n_more
            spot = Spot(told, told.expected[:LISTED], n_unlisted, self._table.allowed(bits))
            self._document.spots.append(spot)
        return number, told


def read_document(compiled: CompiledGrammar, table: ClassTable, text: bytes, is_whole: bool) -> Document:
    """Read a text by a grammar.

    Args:
        compiled: the grammar.
        table: its classes.
        text: the text.
        is_whole: whether a text that ends too early is refused.

    Raises:
        ArgumentError: no tokens of the vocabulary spell the text.
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
            document.refusal = GrammarMatcher(compiled).explain_refusal(text, is_whole=is_whole)
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
    if refusal is None:  # a token with bytes that do not count as text, such as a stop token
        document.n_cut = len(text) - document.n_bytes
        return document
    if refusal.offset > document.n_bytes:
        number, told = spots.at(matcher)
        part = text[document.n_bytes : refusal.offset]
        is_taken = matcher.accept_string(part)
        assert is_taken, "it is before the refused byte"
        _add(document, part, told, False, number, vocabulary.size)
    document.after, _ = spots.at(matcher)
    document.refusal = refusal
    left = text[max(refusal.offset, document.n_bytes) :]  # the former is less if the time ran out
    document.left = visible(left[: 4 * MOST_LEFT])[:MOST_LEFT]
    return document


def _add(
    document: Document, spelled: bytes, told: Explanation, is_forced: bool, number: int, size: int
) -> None:
    level = min(LEVELS - 1, int(LEVELS * math.log(1 + told.n_allowed) / math.log(2 + size)))
    document.steps.append(Step(visible(spelled), told.n_allowed, level, is_forced, number))
    document.n_bytes += len(spelled)
    document.n_forced += len(spelled) if is_forced else 0


def visible(text: bytes) -> str:
    """Return a text as a page shows it: line breaks are kept, with a mark before each, and unprintable
    characters are escaped."""
    lines = text.decode("utf-8", "backslashreplace").replace("\t", "\u21e5   ").split("\n")
    return "\u21b5\n".join(shown(line, len(line) + 1) for line in lines)
