"""Walks that are kept for the next grammar over the same vocabulary.

What: `KeptWalks.walk_all` does what `equivalence._kernels.walk_all` does, but walks only the blocks that no
grammar before had. XGrammar's converters write strings, numbers, dates or any value the same way in each
schema; what a block can do is written as one list of integers, whatever the rules were called, and the walk
of a block with an equal list is taken from here (docs/theory.md, section 4; docs/caches.md).
When: by `equivalence.explore`, for the relation "acceptance"; one store belongs to one `Vocabulary`.
Limits: bounded by bytes. Safe to use from several threads: a lock is held where the store is read or written,
not while blocks are walked.

Two generations: walks are added to the young one, and a walk that is found in the old one moves to it. When
the young one is half of the bound, it becomes the old one, and what nobody asked for since is dropped.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.kept import _kernels

LIMIT_BYTES = 64 << 20
"""Bound on a store by default. The walks of 600 schemas take 37 MiB over 128,256 ids."""


class KeptWalks:
    """Results of walks over the trie of one vocabulary, by what the blocks can do."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        """An empty store.

        Args:
            limit_bytes: bound on the arrays kept; 0 keeps nothing (but 0.2 MiB of empty ones). It holds
                between explorations: while one looks up and adds its walks, they may be more.
        """
        self.limit_bytes = limit_bytes
        self.hits = 0
        self.misses = 0
        self.turns = 0
        self._lock = threading.Lock()
        self._young: Any = None
        self._old: Any = None

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays that are kept."""
        with self._lock:
            return _bytes(self._young) + _bytes(self._old)

    def walk_all(
        self,
        contexts: NDArray[np.int64],
        firsts: NDArray[np.uint8],
        trie: tuple[Any, ...],
        suffix_byte: NDArray[np.uint8],
        space: Any,
        net: Any,
        outcomes: Any,
        limits: Any,
    ) -> tuple[Any, ...]:
        """The same as `equivalence._kernels.walk_all`, the order of outcomes excepted.

        Args:
            contexts, firsts, trie, space, net, outcomes, limits: as there.
            suffix_byte: the first byte of each suffix of the trie.
        """
        (
            status, space, block_starts, user_starts, users, blocks, first_bytes, masks
        ) = _kernels.begin_walks(contexts, firsts, trie[0], space, net, limits)  # fmt: skip
        if status:
            return (status, space, outcomes, *[None] * 7)
        with self._lock:
            if self._young is None:
                self._young, self._old = _kernels.new_kept(), _kernels.new_kept()
            (
                status, self._young, self._old, outcomes, names, wide, places, old_ranges, old_events
            ) = _kernels.recall(
                self._young, self._old, blocks, first_bytes, masks, space, net, trie[3], suffix_byte,
                outcomes, limits,
            )  # fmt: skip
            turn = self.turns
        if status:
            return (status, space, outcomes, *[None] * 7)
        status, space, outcomes, own, apart, wider = _kernels.walk_missing(
            blocks, first_bytes, masks, wide, places, trie, space, net, outcomes, limits
        )
        if status and len(wider.blocks):
            # what other grammars want of these blocks was too much: only what this one wants
            wide = masks.copy()
            status, space, outcomes, own, apart, wider = _kernels.walk_missing(
                blocks, first_bytes, masks, wide, places, trie, space, net, outcomes, limits
            )
        if status:
            return (status, space, outcomes, *[None] * 7)
        n_missing = len(own.blocks) + len(wider.blocks)
        with self._lock:
            self.hits += len(blocks) - n_missing
            self.misses += n_missing
            if turn == self.turns:  # else the names are those of the old generation
                self._young = _kernels.keep(self._young, names, first_bytes, wide, own, outcomes)
                if len(wider.blocks):
                    self._young = _kernels.keep(self._young, names, first_bytes, wide, wider, apart)
                if 2 * _bytes(self._young) > self.limit_bytes:
                    self._old, self._young = self._young, _kernels.new_kept()
                    self.turns += 1
                if _bytes(self._young) + _bytes(self._old) > self.limit_bytes:
                    self._old = _kernels.new_kept()
        status, outcomes, *joined = _kernels.join(
            masks,
            places,
            old_ranges,
            old_events,
            outcomes,
            own,
            apart,
            wider,
            suffix_byte,
            limits,
            space.state,
        )
        return (status, space, outcomes, block_starts, user_starts, users, *joined)


def _bytes(kept: Any) -> int:
    """Bytes of the arrays of a generation."""
    if kept is None:
        return 0
    return sum(part.nbytes if isinstance(part, np.ndarray) else _bytes(part) for part in kept)
