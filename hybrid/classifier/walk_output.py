# cython: language_level=3
# mypy: ignore-errors
"""What a walk over a trie produces: the groups that are read, and the pending nodes.

What: `WalkOutput` collects ranges of groups, which become a mask, and pending nodes, where the known part of
a stack is used up, which become a pending set. It knows which bytes can follow below the known part, and
leaves out nodes that cannot go on.
When: the base class of `hybrid.classifier.walker.Walker`.
Limits: one walk at a time.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.parser.space import Space
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.trie.nodes import ENDS_AT, OTHERS_AT
from cython.cimports.equivalence.walks.token_texts import TokenTexts
from cython.cimports.hybrid.classifier.summaries import Summaries

check_source(__name__)

FIRST_NODES = 64
"""Initial room for the pending nodes of one state."""


@cython.no_gc
@cython.cclass
class WalkOutput:
    """The results of one walk after another.

    Args:
        space: the stacks.
        summaries: the summaries that are extended.
        texts: the trie.

    Attributes:
        trie: its nodes, with a node's children side by side (`equivalence.trie.Trie.nodes`).
        nodes: the pending nodes so far.
        ranges: the groups that are read: first, end, first, end ...
        follow_sets: uint8[S + counted rules, B]: classes of bytes that can follow after a symbol was popped.
        own: the row of `follow_sets` with what can follow below the known part; -1: any byte can, as far as
            is known.
        follow_0, follow_1, follow_others: the ASCII bytes among it, as two words of 64 bits, and whether
            there are others.
    """

    def __init__(self, space: Space, summaries: Summaries, texts: TokenTexts) -> None:
        self.space = space
        self.summaries = summaries
        self.trie = texts.trie
        account: Account = space.account
        account.claim(24 * FIRST_NODES)
        self.nodes = account.new_integers(FIRST_NODES)
        self.ranges = account.new_integers(2 * FIRST_NODES)
        self.n_ranges = 0

    # ---------------------------------------------------------------- what is read

    @cython.final
    def allow(self, first, end):
        """Record groups that are read."""
        n = self.n_ranges
        if n > 0 and self.ranges[n - 1] == first:
            self.ranges[n - 1] = end
            return 0
        if n + 2 > self.ranges.shape[0]:
            with cython.gil:
                self.ranges = self.space.account.bigger(self.ranges, 2 * self.ranges.shape[0])
        self.ranges[n] = first
        self.ranges[n + 1] = end
        self.n_ranges = n + 2
        return 0

    @cython.final
    def empty_mask(self):
        """Write an empty mask where the next mask goes. Return its place in the pool of masks."""
        at = self.summaries.masks.room(self.summaries.n_words)
        for w in range(self.summaries.n_words):
            self.summaries.masks.pool[at + w] = 0
        return at

    def mask_of_ranges(self):
        """The number of the mask of the recorded groups."""
        one: cython.Py_ssize_t = 1  # a literal would be a C int, whose bit 31 is the sign
        at = self.empty_mask()
        for k in range(0, self.n_ranges, 2):
            for group in range(self.ranges[k], self.ranges[k + 1]):
                self.summaries.masks.pool[at + (group >> 5)] |= one << (group & 31)
        return self.summaries.masks.intern(self.summaries.n_words)

    # ---------------------------------------------------------------- what may follow

    def set_follow(self, own):
        """Load the bytes that can follow below a state, or a counted rule."""
        self.own = own
        self.follow_0 = self.follow_1 = 0
        self.follow_others = False
        for c in range(self.space.n_classes):
            if self.follow_sets[own, c]:
                self.follow_0 |= self.space.byte_classes[c].word_0
                self.follow_1 |= self.space.byte_classes[c].word_1
                if c >= self.space.class_of_byte[0x80]:  # classes are sorted by their bytes
                    self.follow_others = True
        return 0

    @cython.final
    def may_follow(self, i):
        """Whether any byte that occurs below a node can follow below the known part."""
        return (self.follow_others and self.trie[i].bits >> OTHERS_AT & 1) or (
            (self.trie[i].below_0 & self.follow_0) | (self.trie[i].below_1 & self.follow_1)
        ) != 0

    @cython.final
    def may_be_next(self, i):
        """Whether the byte of any child of a node can follow below the known part; asked only if not all
        bytes can."""
        for child in range(self.trie[i].child, self.trie[i + 1].child):
            if self.follow_sets[self.own, self.space.class_of_byte[self.trie[child].bits & 255]]:
                return True
        return False

    # ---------------------------------------------------------------- what is pending

    @cython.final
    def note_node(self, node, n):
        """Record a pending node after n others. Return their number."""
        if n == self.nodes.shape[0]:
            with cython.gil:
                self.nodes = self.space.account.bigger(self.nodes, 2 * n)
        self.nodes[n] = node
        return n + 1

    def sorted_nodes(self, n):
        """Sort n nodes, by Shell's method with Knuth's gaps, and remove duplicates. Return how many are left.

        Quicksort saves 0.2 ms of a C-like grammar's compilation, and nothing of a first mask.
        """
        k: cython.Py_ssize_t
        gap: cython.Py_ssize_t = 1
        while gap < n // 3:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(gap, n):
                node = self.nodes[i]
                k = i
                while k >= gap and self.nodes[k - gap] > node:
                    self.nodes[k] = self.nodes[k - gap]
                    k -= gap
                self.nodes[k] = node
            gap //= 3
        length: cython.Py_ssize_t = 0
        for k in range(n):
            if length == 0 or self.nodes[length - 1] != self.nodes[k]:
                self.nodes[length] = self.nodes[k]
                length += 1
        return length

    def keep_followed(self, n):
        """Remove those of n pending nodes below which nothing can follow. Return how many are left."""
        if self.own < 0:
            return n
        length: cython.Py_ssize_t = 0
        for k in range(n):
            if self.may_follow(self.nodes[k]) and self.may_be_next(self.nodes[k]):
                self.nodes[length] = self.nodes[k]
                length += 1
        return length

    def keep_unread(self, n, mask):
        """Remove those of n pending nodes below which a mask has all groups. Return how many are left."""
        mask_at = self.summaries.masks.starts[mask]
        length: cython.Py_ssize_t = 0
        for k in range(n):
            if not self.is_read(self.nodes[k], mask_at):
                self.nodes[length] = self.nodes[k]
                length += 1
        return length

    def is_read(self, i, mask_at):
        """Whether all groups strictly below a node are in a mask, given its place."""
        for group in range(self.trie[i].group + (self.trie[i].bits >> ENDS_AT & 1), self.trie[i].group_end):
            if not self.summaries.masks.pool[mask_at + (group >> 5)] >> (group & 31) & 1:
                return False
        return True

    @cython.final
    def pending_set(self, n):
        """The number of the pending set of the first n nodes."""
        at = self.summaries.pendings.room(n)
        for i in range(n):
            self.summaries.pendings.pool[at + i] = self.nodes[i]
        return self.summaries.pendings.intern(n)
