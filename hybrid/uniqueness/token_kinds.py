"""Find the tokens of a vocabulary that could repeat an item or a key after some text.

What: `Kinds` has the tokens that may end an item or a key, for each mode of a cursor.
When: once for each vocabulary.
Limits: more tokens are found than those that repeat something; a cursor then reads each of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from equivalence import Vocabulary, forks
from hybrid.json_schema.uniqueness.marks import BYTES as MARKS
from hybrid.values.once import made_once

_ENDS_NOTHING = re.compile(rb'[ \t\n\r,:]*"[^"]*')
_OPENS_AND_ENDS = re.compile(rb"[\[{].*[,\]}]", re.DOTALL)
_ENDS_STRING = re.compile(rb'([^"\\]*)"[ \t\n\r,:]*')

_NOT_BETWEEN = bytes(set(range(256)) - set(b" \t\n\r,:"))
"""All bytes but those that stand between values."""


@forks.with_unlocked_properties
class Kinds:
    """Tokens by what they may end.

    Attributes:
        with_quote: bool for each id: it has a quotation mark.
        in_string: bool for each id: it has a quotation mark, and is in no list of `ending_string`.
        ending: bool for each id: it may end a value outside of a string, or a value that it begins itself.
        ending_scalar: bool for each id: it may end a number or a constant.
        opening: bool for each id: it may open a container and end an item of it.
        escaped: bool for each id: it has a backslash.
        first: uint8 for each id: its first byte; 0 for tokens without text.
        separating: bool for each id: it has a comma or a closing bracket.
        with_marks: the ids that have a byte that stands for a comma or a bracket in grammars.
        spelled: bool for each id: outside of strings it may be another spelling of a shorter text, or it
            begins with a comma.
        spacing: bool for each id: it is white space, perhaps behind the end of a string.
        ending_string: for each text before the end of a string, the ids that consist of it and that end.
        longest: the length of the longest text, in bytes.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        tokens, numbers = vocabulary.tokens, np.arange(vocabulary.size)
        self._tokens = tokens
        self._alike = cache(_outside), cache(_within)
        data, offsets = vocabulary.flat
        lengths = np.diff(offsets)
        blanks, marks = b" \t\n\r", bytes(MARKS)
        sets = (
            b'"', b'",]}' + blanks, b"\\", b"\\.eE" + blanks, b",]",
            b",", b"[{", b",]}", _NOT_BETWEEN, marks,
        )  # fmt: skip
        (
            self.with_quote, self.ending_scalar, self.escaped, self.spelled, self.separating,
            with_comma, opens, ends, holds_more, with_marks,
        ) = _with_some_of(sets, data, offsets)  # fmt: skip
        self.first = np.zeros(len(lengths), np.uint8)
        self.first[lengths > 0] = data[offsets[:-1][lengths > 0]]
        self.with_marks = np.flatnonzero(with_marks)
        self.ending = self.ending_scalar & holds_more
        self.opening = opens & ends
        for number in numbers[self.opening].tolist():
            self.opening[number] = _OPENS_AND_ENDS.search(tokens[number]) is not None
        last = np.zeros(len(lengths), np.uint8)
        last[lengths > 0] = data[offsets[1:][lengths > 0] - 1]
        self.spacing = np.isin(last, [*blanks])
        for number in numbers[self.spacing].tolist():
            self.spacing[number] = tokens[number].rstrip(blanks)[-1:] in (b"", b'"')
        for number in numbers[with_comma].tolist():
            self.spelled[number] |= tokens[number][:1] == b","
        self.ending_string: dict[bytes, list[int]] = {}
        self.in_string = self.with_quote.copy()
        for number in numbers[self.with_quote].tolist():
            if _ENDS_NOTHING.fullmatch(tokens[number]):
                self.ending[number] = False
            string = _ENDS_STRING.fullmatch(tokens[number])
            if string is not None:
                self.ending_string.setdefault(string[1], []).append(number)
                self.in_string[number] = False
        self.longest = int(lengths.max(initial=0))

    @cached_property
    def most_zeros(self) -> int:
        """The most zeros at the end of a token."""
        return max((len(text) - len(text.rstrip(b"0")) for text in self._tokens), default=0)

    @cached_property
    def by_text(self) -> dict[bytes, list[int]]:
        """For each text, the ids that have it."""
        found: dict[bytes, list[int]] = {}
        for number, text in enumerate(self._tokens):
            found.setdefault(text, []).append(number)
        return found

    def alike(self, number: int, is_within: bool) -> bytes:
        """Return a key that is equal for tokens that differ only in white space that does not matter.

        Args:
            number: an id.
            is_within: whether the token is read within a string.
        """
        return self._alike[is_within](self._tokens[number])


def _with_some_of(
    sets: Sequence[bytes], data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> list[NDArray[np.bool_]]:
    """For each of some sets of bytes, find the tokens that have one of them.

    Args:
        sets: at most 16 sets.
        data: the bytes of all tokens.
        offsets: where the bytes of each token begin, and the end of the last one.
    """
    bits = np.zeros(256, np.uint16)
    for i, letters in enumerate(sets):
        bits[list(letters)] |= np.uint16(1 << i)
    has_text = np.diff(offsets) > 0
    found = np.zeros(len(has_text), np.uint16)
    if len(data):
        found[has_text] = np.bitwise_or.reduceat(bits[data], offsets[:-1][has_text])
    return [(found & (1 << i)) > 0 for i in range(len(sets))]


def _outside(text: bytes) -> bytes:
    """Return a text that is read outside of strings without its white space between parts.

    White space at either end becomes one space. A text with backslashes is unchanged.
    """
    if b"\\" in text:
        return text
    begin = b" " if text[:1].strip() != text[:1] else b""
    end = b" " if text.strip() and text[-1:].strip() != text[-1:] else b""
    parts = text.split(b'"')
    parts[::2] = [b"".join(part.split()) for part in parts[::2]]
    return begin + b'"'.join(parts) + end


def _within(text: bytes) -> bytes:
    """The same for a text that begins in a string."""
    if b"\\" in text or b'"' not in text:
        return text
    begin, _, rest = text.partition(b'"')
    return begin + b'"' + _outside(rest)


kinds_of = made_once(Kinds)
"""The kinds of a vocabulary."""
