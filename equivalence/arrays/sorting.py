"""Sorting by numbers: a run that is kept in order, and a counting sort."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def insert_sorted(values: Any, count: int, value: int) -> int:
    """Insert into the sorted run ``values[:count]`` without duplicates; returns the new length.

    Compiled modules take it from `sorting.pxd`, where a call of it costs nothing.
    """
    i = count
    while i > 0 and values[i - 1] > value:
        i -= 1
    if i > 0 and values[i - 1] == value:
        return count
    values[i + 1 : count + 1] = values[i:count].copy()
    values[i] = value
    return count + 1


def rows_by_key(keys: NDArray[np.int64], n_keys: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each key's rows start, and the rows in the order of their keys.

    Args:
        keys: int64[n], each from 0 to `n_keys` - 1.
        n_keys: how many keys there may be.

    Returns:
        (int64[n_keys + 1], int64[n]).
    """
    starts = np.zeros(n_keys + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=n_keys), out=starts[1:])
    return starts, np.argsort(keys, kind="stable")
