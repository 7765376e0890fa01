"""Walks that are kept for the next grammar over the same vocabulary.

What: `KeptWalks.walk_all` does what `equivalence._kernels.walk_all` does, but walks only the blocks that no
grammar before had. XGrammar's converters write strings, numbers, dates or any value the same way in each
schema; what a block can do is written as one list of integers, whatever the rules were called, and the walk
of a block with an equal list is taken from here (docs/theory.md, section 4; docs/caches.md).
When: by `equivalence.explore`, for the relation "acceptance"; one store belongs to one `Vocabulary`.
Limits: bounded by bytes. Safe to use from several threads: a lock is held where the store is read or written,
not while blocks are walked, nor while a file is.

Two generations: walks are added to the young one, and a walk that is found in the old one moves to it. When
the young one is half of the bound, it becomes the old one, and what nobody asked for since is dropped.

With a `Shelf`, walks outlive the process: they are read from its file before the first walk, and written by
`save`, or by a thread of their own whenever there are twice as many bytes as were written or read last. So
what is written by itself is together at most twice what is kept in the end, and no compilation waits for it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence import forking
from equivalence.kept import _kernels
from equivalence.kept.stored import Shelf, as_arrays, snapshot, used_bytes
from equivalence.store import Unusable

LIMIT_BYTES = 64 << 20
"""Bound on a store by default. The walks of 600 schemas take 37 MiB over 128,256 ids."""

FIRST_BYTES = 1 << 18
"""Walks are first written by themselves when they take so much, about those of ten schemas."""

logger = logging.getLogger(__name__)


class KeptWalks:
    """Results of walks over the trie of one vocabulary, by what the blocks can do."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES, shelf: Shelf | None = None) -> None:
        """A store that is empty, but for what the shelf's file has.

        Args:
            limit_bytes: bound on the arrays kept; 0 keeps nothing (but 0.2 MiB of empty ones). It holds
                between explorations: while one looks up and adds its walks, they may be more. A larger file
                is not read.
            shelf: where walks are read from, and written to by themselves; None keeps them in memory only.
        """
        self.limit_bytes = limit_bytes
        self.hits = 0
        self.misses = 0
        self.turns = 0
        self._lock = forking.listed(threading.Lock(), forking.Order.TABLES, self._forget)
        self._young: Any = None
        self._old: Any = None
        self._shelf = shelf
        # held while a file is written; taken before `_lock`
        self._saving = forking.listed(threading.Lock(), forking.Order.SLOW)
        self._digest: bytes | None = None  # of the shelf's file as it was read or written last
        self._saved_bytes = 0  # what was kept when the file was read or written last
        self._state: tuple[int, int] | None = None  # the store's own then, None if the file has another
        self._is_writing = False  # by a thread of its own
        self._warned = False
        forking.in_child(self._in_child)

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays that are kept."""
        with self._lock:
            return _bytes(self._young) + _bytes(self._old)

    @property
    def shelf(self) -> Shelf | None:
        """Where walks are read from and written to by themselves."""
        return self._shelf

    def load(self, shelf: Shelf | None = None) -> None:
        """Read the shelf's file now, if nothing is kept yet; what is kept already stays as it is.

        Args:
            shelf: the place from now on; None leaves it as it is.
        """
        if shelf is None and self._young is not None:
            return  # each compile call asks, and must not wait for those that look up or add walks
        with self._lock:
            if shelf is not None and (self._shelf is None or self._shelf.path != shelf.path):
                self._shelf, self._digest, self._saved_bytes, self._state = shelf, None, 0, None
                if self._young is not None and not _has_walks(self._young, self._old):
                    self._young = None
                    self.turns += 1  # a thread may hold names of these lists
            self._begin()

    def save(self, shelf: Shelf | None = None) -> bool:
        """Write what is kept, unless the file has it already, or has more walks from another process.

        Returns False where nothing was written; a file system that fails costs one warning.

        Args:
            shelf: where to; None is the store's own. Its folder is made if it is missing.
        """
        with self._saving:
            with self._lock:
                target = self._shelf if shelf is None else shelf
                own = self._shelf is not None and target is not None and target.path == self._shelf.path
                if target is None or self._young is None or not _has_walks(self._young, self._old):
                    return False
                state, known = (used_bytes(self._young), used_bytes(self._old)), self._digest if own else None
                if own and state == self._state:
                    return False
                young, old = snapshot(self._young), snapshot(self._old)
            try:
                target.folder.mkdir(parents=True, exist_ok=True)
                written = target.write(as_arrays(young, old), known)
            except OSError as error:
                self._warn("%s cannot be written (%s); walks are kept in memory", target.path.name, error)
                return False
            with self._lock:
                if own and self._shelf is not None and target.path == self._shelf.path:
                    # also where another process has more: it is tried again when there are others
                    self._saved_bytes, self._state, self._digest = sum(state), state, written or self._digest
            return written is not None

    def _in_child(self) -> None:
        """The thread that writes is not there."""
        self._is_writing = False

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """The lock, around kernels that change some arrays in place and return others that take their places.

        What comes in between (Ctrl-C, no memory) would leave some of either.
        """
        with self._lock:
            try:
                yield
            except BaseException:
                self._forget()
                raise

    def _forget(self) -> None:
        """Begin with nothing: what is kept may be half written. The lock is held, or nobody else is there."""
        self._young, self._old = _kernels.new_kept(), _kernels.new_kept()
        self.turns += 1  # a thread may hold names of these lists

    def _begin(self) -> None:
        """Make both generations, of the file if there is one; the lock is held."""
        if self._young is not None:
            return
        self._young, self._old = _kernels.new_kept(), _kernels.new_kept()
        if self._shelf is None or not self.limit_bytes:
            return
        try:
            young, old, self._digest = self._shelf.read(self.limit_bytes)
        except FileNotFoundError:
            return
        except (OSError, Unusable) as error:
            self._warn("%s is not used, and walks are made anew: %s", self._shelf.path.name, error)
            return
        if _bytes(young) + _bytes(old) > self.limit_bytes:
            old = _kernels.new_kept()
        if _bytes(young) + _bytes(old) <= self.limit_bytes:
            self._young, self._old = young, old
        self._state = used_bytes(self._young), used_bytes(self._old)
        self._saved_bytes = sum(self._state)

    def _warn(self, message: str, *values: object) -> None:
        """Once in the life of a store."""
        if not self._warned:
            self._warned = True
            logger.warning(message, *values)

    def _is_due(self) -> bool:
        """Is it time to write the file? The lock is held; who gets True has to begin a thread."""
        if self._shelf is None or self._is_writing or not self.limit_bytes:
            return False
        now = used_bytes(self._young) + used_bytes(self._old)
        if now < max(FIRST_BYTES, 2 * self._saved_bytes):
            return False
        self._saved_bytes, self._is_writing = now, True  # where it fails, not before there is twice as much
        return True

    def _begin_to_write(self) -> None:
        thread = threading.Thread(target=self._write_by_itself, name="equimask-walks")
        with contextlib.suppress(RuntimeError):  # the program is ending: no more threads
            thread.start()

    def _write_by_itself(self) -> None:
        try:
            # a folder that was removed meanwhile is not made again
            if self._shelf is not None and self._shelf.folder.is_dir():
                self.save()
        finally:
            with self._lock:
                self._is_writing = False

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
        with self._writing():
            self._begin()
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
        with self._writing():
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
            is_due = self._is_due()
        if is_due:
            self._begin_to_write()
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


def _has_walks(*generations: Any) -> bool:
    """Is anything kept?"""
    return any(int(kept.blocks.counts[0]) for kept in generations)


def _bytes(kept: Any) -> int:
    """Bytes of the arrays of a generation."""
    if kept is None:
        return 0
    return sum(part.nbytes if isinstance(part, np.ndarray) else _bytes(part) for part in kept)
