# cython: language_level=3
# mypy: ignore-errors
"""Walks: reading the vocabulary's trie on a state, and pending nodes on the symbol below it.

What: a `Walker` does what a `Summariser` does, without classes. Its masks have a bit for each piece of the
vocabulary. Its pending sets are sets of nodes of the trie, whose subtrees are read on the symbol below.
When: for all masks of a grammar that has no classes. A walk that turns out to be long is shared with other
grammars, because its result depends only on what the state can do (`hybrid.classifier.canonical_form`).
Limits: those of `Summariser`. It trusts the nodes, which `equivalence.trie` made or checked, and the tokens
of its groups.

If a configuration stays the same in a whole subtree, the subtree is taken at once, as in walks of an
exploration. Of the 300,000 nodes of a vocabulary of 128,000 tokens, a walk on a string enters a few thousand.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.bits import has_bit
from cython.cimports.equivalence.arrays.prefetch import fetch
from cython.cimports.equivalence.arrays.records import empty
from cython.cimports.equivalence.parser.space import REJECT, Space, after
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.trie.nodes import ENDS_AT
from cython.cimports.equivalence.walks.subtrees import loops_below, note_loop
from cython.cimports.equivalence.walks.token_texts import TokenTexts
from cython.cimports.hybrid.classifier.canonical_form import CanonicalForm
from cython.cimports.hybrid.classifier.counter_abstraction import Counters
from cython.cimports.hybrid.classifier.summaries import Summaries
from cython.cimports.hybrid.classifier.walk_output import WalkOutput

from equivalence.arrays.records import Kind
from equivalence.walks.read import Read
from hybrid.classifier.repeat_units import unit_reads, unit_table

check_source(__name__)

STEP = Kind("configuration child end has_ports")


WIDE_BYTES = cython.declare(cython.Py_ssize_t, 10)
WIDE_NODES = cython.declare(cython.Py_ssize_t, 64)
"""A walk is probably long if a state can read this many bytes, or if this many nodes are read on a symbol.
The smallest common set of bytes of this kind is a digit."""

TOO_LONG = cython.declare(cython.Py_ssize_t, -2)
"""The result of a walk that has entered too many nodes."""

ANY_LENGTH = cython.declare(cython.Py_ssize_t, 1 << 62)


@cython.no_gc
@cython.cclass
class Walker(WalkOutput):
    """Reads the tokens of a vocabulary.

    Args:
        space: the stacks.
        summaries: the summaries that are extended.
        fixed: the trie, and what may follow (`hybrid.classifier.walk_tables.WalkTables`).

    Attributes:
        token_starts, tokens: the ids of each group (`equivalence.runs.ByteOrder`).
        path: for each depth below the node at which a walk begins, the configuration, the next child, the
            end of the children, and whether the known stack may end there.
        most_entered: a walk that enters more nodes is too long.
        walk_cache: the cached walks of other grammars' states and frames (`equivalence.walks.walk_cache`).
        contents: makes the keys of the cache; None until it is needed.
        reads, number_of_read: the cached walks that this walker uses, and the number of each.
        key: the key of the current long walk.
        unit_tables: the automata of the units of counted rules, by the state with which each begins.
        mask: the last mask that was found.
    """

    def __init__(self, space: Space, summaries: Summaries, fixed: Any) -> None:
        WalkOutput.__init__(self, space, summaries, fixed)
        texts: TokenTexts = fixed.texts
        self.height = texts.height
        self.counters = Counters(space)
        self.token_starts = texts.token_starts
        self.tokens = texts.tokens
        space.account.claim(32 * (self.longest + 2))
        self.path = empty(STEP, self.longest + 2)
        self.most_entered = ANY_LENGTH
        self.walk_cache = fixed.walk_cache
        self.few_nodes = fixed.walk_cache.few_nodes
        self.wide_bytes = min(WIDE_BYTES, self.few_nodes + 1)
        self.mask = 0
        self.contents = None
        self.reads: list[Read] = []
        self.number_of_read: dict[Read, int] = {}
        self.key: Any = None
        self.unit_tables: dict[int, Any] = {}

    # ---------------------------------------------------------------- on a state, and below

    def read_top(self, state: cython.Py_ssize_t) -> cython.int:
        """See `Summariser`. If a state may be popped at once, the configuration contains what lies below
        it."""
        pending = self.read_from(-1, state)
        self.summaries.first[state].mask = cython.cast(cython.int, self.mask)
        self.summaries.first[state].pending = cython.cast(cython.int, pending)
        return 0

    def read_below(self, pair: cython.Py_ssize_t) -> cython.int:
        """See `Summariser`."""
        below = self.read_from(self.summaries.pairs.rows[pair].first, self.summaries.pairs.rows[pair].second)
        return self.summaries.note(pair, self.mask, below)

    def read_from(self, pending, symbol):
        """Read what is below the nodes of a pending set, or with -1 the whole trie, on a symbol.

        Returns:
            The number of the pending set that is left; `mask` has the number of the mask.
        """
        self.set_follow(self.own_of(symbol))
        n: cython.Py_ssize_t = -1
        is_new: cython.bint = self.is_wide(pending, symbol)
        if is_new:
            with cython.gil:
                if symbol >= self.n_states:
                    n = self.from_units(pending, symbol, False)
                if n < 0:
                    n = self.from_cache(pending, symbol)
        if n >= 0:
            n = self.keep_followed(n)
        else:
            self.most_entered = self.n_entered + self.few_nodes
            n = self.walk_from(pending, symbol)
            n = self.read_long(pending, symbol, is_new) if n == TOO_LONG else self.sorted_nodes(n)
        self.mask = self.mask_of_ranges()
        return self.pending_set(n)

    def walk_from(self, pending, symbol):
        """The walks of `read_from`. Return the number of pending nodes recorded, or `TOO_LONG`."""
        begin = self.begin_on(symbol)
        self.n_ranges = 0
        if pending < 0:
            return self.walk(0, begin, 0)
        may_return: cython.bint = self.space.facts[begin].n_ports > 0
        n: cython.Py_ssize_t = 0
        for i in range(self.summaries.pendings.starts[pending], self.summaries.pendings.starts[pending + 1]):
            node = self.summaries.pendings.pool[i]
            if may_return and self.may_follow(node):
                n = self.note_node(node, n)
            n = self.walk(node, begin, n)
            if n == TOO_LONG:
                break
        return n

    # ---------------------------------------------------------------- long walks

    def is_wide(self, pending, symbol):
        """Whether a walk is probably long. Then it is looked up in the cache before it begins: that takes 5
        us, and saves 50 if it is found."""
        if pending >= 0:
            return (
                self.summaries.pendings.starts[pending + 1] - self.summaries.pendings.starts[pending]
                >= WIDE_NODES
            )
        if symbol >= self.n_states:
            return False
        n: cython.Py_ssize_t = 0
        for byte in range(256):
            n += has_bit(self.space.first_bits, symbol, self.space.class_of_byte[byte])
        return n >= self.wide_bytes

    def read_long(self, pending, symbol, is_new):
        """`read_from` with the cache. The walk is taken from the cache, unless it is known to be new.
        Otherwise it is walked regardless of what may follow below, and stored. Return the number of pending
        nodes.
        """
        n: cython.Py_ssize_t = -1
        if not is_new:
            with cython.gil:
                n = self.from_cache(pending, symbol)
        if n < 0 and symbol >= self.n_states:
            with cython.gil:
                n = self.from_units(pending, symbol, True)
        if n < 0:
            self.follow_all()
            self.most_entered = ANY_LENGTH
            n = self.sorted_nodes(self.walk_from(pending, symbol))
            with cython.gil:
                self.keep(n)
            self.set_follow(self.own_of(symbol))
        return self.keep_followed(n)

    def from_cache(self, pending, symbol):
        """Take a walk from the cache, its ranges and pending nodes. Return the number of nodes, or -1 if
        there is none."""
        if self.contents is None:
            self.contents = CanonicalForm(self.space.automaton)
        if symbol < self.n_states:
            content = self.contents.of_state(symbol)
        else:
            at = self.unit_at(symbol)
            content = self.contents.of_unit(self.summaries.units.pool[at], self.summaries.units.pool[at + 1])
        self.key = None
        if content is None:
            return -1
        nodes = b""
        if pending >= 0:
            first, end = self.summaries.pendings.starts[pending], self.summaries.pendings.starts[pending + 1]
            nodes = np.asarray(self.summaries.pendings.pool)[first:end].tobytes()
        self.key = (content, nodes)
        read = self.walk_cache.find(self.key)
        if read is None:
            return -1
        return self.use_cached(read, read.nodes)

    def from_units(self, pending, symbol, is_long):
        """The same for the frame of a counted rule, computed from the cached number of units that each
        string begins, which serves all counts. -1 if the units do not allow that, or if not all strings below
        a unit are pending and the walk is not known to be long."""
        at = self.unit_at(symbol)
        unit = self.summaries.units.pool[at]
        if self.space.automaton.is_limited(unit) or self.longest >= 1 << 15:
            return -1
        counted = self.space.automaton.counted[unit]
        begun = self.summaries.units.pool[at + 1] + 1  # one unit has been read when the frame is on top
        most: cython.Py_ssize_t = ANY_LENGTH if counted.most < 0 else counted.most - begun
        if counted.start not in self.unit_tables:
            table = unit_table(self.space.automaton, counted.start)
            self.unit_tables[counted.start] = table, None if table is None else (table.tobytes(), b"")
        table, key = self.unit_tables[counted.start]
        if table is None:
            return -1
        trie = self.fixed.texts.nodes
        units = self.walk_cache.find(key)
        if units is None:
            units = unit_reads(self.fixed.texts, table)
            self.walk_cache.keep(key, units)
        first, end = self.summaries.pendings.starts[pending], self.summaries.pendings.starts[pending + 1]
        nodes = np.asarray(self.summaries.pendings.pool)[first:end]
        if not self.filters:
            # 0.1 ms, once; without it, some 20,000 nodes are read on the next frame of a limited string
            self.load_follow_sets()
        self.set_follow(self.own_of(symbol))
        followers = np.asarray(self.followers)[np.asarray(self.space.class_of_byte)]
        found = units.read(trie, nodes, counted.least - begun, most, followers, only_all=not is_long)
        return -1 if found is None else self.use_cached(found[0], found[1])

    def use_cached(self, read, nodes):
        """Use a cached walk and its pending nodes; the walk itself takes the place of its ranges. Return the
        number of nodes."""
        self.record_read(read)
        found: cython.const[cython.Py_ssize_t][::1] = nodes
        while self.pairs.shape[0] < found.shape[0]:
            self.pairs = self.space.account.bigger(self.pairs, 2 * self.pairs.shape[0])
        k: cython.Py_ssize_t
        for k in range(found.shape[0]):
            self.pairs[k] = found[k]
        return found.shape[0]

    def record_read(self, read):
        """Record a cached walk in place of its ranges, because a long walk has thousands of them."""
        number = self.number_of_read.get(read)
        if number is None:
            number = len(self.reads)
            self.reads.append(read)  # first: after an error, no other read may get this number
            self.number_of_read[read] = number
        self.n_ranges = 0 if read.is_empty else 1
        self.ranges[0] = -1 - cython.cast(cython.Py_ssize_t, number)

    def keep(self, n):
        """Cache the results of a walk with n pending nodes for other grammars."""
        if self.key is not None:
            ranges = np.array(np.asarray(self.ranges)[: self.n_ranges])
            read = Read(ranges, np.array(np.asarray(self.pairs)[:n]))
            self.walk_cache.keep(self.key, read)
            self.record_read(read)

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
        self.learn(byte, d)
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
    def learn(self, byte, d):
        """Record that the configuration at depth d stays the same on a byte, if it does; see
        `walks.Walks.learn`."""
        configuration = self.path[d].configuration
        if configuration == self.path[d - 1].configuration:
            c = self.space.class_of_byte[byte]
            read = cython.address(self.space.byte_classes[c])
            note_loop(cython.address(self.space.facts[configuration]), read)
        if byte >= 0x80 and not self.space.facts[configuration].characters_known:
            if (
                configuration == self.path[d - 1].configuration
                or configuration == self.path[max(d - 2, 0)].configuration
                or configuration == self.path[max(d - 3, 0)].configuration
            ):
                self.counters.find(configuration)

    @cython.final
    def loops_below(self, i, configuration):
        """Whether a configuration is known to stay the same on everything that occurs below a node. Then
        all tokens there are allowed, and what is left of them on other stacks does not matter."""
        if self.counters.any and configuration < self.counters.known.shape[0]:
            if self.height[i] >= self.counters.known[configuration].loops:
                return False
        facts = cython.address(self.space.facts[configuration])
        return loops_below(facts, cython.address(self.trie[i]))
