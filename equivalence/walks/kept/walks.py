"""Walks that are cached for the next grammar over the same vocabulary.

What: `KeptWalks.walk_all` gives the results of `equivalence.walks.walks.Walks.walk_all`, but only walks
blocks that no earlier grammar had. XGrammar's converters write strings, numbers, dates or any value in the
same way in each schema. What a block can do is written as one list of integers, whatever the names of the
rules, and the walk of a block with an equal list is taken from the cache (docs/theory.md, section 4;
docs/caches.md).
When: by `equivalence.classes.explore`, for the relation "acceptance"; each `Vocabulary` has one.
Limits: bounded by bytes. Several threads may use it: a lock is held while the cache is read or changed, but
not while blocks are walked, nor during file operations.

There are two generations: walks are added to the young one, and a walk that is found in the old one moves
to the young one. When the young one reaches half of the bound, it becomes the old one, and walks that
nobody has asked for since are dropped.

With a `Shelf`, walks outlive the process: they are read from its file before the first walk, and written by
`save`, or by a background thread whenever there are twice as many bytes as at the last read or write. All
background writes together are therefore at most twice the final size, and no compilation waits for them.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence import forking
from equivalence.arrays.interning import Interned
from equivalence.errors import BudgetExceeded
from equivalence.parser.space import Space
from equivalence.store import Unusable
from equivalence.walks.blocks import find_blocks
from equivalence.walks.kept.filtering import Filter
from equivalence.walks.kept.generation import Generation
from equivalence.walks.kept.joining import Part, joined, part_of
from equivalence.walks.kept.masks import class_masks, class_rows, masks_of_blocks, widened
from equivalence.walks.kept.stored import Shelf, as_arrays
from equivalence.walks.outcomes import Walked
from equivalence.walks.walks import Walks

Integers = NDArray[np.int64]

LIMIT_BYTES = 64 << 20
"""The default bound. The walks of 600 schemas take 37 MiB over 128,256 ids."""

FIRST_BYTES = 1 << 18
"""Walks are first written in the background when they take this much, about the walks of ten schemas."""

logger = logging.getLogger(__name__)


class KeptWalks:
    """A cache of walks over the trie of one vocabulary, by what the blocks can do."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES, shelf: Shelf | None = None) -> None:
        """Make a cache that is empty, or has the content of the shelf's file.

        Args:
            limit_bytes: bound on the stored arrays; 0 stores nothing (except 0.2 MiB of empty ones). It
                holds between
                explorations: while one looks up and adds its walks, there may be more. A larger file is not
                    read.
            shelf: where walks are read from, and written to in the background; None keeps them only in
                memory.
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
        self._digest: bytes | None = None  # of the shelf's file when it was last read or written
        self._saved_bytes = 0  # bytes stored when the file was last read or written
        self._state: tuple[int, int] | None = None  # the cache's state at that time; None if the file differs
        self._is_writing = False  # in a background thread
        self._warned = False
        forking.in_child(self._in_child)

    @property
    def n_bytes(self) -> int:
        """Bytes of all stored arrays."""
        with self._lock:
            return _bytes(self._young, self._old)

    @property
    def shelf(self) -> Shelf | None:
        """Where walks are read from, and written to in the background."""
        return self._shelf

    def load(self, shelf: Shelf | None = None) -> None:
        """Read the shelf's file now, if nothing is stored yet. Stored walks are never replaced.

        Args:
            shelf: the place from now on; None: the present one.
        """
        if shelf is None and self._young is not None:
            return  # each compile call comes here, and must not wait for threads that look up or add walks
        with self._lock:
            if shelf is not None and (self._shelf is None or self._shelf.path != shelf.path):
                self._shelf, self._digest, self._saved_bytes, self._state = shelf, None, 0, None
                if self._young is not None and not _has_walks(self._young, self._old):
                    self._young = None
                    self.turns += 1  # a thread may hold names of these lists
            self._begin()

    def save(self, shelf: Shelf | None = None) -> bool:
        """Write the stored walks, unless the file has them already, or has more walks from another process.

        Returns False if nothing was written. A failing file system causes one warning.

        Args:
            shelf: where to write; None: the cache's own. Its folder is made if it is missing.
        """
        with self._saving:
            with self._lock:
                target = self._shelf if shelf is None else shelf
                own = self._shelf is not None and target is not None and target.path == self._shelf.path
                if target is None or self._young is None or not _has_walks(self._young, self._old):
                    return False
                state = self._young.used_bytes, self._old.used_bytes
                known = self._digest if own else None
                if own and state == self._state:
                    return False
                young, old = self._young.snapshot(), self._old.snapshot()
            try:
                target.folder.mkdir(parents=True, exist_ok=True)
                written = target.write(as_arrays(young, old), known)
            except OSError as error:
                self._warn("%s cannot be written (%s); walks are kept in memory", target.path.name, error)
                return False
            with self._lock:
                if own and self._shelf is not None and target.path == self._shelf.path:
                    # also if another process has more walks: the next attempt is made when there are new ones
                    self._saved_bytes, self._state, self._digest = sum(state), state, written or self._digest
            return written is not None

    def _in_child(self) -> None:
        """The writing thread does not exist in a forked process."""
        self._is_writing = False

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Context for changes of the generations; the lock must be held.

        An interruption (Ctrl-C, out of memory) would leave walks that are half written, so all are dropped.
        """
        try:
            yield
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        """Drop everything, because it may be half written. The lock must be held, or nobody else be there."""
        self._young, self._old = Generation(), Generation()
        self.turns += 1  # a thread may hold names of these lists

    def _begin(self) -> None:
        """Make both generations, from the file if there is one; the lock must be held."""
        if self._young is not None:
            return
        self._young, self._old = Generation(), Generation()
        if self._shelf is None or not self.limit_bytes:
            return
        try:
            young, old, self._digest = self._shelf.read(self.limit_bytes)
        except FileNotFoundError:
            return
        except (OSError, Unusable) as error:
            self._warn("%s is not used, and walks are made anew: %s", self._shelf.path.name, error)
            return
        if _bytes(young, old) > self.limit_bytes:
            old = Generation()
        if _bytes(young, old) <= self.limit_bytes:
            self._young, self._old = young, old
        self._state = self._young.used_bytes, self._old.used_bytes
        self._saved_bytes = sum(self._state)

    def _warn(self, message: str, *values: object) -> None:
        """Log a warning, once in the life of a cache."""
        if not self._warned:
            self._warned = True
            logger.warning(message, *values)

    def _is_due(self) -> bool:
        """Whether the file must be written. The lock must be held. If True, the caller must start a
        thread."""
        if self._shelf is None or self._is_writing or not self.limit_bytes:
            return False
        now = self._young.used_bytes + self._old.used_bytes
        if now < max(FIRST_BYTES, 2 * self._saved_bytes):
            return False
        self._saved_bytes, self._is_writing = now, True  # after a failure, wait until there is twice as much
        return True

    def _begin_to_write(self) -> None:
        thread = threading.Thread(target=self._write_by_itself, name="equimask-walks")
        with contextlib.suppress(RuntimeError):  # the program is ending: no new threads
            thread.start()

    def _write_by_itself(self) -> None:
        try:
            # a folder that was removed is not made again
            if self._shelf is not None and self._shelf.folder.is_dir():
                self.save()
        finally:
            with self._lock:
                self._is_writing = False

    def walk_all(
        self,
        contexts: Integers,
        firsts: NDArray[np.uint8],
        trie: tuple[Any, ...],
        suffix_byte: NDArray[np.uint8],
        space: Space,
        outcomes: Interned,
    ) -> Walked:
        """The result of `equivalence.walks.walks.Walks.walk_all`; only the order of outcomes differs.

        Args:
            contexts, firsts, space, outcomes: see there.
            trie: the trie's nodes, suffix parents, suffixes of groups, and bytes of the longest token.
            suffix_byte: the first byte of each suffix of the trie.

        Raises:
            BudgetExceeded: see there.
        """
        nodes, suffix_parent, group_suffix, longest = trie
        walks = Walks(space, nodes, suffix_parent, group_suffix, longest, outcomes, False)
        child = walks.children()
        found = find_blocks(space, contexts, child)
        of_class = class_masks(space)
        masks = masks_of_blocks(found.users, len(found.blocks), firsts, of_class)
        first_bytes = np.repeat(np.arange(256), np.diff(found.block_starts))
        asked = _Asked(
            found.blocks, first_bytes, child[first_bytes], masks, masks.copy(), np.full(len(masks), -1)
        )
        with self._lock:
            with self._changing():
                names = self._find(asked, space, longest)
            turn = self.turns
            known = np.flatnonzero(asked.entries >= 0)
            recalled = self._young.recalled(
                known, asked.entries[known], masks[known], suffix_byte, outcomes
            )  # fmt: skip
        made = walk_missing(asked, of_class, walks)
        with self._lock:
            self.hits += len(known)
            self.misses += len(masks) - len(known)
            if turn == self.turns:  # otherwise the names belong to the old generation
                with self._changing():
                    self._keep(asked, names, made)
            is_due = self._is_due()
        if is_due:
            self._begin_to_write()
        parts = [recalled]
        for part, own in made:
            if own is not outcomes:
                filtered = Filter(own, outcomes, suffix_byte).events(
                    masks[part.blocks], part.event_begins, part.event_ends, part.events.astype(np.int32)
                )
                part = Part(*part[:4], *filtered)
            parts.append(part)
        return Walked(found.block_starts, found.user_starts, found.users, *joined(len(masks), parts))

    def _find(self, asked: _Asked, space: Space, longest: int) -> Integers:
        """Find the walks of blocks in the young generation, and move those of the old one there. Return the
        names of the blocks' configurations. The lock must be held."""
        self._begin()
        young, old = self._young, self._old
        names = young.names_of(asked.blocks, space, longest)
        wanted = asked.first_bytes, asked.masks, asked.wide, asked.entries
        if young.find(names, *wanted) and old.n_walks:
            absent = asked.entries < 0
            old.find(old.names_of(asked.blocks, space, longest), *wanted)
            moved = np.flatnonzero(absent & (asked.entries >= 0))
            young.move(old, asked.entries[moved], names[moved], asked.first_bytes[moved])
            asked.entries[moved] = -1
            young.find(names, *wanted)
        return names

    def _keep(self, asked: _Asked, names: Integers, made: list[tuple[Part, Interned]]) -> None:
        """Store new walks within the bound. The lock must be held."""
        for part, outcomes in made:
            self._young.keep(names, asked.first_bytes, asked.wide, part, outcomes)
        if 2 * _bytes(self._young) > self.limit_bytes:
            self._old, self._young = self._young, Generation()
            self.turns += 1
        if _bytes(self._young, self._old) > self.limit_bytes:
            self._old = Generation()


class _Asked(NamedTuple):
    """The blocks of a grammar, n of them.

    Attributes:
        blocks: int64[n], the configurations.
        first_bytes, nodes: int64[n], the bytes, and the root's children after them.
        masks: int64[n, 8], the bytes that can follow below the known part.
        wide: int64[n, 8], the bytes with which a missing walk is made.
        entries: int64[n], the cached walks; -1: there is none.
    """

    blocks: Integers
    first_bytes: Integers
    nodes: Integers
    masks: Integers
    wide: Integers
    entries: Integers


def walk_missing(asked: _Asked, of_class: Integers, walks: Walks) -> list[tuple[Part, Interned]]:
    """Walk the blocks that have no walk. If they use other masks than their own, the outcomes are kept apart.

    Args:
        asked: the blocks; `wide` gets the masks with which the walks were made.
        of_class: the result of `class_masks`.
        walks: walks over the space and the trie.

    Returns:
        Parts of the blocks, and the outcomes of each part's events.

    Raises:
        BudgetExceeded: more than allowed, or told to stop.
    """
    made: list[tuple[Part, Interned]] = []

    def walk(chosen: Integers, walks: Walks) -> None:
        if len(chosen):
            rows, first = class_rows(asked.wide[chosen], of_class)
            found = walks.walk_blocks(asked.nodes[chosen], asked.blocks[chosen], rows, first)
            made.append((part_of(chosen, found), walks.outcomes))

    is_missing, is_own = asked.entries < 0, (asked.wide == asked.masks).all(axis=1)
    walk(np.flatnonzero(is_missing & is_own), walks)
    others = np.flatnonzero(is_missing & ~is_own)
    if len(others):
        asked.wide[others] = widened(asked.wide[others], of_class)
        try:
            walk(others, walks.apart())
        except BudgetExceeded:
            # the bytes of other grammars were too much: use only those of this one
            asked.wide[others] = asked.masks[others]
            walk(others, walks)
    return made


def _has_walks(*generations: Any) -> bool:
    """Is anything kept?"""
    return any(kept.n_walks for kept in generations)


def _bytes(*generations: Any) -> int:
    """Bytes of the arrays of generations."""
    return sum(kept.nbytes for kept in generations if kept is not None)
