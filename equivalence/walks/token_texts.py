# cython: language_level=3
# mypy: ignore-errors
"""The texts of a vocabulary's tokens, as compiled walks read them.

What: `TokenTexts` has views of the vocabulary's trie, of the ids at its nodes, and of their bytes.
When: one for each vocabulary. A grammar's walks copy the views: making them anew took 1% of the time to a
first mask, and Python's garbage collector visited each of them.
Limits: it checks nothing; tries are checked where they are made or read.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.equivalence.arrays.records import of_array
from cython.cimports.equivalence.source_check import check_source

from equivalence.trie.nodes import TRIE_NODE

check_source(__name__)


@cython.final
@cython.no_gc
@cython.cclass
class TokenTexts:
    """Views of a vocabulary's arrays; all are read-only.

    Args:
        trie: the vocabulary's `equivalence.trie.Trie`.
        order: its `equivalence.runs.ByteOrder`.
        flat: the bytes of all ids, and the bounds of each id's bytes.

    Attributes:
        trie: the nodes, with a node's children side by side (`equivalence.trie.Trie.nodes`).
        nodes: the same as an array, int32[nodes, 8].
        height: as in `equivalence.trie.Trie`.
        token_starts, tokens: the ids of each group (`equivalence.runs.ByteOrder`).
        data, offsets: the bytes of all ids, and the bounds of each id's bytes.
        longest: bytes of the longest id.
    """

    def __init__(self, trie: Any, order: Any, flat: tuple[Any, Any]) -> None:
        self.nodes = trie.nodes
        self.trie = of_array(trie.nodes, TRIE_NODE)
        self.height = trie.height
        self.token_starts, self.tokens = order.token_starts, order.tokens
        self.data, self.offsets = flat
        self.longest = trie.longest
