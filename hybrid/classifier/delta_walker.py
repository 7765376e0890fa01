# cython: language_level=3
# mypy: ignore-errors
"""Delta walks: the mask of a state, derived from the mask of a similar state.

What: a `DeltaWalker` is a `VocabularyWalker` with a shortcut. If most bytes lead a state to a configuration
that loops, it walks only the nodes at which the two differ, and takes the rest from the mask of the loop.
When: for the first masks of a grammar. After `{"na` the key may be "name" or any other string, so each prefix
of a key is a state of its own. Walked separately, each of them entered 10,000 nodes (0.4 ms), and 100,000 if
other keys must not be "name".
Limits: the loop is one state, on an unknown stack or on one frame above it. The two differ at `MOST_ENTERED`
nodes at most. Where the known stack of the loop may be used up, that of the state may be, too. Otherwise the
state is walked.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import zeros
from cython.cimports.equivalence.parser.configurations import stacks_of
from cython.cimports.equivalence.parser.space import REJECT, Space, after
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.trie.nodes import ENDS_AT
from cython.cimports.hybrid.classifier.summaries import Summaries
from cython.cimports.hybrid.classifier.vocabulary_walker import VocabularyWalker
from numpy.typing import NDArray

from equivalence.arrays.records import Kind
from equivalence.walks.read import Read

check_source(__name__)

PAIR = Kind("own other child end")

ANY_LENGTH = cython.declare(cython.Py_ssize_t, 1 << 62)

FIRST_BYTE = cython.declare(cython.Py_ssize_t, 0x20)
END_BYTE = cython.declare(cython.Py_ssize_t, 0x7F)
"""The range of the bytes whose targets are examined: the bytes of most texts."""

_NO_NODES = np.empty(0, np.int64)

MOST_ENTERED = cython.declare(cython.Py_ssize_t, 512)
"""At most this many nodes may distinguish two configurations."""


@cython.no_gc
@cython.cclass
class DeltaWalker(VocabularyWalker):
    """Reads the tokens of a vocabulary; see `VocabularyWalker`.

    Attributes:
        levels: for each depth, the configurations of both states, the next child, and the end of the
            children.
        n_compared: number of states that were read by comparison.
        loop_mask, loop_pending: mask and pending set of the configuration with which a state is compared.
        removed: for each subtree that the state refuses and the other configuration may read, its first group
            and the end of its groups, ascending.
    """

    def __init__(self, space: Space, summaries: Summaries, fixed: Any) -> None:
        VocabularyWalker.__init__(self, space, summaries, fixed)
        self.levels = None
        self.n_compared = 0
        self.loop_mask = self.loop_pending = 0

    def read_top(self, state):
        """See `Walker`."""
        if self.is_wide(-1, state):
            begin = self.space.context(state)
            loop = self.loop_of(begin)
            if loop != REJECT and loop != begin and self.read_by_comparison(state, begin, loop):
                self.n_compared += 1
                return 0
        return VocabularyWalker.read_top(self, state)

    def loop_of(self, begin):
        """The configuration to which more than half of the bytes lead, if it stays the same on many bytes;
        otherwise the empty one."""
        found: cython.Py_ssize_t = REJECT
        votes: cython.Py_ssize_t = 0
        byte: cython.Py_ssize_t
        for byte in range(FIRST_BYTE, END_BYTE):  # find the majority by cancelling pairs of different ones
            following = after(self.space, begin, self.space.class_of_byte[byte])
            if votes == 0:
                found = following
            votes += 1 if following == found else -1
        if found == REJECT:
            return REJECT
        n: cython.Py_ssize_t = 0
        for byte in range(FIRST_BYTE, END_BYTE):
            n += after(self.space, found, self.space.class_of_byte[byte]) == found
        return found if n >= self.wide_bytes else REJECT

    def follows_alike(self, state, other):
        """Whether the same bytes may follow below both states, as far as is known."""
        if self.filters:
            for c in range(self.space.n_classes):
                if self.follow_sets[state, c] != self.follow_sets[other, c]:
                    return False
        return True

    def read_loop(self, state, loop):
        """Find what a configuration reads if it is one state, on an unknown stack or on one frame above it:
        the pieces of `loop_mask`, and `loop_pending`. Return False for others."""
        at = stacks_of(self.space, loop)
        if self.space.configurations.starts[loop + 1] != at + 2:
            return False  # more than one state
        other = self.space.configurations.pool[at]
        tail = self.space.configurations.pool[at + 1]
        below: cython.Py_ssize_t = -1
        if tail == 0:
            if self.space.context(other) != loop or not self.follows_alike(state, other):
                return False
        else:
            below = self.frame_of(tail)
            if below < 0 or self.space.facts[loop].n_ports > 0:
                return False
        if self.summaries.first[other].mask < 0:
            # by a plain walk: otherwise two states could be compared with each other forever
            VocabularyWalker.read_top(self, other)
        self.loop_mask = self.summaries.first[other].mask
        self.loop_pending = self.summaries.first[other].pending
        if below >= 0:
            pair = self.summary(self.loop_pending, below)
            self.loop_mask = self.summaries.united(self.loop_mask, self.summaries.pairs.rows[pair].result)
            self.loop_pending = self.summaries.pairs.rows[pair].rest
        return True

    def frame_of(self, tail):
        """The state of a tail that is one frame on an unknown stack; -1 for other tails."""
        at = self.space.stacks.tails.starts[tail]
        if self.space.stacks.tails.starts[tail + 1] != at + 1:
            return -1
        frame = self.space.stacks.tails.pool[at]
        is_plain: cython.bint = self.space.stacks.frames[frame].label == 0 and frame != 0
        if not is_plain or self.space.stacks.frames[frame].tail != 0:
            return -1
        return max(self.space.stacks.frames[frame].state, -1)

    def read_by_comparison(self, state, begin, loop):
        """Record what a state reads by comparing it with a configuration. Return whether that was
        possible."""
        if not self.read_loop(state, loop):
            return False
        if self.levels is None:
            with cython.gil:
                self.space.account.claim(32 * (self.longest + 2) + 16 * MOST_ENTERED)
                self.removed = np.empty(2 * MOST_ENTERED, np.int64)
                self.levels = zeros(PAIR, self.longest + 2)  # last: it says that all are there
        self.set_follow(state)
        self.most_entered = ANY_LENGTH
        self.n_ranges = self.n_removed = 0
        n = self.compare(begin, loop)
        if n < 0:
            return False
        mask = self.mask_of_ranges()
        if self.n_removed > 0:
            with cython.gil:
                self.subtract()
        mask = self.summaries.united(self.loop_mask, mask)
        pending = self.with_nodes(self.loop_pending, n)
        self.summaries.first[state].mask = cython.cast(cython.int, mask)
        self.summaries.first[state].pending = cython.cast(cython.int, pending)
        return True

    def subtract(self):
        """Remove from `loop_mask` and `loop_pending` what the state does not read."""
        removed = np.asarray(self.removed)[: 2 * self.n_removed].reshape(-1, 2)
        at: cython.Py_ssize_t = self.summaries.masks.starts[self.loop_mask]
        words = np.array(np.asarray(self.summaries.masks.pool)[at : at + self.summaries.n_words])
        bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
        smaller = []
        for piece in np.flatnonzero(bits).tolist():
            left = ranges_without(self.ranges_of(piece), removed)
            if left is not None:
                words[piece >> 5] &= ~(1 << (piece & 31))
                self.space.account.claim(left.nbytes)
                self.record_read(Read(left.ravel(), _NO_NODES))
                smaller.append(self.mask_of_ranges())
        self.loop_mask = self.summaries.masks.add(words)
        for mask in smaller:
            self.loop_mask = self.summaries.united(self.loop_mask, mask)
        first, end = (
            self.summaries.pendings.starts[self.loop_pending],
            self.summaries.pendings.starts[self.loop_pending + 1],
        )
        nodes = np.array(np.asarray(self.summaries.pendings.pool)[first:end])
        groups, ends = self.fixed.texts.nodes[nodes, 1:3].T
        before = np.searchsorted(removed[:, 0], groups, side="right") - 1
        is_removed = (before >= 0) & (ends <= removed[before, 1])
        self.loop_pending = self.summaries.pendings.add(nodes[~is_removed])

    def ranges_of(self, piece):
        """The groups of a piece, int64[n, 2], rows (first, end)."""
        ranges = np.asarray(self.pieces.pool)[self.pieces.starts[piece] : self.pieces.starts[piece + 1]]
        if ranges[0] < 0:
            ranges = self.reads[-1 - ranges[0]].ranges
        return ranges.reshape(-1, 2)

    def with_nodes(self, pending, n):
        """The number of a pending set with n recorded nodes added. Most often it contains them already."""
        n = self.sorted_nodes(n)
        i = self.summaries.pendings.starts[pending]
        end = self.summaries.pendings.starts[pending + 1]
        m: cython.Py_ssize_t = end - i
        at = self.summaries.pendings.room(m + n)
        length: cython.Py_ssize_t = 0
        k: cython.Py_ssize_t = 0
        while i < end or k < n:
            if k == n or (i < end and self.summaries.pendings.pool[i] <= self.nodes[k]):
                node = self.summaries.pendings.pool[i]
                i += 1
                k += k < n and self.nodes[k] == node
            else:
                node = self.nodes[k]
                k += 1
            self.summaries.pendings.pool[at + length] = node
            length += 1
        return pending if length == m else self.summaries.pendings.intern(length)

    def compare(self, begin, other):
        """Read the trie from two configurations as far as they differ. Record what each of them alone
        reads, and the nodes at which the known stack of the first may be used up.

        Returns:
            The number of pending nodes recorded; -1 if they differ at too many nodes, or at one where only
            the known stack of the second may be used up.
        """
        n: cython.Py_ssize_t = 0
        most = self.n_entered + MOST_ENTERED
        self.levels[0].own = begin
        self.levels[0].other = other
        self.levels[1].child = self.trie[0].child
        self.levels[1].end = self.trie[1].child
        d: cython.Py_ssize_t = 1
        while d > 0:
            i = self.levels[d].child
            if i == self.levels[d].end:
                d -= 1
                continue
            self.levels[d].child = i + 1
            c = self.space.class_of_byte[self.trie[i].bits & 255]
            own = after(self.space, self.levels[d - 1].own, c)
            after_other = after(self.space, self.levels[d - 1].other, c)
            if own == after_other:
                continue  # they are equal on everything below, too
            self.n_entered += 1
            may_return: cython.bint = self.space.facts[own].n_ports > 0
            if self.n_entered > most:
                return -1
            if own == REJECT:
                self.removed[2 * self.n_removed] = self.trie[i].group
                self.removed[2 * self.n_removed + 1] = self.trie[i].group_end
                self.n_removed += 1
                continue
            if self.space.facts[after_other].n_ports > 0 and not may_return:
                return -1
            if may_return and self.may_follow(i):
                n = self.note_node(i, n)
            if after_other == REJECT:
                if self.trie[i].bits >> ENDS_AT & 1:
                    self.allow(self.trie[i].group, self.trie[i].group + 1)
                n = self.walk(i, own, n)
                continue
            self.levels[d].own = own
            self.levels[d].other = after_other
            d += 1
            self.levels[d].child = self.trie[i].child
            self.levels[d].end = self.trie[i + 1].child
        return n


def ranges_without(ranges: NDArray[np.int64], removed: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Ranges of groups without some other ranges.

    Args:
        ranges: int64[n, 2], rows (first, end).
        removed: int64[m, 2], likewise; disjoint and ascending.

    Returns:
        int64[k, 2], disjoint and ascending; None if `removed` and the ranges have nothing in common.
    """
    place = np.searchsorted(
        removed[:, 1], ranges[:, 0], side="right"
    )  # the first of `removed` that ends after it
    followed = np.append(removed[:, 0], np.iinfo(np.int64).max)[place]
    touched = followed < ranges[:, 1]
    if not touched.any():
        return None
    found = ranges[~touched].tolist()
    for first, end in ranges[touched].tolist():
        for out, back in removed.tolist():
            if back <= first:
                continue
            if out >= end:
                break
            if out > first:
                found.append([first, out])
            first = back
        if first < end:
            found.append([first, end])
    return np.array(sorted(found), np.int64).reshape(-1, 2)
