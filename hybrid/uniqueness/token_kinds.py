"""Find the tokens of a vocabulary that could repeat an item or a key after some text.

What: `Kinds` has the tokens that may end an item or a key, for each mode of a cursor.
When: once for each vocabulary.
Limits: more tokens are found than those that repeat something; a cursor then reads each of them.
"""

from __future__ import annotations

import re
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache, cached_property
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from equivalence import Vocabulary, forks
from equivalence.trie.nodes import ENDS
from hybrid.json_schema.uniqueness.marks import BYTES as MARKS
from hybrid.values.once import made_once

_ENDS_NOTHING = re.compile(rb'[ \t\n\r,:]*"[^"]*')
_OPENS_AND_ENDS = re.compile(rb"[\[{].*[,\]}]", re.DOTALL)
_REPEATS = re.compile(rb"\[.*,.*[,\]]", re.DOTALL)
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
        repeating: bool for each id: it may open an array and repeat an item of it, with a comma or bracket
            after that.
        escaped: bool for each id: it has a backslash.
        separating: bool for each id: it has a comma or a closing bracket.
        with_marks: the ids that have a byte that stands for a comma or a bracket in grammars.
        spelled: bool for each id: outside of strings it may be another spelling of a shorter text, or it
            begins with a comma.
        spacing: bool for each id: it is white space, perhaps behind the end of a string.
        ending_string: for each text before the end of a string, the ids that consist of it and that end.
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
        self.with_marks = np.flatnonzero(with_marks)
        n_closing = np.diff(np.append(0, np.cumsum(np.isin(data, [*b"]}"])))[offsets])
        self._n_closing = np.minimum(n_closing, 255).astype(np.uint8)
        self.ending = self.ending_scalar & holds_more
        self.opening = opens & ends
        self.repeating = self.opening & with_comma
        for number in numbers[self.opening].tolist():
            self.opening[number] = _OPENS_AND_ENDS.search(tokens[number]) is not None
            self.repeating[number] = _REPEATS.search(tokens[number]) is not None
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
        self._vocabulary = weakref.ref(vocabulary)  # its trie is made only if it is needed

    @cached_property
    def most_zeros(self) -> int:
        """The most zeros at the end of a token."""
        return max((len(text) - len(text.rstrip(b"0")) for text in self._tokens), default=0)

    def closing(self, least: int) -> NDArray[np.bool_]:
        """Find the ids with at least some number of closing brackets and braces, and those of `opening`: a
        bool for each id."""
        return (self._n_closing >= min(least, 255)) | self.opening

    def along(self, texts: list[bytes]) -> NDArray[np.int32]:
        """Return the ids with which some texts begin. The texts must be in order.

        The trie is read along all texts at once: what many texts share is read once.
        """
        vocabulary = self._vocabulary()
        assert vocabulary is not None, "followers have it"
        nodes, order = vocabulary.trie.nodes, vocabulary.byte_order
        found = [order.tokens[:0]]
        todo = [(0, 0, len(texts), 0)]  # a node, and the texts that lead to it with their first bytes
        while todo:
            node, i, end, depth = todo.pop()
            _, group, _, bits = nodes[node, :4].tolist()
            if bits >> ENDS & 1:
                found.append(order.tokens[order.token_starts[group] : order.token_starts[group + 1]])
            first, last = nodes[node : node + 2, 0].tolist()
            children = (nodes[first:last, 3] & 255).tolist()
            while i < end and len(texts[i]) == depth:
                i += 1
            while i < end and children:
                byte = texts[i][depth]
                after = bisect_right(texts, byte, i, end, key=itemgetter(depth))
                child = bisect_left(children, byte)
                if child < len(children) and children[child] == byte:
                    todo.append((first + child, i, after, depth + 1))
                i = after
        return np.concatenate(found)

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
