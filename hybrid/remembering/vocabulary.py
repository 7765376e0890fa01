"""Which tokens could repeat something: what is looked at once for a vocabulary.

What: `Kinds` has for each way to stand in a document the tokens that may end an item or a key there.
When: one for a vocabulary.
Limits: more tokens than those that do; each is read by a cursor then.
"""

from __future__ import annotations

import re
import threading
import weakref

import numpy as np
from numpy.typing import NDArray

from equivalence import Vocabulary, forking

_ENDS = re.compile(rb'[",\]} \t\n\r]')
_ENDS_NOTHING = re.compile(rb'[ \t\n\r,:]*(?:"[^"]*)?')
_OPENS_AND_ENDS = re.compile(rb"[\[{].*[,\]}]", re.DOTALL)
_ENDS_STRING = re.compile(rb'([^"\\]*)"[ \t\n\r,:]*')
_SPELLED = re.compile(rb"[ \t\n\r\\.eE]|^,")

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
        spelled: bool of each id: outside of strings it may be another spelling of something shorter, or
            begin behind a comma.
        by_text: the ids of each text of tokens.
        ending_string: the ids that end a string and nothing else, by the text before its end.
        longest: bytes of the longest text.
        alike: two lists, for outside of strings and within: a number of each id; those of equal numbers read
            alike, but for white space.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        tokens = vocabulary.tokens
        self.with_quote = _those(b'"' in text for text in tokens)
        self.ending_scalar = _those(_ENDS.search(text) is not None for text in tokens)
        self.ending = self.ending_scalar & ~_those(
            _ENDS_NOTHING.fullmatch(text) is not None for text in tokens
        )
        self.opening = _those(_OPENS_AND_ENDS.search(text) is not None for text in tokens)
        self.escaped = _those(b"\\" in text for text in tokens)
        self.spelled = _those(_SPELLED.search(text) is not None for text in tokens)
        self.by_text: dict[bytes, list[int]] = {}
        self.ending_string: dict[bytes, list[int]] = {}
        self.in_string = self.with_quote.copy()
        for number, text in enumerate(tokens):
            if text:
                self.by_text.setdefault(text, []).append(number)
            ends = _ENDS_STRING.fullmatch(text)
            if ends is not None:
                self.ending_string.setdefault(ends[1], []).append(number)
                self.in_string[number] = False
        self.longest = max(map(len, tokens), default=0)
        numbers: dict[bytes, int] = {}
        self.alike = tuple(
            [numbers.setdefault(without(text), len(numbers)) for text in tokens]
            for without in (_outside, _within)
        )


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


def _those(values: object) -> NDArray[np.bool_]:
    return np.fromiter(values, bool)  # type: ignore[call-overload]


def kinds_of(vocabulary: Vocabulary) -> Kinds:
    """The one of a vocabulary."""
    with _lock:
        found = _made.get(vocabulary)
        if found is None:
            found = _made[vocabulary] = Kinds(vocabulary)
        return found
