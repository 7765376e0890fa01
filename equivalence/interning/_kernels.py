"""Interning, growing arrays and a counting sort: what the kernels of several folders share.

What: the number of a list of integers, equal lists having equal numbers; copies of arrays with more room;
positions in the order of their keys.
When: inside the kernels of `equivalence.network` and `equivalence`, never on their own.
Limits: numba's cache looks only at the file of the kernel that is called: after an edit here, delete the
`__pycache__` folders of `equivalence`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core import cgutils
from numba.extending import intrinsic, overload

kernel = njit(cache=True, nogil=True)
# LLVM inlines these: calls for each look-up took an eighth of a computation of classes (8.4 to 7.4 ms at p50)
forced = njit(cache=True, nogil=True, forceinline=True)


def borrowed(array):
    """The same array for the length of a call, without its reference count.

    A call costs 12 ns for every array that it passes, for each is counted in and out; a borrowed one is not.
    Whoever borrows must not outlive the array: a kernel borrows its own arguments, for its own callees.
    """
    return array


@intrinsic
def _without_owner(typing_context, array):
    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), generate


@overload(borrowed)
def _borrowed(array):
    def implementation(array):
        return _without_owner(array)  # type: ignore[call-arg]  # the compiler adds the context

    return implementation


@forced
def mix(h, x):
    """One step of a hash below 2**30; collisions cost time only."""
    h = ((h ^ (x & 0x3FFFFFFF)) * 0x2545F491) & 0x1FFFFFFFFFFFFFFF
    return (h ^ (h >> 29)) & 0x3FFFFFFF


@kernel
def grown(array, size):
    """A copy of a one-dimensional array with room for `size` elements."""
    larger = np.empty(size, array.dtype)
    larger[: array.size] = array
    return larger


@kernel
def grown_rows(array, size):
    """A copy of a two-dimensional array with room for `size` rows."""
    larger = np.empty((size, array.shape[1]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


@kernel
def insert_sorted(values, count, value):
    """Insert into a sorted run without duplicates; returns the new length."""
    i = count
    while i > 0 and values[i - 1] > value:
        i -= 1
    if i > 0 and values[i - 1] == value:
        return count
    for j in range(count, i, -1):
        values[j] = values[j - 1]
    values[i] = value
    return count + 1


@forced
def list_slot(key, length, table, starts, pool):
    """The place of a list in the hash table: that of its number, or an empty one if there is no such list."""
    h = length
    for i in range(length):
        h = mix(h, key[i] + 1048576)
    last = table.size - 1
    slot = h & last
    while table[slot] >= 0:
        candidate = np.int64(table[slot])
        begin = np.int64(starts[candidate])
        if starts[candidate + 1] - begin == length:
            same = True
            for i in range(length):
                if pool[begin + i] != key[i]:
                    same = False
                    break
            if same:
                break
        slot = (slot + 1) & last
    return slot


@forced
def intern_list(key, length, table, starts, pool, counts):
    """The number of a list of integers, equal lists having equal numbers.

    `counts` holds [lists, used cells of the pool]; list i is ``pool[starts[i]:starts[i + 1]]``.
    Returns -1 where a capacity is exceeded.
    """
    slot = list_slot(key, length, table, starts, pool)
    if table[slot] >= 0:
        return np.int64(table[slot])
    number = np.int64(counts[0])
    used = np.int64(counts[1])
    if number + 2 > starts.size or used + length > pool.size or 2 * number > table.size:
        return -1
    for i in range(length):
        pool[used + i] = key[i]
    starts[number + 1] = used + length
    counts[0] = number + 1
    counts[1] = used + length
    table[slot] = number
    return number


class Interned(NamedTuple):
    """The arrays of `intern_list`: the hash table, where each list starts, the lists, and the two counts."""

    table: Any
    starts: Any
    pool: Any
    counts: Any


@kernel
def new_interned(capacity, width):
    """No lists yet, and room for `capacity` lists of `width` integers on average."""
    size = 16
    while size < 2 * capacity:
        size *= 2
    starts = np.empty(capacity + 2, np.int64)
    starts[0] = 0
    return Interned(
        np.full(size, -1, np.int32), starts, np.empty(width * capacity + 2, np.int64), np.zeros(2, np.int64)
    )


@forced
def intern(key, length, known):
    """`intern_list` on its arrays in one piece; -1 where a capacity is exceeded."""
    return intern_list(key, length, known.table, known.starts, known.pool, known.counts)


@kernel
def find_list(key, length, known):
    """The number of a list, as `intern` gives it; -1 where there is no such list."""
    return np.int64(known.table[list_slot(key, length, known.table, known.starts, known.pool)])


@kernel
def borrowed_interned(known):
    """See `borrowed`."""
    return Interned(
        borrowed(known.table), borrowed(known.starts), borrowed(known.pool), borrowed(known.counts)
    )


@kernel
def grown_interned(known, capacity, width):
    """The same lists under the same numbers, with more room."""
    larger = new_interned(capacity, width)
    n = known.counts[0]
    larger.counts[:] = known.counts
    larger.starts[: n + 1] = known.starts[: n + 1]
    larger.pool[: known.counts[1]] = known.pool[: known.counts[1]]
    mask = larger.table.size - 1
    for i in range(n):
        begin, end = known.starts[i], known.starts[i + 1]
        h = end - begin
        for k in range(begin, end):
            h = mix(h, known.pool[k] + 1048576)
        slot = h & mask
        while larger.table[slot] >= 0:
            slot = (slot + 1) & mask
        larger.table[slot] = i
    return larger


@kernel
def utf8_step(state, byte):
    """The UTF-8 decoder's next state, -1 if ill-formed.

    0 ends a character; 1 to 3 continuation bytes missing; 4 after E0, 5 after F0, 6 after F4.
    Surrogates are accepted, as XGrammar accepts them.
    """
    if state == 0:
        if byte < 0x80:
            return 0
        if byte < 0xC2 or byte > 0xF4:
            return -1
        if byte < 0xE0:
            return 1
        if byte == 0xE0:
            return 4
        if byte < 0xF0:
            return 2
        if byte == 0xF0:
            return 5
        if byte < 0xF4:
            return 3
        return 6
    if byte < 0x80 or byte > 0xBF:
        return -1
    if state <= 3:
        return state - 1
    if state == 4:
        return 1 if byte >= 0xA0 else -1
    if state == 5:
        return 2 if byte >= 0x90 else -1
    return 2 if byte <= 0x8F else -1


@kernel
def rows_by_key(keys, n, n_keys):
    """Counting sort: (starts int64[n_keys + 1], positions of keys 0..n in the order of the keys)."""
    starts = np.zeros(n_keys + 2, np.int64)
    for i in range(n):
        starts[keys[i] + 2] += 1
    for k in range(n_keys):
        starts[k + 2] += starts[k + 1]
    rows = np.zeros(n, np.int64)
    for i in range(n):
        rows[starts[keys[i] + 1]] = i
        starts[keys[i] + 1] += 1
    return starts[: n_keys + 1], rows
