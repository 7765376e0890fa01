"""What single states and frames read of a vocabulary, kept for the next grammar over it.

What: `KeptReads` holds, for a list of integers that says all that a state or a frame can do, the tokens that
are read wholly on it, and the nodes of the trie at which it may be used up.
When: by `hybrid.classifier.walker`, for walks that turned out to be long; one belongs to a `Vocabulary`.
Limits: bounded by bytes. Nothing is written to a file: it is found again in less time than a file is read.

Each method is one look-up or one store in a dict, which the interpreter does at once: threads need no lock.
What one of them adds while another begins a new generation may be lost, and is found again.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from equivalence.walks.kept.units import UnitReads

Key = tuple[bytes, bytes]
"""What a state or a frame can do (`hybrid.classifier.canonical_form`), and the nodes that are read on it."""

LIMIT_BYTES = 16 << 20
"""Bound by default: some 300 long walks over 128,000 ids."""


FEW_NODES = 512
"""Nodes that a walk enters before it is looked for: 30 us. That of a JSON string enters 10,000, most others
fewer than 50."""


class Read:
    """What was read; nothing of it changes but `row`, which is there once a mask has needed it.

    Attributes:
        ranges: int64[2 n], groups of the trie that are read wholly: first, end, first, end ...
        nodes: int64, sorted: nodes at which the state or frame may be used up, whatever follows below it.
        row: uint32[words], the tokens of the ranges as bits.
    """

    __slots__ = ("nodes", "ranges", "row")

    def __init__(self, ranges: NDArray[np.int64], nodes: NDArray[np.int64]) -> None:
        self.ranges, self.nodes = ranges, nodes
        self.row: NDArray[np.uint32] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, the row left out."""
        return self.ranges.nbytes + self.nodes.nbytes


class Kept(Protocol):
    """What can be kept: a `Read`, or what reads are made of (`equivalence.walks.kept.units`)."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""


class KeptReads:
    """Reads by what was read on; two generations, as of `equivalence.walks.kept.walks`.

    Args:
        row_bytes: bytes of a row of the vocabulary.
        limit_bytes: bound on all arrays and keys; 0 keeps nothing.
        few_nodes: walks that enter no more are neither looked for nor kept.

    Attributes:
        hits, misses: how many were found, and not, of those that were looked for.
    """

    def __init__(self, row_bytes: int, limit_bytes: int = LIMIT_BYTES, few_nodes: int = FEW_NODES) -> None:
        self.limit_bytes = limit_bytes
        self.few_nodes = few_nodes
        self.hits = self.misses = 0
        self._row_bytes = row_bytes
        self._young: dict[Key, Kept] = {}
        self._old: dict[Key, Kept] = {}
        self._used = 0  # bytes of the young ones

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    @property
    def of_units(self) -> int:
        """How many are of units (`equivalence.walks.kept.units`)."""
        return sum(isinstance(one, UnitReads) for one in {**self._old, **self._young}.values())

    def find(self, key: Key) -> Any:
        """What was kept under a key; None: nothing is, or not any more."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.keep(key, found)
        self.hits += found is not None
        self.misses += found is None
        return found

    def keep(self, key: Key, read: Kept) -> None:
        """Keep what was read, within the bound."""
        size = sum(map(len, key)) + read.nbytes + self._row_bytes
        if 2 * size > self.limit_bytes:
            return
        if 2 * (self._used + size) > self.limit_bytes:
            self._old, self._young, self._used = self._young, {}, 0
        self._young[key] = read
        self._used += size
