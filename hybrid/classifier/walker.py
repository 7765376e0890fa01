# cython: language_level=3
# mypy: ignore-errors
"""Walks: reading a trie of texts on a state, and pending nodes on the symbol below it.

What: a `Walker` reads all texts of a trie on a state over an unknown stack (`read_top`), or what is below
pending nodes on a symbol (`read_below`). The result is a mask of the texts that are read completely, and a
pending set of nodes at which the known part of the stack may be used up. Their subtrees are read on the next
symbol.
When: the texts are the representatives of the classes; or those of the vocabulary
(`hybrid.classifier.vocabulary_walker`). A stack asks for a walk when it first needs it
(`hybrid.classifier.reader`), or all are made ahead of time (`hybrid.classifier.summary_closure`).
Limits: if the account is exhausted, all results so far are kept, so each call gets further. It trusts the
nodes, which `equivalence.trie` made or checked.

If a configuration stays the same in a whole subtree, the subtree is taken at once, as in walks of an
exploration. Of the 300,000 nodes of a vocabulary of 128,000 tokens, a walk on a string enters a few thousand.

Rejected: sets of pairs (suffix, class) in place of sets of nodes. A suffix that several representatives have
was then read only once. But such a set also says which classes were read before, so a C-like grammar had
twice as many sets, and its automaton took a tenth more bytes.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.equivalence.arrays.prefetch import fetch
from cython.cimports.equivalence.arrays.records import empty
from cython.cimports.equivalence.parser.frames import unit_of
from cython.cimports.equivalence.parser.space import REJECT, Space, after
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.trie.nodes import ENDS_AT
from cython.cimports.equivalence.walks.subtrees import learn, loops_below
from cython.cimports.equivalence.walks.token_texts import TokenTexts
from cython.cimports.hybrid.classifier.counter_abstraction import Counters, smaller_count
from cython.cimports.hybrid.classifier.summaries import Summaries
from cython.cimports.hybrid.classifier.walk_output import WalkOutput

from equivalence.arrays.records import Kind
from equivalence.errors import BudgetExceeded

check_source(__name__)

STEP = Kind("configuration child end has_ports")

TOO_LONG = cython.declare(cython.Py_ssize_t, -2)
"""The result of a walk that has entered too many nodes."""

ANY_LENGTH = cython.declare(cython.Py_ssize_t, 1 << 62)


@cython.no_gc
@cython.cclass
class Walker(WalkOutput):
    """Reads the texts of a trie. Each group is a class of tokens, and masks have a bit for each.

    Args:
        space: the stacks.
        summaries: the summaries that are extended.
        texts: the trie.
        follow_sets: see `WalkOutput`.

    Attributes:
        longest: bytes of the longest text.
        path: for each depth below the node at which a walk begins, the configuration, the next child, the
            end of the children, and whether the known stack may end there.
        n_entered: number of nodes entered so far, as a measure of work.
        most_entered: a walk that enters more nodes is too long.
        mask: the last mask that was found.
    """

    def __init__(self, space: Space, summaries: Summaries, texts: TokenTexts, follow_sets: Any) -> None:
        WalkOutput.__init__(self, space, summaries, texts)
        self.follow_sets = follow_sets
        self.n_states = space.n_states
        self.longest = texts.longest
        self.height = texts.height
        self.counters = Counters(space)
        space.account.claim(32 * (self.longest + 2))
        self.path = empty(STEP, self.longest + 2)
        self.n_entered = self.mask = 0
        self.most_entered = ANY_LENGTH

    # ---------------------------------------------------------------- on a state, and below

    def read_top(self, state):
        """Read all texts on a state with an unknown stack below. If the state may be popped at once, the
        configuration contains what lies below it."""
        pending = self.read_from(-1, state)
        self.summaries.first[state].mask = cython.cast(cython.int, self.mask)
        self.summaries.first[state].pending = cython.cast(cython.int, pending)
        return 0

    @cython.final
    def summary(self, pending, symbol):
        """The number in `summaries.pairs` of a pending set and a symbol; the result is known then."""
        pair = self.summaries.pairs.number(pending, symbol)
        if self.summaries.pairs.rows[pair].result < 0:
            self.read_below(pair)
        return pair

    @cython.final
    def read_below(self, pair):
        """Read the pending set of a pair on its symbol, with an unknown stack below.

        Raises:
            BudgetExceeded: there is no room; or the automaton is complete (a bug of ours, which must not
                become a wrong mask).
        """
        if self.summaries.complete:
            with cython.gil:
                raise BudgetExceeded("a stack needs a summary that is missing, although all should be there")
        below = self.read_from(self.summaries.pairs.rows[pair].first, self.summaries.pairs.rows[pair].second)
        return self.summaries.note(pair, self.mask, below)

    def read_from(self, pending, symbol):
        """Read what is below the nodes of a pending set, or with -1 the whole trie, on a symbol.

        Returns:
            The number of the pending set that is left; `mask` has the number of the mask.
        """
        self.set_follow(self.own_of(symbol))
        n = self.keep_followed(self.sorted_nodes(self.walk_from(pending, symbol)))
        self.mask = self.mask_of_ranges()
        return self.pending_set(self.keep_unread(n, self.mask))

    @cython.final
    def walk_from(self, pending, symbol):
        """The walks of `read_from`. Return the number of pending nodes recorded, or `TOO_LONG`."""
        begin = self.begin_on(symbol)
        self.n_ranges = 0
        if pending < 0:
            return self.walk(0, begin, 0)
        may_return: cython.bint = self.space.facts[begin].n_ports > 0
        n: cython.Py_ssize_t = 0
        for i in range(self.summaries.pendings.starts[pending], self.summaries.pendings.starts[pending + 1]):
            self.space.account.check()
            node = self.summaries.pendings.pool[i]
            if may_return and self.may_follow(node):
                n = self.note_node(node, n)
            n = self.walk(node, begin, n)
            if n == TOO_LONG:
                break
        return n

    # ---------------------------------------------------------------- symbols

    def symbol_of(self, state, count):
        """The number of a stack symbol: of a state, or, after all states, of a counter frame."""
        if state >= 0:
            return state
        unit = unit_of(state)
        least = self.space.automaton.counted[unit].least
        most = self.space.automaton.counted[unit].most
        return self.n_states + self.summaries.units.pair(
            unit, smaller_count(count, least, most, self.longest + 1)
        )

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

    # ---------------------------------------------------------------- the walk

    def walk(self, node, configuration, n):
        """Read everything below a node, starting in a configuration. Return the number of pending nodes
        recorded, counting n before, or `TOO_LONG`."""
        if self.counters.any:
            configuration = self.counters.with_smaller_count(configuration, self.height[node])
        if self.loops_below(node, configuration):
            first = self.trie[node].group + (self.trie[node].bits >> ENDS_AT & 1)
            if first < self.trie[node].group_end:
                self.allow(first, self.trie[node].group_end)
            return n
        self.path[0].configuration = configuration
        self.path[0].has_ports = self.space.facts[configuration].n_ports > 0
        self.path[1].child = self.trie[node].child
        self.path[1].end = self.trie[node + 1].child
        d: cython.Py_ssize_t = 1
        while d > 0:
            i = self.path[d].child
            last = self.path[d].end
            i = self.next_to_enter(i, last, self.path[d - 1].configuration)
            if i == last:
                d -= 1
                continue
            self.path[d].child = i + 1
            if self.enter(i, d):
                if self.n_entered > self.most_entered:
                    return TOO_LONG
                if self.path[d].has_ports and self.may_follow(i):
                    n = self.note_node(i, n)
                d += 1
                self.path[d].child = self.trie[i].child
                self.path[d].end = self.trie[i + 1].child
        return n

    @cython.final
    def next_to_enter(self, i, last, above):
        """The first child from i on that must be entered. Most children are refused, or stay in a loop that
        contains everything below them."""
        while i < last:
            byte = self.trie[i].bits & 255
            c = self.space.class_of_byte[byte]
            following: cython.Py_ssize_t = self.space.steps[above, c]
            if following == REJECT:
                c += 1
                while c < self.space.n_classes and self.space.steps[above, c] == REJECT:
                    c += 1
                if c == self.space.n_classes:
                    return last
                i = self.child_from(i + 1, last, self.space.byte_classes[c].byte)
                continue
            if self.counters.any and following > 0 and following != above:
                following = self.counters.with_smaller_count(following, self.height[i])
            if following != above or byte >= 0x80 or not self.loops_below(i, above):
                break
            self.allow(self.trie[i].group, self.trie[i].group_end)
            i += 1
        return i

    @cython.final
    def child_from(self, i, last, byte):
        """The first child from i on whose byte is not less than `byte`; `last` if there is none.

        Children are sorted by their bytes, and so are classes of bytes. After white space a document
        continues with a quote, for example, where a node has 200 children.
        """
        while i < last and self.trie[i].bits & 255 < byte:
            step: cython.Py_ssize_t = 1
            while i + step < last and self.trie[i + step].bits & 255 < byte:
                i += step
                step *= 2
            i += 1
        return i

    def enter(self, i, d):
        """Read the byte that leads to a node at depth d. Return whether its children come next."""
        byte = self.trie[i].bits & 255
        c = self.space.class_of_byte[byte]
        configuration: cython.Py_ssize_t = after(self.space, self.path[d - 1].configuration, c)
        if configuration == REJECT:
            return False
        # half of the time to find a child is spent waiting for its cache line
        fetch(cython.cast(cython.Py_ssize_t, cython.address(self.trie[self.trie[i].child])))
        self.n_entered += 1
        self.path[d].configuration = configuration
        if self.counters.any:
            self.forget_counts(i, d)
            configuration = self.path[d].configuration
        self.path[d].has_ports = self.space.facts[configuration].n_ports > 0
        above, second = self.path[d - 1].configuration, self.path[max(d - 2, 0)].configuration
        learn(self.counters, byte, configuration, above, second, self.path[max(d - 3, 0)].configuration)
        if self.loops_below(i, configuration):
            self.allow(self.trie[i].group, self.trie[i].group_end)
            return False
        if self.trie[i].bits >> ENDS_AT & 1:
            self.allow(self.trie[i].group, self.trie[i].group + 1)
        return True

    def forget_counts(self, i, d):
        """Continue from depth d with smaller counts, if no text below the node can distinguish them."""
        exact = self.path[d].configuration
        configuration = self.counters.with_smaller_count(exact, self.height[i])
        if configuration != exact:
            self.path[d].configuration = configuration
            if configuration == self.path[d - 1].configuration:
                reach = self.counters.known[exact].reach
                if reach < self.counters.known[configuration].loops:
                    self.counters.known[configuration].loops = reach

    @cython.final
    def loops_below(self, i, configuration):
        """Whether a configuration is known to stay the same on everything that occurs below a node. Then
        all tokens there are allowed, and what is left of them on other stacks does not matter."""
        if self.counters.any and configuration < self.counters.known.shape[0]:
            if self.height[i] >= self.counters.known[configuration].loops:
                return False
        facts = cython.address(self.space.facts[configuration])
        return loops_below(facts, cython.address(self.trie[i]))
