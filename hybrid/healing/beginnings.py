"""Which tokens begin with some bytes, and which tokens these bytes begin with.

What: `Beginnings` finds both in a vocabulary's byte order: the tokens that begin with the same bytes are one
range of it.
When: one for a vocabulary, shared by all that asks (`beginnings_of`).
Limits: texts of tokens only; ids without text are in no answer. Stop ids are, where they are text.
"""

from __future__ import annotations

import threading
import weakref

import numpy as np
from numpy.typing import NDArray

from equivalence import Vocabulary, forking

_lock = forking.listed(threading.Lock(), forking.Order.SLOW)
_made: weakref.WeakKeyDictionary[Vocabulary, Beginnings] = weakref.WeakKeyDictionary()


class Beginnings:
    """The texts of a vocabulary in the order of bytes.

    Args:
        vocabulary: the vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        trie, order = vocabulary.trie, vocabulary.byte_order
        self._byte, self._skip, self._group = trie.byte, trie.skip, trie.group
        self._token_starts, self._tokens = order.token_starts, order.tokens
        self._texts = list(vocabulary.tokens)

    def _node(self, node: int, byte: int) -> int:
        """The node below one by a byte, -1 if there is none."""
        child, end = node + 1, int(self._skip[node])
        while child < end:
            found = int(self._byte[child])
            if found == byte:
                return child
            if found > byte:
                return -1
            child = int(self._skip[child])
        return -1

    def longer(self, text: bytes) -> NDArray[np.int32]:
        """int32: the ids whose texts are longer than a text and begin with it, in the order of bytes."""
        node = 0
        for byte in text:
            node = self._node(node, byte)
            if node < 0:
                return self._tokens[:0]
        first, end = int(self._group[node + 1]), int(self._group[int(self._skip[node])])
        if not text:
            first = 0
        return self._tokens[int(self._token_starts[first]) : int(self._token_starts[end])]

    def within(self, text: bytes) -> list[int]:
        """The ids whose texts a text begins with; the text itself is one of these."""
        found: list[int] = []
        node = 0
        for byte in text:
            node = self._node(node, byte)
            if node < 0:
                break
            begin, end = int(self._group[node]), int(self._group[node + 1])
            found += self._tokens[int(self._token_starts[begin]) : int(self._token_starts[end])].tolist()
        return found

    def longest(self, text: bytes) -> int:
        """The id of the longest token that a text begins with, -1 if none does."""
        within = self.within(text)
        return max(within, key=lambda token: (len(self._texts[token]), -token)) if within else -1


def beginnings_of(vocabulary: Vocabulary) -> Beginnings:
    """The one of a vocabulary."""
    with _lock:
        found = _made.get(vocabulary)
        if found is None:
            found = _made[vocabulary] = Beginnings(vocabulary)
        return found
