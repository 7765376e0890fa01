"""All numba kernels of this folder: flat arrays in, flat arrays out, nothing is validated here.

They run as plain Python too (``NUMBA_DISABLE_JIT=1``); mask words are uint32 views, so that setting bit 31
is the same operation in both.
"""

from __future__ import annotations

import numpy as np
from numba import njit

kernel = njit(cache=True, nogil=True)


@kernel
def members_by_class(class_of_token, n_classes):
    """CSR of tokens by class: (starts int64[n_classes + 1], tokens int32); class -1 is left out."""
    starts = np.zeros(n_classes + 1, np.int64)
    for t in range(class_of_token.size):
        c = np.int64(class_of_token[t])
        if c >= 0:
            starts[c + 1] += 1
    for c in range(n_classes):
        starts[c + 1] += starts[c]
    at = starts[:-1].copy()
    tokens = np.empty(starts[n_classes], np.int32)
    for t in range(class_of_token.size):
        c = np.int64(class_of_token[t])
        if c >= 0:
            tokens[at[c]] = t
            at[c] += 1
    return starts, tokens


@kernel
def class_sizes(starts, pieces):
    """int64[classes]: the number of tokens of each class, see `equivalence.runs.Members`."""
    sizes = np.zeros(starts.size - 1, np.int64)
    for c in range(sizes.size):
        for p in range(starts[c], starts[c + 1]):
            sizes[c] += pieces[p, 1] - pieces[p, 0]
    return sizes


@kernel
def dense_rows(starts, pieces, tokens, large, n_words):
    """uint32[len(large), n_words]: the bitmask of each large class."""
    rows = np.zeros((large.size, n_words), np.uint32)
    for i in range(large.size):
        c = np.int64(large[i])
        for p in range(starts[c], starts[c + 1]):
            for k in range(pieces[p, 0], pieces[p, 1]):
                t = np.int64(tokens[k])
                rows[i, t >> 5] |= np.uint32(1 << (t & 31))
    return rows


@kernel
def gather(class_words, n_classes, starts, pieces, tokens, row_of_class, rows, out):
    """Expand a class mask (uint32 words) into `out` (uint32 words): the union of the classes' tokens.

    A large class is one row to OR in; the tokens of a small one are set bit by bit.
    """
    n_words = out.size
    for w in range(n_words):
        out[w] = 0
    for word in range((n_classes + 31) // 32):
        bits = np.int64(class_words[word])
        if bits == 0:
            continue
        for i in range(min(32, n_classes - 32 * word)):
            if (bits >> i) & 1 == 0:
                continue
            c = 32 * word + i
            r = np.int64(row_of_class[c])
            if r >= 0:
                for w in range(n_words):
                    out[w] |= rows[r, w]
            else:
                for p in range(starts[c], starts[c + 1]):
                    for k in range(pieces[p, 0], pieces[p, 1]):
                        t = np.int64(tokens[k])
                        out[t >> 5] |= np.uint32(1 << (t & 31))


@kernel
def unite_rows(target, place, rows):
    """Unite each row (0 or 1 each) with the row of `target` at its place; places may repeat.

    (`np.maximum.at` took 0.2 ms for 200 rows.)
    """
    for i in range(place.size):
        row = target[place[i]]
        for k in range(rows.shape[1]):
            row[k] |= rows[i, k]
