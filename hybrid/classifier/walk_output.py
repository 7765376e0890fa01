# cython: language_level=3
# mypy: ignore-errors
"""What a walk over the trie produces: the tokens that are read, and the pending nodes.

What: `WalkOutput` collects ranges of groups, which become a piece of a mask, and pending nodes, where the
known part of a stack is used up, which become a pending set. It knows which bytes can follow below the known
part, and leaves out nodes that cannot go on.
When: the base class of `hybrid.classifier.walker.Walker`.
Limits: one walk at a time.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.parser.space import Space
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.trie.nodes import OTHERS_AT
from cython.cimports.equivalence.walks.token_texts import TokenTexts
from cython.cimports.hybrid.classifier.summaries import Summaries
from cython.cimports.hybrid.classifier.summariser import Summariser

check_source(__name__)


MOST_PIECES, FEW_PIECES = 2048, 512
"""The maximum number of pieces of one session, unless the grammar has more states than that. The documents of
480 real JSON schemas need 26 pieces at the median, and 340 at most. Each mask has a bit for each piece.
"""

FIRST_PIECES, FIRST_WIDTH = 8, 16
"""Initial room for pieces, and for the numbers of each: most are cached walks or a few ranges."""

FIRST_NODES = 64
"""Initial room for the pending nodes of one state."""

MANY_NODES = cython.declare(cython.Py_ssize_t, 20_000)
"""What may follow is computed when walks have entered this many nodes, which takes 1 ms. Most JSON schemas
never enter so many; computing it at once would make their first masks 7% slower. For C-like documents it
saves a quarter of the time."""

ALL_BYTES = cython.declare(cython.Py_ssize_t, -1)


@cython.no_gc
@cython.cclass
class WalkOutput(Summariser):
    """The results of one walk after another.

    Args:
        space: the stacks.
        summaries: the summaries that are extended; their masks have a bit for each piece, in words of 64
            bits.
        fixed: the trie, and what may follow (`hybrid.classifier.walk_tables.WalkTables`), which is only
            computed when walks have entered enough nodes to make it worthwhile.

    Attributes:
        trie: its nodes, with a node's children side by side (`equivalence.trie.Trie.nodes`).
        filters: whether it is known what may follow below each state.
        is_any: whether every byte can follow, as far as is known.
        followers: uint8[B], the classes of bytes that can follow below the known part; unused if any byte
            can.
        follow_0, follow_1, follow_others: the ASCII bytes among them, as two words of 64 bits, and whether
            there are others.
        pairs: the pending nodes so far.
        ranges: the groups that are read: first, end, first, end ...; or only -1 - the number of a cached
            walk.
        n_entered: number of nodes entered so far, as a measure of work.
    """

    def __init__(self, space: Space, summaries: Summaries, fixed: Any) -> None:
        self.space = space
        self.summaries = summaries
        texts: TokenTexts = fixed.texts
        self.trie = texts.trie
        self.fixed = fixed
        self.filters = False
        self.n_states = space.n_states
        self.longest = texts.longest
        account: Account = space.account
        account.claim(24 * FIRST_NODES)
        self.pairs = account.new_integers(FIRST_NODES)
        self.ranges = account.new_integers(2 * FIRST_NODES)
        self.n_ranges = 0
        most: cython.Py_ssize_t = 32 * summaries.n_words
        excess = f"a mask needs more than {most} pieces of walks at a time"
        self.pieces = Interned(FIRST_PIECES, FIRST_WIDTH, most, space.account, excess)
        self.n_entered = 0
        self.followers = np.zeros(space.n_classes, np.uint8)

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

    def mask_of_ranges(self):
        """The number of the mask with one piece: the recorded groups."""
        one: cython.Py_ssize_t = 1
        if self.n_ranges == 0:
            return 0
        at = self.pieces.room(self.n_ranges)
        for k in range(self.n_ranges):
            self.pieces.pool[at + k] = self.ranges[k]
        piece = self.pieces.intern(self.n_ranges)
        at = self.empty_mask()
        self.summaries.masks.pool[at + (piece >> 5)] = one << (piece & 31)
        return self.summaries.masks.intern(self.summaries.n_words)

    # ---------------------------------------------------------------- what may follow

    def set_follow(self, own):
        """Load the bytes that can follow below a state, or a counted rule. All bytes can, until walks have
        entered many nodes."""
        if not self.filters:
            if self.n_entered < MANY_NODES:
                self.follow_all()
                return 0
            with cython.gil:
                self.load_follow_sets()
        self.is_any = False
        self.follow_0 = self.follow_1 = 0
        self.follow_others = False
        for c in range(self.space.n_classes):
            self.followers[c] = self.follow_sets[own, c] != 0
            if self.followers[c]:
                self.follow_0 |= self.space.byte_classes[c].word_0
                self.follow_1 |= self.space.byte_classes[c].word_1
        for byte in range(0x80, 0x100):
            if self.followers[self.space.class_of_byte[byte]]:
                self.follow_others = True
        return 0

    def load_follow_sets(self):
        """Compute what may follow."""
        self.follow_sets = self.fixed.follow_sets()
        self.filters = True

    @cython.final
    def follow_all(self):
        """Allow any byte to follow."""
        self.is_any = True
        self.follow_0 = self.follow_1 = ALL_BYTES
        self.follow_others = True

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
            if self.followers[self.space.class_of_byte[self.trie[child].bits & 255]]:
                return True
        return False

    # ---------------------------------------------------------------- what is pending

    @cython.final
    def note_node(self, node, n):
        """Record a pending node after n others. Return their number."""
        if n == self.pairs.shape[0]:
            with cython.gil:
                self.pairs = self.space.account.bigger(self.pairs, 2 * n)
        self.pairs[n] = node
        return n + 1

    def sorted_nodes(self, n):
        """Sort the nodes and remove duplicates. Return how many are left."""
        self.sort_pairs(n)
        length: cython.Py_ssize_t = 0
        for k in range(n):
            if length == 0 or self.pairs[length - 1] != self.pairs[k]:
                self.pairs[length] = self.pairs[k]
                length += 1
        return length

    def keep_followed(self, n):
        """Remove those of n pending nodes below which nothing can follow. Return how many are left."""
        if self.is_any:
            return n
        length: cython.Py_ssize_t = 0
        for k in range(n):
            if self.may_follow(self.pairs[k]) and self.may_be_next(self.pairs[k]):
                self.pairs[length] = self.pairs[k]
                length += 1
        return length
