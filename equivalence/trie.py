"""The flat depth-first trie of a vocabulary, and the ids of all suffixes of its tokens.

What: every distinct byte string of the vocabulary is one *group*; groups are numbered in byte order,
so that the tokens below a trie node are one range of groups. Equal byte strings share a group.
When: built once per vocabulary by `Vocabulary.trie`, read by every exploration.
Limits: token text only; ids without text have group -1. The arrays are read-only, whether they were built
or read from a file: numba compiles a kernel anew for arrays of another kind.

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

from equivalence import _kernels
from equivalence.store import Arrays, stored

STORED_VERSION = 2
"""Of what the stored arrays mean. A change of `build_trie` that gives an array of the same name other
contents needs another number; a change of the names does not."""


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
            read them (`_kernels.pack_nodes`).
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
    data = np.frombuffer(b"".join(distinct), np.uint8)
    lengths = np.array([len(token) for token in distinct], np.int64)
    offsets = np.zeros(len(distinct) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    longest = int(lengths.max()) if len(distinct) else 0
    byte, depth, skip, group, below = _kernels.build_trie(data, offsets, longest)
    suffix_parent, suffix_byte, group_suffix = _kernels.build_suffixes(data, offsets)
    suffix_order = _kernels.order_suffixes(suffix_parent, suffix_byte)
    first_byte = _kernels.first_byte_of_groups(byte, skip, group, len(distinct))
    nodes = _kernels.pack_nodes(byte, depth, skip, group, below)
    trie = Trie(
        byte, depth, skip, group, below, nodes, suffix_parent, suffix_byte, suffix_order, group_suffix,
        first_byte, group_of_token, longest,
    )  # fmt: skip
    return read_only(trie)


def stored_trie(build: Callable[[], Trie], fingerprint: str, folder: str | os.PathLike[str]) -> Trie:
    """A trie from its file in ``folder``; what `build` makes is written there if it is not there yet.

    Args:
        build: called where the file is missing or cannot be used.
        fingerprint: of the vocabulary that the trie belongs to; names the file.
        folder: made if it is missing.
    """
    kind = f"trie {STORED_VERSION}: {' '.join(Trie._fields)}"

    def as_arrays() -> Arrays:
        return {name: np.asarray(value) for name, value in build()._asdict().items()}

    path = Path(folder) / f"trie-{STORED_VERSION}-{fingerprint}.arrays"
    arrays = stored(path, as_arrays, kind=kind, key=fingerprint)
    longest = int(arrays.pop("longest"))
    return read_only(Trie(longest=longest, **arrays))


def read_only(trie: Trie) -> Trie:
    """The same trie, its arrays marked as read-only."""
    for value in trie:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return trie
