# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Uniting rows of flags: what several members say of one place.

What: `unite_rows` lets each row of 0 and 1 count for the row at its place; places may repeat.
When: some hundred rows a computation; `np.maximum.at` took 0.2 ms for 200 rows.
Limits: every index is checked: a call takes microseconds.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.built import EQUIMASK_SOURCE

from equivalence import built

built.check(__name__, EQUIMASK_SOURCE)


def unite_rows(
    target: cython.uchar[:, ::1],
    place: cython.const[cython.Py_ssize_t][::1],
    rows: cython.const[cython.uchar][:, ::1],
) -> None:
    """Unite each row with the row of `target` at its place.

    Args:
        target: uint8[P, n], written.
        place: int64[R], a place for each row.
        rows: uint8[R, n].

    Raises:
        IndexError: a place that is none, or rows of other lengths.
    """
    with cython.nogil:
        for i in range(place.shape[0]):
            at = place[i]
            for k in range(rows.shape[1]):
                target[at, k] |= rows[i, k]
