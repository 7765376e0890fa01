# cython: language_level=3
# mypy: ignore-errors
"""The nodes of a trie: flat arrays in depth-first order, and rows level by level.

What: `depth_first` makes the arrays from sorted byte strings, and finds what occurs below each node.
`by_level` packs the nodes into the rows that walks read, with the children of a node side by side.
When: once for each vocabulary (`equivalence.trie.trie`), and for each small trie of suffixes that an
exploration walks.
Limits: strings must be distinct, in byte order and not empty; that is not checked here.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import of_array
from cython.cimports.equivalence.arrays.utf8 import utf8_step
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.trie.nodes import ENDS_AT, OTHERS_AT, Node
from numpy.typing import NDArray

from equivalence.arrays.records import Kind

check_source(__name__)

TRIE_NODE = Kind("child group group_end bits", np.int32, "below_0 below_1")
"""A row of 32 bytes: the first child (the children of a node end where those of the next row begin); the
first group of the subtree, and the end of its groups; bits; two words of 64 bits with the ASCII bytes that
occur strictly below the node. Compiled modules use the struct `Node` of `nodes.pxd`."""

ENDS, BELOW_OTHERS = ENDS_AT, OTHERS_AT
"""Positions in the bits of a row, after the byte on the edge into the node: whether a group ends at the node,
and the two bits of the last word of `below` (`depth_first`)."""


def depth_first(
    data: cython.const[cython.uchar][::1], offsets: cython.const[cython.Py_ssize_t][::1]
) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]]:
    """Make the trie of sorted byte strings.

    Args:
        data: uint8, the strings side by side.
        offsets: int64[G + 1], where each begins; ascending, the last one is the length of `data`.

    Returns:
        The arrays of N nodes; node 0 is the root.

        - byte: uint8[N], the byte on the edge into a node.
        - depth: int32[N], number of bytes from the root.
        - skip: int32[N], the first node after a node's subtree.
        - group: int32[N + 1], number of strings that end before a node. Node ``i`` ends a string if and only
          if ``group[i + 1] > group[i]``; its subtree contains the strings from ``group[i]`` to before
          ``group[skip[i]]``.
        - below: uint64[N, 3], what occurs strictly below a node: two words with the ASCII bytes; then bit 0:
          a byte of 128 or more occurs, and bit 1: everything is well-formed UTF-8, perhaps cut off, if the
          node ends a character.
    """
    n_strings: cython.Py_ssize_t = offsets.shape[0] - 1
    # for each string, how many of its first bytes are equal to those of the previous one
    shared: cython.Py_ssize_t[::1] = np.zeros(n_strings, np.int64)
    n: cython.Py_ssize_t = 1
    longest: cython.Py_ssize_t = 0
    with cython.nogil:
        for g in range(n_strings):
            begin = offsets[g]
            length = offsets[g + 1] - begin
            if g > 0:
                before = offsets[g - 1]
                limit = min(length, begin - before)
                while shared[g] < limit and data[before + shared[g]] == data[begin + shared[g]]:
                    shared[g] += 1
            n += length - shared[g]
            longest = max(longest, length)
    byte: cython.uchar[::1] = np.zeros(n, np.uint8)
    depth: cython.int[::1] = np.zeros(n, np.int32)
    skip: cython.int[::1] = np.zeros(n, np.int32)
    group: cython.int[::1] = np.zeros(n + 1, np.int32)
    parent: cython.int[::1] = np.zeros(n, np.int32)
    below: cython.ulonglong[:, ::1] = np.zeros((n, 3), np.uint64)
    # the nodes from the root to the current one
    path: cython.Py_ssize_t[::1] = np.zeros(longest + 1, np.int64)
    node: cython.Py_ssize_t = 1
    open_depth: cython.Py_ssize_t = 0
    with cython.nogil:
        for g in range(n_strings):
            begin = offsets[g]
            length = offsets[g + 1] - begin
            for d in range(shared[g] + 1, open_depth + 1):
                skip[path[d]] = cython.cast(cython.int, node)
            for d in range(shared[g] + 1, length + 1):
                byte[node] = data[begin + d - 1]
                depth[node] = cython.cast(cython.int, d)
                group[node] = cython.cast(cython.int, g)
                parent[node] = cython.cast(cython.int, path[d - 1])
                path[d] = node
                node += 1
            open_depth = length
        for d in range(open_depth + 1):
            skip[path[d]] = cython.cast(cython.int, node)
        # a string comes before its extensions, so the node that ends group g comes before group g + 1
        group[node] = cython.cast(cython.int, n_strings)
    look_below(byte, parent, below, np.full(n, 0xFF, np.uint8))
    return np.asarray(byte), np.asarray(depth), np.asarray(skip), np.asarray(group), np.asarray(below)


@cython.cfunc
def look_below(
    byte: cython.uchar[::1],
    parent: cython.int[::1],
    below: cython.ulonglong[:, ::1],
    valid: cython.uchar[::1],
) -> cython.int:
    """Find what occurs below each node: from the last node to the first, add to its parent's row. Bit s of
    `valid` means that everything below a node is well-formed UTF-8 from state s of the decoder."""
    one: cython.ulonglong = 1
    n: cython.Py_ssize_t = byte.shape[0]
    with cython.nogil:
        for i in range(n - 1, 0, -1):
            p = cython.cast(cython.Py_ssize_t, parent[i])
            b = cython.cast(cython.Py_ssize_t, byte[i])
            for w in range(2):
                below[p, w] |= below[i, w]
            below[p, 2] |= below[i, 2] & 1
            if b < 128:
                below[p, b >> 6] |= one << (b & 63)
            else:
                below[p, 2] |= 1
            good: cython.ulonglong = 0
            for s in range(8):
                t = utf8_step(s, b)
                if t >= 0 and (valid[i] >> t) & 1:
                    good |= one << s
            valid[p] &= cython.cast(cython.uchar, good)
        for i in range(n):
            if valid[i] & 1:
                below[i, 2] |= 2
    return 0


def by_level(
    byte: cython.const[cython.uchar][::1],
    depth: cython.const[cython.int][::1],
    skip: cython.const[cython.int][::1],
    group: cython.const[cython.int][::1],
    below: cython.const[cython.ulonglong][:, ::1],
) -> NDArray[np.int32]:
    """The nodes level by level, int32[N + 1, 8], rows `TRIE_NODE`; the children of a node are side by side.

    In depth-first order, the next child is far away, after the whole subtree. With that order, walks of a
    JSON schema took 2.8 ms; with this one, they take 2.3 ms.

    Args:
        byte, depth, skip, group, below: the results of `depth_first`.
    """
    n = byte.shape[0]
    deepest: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(n):
            deepest = max(deepest, depth[i])
    rows = np.zeros((n + 1, 8), np.int32)
    nodes: Node[::1] = of_array(rows, TRIE_NODE)
    # the row of the next node on each level
    following: cython.Py_ssize_t[::1] = np.zeros(deepest + 3, np.int64)
    with cython.nogil:
        for i in range(n):
            following[depth[i] + 1] += 1
        for d in range(following.shape[0] - 1):
            following[d + 1] += following[d]
        for i in range(n):  # in depth-first order, also within each level
            d = depth[i]
            at = following[d]
            following[d] = at + 1
            nodes[at].child = cython.cast(cython.int, following[d + 1])
            nodes[at].group = group[i]
            nodes[at].group_end = group[skip[i]]
            ends: cython.Py_ssize_t = group[i + 1] > group[i]
            others = cython.cast(cython.Py_ssize_t, below[i, 2])
            bits = cython.cast(cython.Py_ssize_t, byte[i]) | ends << ENDS_AT | (others & 3) << OTHERS_AT
            nodes[at].bits = cython.cast(cython.int, bits)
            nodes[at].below_0 = cython.cast(cython.Py_ssize_t, below[i, 0])
            nodes[at].below_1 = cython.cast(cython.Py_ssize_t, below[i, 1])
        nodes[n].child = cython.cast(cython.int, n)
        nodes[n].group = group[n]
    return rows


def heights(nodes: NDArray[np.int32]) -> NDArray[np.int32]:
    """The length in bytes of the longest path down from each node, int32[N].

    Args:
        nodes: the result of `by_level`.
    """
    child: cython.const[cython.int][::1] = np.ascontiguousarray(nodes[:, 0])
    found = np.zeros(len(nodes) - 1, np.int32)
    height: cython.int[::1] = found
    with cython.nogil:
        for i in range(child.shape[0] - 2, -1, -1):  # children come after their node
            for k in range(child[i], child[i + 1]):
                height[i] = max(height[i], height[k] + 1)
    return found
