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
from equivalence.trie.nodes import ENDS
from hybrid.values.once import made_once


class TokenPrefixes:
    """The tokens of a vocabulary, by their bytes.

    Args:
        vocabulary: the vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        order = vocabulary.byte_order
        self._nodes = vocabulary.trie.nodes
        self._token_starts, self._tokens = order.token_starts, order.tokens
        self._texts = vocabulary.tokens

    def _child(self, node: int, byte: int) -> int:
        """Return the child of a node for a byte, or -1."""
        first, end = self._nodes[node : node + 2, 0].tolist()
        child = first + int(np.searchsorted(self._nodes[first:end, 3] & 255, byte))
        return child if child < end and self._nodes[child, 3] & 255 == byte else -1

    def _groups(self, node: int) -> tuple[int, int, int]:
        """Return the bounds of the groups that end at a node, and the end of those below it."""
        _, begin, end, bits = self._nodes[node, :4].tolist()
        return begin, begin + (bits >> ENDS & 1), end

    def longer(self, text: bytes) -> NDArray[np.int32]:
        """Return the ids of tokens that begin with a text and are longer, int32, in byte order."""
        node = 0
        for byte in text:
            node = self._child(node, byte)
            if node < 0:
                return self._tokens[:0]
        _, begin, end = self._groups(node)
        return self._tokens[self._token_starts[begin] : self._token_starts[end]]

    def within(self, text: bytes) -> list[int]:
        """Return the ids of tokens with which a text begins, including those equal to the text."""
        found: list[int] = []
        node = 0
        for byte in text:
            node = self._child(node, byte)
            if node < 0:
                break
            begin, end, _ = self._groups(node)
            found += self._tokens[self._token_starts[begin] : self._token_starts[end]].tolist()
        return found

    def longest(self, text: bytes, without: Collection[int] = ()) -> int:
        """Return the id of the longest token with which a text begins, except for some ids; -1: none."""
        within = [token for token in self.within(text) if token not in without]
        return max(within, key=lambda token: (len(self._texts[token]), -token), default=-1)


prefixes_of = made_once(TokenPrefixes)
"""The `TokenPrefixes` of a vocabulary."""
