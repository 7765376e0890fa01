"""The result of a walk over the vocabulary's trie.

What: a `Read` holds the strings that are read completely, and the nodes at which reading goes on below.
When: cached by `equivalence.walks.walk_cache`, used by `hybrid.classifier.vocabulary_walker`.
Limits: none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Read:
    """The result of a walk. Nothing in it changes except `row`, which is made when a mask first needs it.

    Attributes:
        ranges: int64[2 n], groups of the trie that are read completely: first, end, first, end ...
        nodes: int64, sorted: nodes at which the stack may leave the state or frame, whatever follows below
            it.
        row: uint32[words], the tokens of the ranges as bits.
    """

    __slots__ = ("nodes", "ranges", "row")

    def __init__(self, ranges: NDArray[np.int64], nodes: NDArray[np.int64]) -> None:
        self.ranges, self.nodes = ranges, nodes
        self.row: NDArray[np.uint32] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no string is read completely."""
        return not len(self.ranges)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the row."""
        return self.ranges.nbytes + self.nodes.nbytes
