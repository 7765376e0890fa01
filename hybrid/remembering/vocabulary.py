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
_BEGINS_STRING = re.compile(rb'[ \t\n\r,:]*"[^"]*')
_OPENS_AND_ENDS = re.compile(rb"[\[{].*[,\]}]", re.DOTALL)

_lock = forking.listed(threading.Lock(), forking.Order.SLOW)
_made: weakref.WeakKeyDictionary[Vocabulary, Kinds] = weakref.WeakKeyDictionary()


class Kinds:
    """Tokens by what they may end.

    Attributes:
        with_quote: bool of each id: it has a quotation mark.
        ending: bool of each id: it may end a value outside of a string, or one that it begins itself.
        ending_scalar: bool of each id: it may end a number or a constant.
        opening: bool of each id: it may open a container and end an item of it.
        by_text: an id of each text of tokens.
        longest: bytes of the longest text.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        tokens = vocabulary.tokens
        self.with_quote = _those(b'"' in text for text in tokens)
        self.ending_scalar = _those(_ENDS.search(text) is not None for text in tokens)
        self.ending = self.ending_scalar & ~_those(
            _BEGINS_STRING.fullmatch(text) is not None for text in tokens
        )
        self.opening = _those(_OPENS_AND_ENDS.search(text) is not None for text in tokens)
        self.by_text: dict[bytes, list[int]] = {}
        for number, text in enumerate(tokens):
            if text:
                self.by_text.setdefault(text, []).append(number)
        self.longest = max(map(len, tokens), default=0)


def _those(values: object) -> NDArray[np.bool_]:
    return np.fromiter(values, bool)  # type: ignore[call-overload]


def kinds_of(vocabulary: Vocabulary) -> Kinds:
    """The one of a vocabulary."""
    with _lock:
        found = _made.get(vocabulary)
        if found is None:
            found = _made[vocabulary] = Kinds(vocabulary)
        return found
