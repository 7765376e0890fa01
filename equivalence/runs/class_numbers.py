# cython: language_level=3
# mypy: ignore-errors
"""Turns classes of runs into classes of tokens: their numbers, their representatives and their tokens.

What: `number_runs` numbers classes and chooses representatives, with minima over runs (`least_tree`).
`tokens_of_runs` gives the class of each token. `number_keys` numbers classes that do not
consist of runs.
When: `number_runs` once for each grammar (`equivalence.classes.classes`), `least_tree` once for each
vocabulary.
Limits: only `tokens_of_runs` and `number_keys` look at each token.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)

Integers = NDArray[np.int64]
Numbers = NDArray[np.int32]

NOBODY = 1 << 62
"""The minimum of no values."""


def least_tree(values: cython.const[cython.Py_ssize_t][::1]) -> Integers:
    """Make a tree of minima over values: node i is the minimum of nodes 2 i and 2 i + 1.

    Args:
        values: int64[n], below `NOBODY`.

    Returns:
        int64[2 n], or int64[1] if there are no values. The last n entries are the leaves: the values in
            order. Entry 0 is `NOBODY`.
    """
    n = values.shape[0]
    result = np.full(max(2 * n, 1), NOBODY, np.int64)
    tree: cython.Py_ssize_t[::1] = result
    with cython.nogil:
        for i in range(n):
            tree[n + i] = values[i]
        i = n - 1
        while i > 0:
            tree[i] = min(tree[2 * i], tree[2 * i + 1])
            i -= 1
    return result


def least_in(
    tree: cython.const[cython.Py_ssize_t][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """The minimum of the values from `begin` to before `end` of a tree; `NOBODY` if there are none."""
    n = tree.shape[0] >> 1
    least = tree[0]  # the minimum of no values
    low = begin + n
    high = end + n
    while low < high:
        if low & 1:
            least = min(least, tree[low])
            low += 1
        if high & 1:
            high -= 1
            least = min(least, tree[high])
        low >>= 1
        high >>= 1
    return least


def number_runs(
    class_of_run: cython.const[cython.int][::1],
    run_starts: cython.const[cython.Py_ssize_t][::1],
    n_classes: cython.Py_ssize_t,
    first_ids: cython.const[cython.Py_ssize_t][::1],
    shortest: cython.const[cython.Py_ssize_t][::1],
    alone: Integers,
    group_of_token: Numbers,
) -> tuple[Numbers, Numbers, Numbers]:
    """Number token classes from 0 without gaps, given the classes of runs.

    The representative of a class is its shortest token; among several, the one with the lowest id. Classes
    are numbered in the order of their first ids.

    Args:
        class_of_run: int32[R], below `n_classes`; -1: none.
        run_starts: int64[R + 1], the first group of each run, then the number of groups.
        n_classes: number of the runs' classes.
        first_ids: `least_tree` of the smallest id of each group, without the ids of `alone`.
        shortest: the same for length * 2**32 + id.
        alone: int64[A], ids that get a class of their own if their run has a class.
        group_of_token: int32[V].

    Returns:
        (representatives, int32[classes]; class of each run, int32[R]; class of each of `alone`, int32[A]);
            -1: none.
    """
    runs = np.searchsorted(run_starts, group_of_token[alone], side="right") - 1  # -1 for ids without text
    has_class = np.append(class_of_run, -1)[runs] >= 0
    first: cython.Py_ssize_t[::1] = np.append(np.full(n_classes, NOBODY), np.where(has_class, alone, NOBODY))
    short: cython.Py_ssize_t[::1] = np.array(first)
    with cython.nogil:
        for r in range(class_of_run.shape[0]):
            c = class_of_run[r]
            if c >= 0:
                first[c] = min(first[c], least_in(first_ids, run_starts[r], run_starts[r + 1]))
                short[c] = min(short[c], least_in(shortest, run_starts[r], run_starts[r + 1]))
    by_first: cython.Py_ssize_t[::1] = np.argsort(first)
    nobody: cython.Py_ssize_t = NOBODY
    number: cython.int[::1] = np.full(len(first), -1, np.int32)
    representatives: cython.int[::1] = np.empty(len(first), np.int32)
    result = np.full(len(class_of_run), -1, np.int32)
    numbers: cython.int[::1] = result
    n: cython.Py_ssize_t = 0
    with cython.nogil:
        while n < by_first.shape[0] and first[by_first[n]] < nobody:
            c = by_first[n]
            number[c] = cython.cast(cython.int, n)
            representatives[n] = cython.cast(cython.int, short[c] & 0x7FFFFFFF)
            n += 1
        for r in range(class_of_run.shape[0]):
            if class_of_run[r] >= 0:
                numbers[r] = number[class_of_run[r]]
    return np.array(representatives[:n]), result, np.array(number[n_classes:])


def tokens_of_runs(
    class_of_run: cython.const[cython.int][::1],
    run_starts: cython.const[cython.Py_ssize_t][::1],
    token_starts: cython.const[cython.Py_ssize_t][::1],
    tokens: cython.const[cython.int][::1],
    n_ids: cython.Py_ssize_t,
) -> Numbers:
    """The class of each id, int32[n_ids]; -1: none.

    Args:
        class_of_run, run_starts: as for `number_runs`.
        token_starts: int64[G + 1], where the ids of each group begin.
        tokens: int32, the ids by group.
        n_ids: a number above all ids.
    """
    result = np.full(n_ids, -1, np.int32)
    classes: cython.int[::1] = result
    end: cython.Py_ssize_t = token_starts[run_starts[0]]
    with cython.nogil:
        for r in range(class_of_run.shape[0]):
            c = class_of_run[r]
            begin = end
            end = token_starts[run_starts[r + 1]]
            for k in range(begin, end):
                classes[tokens[k]] = c
    return result


def number_keys(keys: Integers, n_keys: int, lengths: Integers) -> tuple[Numbers, Numbers]:
    """Number token classes from 0 without gaps, given a key for each token.

    Args:
        keys: int64[V], the key of each token, below `n_keys`; -1: none.
        n_keys: a number above all keys.
        lengths: int64[V], bytes of each token.

    Returns:
        (class of each token, int32[V], -1: none; representatives, int32[classes]). Classes are numbered in
            the order of their first ids. A representative is the shortest token; among several, the one with
            the lowest id.
    """
    ids = np.flatnonzero(keys >= 0)
    first, shortest = np.full(n_keys, NOBODY, np.int64), np.full(n_keys, NOBODY, np.int64)
    np.minimum.at(first, keys[ids], ids)
    np.minimum.at(shortest, keys[ids], (lengths[ids] << 32) + ids)
    in_order = np.argsort(first)[: np.count_nonzero(first < NOBODY)]
    number = np.full(n_keys + 1, -1, np.int32)  # the last one is of no key
    number[in_order] = np.arange(len(in_order))
    return number[keys], (shortest[in_order] & 0x7FFFFFFF).astype(np.int32)
