# cython: language_level=3
# mypy: ignore-errors
"""Masking logits on the CPU: those of ids whose bit is 0 become -inf.

What: `mask_logits` masks one row. `empty_rows` finds the rows of a bitmask that would leave no logit.
When: in `hybrid.apply_token_bitmask_inplace`, if the logits are on the CPU. A mask that allows a few of
128k ids takes 20 us, and 600 us with XGrammar's kernel (0.2.8), which finds the zero bits one by one. That
kernel also writes beyond the last id if a row allows all ids.
Limits: float types are passed as integers of the same width, because numpy has no bfloat16.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.arrays.bits import ones
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)

FEW = cython.declare(cython.Py_ssize_t, 12)
"""Up to so many ids of a word are masked one by one; for more, it is faster to look at all 32."""

Bits = cython.fused_type(cython.short, cython.int)


def mask_logits(
    logits: Bits[::1], bitmask: cython.const[cython.int][::1], size: cython.Py_ssize_t, infinity: Bits
) -> None:
    """Mask one row.

    Args:
        logits: int16[n] or int32[n], the bits of the logits; written.
        bitmask: int32[words], a bit for each id.
        size: number of ids to mask, at most n and 32 * words.
        infinity: the bits of -inf.

    Raises:
        IndexError: `size` is larger.
    """
    if not 0 <= size <= min(logits.shape[0], 32 * bitmask.shape[0]):
        raise IndexError(f"{size} ids for {logits.shape[0]} logits and {bitmask.shape[0]} words")
    with cython.nogil:
        for word in range((size + 31) >> 5):
            begin = word << 5
            within: cython.uint = ~cython.cast(cython.uint, 0)
            if begin + 32 > size:
                within >>= begin + 32 - size
            cleared: cython.uint = ~cython.cast(cython.uint, bitmask[word]) & within
            if cleared == 0:
                continue
            n_cleared = ones(cleared)
            if n_cleared == 32:
                for i in range(32):
                    logits[begin + i] = infinity
            elif n_cleared <= FEW:
                while cleared:
                    lowest: cython.uint = cleared & -cleared
                    logits[begin + ones(lowest - 1)] = infinity
                    cleared ^= lowest
            else:
                for i in range(min(size - begin, 32)):
                    # without a branch, which would often be mispredicted
                    kept: cython.int = -cython.cast(cython.int, ~(cleared >> i) & 1)
                    logits[begin + i] = (logits[begin + i] & kept) | (infinity & ~kept)


def empty_rows(bitmask: cython.const[cython.int][:, ::1], rows: list) -> list:
    """Return those of some rows that allow no token.

    A row takes some ns if it allows one of the first ids, and 1 us if it allows only one of 128k or none.

    Args:
        bitmask: int32[rows, words], a bit for each id.
        rows: numbers of rows.

    Raises:
        IndexError: there is no such row.
    """
    found = []
    for row in rows:
        at: cython.Py_ssize_t = row
        if not 0 <= at < bitmask.shape[0]:
            raise IndexError(f"there is no row {at} of {bitmask.shape[0]}")
        word: cython.Py_ssize_t = 0
        while word < bitmask.shape[1] and bitmask[at, word] == 0:
            word += 1
        if word == bitmask.shape[1]:
            found.append(at)
    return found
