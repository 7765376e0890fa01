# cython: language_level=3
# mypy: ignore-errors
"""Joining walks of several sources, some cached and some new, in the order of all blocks.

What: a `Part` says what the tokens of some blocks do; `joined` puts parts together.
When: at the end of each look-up, by `equivalence.walks.kept.walks`.
Limits: each block is in one part, and the parts' rows lie within their arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cython
import numpy as np
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from numpy.typing import NDArray

from equivalence import built
from equivalence.walks.outcomes import Rows

built.check(__name__, EQUIMASK_SOURCE)


class Part(NamedTuple):
    """What the tokens of some blocks do.

    Attributes:
        blocks: int64[n], the blocks.
        range_begins, range_ends: int64[n], the rows of each block in `ranges`.
        ranges: int64[m, 2], see `equivalence.walks.outcomes.Rows`.
        event_begins, event_ends, events: likewise.
    """

    blocks: NDArray[np.int64]
    range_begins: NDArray[np.int64]
    range_ends: NDArray[np.int64]
    ranges: NDArray[np.int64]
    event_begins: NDArray[np.int64]
    event_ends: NDArray[np.int64]
    events: NDArray[np.int64]


@cython.wraparound(True)
def part_of(blocks: NDArray[np.int64], rows: Rows) -> Part:
    """A part of walks, without the unused room after the last rows.

    Args:
        blocks: int64[n], the numbers of the blocks in the part.
        rows: the results for these blocks.
    """
    range_starts, ranges, event_starts, events = rows
    return Part(
        blocks,
        range_starts[:-1],
        range_starts[1:],
        ranges[: range_starts[-1]],
        event_starts[:-1],
        event_starts[1:],
        events[: event_starts[-1]],
    )


def joined(n_blocks: int, parts: Sequence[Part]) -> Rows:
    """What the tokens of all blocks do.

    Args:
        n_blocks: number of blocks.
        parts: the parts; each block is in one of them.
    """
    ranges = [(part.blocks, part.range_begins, part.range_ends, part.ranges) for part in parts]
    events = [(part.blocks, part.event_begins, part.event_ends, part.events) for part in parts]
    return Rows(*_joined_rows(n_blocks, ranges), *_joined_rows(n_blocks, events))


@cython.wraparound(True)
def _joined_rows(n_blocks: int, parts: list[tuple[NDArray[np.int64], ...]]) -> tuple[NDArray[np.int64], ...]:
    """Where the rows of each block start, and the rows, from parts (blocks, begins, ends, rows)."""
    starts = np.zeros(n_blocks + 1, np.int64)
    for blocks, begins, ends, _ in parts:
        starts[blocks + 1] = ends - begins
    np.cumsum(starts, out=starts)
    rows = np.empty((starts[-1], 2), np.int64)
    for blocks, begins, ends, source in parts:
        if len(source):
            _copy_rows(np.stack([begins, ends, starts[blocks]], axis=1), source, rows)
    return starts, rows


def _copy_rows(
    places: cython.const[cython.Py_ssize_t][:, ::1],
    source: cython.const[cython.Py_ssize_t][:, ::1],
    target: cython.Py_ssize_t[:, ::1],
) -> None:
    """Copy the rows from ``places[i, 0]`` to ``places[i, 1]`` to the places from ``places[i, 2]`` on."""
    with cython.nogil:
        for i in range(places.shape[0]):
            at: cython.Py_ssize_t = places[i, 2]
            for r in range(places[i, 0], places[i, 1]):
                target[at, 0] = source[r, 0]
                target[at, 1] = source[r, 1]
                at += 1
