"""Tokens that begin with some bytes, and tokens that these bytes begin with.

What: `TokenPrefixes` finds both with the trie of a vocabulary. In byte order, the tokens that begin with the
same bytes are one range.
When: one object for each vocabulary, shared by all users (`prefixes_of`).
Limits: ids without text are never found. Stop ids are found if they have text.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from equivalence import Vocabulary
from hybrid.values.once import made_once


class TokenPrefixes:
    """The tokens of a vocabulary, by their bytes.

    Args:
        vocabulary: the vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        trie, order = vocabulary.trie, vocabulary.byte_order
        self._byte, self._skip, self._group = trie.byte, trie.skip, trie.group
        self._token_starts, self._tokens = order.token_starts, order.tokens
        self._texts = vocabulary.tokens

    def _node(self, node: int, byte: int) -> int:
        """Return the child of a node for a byte, or -1."""
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
        """Return the ids of tokens that begin with a text and are longer, int32, in byte order."""
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
        """Return the ids of tokens with which a text begins, including those equal to the text."""
        found: list[int] = []
        node = 0
        for byte in text:
            node = self._node(node, byte)
            if node < 0:
                break
            begin, end = int(self._group[node]), int(self._group[node + 1])
            found += self._tokens[int(self._token_starts[begin]) : int(self._token_starts[end])].tolist()
        return found

    def longest(self, text: bytes, without: Collection[int] = ()) -> int:
        """Return the id of the longest token with which a text begins, except for some ids; -1: none."""
        within = [token for token in self.within(text) if token not in without]
        return max(within, key=lambda token: (len(self._texts[token]), -token), default=-1)


prefixes_of = made_once(TokenPrefixes)
"""The `TokenPrefixes` of a vocabulary."""
