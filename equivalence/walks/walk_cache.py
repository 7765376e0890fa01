"""What single states and frames read of a vocabulary, cached for the next grammar over it.

What: for a list of integers that describes everything that a state or a frame can do, `WalkCache` stores
the tokens that are read completely on it, and the nodes of the trie at which the stack may leave it.
When: by `hybrid.classifier.vocabulary_walker`, for walks that turned out to be long; each `Vocabulary` has
one.
Limits: bounded by bytes. Nothing is written to a file: computing it again is faster than reading a file.

Each method is one look-up or one store in a dict, which the interpreter does atomically, so threads need no
lock. What one thread adds while another begins a new generation may be lost, and is then computed again.

Rejected: keeping the walks that compute token classes as well. For the classes of 118 JSON schemas this cache
cost as much as it saved (mean 6.1 to 6.4 ms of CPU time with it, 5.8 without), because most parts of a schema
call rules.
"""

from __future__ import annotations

from typing import Any

from equivalence.walks.read import Read
from equivalence.walks.unit_reads import UnitReads

Key = tuple[bytes, bytes]
"""What a state or a frame can do (`hybrid.classifier.canonical_form`), and the nodes from which it is
read."""

LIMIT_BYTES = 16 << 20
"""The default bound: about 300 long walks over 128,000 ids."""


FEW_NODES = 512
"""Nodes that a walk enters before it is looked up: 30 us. The walk of a JSON string enters 10,000, most
others fewer than 50."""


Cached = Read | UnitReads
"""What can be cached: a read, or data from which reads are made (`equivalence.walks.unit_reads`)."""


class WalkCache:
    """A cache of reads with two generations.

    An entry of the old generation that is found moves to the young one. When the young one reaches half of
    the bound, it becomes the old one.

    Args:
        row_bytes: bytes of a row of the vocabulary.
        limit_bytes: bound on all arrays and keys; 0 stores nothing.
        few_nodes: walks that enter no more nodes than this are neither looked up nor stored.

    Attributes:
        hits, misses: how many look-ups found something, and how many did not.
    """

    def __init__(self, row_bytes: int, limit_bytes: int = LIMIT_BYTES, few_nodes: int = FEW_NODES) -> None:
        self.limit_bytes = limit_bytes
        self.few_nodes = few_nodes
        self.hits = self.misses = 0
        self._row_bytes = row_bytes
        self._young: dict[Key, Cached] = {}
        self._old: dict[Key, Cached] = {}
        self._used = 0  # bytes of the young generation

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def find(self, key: Key) -> Any:
        """What is stored under a key; None if there is nothing."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.keep(key, found)
        self.hits += found is not None
        self.misses += found is None
        return found

    def keep(self, key: Key, read: Cached) -> None:
        """Store a read, within the bound."""
        size = sum(map(len, key)) + read.nbytes + self._row_bytes
        if 2 * size > self.limit_bytes:
            return
        if 2 * (self._used + size) > self.limit_bytes:
            self._old, self._young, self._used = self._young, {}, 0
        self._young[key] = read
        self._used += size
