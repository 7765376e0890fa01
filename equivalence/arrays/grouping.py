# cython: language_level=3
# mypy: ignore-errors
"""Grouping: lists the places of equal numbers side by side.

What: `grouped` is a counting sort.
When: to find all rows of an owner (the events of a group, the tokens of a class) by one look-up.
Limits: none; negative numbers are left out.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)


def grouped(
    numbers: cython.const[cython.int][:], n: cython.Py_ssize_t
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """List the places of each number: (int64[n + 1] where those of each number begin, int32 the places).

    Args:
        numbers: int32, below n. The places of negative ones are not listed.
        n: how many numbers there are, from 0 on.

    Raises:
        IndexError: a number is too large.
    """
    starts: cython.Py_ssize_t[::1] = np.zeros(n + 2, np.int64)
    with cython.nogil:
        # counts are stored two places ahead; each start then moves to its end, which is the next start
        for i in range(numbers.shape[0]):
            if numbers[i] >= n:
                with cython.gil:
                    raise IndexError(f"the number {numbers[i]} is not below {n}")
            if numbers[i] >= 0:
                starts[numbers[i] + 2] += 1
        for k in range(2, n + 2):
            starts[k] += starts[k - 1]
    places: cython.int[::1] = np.empty(starts[n + 1], np.int32)
    with cython.nogil:
        for i in range(numbers.shape[0]):
            if numbers[i] >= 0:
                at = starts[numbers[i] + 1]
                places[at] = cython.cast(cython.int, i)
                starts[numbers[i] + 1] = at + 1
    return np.asarray(starts)[: n + 1], np.asarray(places)
