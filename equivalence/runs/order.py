"""A vocabulary in byte order, and classes of tokens as runs of it.

What: `ByteOrder` lists the ids by the groups of the trie, with what numbering classes asks of any run of
them; `ClassRuns` says the class of each run; `members_of` lists the tokens of each class, `tokens_of` gives
the class of each token.
When: the order is made once per vocabulary; a grammar cuts it into some thousands of runs, and little that it
needs looks at each of 128,000 tokens.
Limits: runs say nothing of stop ids that are also text (`number_runs` tells whether any is in a class).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.runs.numbering import NOBODY, least_tree, pieces_of_runs, tokens_of_runs

Integers = NDArray[np.int64]


class ByteOrder(NamedTuple):
    """The ids of a vocabulary by group, G groups.

    Attributes:
        byte_starts: int64[257], the first group of each first byte; the last entry is G.
        token_starts: int64[G + 1], where the ids of each group begin.
        tokens: int32, the ids that are text, by group; ascending within one.
        first_ids: minima over the least id of each group (`numbering.least_tree`), stop ids left out.
        shortest: the same of length * 2**32 + id.
        n_ids: ids of the vocabulary, V.
    """

    byte_starts: Integers
    token_starts: Integers
    tokens: NDArray[np.int32]
    first_ids: Integers
    shortest: Integers
    n_ids: int


class ClassRuns(NamedTuple):
    """Classes of the groups of a trie, run by run.

    Attributes:
        starts: int64[R + 1], the first group of each run.
        classes: int32[R], its class, -1 = never allowed.
    """

    starts: Integers
    classes: NDArray[np.int32]


class Members(NamedTuple):
    """The tokens of each class, as pieces of one array.

    Attributes:
        starts: int64[classes + 1], where the pieces of each class begin.
        pieces: int64[P, 2], begin and end in `tokens` of each piece, class by class.
        tokens: int32, ids.
        is_shared: whether `tokens` belongs to the vocabulary. To list them class by class instead was half a
            megabyte for each grammar, and 0.2 ms.
    """

    starts: Integers
    pieces: Integers
    tokens: NDArray[np.int32]
    is_shared: bool = False

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.starts) - 1


def byte_order(
    group_of_token: NDArray[np.int32], first_byte: NDArray[np.uint8], lengths: Integers, apart: Iterable[int]
) -> ByteOrder:
    """The byte order of a vocabulary.

    Args:
        group_of_token, first_byte: as in the vocabulary's trie (`equivalence.trie.Trie`).
        lengths: bytes of each id.
        apart: ids whose classes nobody else shares.
    """
    group = group_of_token.astype(np.int64)
    n_groups = len(first_byte)
    tokens = np.argsort(group, kind="stable")[np.count_nonzero(group < 0) :]
    token_starts = np.zeros(n_groups + 1, np.int64)
    np.cumsum(np.bincount(group[tokens], minlength=n_groups), out=token_starts[1:])
    shared = np.setdiff1d(np.flatnonzero(group >= 0), np.array(list(apart), np.int64))
    first = np.full(n_groups, NOBODY, np.int64)
    np.minimum.at(first, group[shared], shared)
    short = np.full(n_groups, NOBODY, np.int64)
    np.minimum.at(short, group[shared], (lengths[shared] << 32) + shared)
    byte_starts = np.searchsorted(first_byte, np.arange(257)).astype(np.int64)
    return ByteOrder(
        byte_starts, token_starts, tokens.astype(np.int32), least_tree(first), least_tree(short), len(lengths)
    )


def tokens_of(runs: ClassRuns, order: ByteOrder) -> NDArray[np.int32]:
    """int32[V]: the class of each id, -1 = in none."""
    return tokens_of_runs(runs.classes, runs.starts, order.token_starts, order.tokens, order.n_ids)


def members_of(runs: ClassRuns, order: ByteOrder, renumbered: NDArray[np.int32]) -> Members:
    """The tokens of each class of runs; class ``c`` of them is ``renumbered[c]`` here."""
    starts, pieces = pieces_of_runs(runs.classes, runs.starts, renumbered, order.token_starts)
    return Members(starts, pieces, order.tokens, True)
