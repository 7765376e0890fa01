"""Which tokens could repeat something: what is looked at once for a vocabulary.

What: `Kinds` has for each way to stand in a document the tokens that may end an item or a key there.
When: one for a vocabulary.
Limits: more tokens than those that do; each is read by a cursor then.
"""

from __future__ import annotations

import re
import threading
import weakref
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from equivalence import Vocabulary, forking
from hybrid.json_schema.marks import BYTES as MARKS

_ENDS_NOTHING = re.compile(rb'[ \t\n\r,:]*"[^"]*')
_OPENS_AND_ENDS = re.compile(rb"[\[{].*[,\]}]", re.DOTALL)
_ENDS_STRING = re.compile(rb'([^"\\]*)"[ \t\n\r,:]*')

_lock = forking.listed(threading.Lock(), forking.Order.SLOW)
_made: weakref.WeakKeyDictionary[Vocabulary, Kinds] = weakref.WeakKeyDictionary()


class Kinds:
    """Tokens by what they may end.

    Attributes:
        with_quote: bool of each id: it has a quotation mark.
        in_string: bool of each id: it has one, and is in no list of `ending_string`.
        ending: bool of each id: it may end a value outside of a string, or one that it begins itself.
        ending_scalar: bool of each id: it may end a number or a constant.
        opening: bool of each id: it may open a container and end an item of it.
        escaped: bool of each id: it has a backslash.
        first: uint8 of each id: its first byte; 0 where it has none.
        separating: bool of each id: it has a comma or a closing bracket.
        with_marks: the ids that have a byte which stands for a comma or bracket in grammars.
        spelled: bool of each id: outside of strings it may be another spelling of something shorter, or
            begin behind a comma.
        ending_string: the ids that end a string and nothing else, by the text before its end.
        longest: bytes of the longest text.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        tokens, numbers = vocabulary.tokens, np.arange(vocabulary.size)
        self._tokens = tokens
        self._alike: tuple[dict[int, bytes], dict[int, bytes]] = {}, {}
        data, offsets = vocabulary.flat
        lengths = np.diff(offsets)

        def count(letters: bytes) -> NDArray[np.int64]:
            """How many bytes of each token are among some."""
            table = np.zeros(256, np.int64)
            table[list(letters)] = 1
            sums = np.concatenate(([0], np.cumsum(table[data])))
            return sums[offsets[1:]] - sums[offsets[:-1]]

        self.with_quote = count(b'"') > 0
        self.ending_scalar = count(b'",]} \t\n\r') > 0
        self.escaped = count(b"\\") > 0
        self.spelled = count(b" \t\n\r\\.eE") > 0
        self.first = np.zeros(len(lengths), np.uint8)
        self.first[lengths > 0] = data[offsets[:-1][lengths > 0]]
        self.separating = count(b",]") > 0
        self.with_marks = np.flatnonzero(count(bytes(MARKS)) > 0)
        self.ending = self.ending_scalar & (count(b" \t\n\r,:") < lengths)
        self.opening = (count(b"[{") > 0) & (count(b",]}") > 0)
        for number in numbers[self.opening].tolist():
            self.opening[number] = _OPENS_AND_ENDS.search(tokens[number]) is not None
        for number in numbers[count(b",") > 0].tolist():
            self.spelled[number] |= tokens[number][:1] == b","
        self.ending_string: dict[bytes, list[int]] = {}
        self.in_string = self.with_quote.copy()
        for number in numbers[self.with_quote].tolist():
            if _ENDS_NOTHING.fullmatch(tokens[number]):
                self.ending[number] = False
            ends = _ENDS_STRING.fullmatch(tokens[number])
            if ends is not None:
                self.ending_string.setdefault(ends[1], []).append(number)
                self.in_string[number] = False
        self.longest = int(lengths.max(initial=0))

    @cached_property
    def by_text(self) -> dict[bytes, list[int]]:
        """The ids of each text of tokens."""
        found: dict[bytes, list[int]] = {}
        for number, text in enumerate(self._tokens):
            found.setdefault(text, []).append(number)
        return found

    def alike(self, number: int, is_within: bool) -> bytes:
        """What tokens have in common that read alike, but for white space.

        Args:
            number: an id.
            is_within: whether it is read within a string.
        """
        known = self._alike[is_within]
        found = known.get(number)
        if found is None:
            found = known[number] = (_within if is_within else _outside)(self._tokens[number])
        return found


def _outside(text: bytes) -> bytes:
    """A text that is read outside of strings, with as much white space at its ends as tells anything."""
    if b"\\" in text:
        return text
    begin = b" " if text[:1].strip() != text[:1] else b""
    end = b" " if text.strip() and text[-1:].strip() != text[-1:] else b""
    parts = text.split(b'"')
    parts[::2] = [b"".join(part.split()) for part in parts[::2]]
    return begin + b'"'.join(parts) + end


def _within(text: bytes) -> bytes:
    """The same of a text that begins in a string."""
    if b"\\" in text or b'"' not in text:
        return text
    begin, _, rest = text.partition(b'"')
    return begin + b'"' + _outside(rest)


def kinds_of(vocabulary: Vocabulary) -> Kinds:
    """The one of a vocabulary."""
    with _lock:
        found = _made.get(vocabulary)
        if found is None:
            found = _made[vocabulary] = Kinds(vocabulary)
        return found
