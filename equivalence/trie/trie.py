"""The flat depth-first trie of a vocabulary, and the ids of all suffixes of its tokens.

What: every distinct byte string of the vocabulary is a *group*; tokens with equal byte strings share a group.
Groups are numbered in byte order, so that the tokens below a node of the trie are one range of groups.
When: built once for each vocabulary by `Vocabulary.trie`, and read by every exploration.
Limits: token text only; ids without text have group -1. The arrays are read-only, whether they were built or
come from a file.

A file only contains what is slow to compute: the order of the tokens, and that of their suffixes. Both are
checked against the tokens, and everything else is computed again. So a file cannot cause a wrong trie,
whoever made it.

The suffixes of tokens are the nodes of a second trie, of the *reversed* tokens. Dropping the first byte of a
suffix is one step to its parent, so 830,000 suffixes of a 128k vocabulary need 265,000 small nodes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.store import Arrays, Unusable, stored
from equivalence.trie.nodes import by_level, depth_first, heights
from equivalence.trie.suffixes import suffixes_of

Integers = NDArray[np.int64]

STORED_VERSION = 3
"""Version of the meaning of the stored arrays. A change of `build_trie` that gives an array other contents
under the same name needs another version; a change of the names does not."""

STORED = ("group_of_token", "suffix_order")
"""The arrays of a trie that are stored in a file."""

HEADER_BYTES = 4096
"""Most bytes of a file besides its numbers."""


class Trie(NamedTuple):
    """Flat arrays of N nodes and G groups.

    Node 0 is the root. Nodes are in depth-first order, except in `nodes` and `height`.

    Attributes:
        byte: uint8[N], the byte on the edge into a node.
        depth: int32[N], number of bytes from the root.
        skip: int32[N], the first node after a node's subtree.
        group: int32[N + 1], number of groups that end before a node. Node ``i`` ends a token if and only if
            ``group[i + 1] > group[i]``; its subtree contains the groups from ``group[i]`` to before
            ``group[skip[i]]``.
        below: int64[N, 5], what occurs strictly below a node: four 32-bit words with the ASCII bytes; then
            bit 0: a byte of 128 or more occurs, and bit 1: everything is well-formed UTF-8, perhaps cut off,
            if the node ends a character.
        nodes: int32[N + 1, 8], the same as rows, level by level, with the children of a node side by side, as
            walks read them (`equivalence.trie.nodes.by_level`).
        height: int32[N], the length in bytes of the longest path down from a node, in the order of `nodes`.
        suffix_parent: int32[S], the suffix without its first byte; suffix 0 is empty.
        suffix_byte: uint8[S], the first byte of a suffix.
        suffix_order: int32[S - 1], all suffixes except the empty one, in byte order.
        group_suffix: int32[G], the whole byte string of a group, as a suffix.
        first_byte: uint8[G], the first byte of a group.
        group_of_token: int32[V], group of each token id; -1 for ids without text.
        longest: bytes of the longest token.
    """

    byte: NDArray[np.uint8]
    depth: NDArray[np.int32]
    skip: NDArray[np.int32]
    group: NDArray[np.int32]
    below: NDArray[np.int64]
    nodes: NDArray[np.int32]
    height: NDArray[np.int32]
    suffix_parent: NDArray[np.int32]
    suffix_byte: NDArray[np.uint8]
    suffix_order: NDArray[np.int32]
    group_suffix: NDArray[np.int32]
    first_byte: NDArray[np.uint8]
    group_of_token: NDArray[np.int32]
    longest: int

    @property
    def n_groups(self) -> int:
        """Number of distinct byte strings."""
        return int(self.group_suffix.size)


def build_trie(tokens: Sequence[bytes]) -> Trie:
    """Build the trie of the non-empty byte strings among ``tokens`` (index = token id)."""
    distinct = sorted({token for token in tokens if token})
    number = {token: index for index, token in enumerate(distinct)}
    group_of_token = np.array([number.get(token, -1) for token in tokens], np.int32)
    offsets = np.zeros(len(distinct) + 1, np.int64)
    np.cumsum([len(token) for token in distinct], out=offsets[1:])
    return _trie_of(np.frombuffer(b"".join(distinct), np.uint8), offsets, group_of_token, None)


def _trie_of(
    data: NDArray[np.uint8],
    offsets: Integers,
    group_of_token: NDArray[np.int32],
    suffix_order: NDArray[np.int32] | None,
) -> Trie:
    """Build the trie of sorted, distinct byte strings.

    Args:
        data, offsets: the strings, and where each begins.
        group_of_token: see `Trie`.
        suffix_order: the order of the suffixes, from a file, which is checked; ``None``: compute it.

    Raises:
        Unusable: the order is wrong.
    """
    byte, depth, skip, group, below = depth_first(data, offsets)
    suffix_parent, suffix_byte, group_suffix = suffixes_of(data, offsets)
    if suffix_order is None:
        suffix_order = _suffix_order(suffix_parent, suffix_byte)
    elif not _is_suffix_order(suffix_order, suffix_parent, suffix_byte):
        raise Unusable("its suffixes are not in order")
    nodes = by_level(byte, depth, skip, group, below)
    longest = int(np.diff(offsets).max(initial=0))
    trie = Trie(
        byte, depth, skip, group, below, nodes, heights(nodes), suffix_parent, suffix_byte, suffix_order,
        group_suffix, data[offsets[:-1]], group_of_token, longest,
    )  # fmt: skip
    return read_only(trie)


def stored_trie(
    build: Callable[[], Trie],
    flat: tuple[NDArray[np.uint8], Integers],
    fingerprint: str,
    folder: str | os.PathLike[str],
) -> Trie:
    """Read a trie from its file in ``folder``. If that fails, build the trie and write the file.

    Args:
        build: builds the trie.
        flat: the tokens of the vocabulary that the trie belongs to (`Vocabulary.flat`).
        fingerprint: that of this vocabulary; part of the file's name.
        folder: created if it is missing.
    """
    return stored(
        Path(folder) / f"trie-{STORED_VERSION}-{fingerprint}.arrays",
        build,
        kind=f"trie {STORED_VERSION}: {' '.join(STORED)}",
        key=fingerprint,
        most=HEADER_BYTES + 4 * (len(flat[0]) + len(flat[1])),
        read=lambda arrays: _checked(arrays, *flat),
        write=lambda trie: {name: getattr(trie, name) for name in STORED},
    )


def _checked(arrays: Arrays, data: NDArray[np.uint8], offsets: Integers) -> Trie:
    """Make the trie of tokens with the orders from the arrays of a file.

    Raises:
        Unusable: these are not the orders of the tokens.
    """
    if tuple(arrays) != STORED or any(
        array.dtype != np.int32 or array.ndim != 1 for array in arrays.values()
    ):
        raise Unusable("it holds other arrays")
    groups, suffix_order = arrays.values()
    lengths = np.diff(offsets)
    if len(groups) != len(lengths) or not np.array_equal(groups, np.where(lengths > 0, groups, -1)):
        raise Unusable("its groups are not those of the tokens that are text")
    ids = np.flatnonzero(lengths)
    of_text = groups[ids]
    n_groups = int(of_text.max(initial=-1)) + 1
    if n_groups > len(ids) or int(of_text.min(initial=0)) < 0:
        raise Unusable("its groups are out of range")
    one = np.full(n_groups, -1, np.int64)
    one[of_text] = ids  # one token of each group
    if (one < 0).any():
        raise Unusable("its groups are not numbered without gaps")
    others = ids[one[of_text] != ids]
    twins = one[groups[others]]
    text, begins = _gathered(twins, data, offsets)
    same, ends = _gathered(others, data, offsets)
    if not np.array_equal(begins, ends) or not np.array_equal(text, same):
        raise Unusable("a group has different tokens")
    text, begins = _gathered(one, data, offsets)
    if not _ascend(text, begins):
        raise Unusable("its groups are not in byte order")
    return _trie_of(text, begins, groups, suffix_order)


def _gathered(
    ids: Integers, data: NDArray[np.uint8], offsets: Integers
) -> tuple[NDArray[np.uint8], Integers]:
    """The bytes of some tokens side by side, and where each token begins."""
    lengths = (offsets[1:] - offsets[:-1])[ids]
    begins = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(lengths, out=begins[1:])
    text = data[np.repeat(offsets[ids] - begins[:-1], lengths) + np.arange(begins[-1])]
    text.flags.writeable = False  # like the bytes in `build_trie`
    return text, begins


def _ascend(text: NDArray[np.uint8], begins: Integers) -> bool:
    """Whether byte strings side by side are in byte order, and distinct."""
    pairs = np.arange(max(len(begins) - 2, 0))  # the first of two neighbours that are equal so far
    depth = 0
    while len(pairs):
        first, second = begins[pairs] + depth, begins[pairs + 1] + depth
        if (second >= begins[pairs + 2]).any():  # it is a prefix of the first one, or the same
            return False
        goes_on = first < begins[pairs + 1]
        pairs, bytes_of_first, bytes_of_second = pairs[goes_on], text[first[goes_on]], text[second[goes_on]]
        if (bytes_of_first > bytes_of_second).any():
            return False
        pairs = pairs[bytes_of_first == bytes_of_second]
        depth += 1
    return True


SYMBOLS = 7
"""Bytes by which suffixes are sorted at first: nine bits for each, in a key of 63 bits."""


def _suffix_order(parent: NDArray[np.int32], first: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Sort all suffixes except the empty one in byte order.

    First, suffixes are sorted by seven bytes. Those that are still equal are sorted by the position that this
    order gives to their rests after seven bytes, which makes it the order by 14 bytes; then by 28 bytes, and
    so on. (Walking a trie of all suffixes depth first took 0.6 to 2.3 s for 265,000 to 707,000 suffixes.)
    """
    n = len(parent)
    symbol = first.astype(np.int64) + 1
    symbol[0] = 0  # the empty suffix: nothing left to read
    key, rest = symbol, parent
    for _ in range(SYMBOLS - 1):
        key = key << 9 | symbol[rest]
        rest = parent[rest]
    order = np.argsort(key)
    key = key[order]
    rank = np.empty(n, np.int64)  # for each suffix, the place of the first one that is equal so far
    places = np.arange(n)  # places of suffixes that are still equal to others
    while True:
        begins = np.append(True, key[1:] != key[:-1])
        rank[order[places]] = places[np.maximum.accumulate(np.where(begins, np.arange(len(places)), 0))]
        places = places[~(begins & np.append(begins[1:], True))]
        if not len(places):
            return order[1:].astype(np.int32)
        ids = order[places]
        key = rank[ids] * n + rank[rest[ids]]
        by_key = np.argsort(key)
        order[places], key = ids[by_key], key[by_key]
        rest = rest[rest]


def _is_suffix_order(order: NDArray[np.int32], parent: NDArray[np.int32], first: NDArray[np.uint8]) -> bool:
    """Whether these are all suffixes except the empty one, in byte order.

    Two suffixes compare by their first bytes, and then as their rests do, which are suffixes, too. So if all
    neighbours are in order by (first byte, position of the rest), all suffixes are.
    """
    n = len(parent)
    if len(order) != n - 1 or int(order.min(initial=1)) < 1 or int(order.max(initial=0)) >= n:
        return False
    rank = np.full(n, -1, np.int64)
    rank[order] = np.arange(n - 1)
    keys = (first[order].astype(np.int64) << 32) + rank[parent[order]]
    return bool((rank[1:] >= 0).all() and (keys[:-1] < keys[1:]).all())


def read_only(trie: Trie) -> Trie:
    """Mark the arrays of a trie as read-only, and return the trie."""
    for value in trie:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return trie
