# cython: language_level=3
# mypy: ignore-errors
"""The texts of tokens, as compiled walks read them.

What: `TokenTexts` has views of a trie, of the ids at its nodes, and of the bytes of all ids.
When: one for each vocabulary, and one for each grammar's representatives. A grammar's walks copy the views:
making those of the vocabulary anew took 1% of the time to a first mask, and Python's garbage collector
visited each of them.
Limits: it checks nothing; tries are checked where they are made or read.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.equivalence.arrays.records import of_array
from cython.cimports.equivalence.source_check import check_source

from equivalence.trie.nodes import TRIE_NODE, heights

check_source(__name__)


@cython.final
@cython.no_gc
@cython.cclass
class TokenTexts:
    """Views of a vocabulary's arrays; all are read-only.

    Args:
        nodes: the nodes of a trie of the vocabulary, or of some of its texts (`equivalence.trie.Trie.nodes`).
        longest: bytes of the longest text in the trie.
        flat: the bytes of all ids, and the bounds of each id's bytes.
        order: the vocabulary's `equivalence.runs.ByteOrder`; None if nobody asks for the ids of a group.

    Attributes:
        trie: the nodes, with a node's children side by side.
        nodes: the same as an array, int32[nodes, 8].
        height: for each node, the length in bytes of the longest path down from it.
        token_starts, tokens: the ids of each group (`equivalence.runs.ByteOrder`).
        data, offsets: the bytes of all ids, and the bounds of each id's bytes.
        longest: the argument of this name.
    """

    def __init__(
        self, nodes: Any, longest: cython.Py_ssize_t, flat: tuple[Any, Any], order: Any = None
    ) -> None:
        self.nodes = nodes
        self.trie = of_array(nodes, TRIE_NODE)
        self.height = heights(nodes)
        if order is not None:
            self.token_starts, self.tokens = order.token_starts, order.tokens
        self.data, self.offsets = flat
        self.longest = longest
