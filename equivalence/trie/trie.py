"""The flat depth-first trie of a vocabulary, and the ids of all suffixes of its tokens.

What: every distinct byte string of the vocabulary is one *group*; groups are numbered in byte order,
so that the tokens below a trie node are one range of groups. Equal byte strings share a group.
When: built once per vocabulary by `Vocabulary.trie`, read by every exploration.
Limits: token text only; ids without text have group -1. The arrays are read-only, whether they were built
or come from a file.

A file keeps only what is slow to find: the order of the tokens, and that of their suffixes. Both are
compared with the tokens, and the rest is made again: no file, whoever made it, gives a wrong trie.

A suffix of a token is the node of a second trie, of the *reversed* tokens: dropping the first byte of a
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
"""Of what the stored arrays mean. A change of `build_trie` that gives an array of the same name other
contents needs another number; a change of the names does not."""

STORED = ("group_of_token", "suffix_order")
"""What a file holds of a trie."""

HEADER_BYTES = 4096
"""What a file has besides its numbers, at most."""


class Trie(NamedTuple):
    """Flat arrays; node 0 is the root, nodes are in depth-first order but for `nodes`; N nodes and G groups.

    Attributes:
        byte: uint8[N], the byte on the edge into a node.
        depth: int32[N], number of bytes from the root.
        skip: int32[N], the first node after a node's subtree.
        group: int32[N + 1], number of groups that end before a node; node ``i`` ends a token iff
            ``group[i + 1] > group[i]``, and its subtree holds groups ``group[i]`` to ``group[skip[i]]``.
        below: int64[N, 5], what occurs strictly below a node: four words of 32 bits with the ASCII bytes,
            then bit 0: a byte of 128 or more occurs, bit 1: all of it is (cut off) well-formed UTF-8
            when the node ends a character.
        nodes: int32[N + 1, 8], all of these in one row a node, the children of a node side by side, as walks
            read them (`trie_nodes.by_level`).
        height: int32[N], the bytes of the longest way down from a node, in the order of `nodes`.
        suffix_parent: int32[S], the suffix without its first byte; suffix 0 is empty.
        suffix_byte: uint8[S], the first byte of a suffix.
        suffix_order: int32[S - 1], the suffixes but the empty one, in byte order.
        group_suffix: int32[G], the whole byte string of a group, as a suffix.
        first_byte: uint8[G], the first byte of a group.
        group_of_token: int32[V], group of each token id, -1 for ids without text.
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
    """The trie of the non-empty byte strings among ``tokens`` (index = token id)."""
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
    """The trie of distinct byte strings in order.

    Args:
        data, offsets: the strings, and where each begins.
        suffix_order: what somebody says the order of the suffixes is; ``None``: it is found.

    Raises:
        Unusable: it is not that.
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
    """A trie from its file in ``folder``; what `build` makes is written there if it is not there yet.

    Args:
        build: called where the file is missing or cannot be used.
        flat: the tokens of the vocabulary that the trie belongs to (`Vocabulary.flat`).
        fingerprint: of this vocabulary; names the file.
        folder: made if it is missing.
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
    """The trie of tokens, by the orders that the arrays of a file say.

    Raises:
        Unusable: they are not those of the tokens.
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
    one[of_text] = ids  # of each group some token
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
    """The bytes of some tokens side by side, and where those of each begin."""
    lengths = (offsets[1:] - offsets[:-1])[ids]
    begins = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(lengths, out=begins[1:])
    text = data[np.repeat(offsets[ids] - begins[:-1], lengths) + np.arange(begins[-1])]
    text.flags.writeable = False  # as the bytes are that `build_trie` has
    return text, begins


def _ascend(text: NDArray[np.uint8], begins: Integers) -> bool:
    """Whether byte strings side by side are in byte order, and distinct."""
    pairs = np.arange(max(len(begins) - 2, 0))  # the first of two neighbours that are equal so far
    depth = 0
    while len(pairs):
        first, second = begins[pairs] + depth, begins[pairs + 1] + depth
        if (second >= begins[pairs + 2]).any():  # it ends, and the first goes on or is the same
            return False
        goes_on = first < begins[pairs + 1]
        pairs, bytes_of_first, bytes_of_second = pairs[goes_on], text[first[goes_on]], text[second[goes_on]]
        if (bytes_of_first > bytes_of_second).any():
            return False
        pairs = pairs[bytes_of_first == bytes_of_second]
        depth += 1
    return True


SYMBOLS = 7
"""Bytes that suffixes are sorted by at first: nine bits each, in 63 bits of a key."""


def _suffix_order(parent: NDArray[np.int32], first: NDArray[np.uint8]) -> NDArray[np.int32]:
    """All suffixes but the empty one, in byte order.

    Sorted by their first seven bytes; those that are equal so far by where that order has the rest of them,
    which makes it the order by 14 bytes, then by 28, and so on. (A trie of all suffixes, walked depth first,
    took 0.6 to 2.3 s for 265,000 to 707,000 of them.)
    """
    n = len(parent)
    symbol = first.astype(np.int64) + 1
    symbol[0] = 0  # nothing more to read
    key, rest = symbol, parent
    for _ in range(SYMBOLS - 1):
        key = key << 9 | symbol[rest]
        rest = parent[rest]
    order = np.argsort(key)
    key = key[order]
    rank = np.empty(n, np.int64)  # of each suffix the place of the first that is equal so far
    places = np.arange(n)  # those whose suffixes may be equal to others
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
    """Whether suffixes are in byte order, all but the empty one.

    Two suffixes compare by their first bytes, and then as what is left of them does, of which the order says
    the same: so if all neighbours are in order by (first byte, rank of the rest), all are.
    """
    n = len(parent)
    if len(order) != n - 1 or int(order.min(initial=1)) < 1 or int(order.max(initial=0)) >= n:
        return False
    rank = np.full(n, -1, np.int64)
    rank[order] = np.arange(n - 1)
    keys = (first[order].astype(np.int64) << 32) + rank[parent[order]]
    return bool((rank[1:] >= 0).all() and (keys[:-1] < keys[1:]).all())


def read_only(trie: Trie) -> Trie:
    """The same trie, its arrays marked as read-only."""
    for value in trie:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return trie
