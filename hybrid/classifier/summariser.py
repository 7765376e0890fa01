# cython: language_level=3
# mypy: ignore-errors
"""Summaries: what the representatives do on a state, and pending suffixes on the symbol below it.

What: `Summariser` reads every representative on a state over an unknown stack (`read_top`), or every pending
suffix on a symbol (`read_below`). The result is a mask of the classes that are read completely, and a pending
set of suffixes that are left when the known part of the stack is used up.
When: when a stack first asks for it (`hybrid.classifier.reader`), or ahead of time
(`hybrid.classifier.summary_closure`).
Limits: if the account is exhausted, all results so far are kept, so each call gets further.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import of_array
from cython.cimports.equivalence.parser.frames import unit_of
from cython.cimports.equivalence.parser.space import REJECT, Space, after
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.summaries import Summaries

from equivalence.arrays.records import Kind
from equivalence.errors import BudgetExceeded

check_source(__name__)

PAIRS = cython.declare(cython.Py_ssize_t, 256)
"""Initial room for pairs."""

NODE = Kind("byte_class depth skip group", np.int32)
SUFFIX = Kind("parent byte_class", np.int32)


@cython.no_gc
@cython.cclass
class Summariser:
    """Reads the representatives of one grammar.

    Args:
        space: the stacks.
        summaries: the summaries that are extended.
        fixed: the representatives, and what may follow (`hybrid.classifier.tables.Fixed`).

    Attributes:
        nodes: the trie of the representatives, depth first, and one more row. For each node, the class of
            the byte that leads to it, its depth, the end of its subtree, and its group, which is a class of
            tokens.
        suffixes: the trie of the reversed representatives: what is left of each suffix after its first
            byte, and the class of that byte. Number 0 is the empty suffix.
        whole: for each class, the suffix that is its representative.
        follow_sets: uint8[S + counted rules, B]: classes of bytes that can follow after a symbol was popped.
        longest: bytes of the longest representative.
    """

    def __init__(self, space: Space, summaries: Summaries, fixed: Any) -> None:
        self.space = space
        self.summaries = summaries
        self.nodes = of_array(fixed.nodes, NODE)
        self.suffixes = of_array(fixed.suffixes, SUFFIX)
        self.whole = fixed.whole
        self.follow_sets = fixed.follow_sets
        self.n_groups = fixed.n_groups
        self.n_states = space.n_states
        self.longest = fixed.longest
        space.account.claim(8 * PAIRS)
        self.configurations = np.zeros(self.longest + 2, np.int64)
        self.valid = np.zeros(self.longest + 2, np.int64)
        self.popped = np.zeros(self.longest + 2, np.int64)
        self.pairs = space.account.new_integers(PAIRS)

    # ---------------------------------------------------------------- on top

    def read_top(self, state):
        """Read every representative on a state with an unknown stack below."""
        one: cython.Py_ssize_t = 1  # a literal would be a C int, whose bit 31 is the sign
        end: cython.Py_ssize_t = self.nodes.shape[0] - 1
        self.configurations[0] = self.space.context(state)
        self.valid[0] = 0
        mask_at = self.empty_mask()
        n: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t = 1
        while i < end:
            self.space.account.check()
            depth: cython.Py_ssize_t = self.nodes[i].depth
            above = self.configurations[depth - 1]
            pops = self.valid[depth - 1]
            following: cython.Py_ssize_t = REJECT
            if above != REJECT:
                byte_class: cython.Py_ssize_t = self.nodes[i].byte_class
                # if a state may be popped at once, the configuration contains what lies below it
                if depth > 1 and self.space.facts[above].n_ports > 0 and self.follow_sets[state, byte_class]:
                    self.popped[pops] = depth - 1
                    pops += 1
                following = after(self.space, above, byte_class)
            if following == REJECT and pops == 0:
                i = self.nodes[i].skip
                continue
            self.configurations[depth] = following
            self.valid[depth] = pops
            group: cython.Py_ssize_t = self.nodes[i].group
            i += 1
            if self.nodes[i].group == group:
                continue
            if following != REJECT:
                self.summaries.masks.pool[mask_at + (group >> 5)] |= one << (group & 31)
            else:
                n = self.note_pending(n, group, pops)
        mask = self.summaries.masks.intern(self.summaries.n_words)
        self.sort_pairs(n)
        pending = self.pending_set(n)
        self.summaries.first[state].mask = cython.cast(cython.int, mask)
        self.summaries.first[state].pending = cython.cast(cython.int, pending)

    def note_pending(self, n, group, pops):
        """Record what is left of a class's representative when the known stack ended, after n pairs. Return
        the number of pairs."""
        suffix: cython.Py_ssize_t = self.whole[group]
        at: cython.Py_ssize_t = 0
        p: cython.Py_ssize_t
        if n + pops > self.pairs.shape[0]:
            with cython.gil:
                self.grow_pairs(n + pops)
        for p in range(pops):
            while at < self.popped[p]:
                suffix = self.suffixes[suffix].parent
                at += 1
            self.pairs[n] = suffix * self.n_groups + group
            n += 1
        return n

    # ---------------------------------------------------------------- below

    def symbol_of(self, state, count):
        """The number of a stack symbol: of a state, or, after all states, of a counter frame."""
        if state >= 0:
            return state
        unit = unit_of(state)
        least = self.space.automaton.counted[unit].least
        most = self.space.automaton.counted[unit].most
        return self.n_states + self.summaries.units.pair(
            unit, equivalent_count(count, least, most, self.longest + 1)
        )

    @cython.final
    def summary(self, pending, symbol):
        """The number in `summaries.pairs` of a pending set and a symbol; the result is known then."""
        pair = self.summaries.pairs.number(pending, symbol)
        if self.summaries.pairs.rows[pair].result < 0:
            self.read_below(pair)
        return pair

    def read_below(self, pair):
        """Read the pending set of a pair on its symbol, with an unknown stack below.

        Raises:
            BudgetExceeded: there is no room; or the automaton is complete (a bug of ours, which must not
                become a wrong mask).
        """
        if self.summaries.complete:
            with cython.gil:
                raise BudgetExceeded("a stack needs a summary that is missing, although all should be there")
        one: cython.Py_ssize_t = 1
        pending = self.summaries.pairs.rows[pair].first
        symbol = self.summaries.pairs.rows[pair].second
        own = self.own_of(symbol)
        begin = self.begin_on(symbol)
        mask_at = self.empty_mask()
        n: cython.Py_ssize_t = 0
        i = self.summaries.pendings.starts[pending]
        end = self.summaries.pendings.starts[pending + 1]
        while i < end:
            self.space.account.check()
            suffix = self.summaries.pendings.pool[i] // self.n_groups
            following = begin
            rest = suffix
            pops: cython.Py_ssize_t = 0
            while rest != 0 and following != REJECT:
                byte_class: cython.Py_ssize_t = self.suffixes[rest].byte_class
                if self.space.facts[following].n_ports > 0 and self.follow_sets[own, byte_class]:
                    self.popped[pops] = rest
                    pops += 1
                following = after(self.space, following, byte_class)
                rest = self.suffixes[rest].parent
            first = suffix * self.n_groups
            while i < end and self.summaries.pendings.pool[i] < first + self.n_groups:
                group = self.summaries.pendings.pool[i] - first
                if following != REJECT:
                    self.summaries.masks.pool[mask_at + (group >> 5)] |= one << (group & 31)
                else:
                    if n + pops > self.pairs.shape[0]:
                        with cython.gil:
                            self.grow_pairs(n + pops)
                    for p in range(pops):
                        self.pairs[n] = self.popped[p] * self.n_groups + group
                        n += 1
                i += 1
        self.sort_pairs(n)
        n = self.distinct_pairs(n, mask_at)
        mask = self.summaries.masks.intern(self.summaries.n_words)
        return self.summaries.note(pair, mask, self.pending_set(n))

    @cython.final
    def unit_at(self, symbol):
        """Where the counted rule of a counter frame is in the pool of `units`; its count follows."""
        return self.summaries.units.starts[symbol - self.n_states]

    @cython.final
    def own_of(self, symbol):
        """The row of `follow_sets` with what can follow below a symbol."""
        if symbol < self.n_states:
            return symbol
        return self.n_states + self.summaries.units.pool[self.unit_at(symbol)]

    @cython.final
    def begin_on(self, symbol):
        """The configuration of a symbol with an unknown stack below."""
        if symbol < self.n_states:
            return self.space.context(symbol)
        at = self.unit_at(symbol)
        return self.space.after_unit(self.summaries.units.pool[at], self.summaries.units.pool[at + 1])

    # ---------------------------------------------------------------- sets

    def grow_pairs(self, wanted):
        """Make room for twice as many pairs as are wanted."""
        self.pairs = self.space.account.bigger(self.pairs, 2 * wanted)

    def empty_mask(self):
        """Write an empty mask where the next mask goes. Return its place in the pool of masks."""
        at = self.summaries.masks.room(self.summaries.n_words)
        for w in range(self.summaries.n_words):
            self.summaries.masks.pool[at + w] = 0
        return at

    def distinct_pairs(self, n, mask_at):
        """Remove from the sorted pairs duplicates, and classes that are read completely anyway. Return how
        many are left."""
        length: cython.Py_ssize_t = 0
        suffix: cython.Py_ssize_t = 0
        first: cython.Py_ssize_t = 0
        for k in range(n):
            pair = self.pairs[k]
            if pair >= first + self.n_groups:
                suffix = pair // self.n_groups
                first = suffix * self.n_groups
            group = pair - first
            if (self.summaries.masks.pool[mask_at + (group >> 5)] >> (group & 31)) & 1 == 0:
                if length == 0 or self.pairs[length - 1] != pair:
                    self.pairs[length] = pair
                    length += 1
        return length

    def pending_set(self, n):
        """The number of the pending set of the first n pairs."""
        at = self.summaries.pendings.room(n)
        for i in range(n):
            self.summaries.pendings.pool[at + i] = self.pairs[i]
        return self.summaries.pendings.intern(n)

    def sort_pairs(self, n):
        """Sort the first n pairs by Shell's method, with Knuth's gaps. Quicksort saves 0.2 ms of a C-like
        grammar's compilation, and nothing of a first mask."""
        k: cython.Py_ssize_t
        gap: cython.Py_ssize_t = 1
        while gap < n // 3:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(gap, n):
                value = self.pairs[i]
                k = i
                while k >= gap and self.pairs[k - gap] > value:
                    self.pairs[k] = self.pairs[k - gap]
                    k -= gap
                self.pairs[k] = value
            gap //= 3


def equivalent_count(count, least, most, reach):
    """A count that no token distinguishes from this one, if all tokens are shorter than `reach`: a count
    far from both bounds does not matter."""
    if count + reach < least:
        return 0
    if count >= least and (most < 0 or count + reach < most):
        return least
    return count
