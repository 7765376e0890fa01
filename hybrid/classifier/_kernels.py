"""What the kernels of `hybrid.lark` use: tables by address, and hash tables of rows.

What: views of arrays whose addresses stand in one array, as to pass 40 arrays costs 10 us a call; rows (key,
key, ...) found by a hash of the two keys.
When: until those kernels are compiled ahead of time; nothing else uses this file.
Limits: nothing is validated here. They run as plain Python too (``NUMBA_DISABLE_JIT=1``).
"""

from __future__ import annotations

import ctypes

import numpy as np
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.extending import intrinsic, overload

from equivalence.interning._kernels import Interned, mix
from hybrid.classifier.store import NO_BYTE as NO_BYTE

kernel = njit(cache=True, nogil=True)
# LLVM's inlining, not numba's (see `_pointer`): to hand over 60 arrays in memory took 4 us
inlined = njit(cache=True, nogil=True, forceinline=True)

SEED = 11  # of the hash of pairs


def view(table, k, dtype):
    """Array k of a table of rows (address, rows, columns), one-dimensional where it has no columns."""
    address, rows, columns = (int(x) for x in table[k])
    shape = (rows, columns) if columns else (rows,)
    size = max(int(np.prod(shape)), 0)
    if size == 0:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (size * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def view_rows(table, k, dtype):
    """`view` of a two-dimensional array; compiled code has to know which."""
    return view(table, k, dtype)


@intrinsic
def _pointer(typing_context, table, place, dtype):
    """The pointer that a contiguous array of integers holds at a flat place.

    Nothing here is inlined by numba itself: its removal of dead code then drops stores into such arrays, as
    no one in the function seems to read them (numba 0.68). LLVM inlines all of it later.
    """
    element = types.CPointer(dtype.dtype)

    def generate(context, builder, signature, arguments):
        integers = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = context.get_value_type(signature.return_type)
        return builder.load(builder.bitcast(builder.gep(integers.data, [arguments[1]]), pointer.as_pointer()))

    return element(table, types.int64, dtype), generate


@overload(view, jit_options={"forceinline": True})
def _view(table, k, dtype):
    def implementation(table, k, dtype):
        return carray(_pointer(table, 3 * k, dtype), (table[k, 1],))  # type: ignore[call-arg]

    return implementation


@overload(view_rows, jit_options={"forceinline": True})
def _view_rows(table, k, dtype):
    def implementation(table, k, dtype):
        return carray(_pointer(table, 3 * k, dtype), (table[k, 1], table[k, 2]))  # type: ignore[call-arg]

    return implementation


@inlined
def interned_at(table, k):
    """The four arrays of an `Interned`."""
    return Interned(
        view(table, k, np.int32), view(table, k + 1, np.int64), view(table, k + 2, np.int64),
        view(table, k + 3, np.int64),
    )  # fmt: skip


@inlined
def pair_slot(a, b, rows):
    """The place of a pair in a hash table of rows (a, b, ...), or the empty one (-1) that it would have."""
    last = rows.shape[0] - 1
    slot = mix(mix(SEED, a), b) & last
    while rows[slot, 0] >= 0 and not (rows[slot, 0] == a and rows[slot, 1] == b):
        slot = (slot + 1) & last
    return np.int64(slot)


@kernel
def rehashed(rows):
    """A hash table of rows (key, key, ...) with twice the room."""
    larger = np.full((2 * rows.shape[0], rows.shape[1]), -1, np.int64)
    for i in range(rows.shape[0]):
        if rows[i, 0] >= 0:
            larger[pair_slot(rows[i, 0], rows[i, 1], larger)] = rows[i]
    return larger
