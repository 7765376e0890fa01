"""Cached walks in a file: what is written, and what is checked before it is used.

What: `as_arrays` turns snapshots of two generations of walks into arrays, without what is not needed.
`read_back` turns arrays into generations. `Shelf` is the place of one vocabulary's file.
When: only by `equivalence.walks.kept.walks`.
Limits: the digest of `equivalence.store` detects damage. The checks here detect arrays that do not fit each
other or the trie, so that no file can make compiled code read memory that is not its own. What a file says
about tokens is not computed again, so a forged file can give wrong masks: the folder must be as trustworthy
as the code.

A walk only has meaning for the very code that made it. The kind of a file therefore includes a digest of
the code of this package, and files of other code are not read, even if nobody has changed a version number.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.store import Arrays, Unusable, digest_of, read_arrays, write_arrays
from equivalence.trie import Trie
from equivalence.walks.kept.generation import Generation, Snapshot, restored
from equivalence.walks.outcomes import OUTRIGHT

STORED_VERSION = 1
"""The version of the names and the layout of the arrays."""

GENERATIONS = ("young", "old")
MEMBERS = {
    "list_starts": np.int64,  # the lists that names are numbers of
    "list_cells": None,  # int32, or int64 where that is too small
    "names": np.int64,  # of each walk: its configuration
    "bytes": np.uint8,  # ... its first byte
    "masks": np.uint32,  # ... [8]: the bytes that were taken to follow
    "range_starts": np.int64,
    "ranges": np.int32,
    "event_starts": np.int64,
    "events": np.int32,
    "outcome_starts": np.int64,
    "outcome_cells": None,
}
"""Arrays of a generation and their types; walk i has the rows from ``starts[i]`` to ``starts[i + 1]``."""

Integers = NDArray[np.int64]


class Shelf(NamedTuple):
    """The place of a vocabulary's walks: a folder, the vocabulary's fingerprint, and its trie."""

    folder: Path
    fingerprint: str
    trie: Trie

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / f"walks-{STORED_VERSION}-{self.fingerprint}.arrays"

    def read(self, limit_bytes: int) -> tuple[Generation, Generation, bytes | None]:
        """The young and the old generation of the file, and its digest.

        Raises:
            Unusable: the file is damaged, too large, or of another version, code or vocabulary.
            OSError: there is no such file, or it cannot be read.
        """
        most = limit_bytes + 65536
        if os.stat(self.path).st_size > most:
            raise Unusable(f"it has more than the {limit_bytes} bytes that may be kept")
        digest = digest_of(self.path)
        young, old = read_back(
            read_arrays(self.path, kind=kind(), key=self.fingerprint, most=most), self.trie
        )
        return young, old, digest

    def write(self, arrays: Arrays, known: bytes | None) -> bytes | None:
        """Write the file, unless another process wrote one with more walks. Return the digest, or None if
        not written.

        Args:
            arrays: the result of `as_arrays`.
            known: digest of the file from which these walks were read, or that was written last. A file
                with this digest is replaced by more recent walks, even if they are fewer.

        Raises:
            OSError: the file cannot be written.
        """
        try:
            if digest_of(self.path) != known:
                there = read_arrays(self.path, kind=kind(), key=self.fingerprint)
                if n_walks(there) > n_walks(arrays):
                    return None
        except (OSError, Unusable, KeyError, TypeError):
            pass  # there is nothing usable
        return write_arrays(self.path, arrays, kind=kind(), key=self.fingerprint)


@functools.cache
def kind() -> str:
    """The kind of a file: what its arrays are, and the code that made them."""
    digest = hashlib.blake2b(digest_size=16)
    folder = Path(__file__).parents[2]
    files = sorted(folder.rglob("*.py"))
    if not files:
        # a package without its sources: its versions cannot be distinguished
        digest.update(os.urandom(16))
    for file in files:
        text = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()} {len(text)}\n".encode() + text)
    return f"walks {STORED_VERSION}: {' '.join(MEMBERS)}, code {digest.hexdigest()}"


def n_walks(arrays: Arrays) -> int:
    """Number of walks in the arrays of a file."""
    return sum(len(arrays[f"{generation}.names"]) for generation in GENERATIONS)


def as_arrays(young: Snapshot, old: Snapshot) -> Arrays:
    """The arrays of a file, from a snapshot of each generation."""
    arrays: Arrays = {}
    for generation, kept in zip(GENERATIONS, (young, old), strict=True):
        range_starts, ranges = _packed(kept.places[:, 0], kept.places[:, 1], kept.ranges)
        event_starts, events = _packed(kept.places[:, 2], kept.places[:, 3], kept.events)
        members = (
            kept.list_starts.copy(), _narrowed(kept.list_cells), kept.blocks[:, 0].copy(),
            kept.blocks[:, 1].astype(np.uint8), kept.masks.astype(np.uint32), range_starts, ranges,
            event_starts, events, kept.outcome_starts.copy(), _narrowed(kept.outcome_cells),
        )  # fmt: skip
        arrays |= {f"{generation}.{name}": array for name, array in zip(MEMBERS, members, strict=True)}
    return arrays


def read_back(arrays: Arrays, trie: Trie) -> tuple[Generation, Generation]:
    """The young and the old generation, in new arrays, which may grow.

    Raises:
        Unusable: the arrays do not fit each other or the trie.
    """
    expected = [f"{generation}.{name}" for generation in GENERATIONS for name in MEMBERS]
    if list(arrays) != expected:
        raise Unusable("its arrays have other names")
    young, old = (
        _read_generation([arrays[f"{generation}.{name}"] for name in MEMBERS], trie)
        for generation in GENERATIONS
    )
    return young, old


def _read_generation(members: list[NDArray[Any]], trie: Trie) -> Generation:
    """One generation, from arrays in the order of `MEMBERS`."""
    for array, (name, dtype) in zip(members, MEMBERS.items(), strict=True):
        allowed = (np.int32, np.int64) if dtype is None else (dtype,)
        columns = {"masks": (8,), "ranges": (2,), "events": (2,)}.get(name, ())
        _check(
            array.dtype in allowed and array.ndim == 1 + len(columns) and array.shape[1:] == columns,
            f"{name} is of another type or shape",
        )
    (
        list_starts, list_cells, names, first_bytes, masks, range_starts, ranges, event_starts, events,
        outcome_starts, outcome_cells,
    ) = members  # fmt: skip
    n = len(names)
    _check(len(first_bytes) == len(masks) == n, "walks without a byte or a mask")
    _check_starts(list_starts, len(list_cells), "lists")
    _check_starts(outcome_starts, len(outcome_cells), "outcomes")
    _check_starts(range_starts, len(ranges), "ranges", n)
    _check_starts(event_starts, len(events), "events", n)
    _check(bool(((names >= 0) & (names < len(list_starts) - 1)).all()), "names of no list")
    # groups are in byte order, so those with the same first byte are one range
    bounds = np.searchsorted(trie.first_byte, np.arange(257))
    lower, upper = bounds[first_bytes], bounds[first_bytes.astype(np.int64) + 1]
    for rows, starts, ends, what in (
        (ranges, range_starts, ranges[:, 1], "ranges"),
        (events, event_starts, events[:, 0] + 1, "events"),
    ):
        some = starts[:-1] < starts[1:]
        _check(
            bool(
                (rows[:, 0] < ends).all()
                and _ascending(rows[:, 0], ends, starts)
                and (rows[starts[:-1][some], 0] >= lower[some]).all()
                and (ends[starts[1:][some] - 1] <= upper[some]).all()
            ),
            f"{what} out of order or of another byte",
        )
    outcomes = events[:, 1]
    _check(
        bool((outcomes > OUTRIGHT).all() and (outcomes < len(outcome_starts) - 1).all()),
        "events of no outcome",
    )
    _check_outcomes(outcome_starts, outcome_cells, trie)
    places = np.stack([range_starts[:-1], range_starts[1:], event_starts[:-1], event_starts[1:]], axis=1)
    blocks = np.stack([names, first_bytes.astype(np.int64)], axis=1)
    snapshot = Snapshot(
        list_starts, list_cells.astype(np.int64), blocks, masks.astype(np.int64), places, outcome_starts,
        outcome_cells.astype(np.int64), ranges, events,
    )  # fmt: skip
    return restored(snapshot)


def _check_outcomes(starts: Integers, cells: NDArray[Any], trie: Trie) -> None:
    """Check outcomes: [label, (port, suffix) ...], first NOTHING and OUTRIGHT, with pairs in ascending order.

    Raises:
        Unusable: they are not.
    """
    lengths = np.diff(starts)
    _check(
        len(lengths) >= 2 and starts[2] == 2 and cells[:2].tolist() == [-1, 0] and bool((lengths & 1).all()),
        "outcomes of another form",
    )
    is_label = np.zeros(len(cells), bool)
    is_label[starts[:-1]] = True
    labels, pairs = cells[is_label], cells[~is_label].astype(np.int64).reshape(-1, 2)
    keys = (pairs[:, 0] << 30) + pairs[:, 1]
    _check(
        bool(
            (labels >= -1).all()
            and (pairs[:, 0] >= 0).all()
            and (pairs[:, 0] <= trie.longest + 1).all()
            and (pairs[:, 1] > 0).all()
            and (pairs[:, 1] < len(trie.suffix_parent)).all()
            and _ascending(keys, keys + 1, (starts - np.arange(len(starts))) // 2)
        ),
        "outcomes that no token can have",
    )


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Unusable(f"it does not hold walks: {otherwise}")


def _check_starts(starts: NDArray[Any], total: int, what: str, n: int | None = None) -> None:
    """Check where lists or rows start, and where the last one ends."""
    _check(
        len(starts) == (max(len(starts), 1) if n is None else n + 1)
        and starts[0] == 0
        and starts[-1] == total
        and bool((starts[:-1] <= starts[1:]).all()),
        f"{what} start out of order",
    )


def _ascending(begins: NDArray[Any], ends: NDArray[Any], starts: Integers) -> bool:
    """Whether each row begins at or after the end of the row before, if both belong to one list."""
    wrong = np.flatnonzero(ends[:-1] > begins[1:]) + 1
    return bool(np.isin(wrong, starts).all())


def _narrowed(cells: Integers) -> NDArray[Any]:
    """A copy of integers in the smallest type that can hold them."""
    narrow = not len(cells) or (cells.min() >= -(1 << 31) and cells.max() < 1 << 31)
    return cells.astype(np.int32 if narrow else np.int64)


def _packed(begins: Integers, ends: Integers, rows: NDArray[Any]) -> tuple[Integers, NDArray[Any]]:
    """Rows of walks side by side, without those of replaced walks, and where the rows of each walk start."""
    lengths = ends - begins
    starts = np.zeros(len(begins) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    chosen = np.repeat(begins - starts[:-1], lengths) + np.arange(starts[-1])
    return starts, rows[chosen]
