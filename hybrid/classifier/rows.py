"""Summaries as plain sorted arrays, and back: hash tables and spare room left out.

What: `used_rows` and `used_lists` give what is known in an order that does not depend on how it was found;
`table_of` and `interned` make tables of it that kernels read and extend.
When: where summaries are rewritten as a whole: minimised (`hybrid.classifier.minimise`), written or read.
Limits: nothing is validated; tables have hardly more room than what they hold needs, and grow when asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.interning import _kernels as interning
from hybrid.classifier import _kernels
from hybrid.classifier.tables import Summaries

Integers = NDArray[np.int64]


def used_rows(known: Summaries) -> tuple[Integers, Integers]:
    """The rows in use, sorted by pending set and symbol, and where those of each pending set begin."""
    rows = known.table[known.table[:, 0] >= 0]
    rows = np.ascontiguousarray(rows[np.lexsort((rows[:, 1], rows[:, 0]))])
    n = int(known.pendings.counts[0])
    return rows, np.searchsorted(rows[:, 0], np.arange(n + 1)).astype(np.int64)


def used_lists(lists: Any) -> tuple[Integers, Integers]:
    """Where each interned list begins (and the last one ends), and all lists one after the other."""
    n, used = lists.counts.tolist()
    return lists.starts[: n + 1], lists.pool[:used]


def table_of(rows: Integers) -> Integers:
    """The hash table of such rows."""
    size = 2048
    while size < len(rows):
        size *= 2
    loose = np.full((size, 4), -1, np.int64)
    loose[: len(rows)] = rows
    return np.asarray(_kernels.rehashed(loose))


def interned(starts: Integers, pool: Integers, room: int = 16) -> Any:
    """Interned lists out of what `used_lists` gives, distinct ones, with room for so many at least."""
    n = len(starts) - 1
    capacity = max(n, room)
    width = max(-(-len(pool) // capacity), 1)
    lists = interning.Interned(
        np.full(16, -1, np.int32), np.array(starts, np.int64), np.array(pool, np.int64),
        np.array([n, len(pool)], np.int64),
    )  # fmt: skip
    return interning.grown_interned(lists, capacity, width)
