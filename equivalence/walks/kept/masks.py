# cython: language_level=3
# mypy: ignore-errors
"""Masks of bytes: what can follow below the known part of a block, independent of a grammar's byte classes.

What: a mask is eight words of 32 bits, one bit for each byte, as int64[8].
When: by `equivalence.walks.kept.walks`, for the blocks of each grammar.
Limits: none.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.equivalence.parser.space import Space
from numpy.typing import NDArray

from equivalence import built

built.check(__name__, EQUIMASK_SOURCE)


def class_masks(space: Space) -> NDArray[np.int64]:
    """The bytes of each class, int64[B, 8]."""
    masks: cython.Py_ssize_t[:, ::1] = np.zeros((space.n_classes, 8), np.int64)
    for b in range(256):
        masks[space.class_of_byte[b], b >> 5] |= cython.cast(cython.Py_ssize_t, 1) << (b & 31)
    return np.asarray(masks)


def masks_of_blocks(
    users: cython.const[cython.Py_ssize_t][:, ::1],
    n_blocks: cython.Py_ssize_t,
    firsts: cython.const[cython.uchar][:, ::1],
    of_class: cython.const[cython.Py_ssize_t][:, ::1],
) -> NDArray[np.int64]:
    """What can follow below the known part, for some user of each block, int64[blocks, 8].

    Args:
        users: int64[n, 2], rows (context, block).
        n_blocks: number of blocks.
        firsts: uint8[contexts, B], the byte classes that can follow below the known part of each context.
        of_class: the result of `class_masks`.
    """
    of_context: cython.Py_ssize_t[:, ::1] = np.zeros((firsts.shape[0], 8), np.int64)
    with cython.nogil:
        for i in range(firsts.shape[0]):
            for c in range(firsts.shape[1]):
                if firsts[i, c]:
                    for w in range(8):
                        of_context[i, w] |= of_class[c, w]
    number: cython.Py_ssize_t[::1] = numbered(of_context)[0]
    masks: cython.Py_ssize_t[:, ::1] = np.zeros((n_blocks, 8), np.int64)
    last: cython.Py_ssize_t[::1] = np.full(n_blocks, -1, np.int64)
    with cython.nogil:
        for u in range(users.shape[0]):
            i = users[u, 0]
            block = users[u, 1]
            if number[i] != last[block]:
                last[block] = number[i]
                for w in range(8):
                    masks[block, w] |= of_context[i, w]
    return np.asarray(masks)


def numbered(
    masks: cython.const[cython.Py_ssize_t][:, ::1],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of masks in order of first occurrence, int64[n], and the distinct masks, int64[k, 8]."""
    n: cython.Py_ssize_t = masks.shape[0]
    known = Interned(64, 8)
    numbers: cython.Py_ssize_t[::1] = np.empty(n, np.int64)
    with cython.nogil:
        for i in range(n):
            at = known.room(8)
            same: cython.bint = i > 0
            for w in range(8):
                known.pool[at + w] = masks[i, w]
                if i > 0 and masks[i, w] != masks[i - 1, w]:
                    same = False
            numbers[i] = numbers[i - 1] if same else known.intern(8)
    return np.asarray(numbers), np.array(known.pool[: known.used]).reshape(-1, 8)


def in_order_of_masks(
    masks: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort blocks so that equal masks are side by side: int64[n], the blocks; int64[n], the number of each
    mask.

    Args:
        masks: int64[blocks, 8].
        chosen: int64[n], the blocks.
    """
    numbers, distinct = numbered(masks[chosen])
    if len(distinct) > 1:
        # numpy sorts 16 bits by counting, 64 bits by comparing
        narrow = numbers.astype(np.uint16) if len(distinct) < 1 << 16 else numbers
        order = np.argsort(narrow, kind="stable")
        chosen, numbers = chosen[order], numbers[order]
    return chosen, numbers


def class_rows(
    masks: NDArray[np.int64], of_class: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Masks as rows of byte classes: int64[n], the row of each mask; uint8[k, B], the distinct rows.

    A byte class of which a mask contains only a part counts as a whole.

    Args:
        masks: int64[n, 8].
        of_class: the result of `class_masks`.
    """
    numbers, distinct = numbered(masks)
    return numbers, ((distinct[:, None] & of_class[None]) != 0).any(axis=2).astype(np.uint8)


def widened(masks: NDArray[np.int64], of_class: NDArray[np.int64]) -> NDArray[np.int64]:
    """Masks widened to whole byte classes, because the masks of another grammar may divide bytes differently.

    Args:
        masks, of_class: as for `class_rows`.
    """
    rows, classes = class_rows(masks, of_class)
    distinct = np.where(classes[:, :, None] != 0, of_class[None], 0)
    return np.bitwise_or.reduce(distinct, axis=1)[rows]
