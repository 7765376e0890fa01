# cython: language_level=3
# mypy: ignore-errors
"""Numbers for lists of integers in one array: equal lists get equal numbers.

What: `number_lists` numbers lists in the order of their first occurrence, without copying them.
When: for many lists that exist already; `equivalence.arrays.interning` is for lists that come one by one.
Limits: none.

The bounds of the lists are checked here, because any caller may pass them.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.hashing import list_hash, table_size
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)


def number_lists(
    starts: cython.const[cython.Py_ssize_t][::1], values: cython.const[cython.Py_ssize_t][::1]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number the lists ``values[starts[i]:starts[i + 1]]``.

    Args:
        starts: int64[n + 1], ascending.
        values: int64.

    Returns:
        The number of each list, int32[n]; the first list with each number, int64.

    Raises:
        ValueError: a list exceeds the values.
    """
    n: cython.Py_ssize_t = starts.shape[0] - 1
    size = table_size(n)
    numbers = np.empty(n, np.int32)
    number_of: cython.int[::1] = numbers
    table: cython.int[::1] = np.full(size, -1, np.int32)
    examples = np.empty(n, np.int64)
    example: cython.Py_ssize_t[::1] = examples
    hashes: cython.Py_ssize_t[::1] = np.empty(n, np.int64)
    count: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(n):
            begin = starts[i]
            length = starts[i + 1] - begin
            if begin < 0 or length < 0 or begin + length > values.shape[0]:
                with cython.gil:
                    raise ValueError(f"list {i} does not lie within {values.shape[0]} values")
            h = list_hash(values, begin, begin + length)
            slot = h & (size - 1)
            while table[slot] >= 0:
                one = table[slot]
                if hashes[one] == h:
                    other = starts[example[one]]
                    if starts[example[one] + 1] - other == length:
                        k: cython.Py_ssize_t = 0
                        while k < length and values[begin + k] == values[other + k]:
                            k += 1
                        if k == length:
                            break
                slot = (slot + 1) & (size - 1)
            if table[slot] < 0:
                table[slot] = cython.cast(cython.int, count)
                example[count] = i
                hashes[count] = h
                count += 1
            number_of[i] = table[slot]
    return numbers, examples[:count].copy()
