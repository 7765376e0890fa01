# cython: language_level=3
# mypy: ignore-errors
"""A generation of cached walks: what the tokens of blocks do, by name of the block.

What: a `Generation` owns the lists that names are numbers of (`equivalence.walks.kept.naming`), and for
each block the rows that `equivalence.walks.walks` found. It finds the walks of blocks, and adds new ones.
When: by `equivalence.walks.kept.walks`, which holds a lock during every access.
Limits: only for the relation "acceptance". Nothing is ever removed: the caller drops a generation as a
whole, and bounds its bytes.

The key of a block is the list [name of its configuration, byte]. A walk can be used for another grammar if
it was made with at least the bytes that can follow there: what it says about other bytes is left out
(`equivalence.walks.kept.filtering`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.records import of_array, zeros
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from numpy.typing import NDArray

from equivalence import built
from equivalence.arrays.growing import bigger
from equivalence.arrays.records import Kind
from equivalence.walks.kept.filtering import Filter
from equivalence.walks.kept.joining import Part
from equivalence.walks.kept.naming import names_of
from equivalence.walks.outcomes import first_outcomes

built.check(__name__, EQUIMASK_SOURCE)

PLACE = Kind("range_begin range_end event_begin event_end")
Place = cython.struct(
    range_begin=cython.Py_ssize_t,
    range_end=cython.Py_ssize_t,
    event_begin=cython.Py_ssize_t,
    event_end=cython.Py_ssize_t,
)

UNNAMED = cython.declare(cython.Py_ssize_t, -1)
UNLIMITED = 1 << 48


class Snapshot(NamedTuple):
    """A generation as arrays; n walks.

    Attributes:
        list_starts, list_cells: the lists, as `Interned` has them.
        blocks: int64[n, 2], rows (name, first byte).
        masks: int64[n, 8], the bytes that were assumed to follow below the known part.
        places: int64[n, 4], begin and end of a walk's rows in `ranges`, and in `events`.
        outcome_starts, outcome_cells: the outcomes, in the form of `Interned`.
        ranges, events: int32[n, 2], see `equivalence.walks.outcomes.Rows`; they use these outcomes.
    """

    list_starts: NDArray[np.int64]
    list_cells: NDArray[np.int64]
    blocks: NDArray[np.int64]
    masks: NDArray[np.int64]
    places: NDArray[np.int64]
    outcome_starts: NDArray[np.int64]
    outcome_cells: NDArray[np.int64]
    ranges: NDArray[np.int32]
    events: NDArray[np.int32]


def interned_of(starts: NDArray[np.int64], cells: NDArray[np.int64]) -> Interned:
    """Make interned lists from arrays, with the same numbers, and with room for a quarter more.

    Args:
        starts: int64[n + 1], where each list begins, and at last the number of cells; ascending.
        cells: int64, the integers of all lists. If lists are equal, which only a forged file can contain,
            the first is found.
    """
    n: cython.Py_ssize_t = len(starts) - 1
    used: cython.Py_ssize_t = len(cells)
    capacity: cython.Py_ssize_t = n + n // 4 + 256
    return Interned(capacity, (used + used // 4) // capacity + 2).fill(starts, cells)


@cython.final
@cython.cclass
class _Source:
    """The source of walks: rows, the outcomes of their events, and the numbers that these have here, or -1 if
    none yet."""

    ranges: cython.const[cython.int][:, ::1]
    events: cython.const[cython.int][:, ::1]
    outcomes: Interned
    numbers: cython.Py_ssize_t[::1]

    def __init__(self, ranges: Any, events: Any, outcomes: Interned) -> None:
        self.ranges = ranges
        self.events = events
        self.outcomes = outcomes
        self.numbers = np.full(outcomes.count, -1, np.int64)


@cython.final
@cython.cclass
class Generation:
    """Walks of blocks, by name; empty at first.

    Attributes:
        lists: the lists that names are numbers of.
        blocks: lists [name, byte], numbered like the rows of `masks` and `places`.
        masks, places, outcomes, ranges, events: see `Snapshot`.
        n_ranges, n_events: number of rows in use, including those of replaced walks.
    """

    lists: Interned
    blocks: Interned
    outcomes: Interned
    masks: cython.Py_ssize_t[:, ::1]
    places: Place[::1]
    ranges: cython.int[:, ::1]
    events: cython.int[:, ::1]
    n_ranges: cython.Py_ssize_t
    n_events: cython.Py_ssize_t

    def __init__(self) -> None:
        self.lists = Interned(256, 16)
        self.blocks = Interned(256, 2)
        self.outcomes = first_outcomes(256, UNLIMITED, None, "too many outcomes")
        self.masks = np.empty((256, 8), np.int64)
        self.places = zeros(PLACE, 256)
        self.ranges = np.empty((1024, 2), np.int32)
        self.events = np.empty((1024, 2), np.int32)
        self.n_ranges = self.n_events = 0

    # ---------------------------------------------------------------- finding

    def names_of(self, configurations: NDArray[np.int64], space: Any, longest: int) -> NDArray[np.int64]:
        """`equivalence.walks.kept.naming.names_of` with the lists of this generation."""
        return names_of(configurations, space, longest, self.lists)

    def find(
        self,
        names: cython.const[cython.Py_ssize_t][::1],
        first_bytes: cython.const[cython.Py_ssize_t][::1],
        masks: cython.const[cython.Py_ssize_t][:, ::1],
        wide: cython.Py_ssize_t[:, ::1],
        entries: cython.Py_ssize_t[::1],
    ) -> int:
        """Find the walk of each block that has none yet.

        A walk that was made with other bytes to follow must be made again with both these and those,
        `wide`. For strings, one mask soon covers what follows in all schemas.

        Args:
            names: int64[n], of the configurations, with the lists of this generation; -1: none.
            first_bytes: int64[n].
            masks: int64[n, 8], the bytes that can follow.
            wide: int64[n, 8], the bytes with which a missing walk must be made; it is extended.
            entries: int64[n], the walks found so far; -1, which is replaced, if there is none.

        Returns:
            How many of the blocks with names have no walk.
        """
        n: cython.Py_ssize_t = entries.shape[0]
        missing: cython.Py_ssize_t = 0
        if (
            min(len(names), len(first_bytes), len(masks), len(wide)) < n
            or min(masks.shape[1], wide.shape[1]) < 8
        ):
            raise ValueError("blocks without a name, a byte or a mask")
        with cython.nogil:
            for i in range(n):
                if entries[i] >= 0 or names[i] == UNNAMED:
                    continue
                at = self.blocks.room(2)
                self.blocks.pool[at] = names[i]
                self.blocks.pool[at + 1] = first_bytes[i]
                entry = self.blocks.find(2)
                if entry >= 0:
                    others: cython.Py_ssize_t = 0
                    for w in range(8):
                        others |= masks[i, w] & ~self.masks[entry, w]
                    if others:
                        for w in range(8):
                            wide[i, w] |= self.masks[entry, w]
                        entry = -1
                entries[i] = entry
                missing += entry < 0
        return missing

    def recalled(
        self,
        blocks: NDArray[np.int64],
        entries: NDArray[np.int64],
        masks: NDArray[np.int64],
        suffix_byte: Any,
        outcomes: Interned,
    ) -> Part:
        """The rows of walks, without what cannot follow.

        Args:
            blocks: int64[n], the numbers of the blocks in the part.
            entries: int64[n], their walks.
            masks: int64[n, 8], the bytes that can follow.
            suffix_byte: uint8[S], the first byte of each suffix of the trie.
            outcomes: the outcomes that the events use.

        Raises:
            BudgetExceeded: more outcomes than allowed.
        """
        places, ranges = self._ranges_of(entries)
        filtered = Filter(self.outcomes, outcomes, suffix_byte)
        events = filtered.events(masks, places[:, 2], places[:, 3], self.events)
        return Part(blocks, places[:, 0], places[:, 1], ranges, *events)

    def _ranges_of(self, entries: cython.const[cython.Py_ssize_t][::1]) -> tuple[Any, Any]:
        """The ranges of some walks side by side, int64[k, 2], and, as first result, the places of the walks
        in them (and in all events), int64[n, 4]."""
        n: cython.Py_ssize_t = entries.shape[0]
        total: cython.Py_ssize_t = 0
        for i in range(n):
            total += self.places[entries[i]].range_end - self.places[entries[i]].range_begin
        places: cython.Py_ssize_t[:, ::1] = np.empty((n, 4), np.int64)
        ranges: cython.Py_ssize_t[:, ::1] = np.empty((total, 2), np.int64)
        at: cython.Py_ssize_t = 0
        with cython.nogil:
            for i in range(n):
                entry = entries[i]
                places[i, 0] = at
                for r in range(self.places[entry].range_begin, self.places[entry].range_end):
                    ranges[at, 0] = self.ranges[r, 0]
                    ranges[at, 1] = self.ranges[r, 1]
                    at += 1
                places[i, 1] = at
                places[i, 2] = self.places[entry].event_begin
                places[i, 3] = self.places[entry].event_end
        return np.asarray(places), np.asarray(ranges)

    # ---------------------------------------------------------------- taking in

    def keep(
        self,
        names: cython.const[cython.Py_ssize_t][::1],
        first_bytes: cython.const[cython.Py_ssize_t][::1],
        wide: cython.const[cython.Py_ssize_t][:, ::1],
        part: Part,
        outcomes: Interned,
    ) -> None:
        """Store the walks of those blocks that have names.

        Args:
            names: int64[n], of all blocks' configurations, with the lists of this generation.
            first_bytes: int64[n], of all blocks.
            wide: int64[n, 8], the bytes that were assumed to follow.
            part: the walks of some of the blocks.
            outcomes: the outcomes of their events.
        """
        source = _Source(part.ranges.astype(np.int32), part.events.astype(np.int32), outcomes)
        # walks of one configuration are stored side by side, because they are needed together
        order: cython.Py_ssize_t[::1] = np.argsort(np.asarray(names)[part.blocks], kind="stable")
        blocks: cython.const[cython.Py_ssize_t][::1] = part.blocks
        places = np.stack([part.range_begins, part.range_ends, part.event_begins, part.event_ends], axis=1)
        rows: cython.const[Place][::1] = of_array(places, PLACE)
        with cython.nogil:
            for k in range(order.shape[0]):
                i = order[k]
                block = blocks[i]
                if names[block] == UNNAMED:
                    continue
                entry = self.entry_of(names[block], first_bytes[block])
                for w in range(8):
                    self.masks[entry, w] = wide[block, w]
                self.add(
                    entry,
                    source,
                    rows[i].range_begin,
                    rows[i].range_end,
                    rows[i].event_begin,
                    rows[i].event_end,
                )

    def move(
        self,
        former: Generation,
        entries: cython.const[cython.Py_ssize_t][::1],
        names: cython.const[cython.Py_ssize_t][::1],
        first_bytes: cython.const[cython.Py_ssize_t][::1],
    ) -> None:
        """Store walks that another generation has.

        Args:
            former: the other generation.
            entries: int64[n], its walks.
            names: int64[n], of the configurations, with the lists of this generation.
            first_bytes: int64[n].
        """
        source = _Source(former.ranges, former.events, former.outcomes)
        with cython.nogil:
            for i in range(entries.shape[0]):
                before = entries[i]
                entry = self.entry_of(names[i], first_bytes[i])
                for w in range(8):
                    self.masks[entry, w] = former.masks[before, w]
                self.add(
                    entry,
                    source,
                    former.places[before].range_begin,
                    former.places[before].range_end,
                    former.places[before].event_begin,
                    former.places[before].event_end,
                )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def entry_of(self, name: cython.Py_ssize_t, byte: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The number of a block: a new one, or that of a walk which will be replaced."""
        if self.blocks.count >= self.masks.shape[0]:
            with cython.gil:
                self.grow_blocks()
        at = self.blocks.room(2)
        self.blocks.pool[at] = name
        self.blocks.pool[at + 1] = byte
        return self.blocks.intern(2)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def add(
        self,
        entry: cython.Py_ssize_t,
        source: _Source,
        range_begin: cython.Py_ssize_t,
        range_end: cython.Py_ssize_t,
        event_begin: cython.Py_ssize_t,
        event_end: cython.Py_ssize_t,
    ) -> cython.int:
        """Copy the rows of a walk. The rows of a former walk of the block are lost."""
        n_ranges = self.n_ranges
        n_events = self.n_events
        if n_ranges + range_end - range_begin > self.ranges.shape[0]:
            with cython.gil:
                self.ranges = bigger(self.ranges, 2 * (n_ranges + range_end - range_begin), n_ranges)
        if n_events + event_end - event_begin > self.events.shape[0]:
            with cython.gil:
                self.events = bigger(self.events, 2 * (n_events + event_end - event_begin), n_events)
        self.places[entry].range_begin = n_ranges
        self.places[entry].event_begin = n_events
        for r in range(range_begin, range_end):
            self.ranges[n_ranges, 0] = source.ranges[r, 0]
            self.ranges[n_ranges, 1] = source.ranges[r, 1]
            n_ranges += 1
        for e in range(event_begin, event_end):
            outcome = source.events[e, 1]
            if source.numbers[outcome] < 0:
                source.numbers[outcome] = self.add_outcome(source.outcomes, outcome)
            self.events[n_events, 0] = source.events[e, 0]
            self.events[n_events, 1] = cython.cast(cython.int, source.numbers[outcome])
            n_events += 1
        self.places[entry].range_end = self.n_ranges = n_ranges
        self.places[entry].event_end = self.n_events = n_events
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def add_outcome(self, outcomes: Interned, outcome: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The number that an outcome of a source has here."""
        begin = outcomes.starts[outcome]
        length = outcomes.starts[outcome + 1] - begin
        at = self.outcomes.room(length)
        for k in range(length):
            self.outcomes.pool[at + k] = outcomes.pool[begin + k]
        return self.outcomes.intern(length)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow_blocks(self) -> cython.int:
        """Make room for the masks and places of more blocks."""
        size: cython.Py_ssize_t = 2 * self.masks.shape[0]
        masks, places = bigger(self.masks, size), bigger(self.places, size)
        self.masks = masks
        self.places = places
        return 0

    # ---------------------------------------------------------------- sizes, and arrays of a file

    @property
    def n_walks(self) -> int:
        """Number of cached walks."""
        return self.blocks.count

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        own = 96 * self.masks.shape[0] + 8 * self.ranges.shape[0] + 8 * self.events.shape[0]
        return own + self.lists.nbytes + self.blocks.nbytes + self.outcomes.nbytes

    @property
    def used_bytes(self) -> int:
        """Approximate size in a file."""
        cells = 2 * (self.lists.count + self.outcomes.count) + self.lists.used + self.outcomes.used
        return 4 * cells + 57 * self.blocks.count + 8 * (self.n_ranges + self.n_events)

    def snapshot(self) -> Snapshot:
        """The arrays as they are now, while the generation may grow further.

        Lists and rows are only appended. The masks and places of a walk are replaced in place, so they are
        copied.
        """
        n: cython.Py_ssize_t = self.blocks.count
        return Snapshot(
            np.asarray(self.lists.starts[: self.lists.count + 1]),
            np.asarray(self.lists.pool[: self.lists.used]),
            np.asarray(self.blocks.pool[: 2 * n]).reshape(n, 2),
            np.array(self.masks[:n]),
            np.array(np.asarray(self.places)[:n]).view(np.int64).reshape(n, 4),
            np.asarray(self.outcomes.starts[: self.outcomes.count + 1]),
            np.asarray(self.outcomes.pool[: self.outcomes.used]),
            np.asarray(self.ranges[: self.n_ranges]),
            np.asarray(self.events[: self.n_events]),
        )


def restored(snapshot: Snapshot) -> Generation:
    """Make a generation in new arrays, which may grow.

    Args:
        snapshot: arrays that were checked, see `equivalence.walks.kept.stored`.
    """
    kept: Generation = Generation()
    n: cython.Py_ssize_t = len(snapshot.blocks)
    kept.lists = interned_of(snapshot.list_starts, snapshot.list_cells)
    kept.blocks = interned_of(np.arange(0, 2 * n + 1, 2), snapshot.blocks.ravel())
    kept.outcomes = interned_of(snapshot.outcome_starts, snapshot.outcome_cells)
    kept.masks = _with_room(snapshot.masks)
    kept.places = of_array(_with_room(snapshot.places), PLACE)
    kept.ranges = _with_room(snapshot.ranges)
    kept.events = _with_room(snapshot.events)
    kept.n_ranges = len(snapshot.ranges)
    kept.n_events = len(snapshot.events)
    return kept


def _with_room(array: NDArray[Any]) -> NDArray[Any]:
    """A copy with room for a quarter more rows."""
    return bigger(array, len(array) + len(array) // 4 + 256)
