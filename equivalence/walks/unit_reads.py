"""How many units of a counted rule each string of a vocabulary begins, for any bounds.

What: `UnitReads` holds these numbers. For two bounds it says which strings are read, and at which nodes the
rule may return.
When: made by `hybrid.classifier.repeat_units`, cached by `equivalence.walks.walk_cache`, for masks within a
string of limited length.
Limits: those of `hybrid.classifier.repeat_units.unit_table`.

Nearly always, all nodes that complete one unit are pending. Then what is read depends on one bound only, and
has a row already. A mask within a JSON string of at most 20 characters took 1.7 to 2.4 ms at each character
while the strings were compared with the bound for each mask, and takes 0.2 ms.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.ranges import ranges as listed
from equivalence.walks.read import Read

NEVER_READ = 32767
"""The number of units of strings that are not read; no token has so many."""

MOST_BELOW, FEW_BYTES = 8, 4
"""For how many sets of following bytes the nodes are cached, and the most bytes in such a set."""

BITS = 3
"""A column of `equivalence.trie.nodes.TRIE_NODE`."""

_NO_NODES = np.empty(0, np.int64)
_NO_RANGES = np.empty((0, 2), np.int32)

Nodes = NDArray[np.int32]
"""The rows of a trie's nodes (`equivalence.trie.nodes`): first child, first group, end of the groups, bits
..."""


class UnitReads:
    """How many units strings begin, from the root of the trie on.

    Args:
        begun: int16[groups], units that a group begins, including an unfinished last one; `NEVER_READ`: not
            read.
        nodes: int32, the nodes up to which only complete units are read, and below which strings continue, in
            order.
        completed: int16, the number of units read up to each of `nodes`, at least 1.
        worst: int16, the most units that a string below each node begins; `NEVER_READ`: some string is not
            read.
        counts: int16, ascending: the numbers in `begun` above 1, without `NEVER_READ`.
        rows: uint32[counts, words]: for each of `counts`, the tokens that begin 2 units or more, up to that
            number, as bits.
    """

    def __init__(
        self,
        begun: NDArray[np.int16],
        nodes: NDArray[np.int32],
        completed: NDArray[np.int16],
        worst: NDArray[np.int16],
        counts: NDArray[np.int16],
        rows: NDArray[np.uint32],
    ) -> None:
        self.begun, self.nodes, self.completed, self.worst = begun, nodes, completed, worst
        self.counts, self.rows = counts, rows
        self._once = nodes[completed == 1].astype(np.int64)
        self._n_read = np.append(0, np.cumsum(_is_read(begun, NEVER_READ - 1), dtype=np.int32))
        self._reads = [UnitRead(begun, 0, None), *map(partial(UnitRead, begun), counts.tolist(), rows)]
        self._below: dict[bytes, tuple[NDArray[np.int32], NDArray[np.int16], NDArray[np.int16]]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = self.begun, self.nodes, self.completed, self.worst, self.rows, self._n_read
        return sum(one.nbytes for one in arrays)

    def read(
        self,
        trie: Nodes,
        pending: NDArray[np.int64],
        fewest: int,
        most: int,
        followers: NDArray[np.uint8] | None = None,
        *,
        only_all: bool = False,
    ) -> tuple[Read, NDArray[np.int64]] | None:
        """What is read on the frame of a counted rule below nodes that complete one unit.

        Args:
            trie: the nodes of the trie.
            pending: the nodes, ascending.
            fewest: units that must be read before the rule may return; it may be negative.
            most: how many units may be begun, at least 0.
            followers: uint8[256], the bytes that can follow where the rule returns; None: any.
            only_all: whether to answer only if all nodes are pending that complete one unit, and below which
                strings are read.

        Returns:
            The strings below that begin no more than `most` units; and the nodes at which enough units are
            read, except those below which all strings are read, and except those that are not followed by
            any of a few followers. None: some node is not reached by exactly one unit, or there is no
            answer.
        """
        left_out, is_all = _NO_RANGES, True
        if not np.array_equal(pending, self._once):
            inner = pending[trie[pending, 0] < trie[pending + 1, 0]]
            place = np.searchsorted(self._once, inner)
            if len(inner) > len(self._once) or not np.array_equal(self._once.take(place, mode="clip"), inner):
                return None
            ranges = trie[np.delete(self._once, place), 1:3]
            left_out = ranges[ranges[:, 0].argsort()]  # no node is below another
            is_all = not (self._n_read[left_out[:, 1]] > self._n_read[left_out[:, 0]]).any()
        if only_all and not is_all:
            return None
        last = 1 + min(most, NEVER_READ - 2)
        nodes, completed, worst = self._followed(trie, followers)
        nodes = nodes[(worst > last) & (completed > max(fewest, 0)) & (completed <= last)]
        if len(left_out):
            groups = trie[nodes, 1]
            before = np.searchsorted(left_out[:, 0], groups, side="right") - 1
            nodes = nodes[(before < 0) | (groups >= left_out[before, 1])]
        if is_all:
            return self._read_all(last), nodes.astype(np.int64)
        is_read = _is_read(self.begun, last)
        for first, end in left_out.tolist():
            is_read[first:end] = False
        return Read(_ranges(is_read), _NO_NODES), nodes.astype(np.int64)

    def _read_all(self, last: int) -> Read:
        """The strings that begin 2 units or more, up to `last`."""
        return self._reads[int(np.searchsorted(self.counts, last, side="right"))]

    def _followed(
        self, trie: Nodes, followers: NDArray[np.uint8] | None
    ) -> tuple[NDArray[np.int32], NDArray[np.int16], NDArray[np.int16]]:
        """`nodes`, `completed` and `worst` of the nodes that have a follower as a child; of all nodes if
        there are many followers."""
        if followers is None or followers.sum() > FEW_BYTES or followers[0x80:].any():
            return self.nodes, self.completed, self.worst
        key = followers.tobytes()
        found = self._below.get(key)
        if found is None:
            is_below = np.zeros(len(self.nodes), bool)
            for byte in np.flatnonzero(followers):
                words = trie.view(np.int64)[self.nodes, 2 + (byte >> 6)]
                is_below |= (words >> (byte & 63) & 1).astype(bool)
            place = np.flatnonzero(is_below)  # few: a quote occurs below 2 in 100 nodes of a JSON string
            place = place[_has_child(trie, self.nodes[place], followers)]
            if len(self._below) >= MOST_BELOW:
                self._below.clear()
            found = self._below[key] = self.nodes[place], self.completed[place], self.worst[place]
        return found


class UnitRead(Read):
    """The strings that begin 2 units or more, up to `last`. The ranges are made when they are needed, which
    is rare."""

    __slots__ = ("begun", "last")

    def __init__(self, begun: NDArray[np.int16], last: int, row: NDArray[np.uint32] | None) -> None:
        self.begun, self.last = begun, last
        self.nodes, self.row = _NO_NODES, row

    @property
    def is_empty(self) -> bool:
        """See `Read`."""
        return self.last < 2

    @property
    def ranges(self) -> NDArray[np.int64]:  # type: ignore[override]
        """See `Read`."""
        return _ranges(_is_read(self.begun, self.last))


def _has_child(trie: Nodes, nodes: NDArray[np.int32], followers: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether one of some bytes leads from a node to a child, for each of some nodes with children."""
    if not len(nodes):
        return np.zeros(0, bool)
    first = trie[nodes, 0]
    begins, children = listed(first, trie[nodes + 1, 0] - first)
    return np.logical_or.reduceat(followers[trie[children, BITS] & 255] > 0, begins[:-1])


def _is_read(begun: NDArray[np.int16], last: int) -> NDArray[np.bool_]:
    return (begun > 1) & (begun <= last)


def _ranges(is_read: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The groups for which a flag is set, as ranges: first, end, first, end ..."""
    return np.flatnonzero(np.diff(is_read, prepend=False, append=False)).astype(np.int64)
