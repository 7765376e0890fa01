"""Check the arrays of an artefact before kernels use them: indices in range, lists well-formed.

What: `check_network`, `check_pendings` and `check_summaries` check the arrays of a file whose digest is
right.
When: at each load, in about 2 ms for a programming language. Kernels validate nothing.
Limits: the checks keep a forged file from reading out of bounds or running forever. They do not keep it from
describing another grammar than it claims: whoever made the file decides which tokens its masks allow. Load
only files that you trust.

Checked are: the types, shapes and ranges of all arrays; that edges are sorted and do not overlap; that no
call leads back to its state before a byte is read (ranks); that each class has its representative
(`class_runs`); that pending sets contain nodes of the representatives' trie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.ranges import starts_of
from hybrid.files.container import Arrays, malformed

Integers = NDArray[np.int64]

TEXTS = ("grammar", "schema")
"""The members that are texts; all others are numbers."""

MOST = 2**31 - 1
"""Bound of the numbers in all lists: sums of two of them are far below the limit of int64."""


def taken(
    arrays: Arrays, name: str, shape: Sequence[int | None], least: int, most: int, dtype: Any = np.int64
) -> NDArray[Any]:
    """Return a member as another type, after checking its shape (None: any length) and the range of its
    values."""
    array = arrays.get(name)
    if array is None:
        raise malformed(f"member {name!r} is missing")
    if array.ndim != len(shape) or any(
        wanted is not None and wanted != found for wanted, found in zip(shape, array.shape, strict=True)
    ):
        raise malformed(f"member {name!r} must have shape {tuple(shape)}, but has {array.shape}")
    if array.size and (int(array.min()) < least or int(array.max()) > most):
        raise malformed(f"member {name!r} contains numbers outside the range from {least} to {most}")
    return np.array(array, dtype, order="C")


def checked_starts(lengths: Integers, total: int, name: str) -> Integers:
    """Find where lists of these lengths begin, and check that they have `total` members together."""
    starts = starts_of(lengths)
    if int(starts[-1]) != total:
        raise malformed(f"the lengths of {name!r} add up to {int(starts[-1])}, not to {total}")
    return starts


def falls_within(values: NDArray[Any], starts: Integers) -> bool:
    """Whether some list is not strictly ascending."""
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return bool(((values[1:] <= values[:-1]) & (owner[1:] == owner[:-1])).any())


def check_network(arrays: Arrays) -> tuple[tuple[NDArray[Any], ...], Integers]:
    """Return the network's arrays, as in `Network.automaton`, and the ranks of its states."""
    final = taken(arrays, "final", (None,), 0, 1, np.uint8)
    n = len(final)
    if n == 0:
        raise malformed("its network has no states")
    counted = taken(arrays, "counted", (None, 4), -1, MOST)
    if len(counted) and (int(counted[:, 0].max()) >= n or int(counted[:, :2].min()) < 0):
        raise malformed("a counter has a unit or a limit out of range")
    edges = taken(arrays, "edges", (None, 3), 0, max(n - 1, 255))
    edge_starts = checked_starts(taken(arrays, "edge_lengths", (n,), 0, MOST), len(edges), "edges")
    owner = np.repeat(np.arange(n), np.diff(edge_starts))
    follows = owner[1:] == owner[:-1]
    if len(edges) and (
        int(edges[:, :2].max()) > 255
        or int(edges[:, 2].max()) >= n
        or bool((edges[:, 0] > edges[:, 1]).any())
        or bool((edges[1:, 0] <= edges[:-1, 1])[follows].any())
    ):
        raise malformed("edges are out of range, or not sorted")
    calls = taken(arrays, "calls", (None, 2), -len(counted) - 1, n - 1)
    call_starts = checked_starts(taken(arrays, "call_lengths", (n,), 0, MOST), len(calls), "calls")
    if len(calls) and (int(calls[:, 0].min()) < -len(counted) or int(calls[:, 1].min()) < -1):
        raise malformed("a call leads to, or returns to, what does not exist")
    rank = taken(arrays, "rank", (n,), 0, n - 1)
    callee = calls[:, 0].copy()
    callee[callee < 0] = counted[-1 - callee[callee < 0], 0]
    owner = np.repeat(np.arange(n), np.diff(call_starts))
    if bool((rank[callee] >= rank[owner]).any()) or len(np.unique(rank)) != int(rank.max()) + 1:
        raise malformed("a call of its network leads to itself, or ranks have gaps")
    return (final, edge_starts, edges, call_starts, calls, counted), rank


def check_pendings(arrays: Arrays, n_nodes: int) -> tuple[Integers, Integers]:
    """Return where each pending set begins, and the sets, as nodes of the representatives' trie."""
    nodes = taken(arrays, "pending_nodes", (None,), 1, n_nodes - 1)
    lengths = taken(arrays, "pending_lengths", (None,), 0, MOST)
    starts = checked_starts(lengths, len(nodes), "pending_nodes")
    if len(lengths) == 0 or lengths[0] != 0:
        raise malformed("its first pending set is not the empty one")
    return starts, nodes


def check_summaries(
    arrays: Arrays, n_states: int, n_counted: int, n_words: int, n_pendings: int
) -> tuple[Integers, Integers, Integers, Integers]:
    """Return the arrays of the summaries: states on top, rows, masks, counter frames."""
    masks = taken(arrays, "masks", (None, n_words), 0, 2**32 - 1)
    if len(masks) == 0 or masks[0].any():
        raise malformed("its first mask is not the empty one")
    units = taken(arrays, "units", (None, 2), 0, MOST)
    if len(units) and int(units[:, 0].max()) >= n_counted:
        raise malformed("a counter frame is of no counter")
    first = taken(arrays, "first", (n_states, 2), -1, MOST)
    if (
        int(first[:, 0].max()) >= len(masks)
        or int(first[:, 1].max()) >= n_pendings
        or bool(((first[:, 0] < 0) != (first[:, 1] < 0)).any())
    ):
        raise malformed("a state names a mask or a pending set that does not exist")
    rows = taken(arrays, "rows", (4, None), 0, MOST).T.copy()
    for column, bound in enumerate((n_pendings, n_states + len(units), len(masks), n_pendings)):
        if len(rows) and int(rows[:, column].max()) >= bound:
            raise malformed(
                f"a summary must have numbers below {bound} in column {column}, but has "
                f"{int(rows[:, column].max())}"
            )
    order = rows[1:, 0] * (MOST + 1) + rows[1:, 1] - rows[:-1, 0] * (MOST + 1) - rows[:-1, 1]
    if bool((order <= 0).any()):
        raise malformed("its summaries are not sorted")
    return first, rows, masks, units
