"""The flat trie of a vocabulary, and the ids of all suffixes of its tokens.

What: every distinct byte string of the vocabulary is a *group*; tokens with equal byte strings share a group.
Groups are numbered in byte order, so that the tokens below a node of the trie are one range of groups.
When: built once for each vocabulary by `Vocabulary.trie`, and read by every exploration.
Limits: token text only; ids without text have group -1. The arrays are read-only.

The suffixes of tokens are the nodes of a second trie, of the *reversed* tokens. Dropping the first byte of a
suffix is one step to its parent, so 830,000 suffixes of a 128k vocabulary need 265,000 small nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.ranges import ranges, starts_of
from equivalence.trie.nodes import nodes_of
from equivalence.trie.suffixes import suffixes_of

Integers = NDArray[np.int64]


class Trie(NamedTuple):
    """Flat arrays of N nodes and G groups. Node 0 is the root.

    Attributes:
        nodes: int32[N + 1, 8], the nodes as rows, level by level, with the children of a node side by side
            (`equivalence.trie.nodes.nodes_of`).
        suffix_parent: int32[S], the suffix without its first byte; suffix 0 is empty.
        suffix_byte: uint8[S], the first byte of a suffix.
        suffix_order: int32[S - 1], all suffixes except the empty one, in byte order.
        group_suffix: int32[G], the whole byte string of a group, as a suffix.
        first_byte: uint8[G], the first byte of a group.
        group_of_token: int32[V], group of each token id; -1 for ids without text.
        token_order: int32, the ids with text, by group; ascending within each group.
        longest: bytes of the longest token.
    """

    nodes: NDArray[np.int32]
    suffix_parent: NDArray[np.int32]
    suffix_byte: NDArray[np.uint8]
    suffix_order: NDArray[np.int32]
    group_suffix: NDArray[np.int32]
    first_byte: NDArray[np.uint8]
    group_of_token: NDArray[np.int32]
    token_order: NDArray[np.int32]
    longest: int

    @property
    def n_groups(self) -> int:
        """Number of distinct byte strings."""
        return int(self.group_suffix.size)


def build_trie(tokens: Sequence[bytes]) -> Trie:
    """Build the trie of the non-empty byte strings among ``tokens`` (index = token id)."""
    data, bounds = side_by_side(tokens)
    with_text = (index for index, token in enumerate(tokens) if token)
    token_order = np.array(sorted(with_text, key=tokens.__getitem__), np.int32)
    suffix_parent, suffix_byte, suffix_of = suffixes_of(*_texts_of(token_order, data, bounds))
    suffix_order = _suffix_order(suffix_parent, suffix_byte)
    is_new = np.diff(suffix_of, prepend=-1) != 0  # equal tokens are neighbours
    group_of_token = np.full(len(bounds) - 1, -1, np.int32)
    group_of_token[token_order] = np.cumsum(is_new) - 1
    text, begins = _texts_of(token_order[is_new], data, bounds)
    nodes = nodes_of(text, begins)
    trie = Trie(
        nodes, suffix_parent, suffix_byte, suffix_order, suffix_of[is_new], text[begins[:-1]],
        group_of_token, token_order, int(np.diff(begins).max(initial=0)),
    )  # fmt: skip
    return read_only(trie)


def side_by_side(texts: Sequence[bytes]) -> tuple[NDArray[np.uint8], Integers]:
    """The bytes of some texts, uint8, and the bounds of each text, int64[n + 1]."""
    return np.frombuffer(b"".join(texts), np.uint8), starts_of([len(text) for text in texts])


def _texts_of(
    ids: NDArray[np.int32], data: NDArray[np.uint8], bounds: Integers
) -> tuple[NDArray[np.uint8], Integers]:
    """The bytes of some tokens side by side, and where each token begins."""
    begins, places = ranges(bounds[ids], np.diff(bounds)[ids])
    return data[places], begins


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


def read_only(trie: Trie) -> Trie:
    """Mark the arrays of a trie as read-only, and return the trie."""
    for value in trie:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return trie
