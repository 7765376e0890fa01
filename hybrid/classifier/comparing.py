# cython: language_level=3
# mypy: ignore-errors
"""Walks beside other walks: what a state reads is found from what another one reads that differs in little.

What: a `ComparingWalker` walks as a `Walker` does. But where most bytes lead a state to another one that
loops, it reads only the nodes that tell the two apart, and takes the rest from what the other one reads.
When: for the first masks of a grammar. After `{"na` the key may be "name" or any other string, so each prefix
of a key is a state of its own: walked one by one each of them entered 10,000 nodes, 0.4 ms.
Limits: the state has to read all that the other one reads, which is found out on the way; else it is walked.
"""

from __future__ import annotations

from typing import Any

import cython

from equivalence import built
from equivalence.arrays.growing import new_records

if cython.compiled:
    from cython.cimports.equivalence.built import EQUIMASK_SOURCE
    from cython.cimports.equivalence.parser.space import Space
    from cython.cimports.hybrid.classifier.summaries import Summaries
    from cython.cimports.hybrid.classifier.walking import Walker

    built.check(__name__, EQUIMASK_SOURCE)
else:
    from equivalence.parser.space import Space
    from hybrid.classifier.summaries import Summaries
    from hybrid.classifier.walking import Walker

PAIR = "own other child end"

ENDS = cython.declare(cython.Py_ssize_t, 8)
REJECT = cython.declare(cython.Py_ssize_t, 0)
ANY_LENGTH = cython.declare(cython.Py_ssize_t, 1 << 62)

FIRST_BYTE = cython.declare(cython.Py_ssize_t, 0x20)
END_BYTE = cython.declare(cython.Py_ssize_t, 0x7F)
"""Bytes that are asked where they lead: those of most texts."""

MOST_ENTERED = cython.declare(cython.Py_ssize_t, 512)
"""Nodes that may tell two states apart."""


@cython.cclass
class ComparingWalker(Walker):
    """Reads the tokens of a vocabulary, as `Walker`.

    Attributes:
        levels: of each depth the configurations of both states, the child that is next, and where they end.
        n_compared: states that were read beside others.
    """

    def __init__(self, space: Space, known: Summaries, fixed: Any) -> None:
        Walker.__init__(self, space, known, fixed)
        self.levels = None
        self.n_compared = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def read_on(self, state: cython.Py_ssize_t) -> cython.int:
        """As of `Walker`."""
        if self.is_wide(-1, state):
            begin = self.space.context(state, -1)
            other = self.loop_of(begin)
            if other >= 0 and other != state and self.follows_alike(state, other):
                if self.known.first[other].mask < 0:
                    self.read_on(other)
                if self.read_beside(state, begin, other):
                    self.n_compared += 1
                    return 0
        return Walker.read_on(self, state)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-2, check=False)
    def loop_of(self, begin: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The state to which more than half of the bytes lead, if it stays itself on many; else -1."""
        found: cython.Py_ssize_t = REJECT
        votes: cython.Py_ssize_t = 0
        byte: cython.Py_ssize_t
        for byte in range(FIRST_BYTE, END_BYTE):  # a majority is what is left when others are paired off
            after = self.space.after(begin, self.space.class_of_byte[byte])
            if votes == 0:
                found = after
            votes += 1 if after == found else -1
        if found == REJECT:
            return -1
        at = self.space.configurations.starts[found]
        if self.space.configurations.starts[found + 1] != at + 4 or self.space.facts[found].n_ports > 0:
            return -1  # more than one state, or a way out
        state = self.space.configurations.pool[at + 2]
        if self.space.context(state, -1) != found:
            return -1
        n: cython.Py_ssize_t = 0
        for byte in range(FIRST_BYTE, END_BYTE):
            n += self.space.after(found, self.space.class_of_byte[byte]) == found
        return state if n >= self.wide_bytes else -1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def follows_alike(self, state: cython.Py_ssize_t, other: cython.Py_ssize_t) -> cython.bint:
        """Whether the same bytes may follow below both states, as far as is known."""
        if self.filters:
            for c in range(self.space.n_classes):
                if self.behind[state, c] != self.behind[other, c]:
                    return False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def read_beside(
        self, state: cython.Py_ssize_t, begin: cython.Py_ssize_t, other: cython.Py_ssize_t
    ) -> cython.bint:
        """Note what a state reads, by what another one does; whether it could be found so."""
        if self.levels is None:
            with cython.gil:
                self.space.account.claim(32 * (self.longest + 2))
                self.levels = new_records(self.longest + 2, PAIR)
        self.set_follow(state)
        self.most_entered = ANY_LENGTH
        self.n_ranges = 0
        n = self.compare(begin, self.space.context(other, -1))
        if n < 0:
            return False
        pending: cython.Py_ssize_t = self.known.first[other].pending
        if n > 0:
            for i in range(self.known.pendings.starts[pending], self.known.pendings.starts[pending + 1]):
                n = self.note_node(self.known.pendings.pool[i], n)
            pending = self.pending_set(self.in_order(n))
        mask = self.mask_of_both(self.known.first[other].mask, self.mask_of_ranges())
        self.known.first[state].mask = cython.cast(cython.int, mask)
        self.known.first[state].pending = cython.cast(cython.int, pending)
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def mask_of_both(self, one: cython.Py_ssize_t, two: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The number of the union of two masks."""
        at = self.empty_mask()
        a = self.known.masks.starts[one]
        b = self.known.masks.starts[two]
        for w in range(self.known.n_words):
            self.known.masks.pool[at + w] = self.known.masks.pool[a + w] | self.known.masks.pool[b + w]
        return self.known.masks.intern(self.known.n_words)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-2, check=False)
    def compare(self, begin: cython.Py_ssize_t, other: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read the trie from two configurations on, as far as they differ. Noted is what the first one reads
        alone, and the nodes where it may be used up.

        Returns:
            how many pending nodes are noted; -1: it does not read all that the other one does, or they differ
            in too much.
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
            own = self.space.after(self.levels[d - 1].own, c)
            beside = self.space.after(self.levels[d - 1].other, c)
            if own == beside:
                continue  # and so is all below
            self.n_entered += 1
            may_return: cython.bint = self.space.facts[own].n_ports > 0
            if own == REJECT or self.n_entered > most:
                return -1
            if self.space.facts[beside].n_ports > 0 and not may_return:
                return -1
            if may_return and self.may_follow(i):
                n = self.note_node(i, n)
            if beside == REJECT:
                if self.trie[i].bits >> ENDS & 1:
                    self.allow(self.trie[i].group, self.trie[i].group + 1)
                n = self.walk(i, own, n)
                continue
            self.levels[d].own = own
            self.levels[d].other = beside
            d += 1
            self.levels[d].child = self.trie[i].child
            self.levels[d].end = self.trie[i + 1].child
        return n
