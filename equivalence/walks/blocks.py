# cython: language_level=3
# mypy: ignore-errors
"""Blocks: what contexts have in common after the first byte of a token.

What: a *block* is (byte, configuration after it). Contexts with the same configuration after the first byte
treat all tokens with this first byte alike, so a block is walked once for all of them. For example, the 50
contexts inside the property names of an object with additional properties share one block of string text.
When: before the tokens of blocks are walked (`equivalence.walks.walks`).
Limits: those of the `Space`.
"""

from __future__ import annotations

from typing import NamedTuple

import cython
import numpy as np
from cython.cimports.equivalence.parser.space import REJECT, Space, after
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.ranges import starts_of

check_source(__name__)


class Blocks(NamedTuple):
    """The blocks of some contexts.

    Attributes:
        block_starts: int64[257], where the blocks of each first byte start.
        blocks: int64[blocks], the configuration of each block.
        user_starts: int64[257], where the users of each first byte start.
        users: int64[users, 2], rows (context, block).
    """

    block_starts: NDArray[np.int64]
    blocks: NDArray[np.int64]
    user_starts: NDArray[np.int64]
    users: NDArray[np.int64]


def find_blocks(
    space: Space,
    contexts: cython.const[cython.Py_ssize_t][::1],
    child: NDArray[np.int64],
) -> Blocks:
    """Find the blocks of some contexts.

    Args:
        space: the configurations.
        contexts: int64[n], symbols as for `Space.context_of`.
        child: int64[256], nonzero for the bytes with which tokens begin.

    Raises:
        BudgetExceeded: more configurations or bytes than allowed, or told to stop.
        ValueError: arrays of another type or shape.
    """
    if len(child) != 256:
        raise ValueError("other than 256 bytes")
    n_contexts: cython.Py_ssize_t = contexts.shape[0]
    n_classes: cython.Py_ssize_t = space.n_classes
    found = np.zeros((n_classes, n_contexts), np.int32)  # it is read class by class
    following: cython.int[:, ::1] = found
    with cython.nogil:
        for i in range(n_contexts):
            start = space.context(contexts[i])
            for c in range(n_classes):
                following[c, i] = cython.cast(cython.int, after(space, start, c))
    return _numbered(space, found, child != 0)


def _numbered(space: Space, following: cython.const[cython.int][:, ::1], begins: NDArray[np.bool_]) -> Blocks:
    """Number the blocks, given the configuration after each class of bytes on each context, int32[B,
    contexts], and whether tokens begin with each byte."""
    n_contexts: cython.Py_ssize_t = following.shape[1]
    per_class = np.count_nonzero(following, axis=1)
    starts = starts_of(np.where(begins, per_class[np.asarray(space.class_of_byte)], 0))
    users: cython.Py_ssize_t[:, ::1] = np.zeros((starts[256], 2), np.int64)
    block_starts: cython.Py_ssize_t[::1] = np.zeros(257, np.int64)
    blocks: cython.Py_ssize_t[::1] = np.zeros(starts[256], np.int64)
    number: cython.Py_ssize_t[::1] = np.full(space.configurations.count, -1, np.int64)
    has_tokens: cython.const[cython.uchar][::1] = begins.view(np.uint8)
    n_blocks: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t = 0
    with cython.nogil:
        for b in range(256):
            first_block = n_blocks
            if has_tokens[b]:
                c = space.class_of_byte[b]
                for i in range(n_contexts):
                    configuration = following[c, i]
                    if configuration == REJECT:
                        continue
                    if number[configuration] < first_block:
                        number[configuration] = n_blocks
                        blocks[n_blocks] = configuration
                        n_blocks += 1
                    users[n, 0] = i
                    users[n, 1] = number[configuration]
                    n += 1
            block_starts[b + 1] = n_blocks
    return Blocks(np.asarray(block_starts), np.array(blocks[:n_blocks]), starts, np.asarray(users))


def united_firsts(
    users: cython.const[cython.Py_ssize_t][:, ::1],
    firsts: cython.const[cython.uchar][:, ::1],
    n_blocks: cython.Py_ssize_t,
) -> NDArray[np.uint8]:
    """Unite, for each block, what can follow below the known part of the stack of its users.

    Args:
        users: see `Blocks`.
        firsts: uint8[contexts, B], what can follow below the known part of each context.
        n_blocks: number of blocks.

    Returns:
        uint8[blocks, B], with B rounded up: eight classes are one word, because a block has many users.
    """
    padded = np.zeros((firsts.shape[0], (firsts.shape[1] + 7) & ~7), np.uint8)
    padded[:, : firsts.shape[1]] = firsts
    of_context: cython.const[cython.Py_ssize_t][:, ::1] = padded.view(np.int64)
    first: cython.Py_ssize_t[:, ::1] = np.zeros((n_blocks, of_context.shape[1]), np.int64)
    with cython.nogil:
        for u in range(users.shape[0]):
            for w in range(of_context.shape[1]):
                first[users[u, 1], w] |= of_context[users[u, 0], w]
    return np.asarray(first).view(np.uint8)
