# cython: language_level=3
# mypy: ignore-errors
"""Numbers of lists that stand side by side: equal lists have equal ones.

What: `number_lists` numbers lists in the order in which each is met first, and copies none;
`lie_side_by_side` checks where lists begin.
When: once for many lists that are all there; `equivalence.arrays.interning` is for those that come one by
one.
Limits: of large numbers the hash reads 30 bits, which costs time where many lists agree in these.

Where lists lie is checked here, as they come from everywhere.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.hashing import mix
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from numpy.typing import NDArray

from equivalence import built

built.check(__name__, EQUIMASK_SOURCE)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-1, check=False)
def _hash(
    values: cython.const[cython.Py_ssize_t][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    h = end - begin
    for k in range(begin, end):
        h = mix(h, values[k] + 1048576)
    return h


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-1, check=False)
def _equal(
    values: cython.const[cython.Py_ssize_t][::1],
    one: cython.Py_ssize_t,
    other: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
) -> cython.int:
    for k in range(length):
        if values[one + k] != values[other + k]:
            return 0
    return 1


def number_lists(
    starts: cython.const[cython.Py_ssize_t][::1], values: cython.const[cython.Py_ssize_t][::1]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Numbers of the lists ``values[starts[i]:starts[i + 1]]``: equal for equal lists, in order of the first.

    Args:
        starts: int64[n + 1], ascending.
        values: int64.

    Returns:
        (int32[n], int64[numbers] the first list of each number).

    Raises:
        ValueError: a list does not lie within the values.
    """
    n: cython.Py_ssize_t = starts.shape[0] - 1
    size: cython.Py_ssize_t = 16
    while size < 2 * n:
        size *= 2
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
            h = _hash(values, begin, begin + length)
            slot = h & (size - 1)
            while table[slot] >= 0:
                one = table[slot]
                if hashes[one] == h:
                    other = starts[example[one]]
                    if starts[example[one] + 1] - other == length and _equal(values, begin, other, length):
                        break
                slot = (slot + 1) & (size - 1)
            if table[slot] < 0:
                table[slot] = cython.cast(cython.int, count)
                example[count] = i
                hashes[count] = h
                count += 1
            number_of[i] = table[slot]
    return numbers, examples[:count].copy()


def lie_side_by_side(starts: NDArray[np.int64], count: cython.Py_ssize_t) -> bool:
    """Whether ``starts[i]:starts[i + 1]`` are parts of `count` values, side by side, and no value is left.

    Args:
        starts: int64[n + 1].
        count: values.
    """
    return (
        len(starts) > 0
        and starts[0] == 0
        and starts[len(starts) - 1] == count
        and not np.any(np.diff(starts) < 0)
    )
