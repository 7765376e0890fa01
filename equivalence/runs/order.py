"""A vocabulary in byte order, and classes of tokens as runs of it.

What: `ByteOrder` lists the ids by group of the trie, with data for numbering classes of any runs. `ClassRuns`
has the class of each run. `members_of` lists the tokens of each class, and `tokens_of` gives the class of
each token.
When: the byte order is made once for each vocabulary. A grammar divides it into some thousands of runs, so
that few steps have to look at each of 128,000 tokens.
Limits: runs do not contain the classes of stop ids that are also text (`number_runs` finds out whether there
are any).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.grouping import grouped
from equivalence.runs.class_numbers import NOBODY, least_tree, tokens_of_runs

Integers = NDArray[np.int64]


class ByteOrder(NamedTuple):
    """The ids of a vocabulary by group; G groups.

    Attributes:
        byte_starts: int64[257], the first group of each first byte; the last entry is G.
        token_starts: int64[G + 1], where the ids of each group begin.
        tokens: int32, the ids with text, by group; ascending within each group.
        first_ids: minima (`class_numbers.least_tree`) of the smallest id of each group, without stop ids.
        shortest: the same for length * 2**32 + id.
        n_ids: number of ids of the vocabulary, V.
    """

    byte_starts: Integers
    token_starts: Integers
    tokens: NDArray[np.int32]
    first_ids: Integers
    shortest: Integers
    n_ids: int


class ClassRuns(NamedTuple):
    """Classes of the groups of a trie, as runs.

    Attributes:
        starts: int64[R + 1], the first group of each run, then the number of groups.
        classes: int32[R], the class of each run; -1: never allowed.
    """

    starts: Integers
    classes: NDArray[np.int32]


class Members(NamedTuple):
    """The tokens of each class, as pieces of one array.

    Attributes:
        starts: int64[classes + 1], where the pieces of each class begin.
        pieces: int64[P, 2], the begin and end of each piece in `tokens`, class by class.
        tokens: int32, ids.
        is_shared: whether `tokens` belongs to the vocabulary. Listing the tokens class by class took half a
            megabyte and 0.2 ms for each grammar.
    """

    starts: Integers
    pieces: Integers
    tokens: NDArray[np.int32]
    is_shared: bool = False

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.starts) - 1


def byte_order(trie: Any, lengths: Integers, apart: Sequence[int]) -> ByteOrder:
    """Make the byte order of a vocabulary.

    Args:
        trie: the vocabulary's `equivalence.trie.Trie`.
        lengths: bytes of each id.
        apart: ids that are alone in their classes.
    """
    tokens = trie.token_order
    token_starts = np.searchsorted(trie.group_of_token[tokens], np.arange(trie.n_groups + 1))
    is_apart = np.isin(tokens, np.array(apart, np.int64))
    first, shortest = (
        least_tree(np.minimum.reduceat(np.where(is_apart, NOBODY, values), token_starts[:-1]))
        for values in (tokens.astype(np.int64), (lengths[tokens] << 32) + tokens)
    )
    byte_starts = np.searchsorted(trie.first_byte, np.arange(257))
    return ByteOrder(byte_starts, token_starts, tokens, first, shortest, len(lengths))


def tokens_of(runs: ClassRuns, order: ByteOrder) -> NDArray[np.int32]:
    """The class of each id, int32[V]; -1: none."""
    return tokens_of_runs(runs.classes, runs.starts, order.token_starts, order.tokens, order.n_ids)


def members_of(runs: ClassRuns, order: ByteOrder, renumbered: NDArray[np.int32]) -> Members:
    """List the tokens of each class of runs; class ``c`` becomes class ``renumbered[c]``."""
    starts, places = grouped(np.append(renumbered, np.int32(-1))[runs.classes], len(renumbered))
    bounds = order.token_starts[runs.starts]
    return Members(starts, np.stack([bounds[places], bounds[places + 1]], axis=1), order.tokens, True)
