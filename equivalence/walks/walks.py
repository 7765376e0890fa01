# cython: language_level=3
# mypy: ignore-errors
"""Walks over the vocabulary: what every token does in every context.

What: `Walks` follows the trie of a vocabulary and the configurations of a `Space` together, one block
(`equivalence.walks.blocks`) after another. It records the tokens that are read completely, and an *outcome*
(`equivalence.walks.outcomes`) for each of the others that are not rejected.
When: by `equivalence.classes.explore`; it is the innermost loop of a computation of classes.
Limits: the trie was built or checked by `equivalence.trie.trie`. The space and the outcomes bound what can
be found, and the space's account pays for growing tables. Two threads must not use it at once.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.records import of_array, zeros
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.parser.character_loops import CharacterLoops
from cython.cimports.equivalence.parser.space import REJECT, Space, after
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.trie.nodes import ENDS_AT
from cython.cimports.equivalence.walks.outcomes import outcome_of
from cython.cimports.equivalence.walks.subtrees import learn, loops_below
from numpy.typing import NDArray

from equivalence.arrays.records import Kind
from equivalence.errors import BudgetExceeded
from equivalence.trie.nodes import TRIE_NODE
from equivalence.walks.blocks import find_blocks, united_firsts
from equivalence.walks.outcomes import Walked

check_source(__name__)

LEVEL, RETURN = Kind("configuration n_returns child end"), Kind("depth port")
RANGE, EVENT = Kind("first end"), Kind("group outcome")


FIRST_ROWS = 16384
"""Ranges, and events, that fit at first."""


@cython.final
@cython.cclass
class Walks:
    """Walks over a trie.

    Args:
        space: the configurations.
        nodes: int32[N + 1, 8], those of `equivalence.trie.trie.Trie`.
        suffix_parent, group_suffix: int32[S] and int32[G], likewise.
        longest: bytes of the longest token.
        outcomes: the result of `first_outcomes`.
        displacement: also distinguish what tokens leave on the stack.

    Attributes:
        outcomes: the argument.
        levels: for each depth on the path, the configuration, the number of returns recorded so far, the
            next child, and the end of the children.
        returns: where the text so far has left the known part of the stack: at which depth, by which port.
        pairs: scratch space of `add_event`.
        first, row: the byte classes that can follow below the known part of each block, and the current
            block's row.
        start: the block's configuration.
        ranges, events: the rows; `range_rows` and `event_rows` are the same as arrays.
        open_range: ranges from here on belong to the block, and may be extended.
    """

    def __init__(
        self,
        space: Space,
        nodes: Any,
        suffix_parent: Any,
        group_suffix: Any,
        longest: cython.Py_ssize_t,
        outcomes: Interned,
        displacement: cython.bint,
    ) -> None:
        if nodes.ndim != 2 or nodes.shape[1] != 8:
            raise ValueError(f"nodes of shape {nodes.shape}, not [N + 1, 8]")
        self.space = space
        self.loops = CharacterLoops(space)
        self.account = space.account
        self.nodes = of_array(nodes, TRIE_NODE)
        self.suffix_parent = suffix_parent
        self.group_suffix = group_suffix
        self.outcomes = outcomes
        self.displacement = displacement
        most_returns = 4 * longest + 64
        self.levels = zeros(LEVEL, longest + 2)
        self.returns = zeros(RETURN, most_returns)
        self.pairs = np.empty(most_returns, np.int64)
        self.first = np.empty((0, space.n_classes), np.uint8)
        self.row = 0
        self.start = REJECT
        self.n_ranges = self.n_events = self.open_range = 0

    # ---------------------------------------------------------------- from Python

    def walk_all(self, contexts: NDArray[np.int64], firsts: NDArray[np.uint8]) -> Walked:
        """Walk every block of some contexts.

        Args:
            contexts: int64[n], symbols as for `Space.context_of`.
            firsts: uint8[n, B], the byte classes that can follow below each context's known part.

        Raises:
            BudgetExceeded: more configurations, outcomes or bytes than allowed, or told to stop.
            ValueError: arrays of another type or shape.
        """
        if firsts.shape != (len(contexts), self.space.n_classes):
            raise ValueError(f"firsts of shape {firsts.shape}, not [{len(contexts)}, {self.space.n_classes}]")
        child = self.children()
        found = find_blocks(self.space, contexts, child)
        n: cython.Py_ssize_t = len(found.blocks)
        nodes: cython.const[cython.Py_ssize_t][::1] = np.repeat(child, np.diff(found.block_starts))
        blocks: cython.const[cython.Py_ssize_t][::1] = found.blocks
        self.first = united_firsts(found.users, firsts, n)
        self.account.claim(32 * FIRST_ROWS)
        range_starts: cython.Py_ssize_t[::1] = np.zeros(n + 1, np.int64)
        event_starts: cython.Py_ssize_t[::1] = np.zeros(n + 1, np.int64)
        self.n_ranges = self.n_events = 0
        self.keep_rows(np.empty((FIRST_ROWS, 2), np.int64), np.empty((FIRST_ROWS, 2), np.int64))
        with cython.nogil:
            for i in range(n):
                self.account.check()
                # room for everything that this block can add, so that later additions need no check
                room = self.nodes[nodes[i]].group_end - self.nodes[nodes[i]].group
                if self.n_ranges + room > self.ranges.shape[0] or self.n_events + room > self.events.shape[0]:
                    with cython.gil:
                        self.grow(room)
                self.open_range = self.n_ranges
                self.row = i
                self.start = blocks[i]
                self.walk(nodes[i])
                range_starts[i + 1] = self.n_ranges
                event_starts[i + 1] = self.n_events
        return Walked(
            found.block_starts, found.user_starts, found.users,
            np.asarray(range_starts), self.range_rows, np.asarray(event_starts), self.event_rows,
        )  # fmt: skip

    def children(self) -> NDArray[np.int64]:
        """The child of the root by first byte, int64[256]; 0 if there is none."""
        child: cython.Py_ssize_t[::1] = np.zeros(256, np.int64)
        for i in range(self.nodes[0].child, self.nodes[1].child):
            child[self.nodes[i].bits & 255] = i
        return np.asarray(child)

    # ---------------------------------------------------------------- the walk

    def walk(self, node):
        """Walk all tokens of the current block, below a child of the root."""
        self.levels[1].child = node
        self.levels[1].end = node + 1
        d: cython.Py_ssize_t = 1
        while d > 0:
            i = self.levels[d].child
            last = self.levels[d].end
            above = self.levels[d - 1].configuration
            if above != REJECT:
                i = self.next_to_enter(i, last, above, self.levels[d - 1].n_returns)
            if i == last:
                d -= 1
            else:
                self.levels[d].child = i + 1
                d = self.enter(i, d)

    def next_to_enter(self, i, last, above, n_returns):
        """The first child from i on that must be entered. Most children are rejected, or stay in a loop
        that contains everything below them; both take little time in this loop."""
        looping: cython.bint = self.space.facts[above].label == 0 and not self.displacement
        returning: cython.bint = self.space.facts[above].n_ports > 0
        while i < last:
            byte = self.nodes[i].bits & 255
            c = self.space.class_of_byte[byte]
            following = self.space.steps[above, c]
            if following == REJECT:
                if n_returns > 0 or (returning and self.first[self.row, c]):
                    break
            elif following == above and looping:
                if byte >= 0x80 or not self.loops_below(i, above):
                    break
                self.add_range(self.nodes[i].group, self.nodes[i].group_end)
            else:
                break
            i += 1
        return i

    def loops_below(self, i, configuration):
        """Whether a configuration is known to stay the same on everything that occurs below a node."""
        facts = cython.address(self.space.facts[configuration])
        return loops_below(facts, cython.address(self.nodes[i]))

    def enter(self, i, d):
        """Read the byte that leads to a node at depth d. Return the depth at which to continue, which is
        greater if its children come next."""
        above = self.levels[d - 1].configuration
        n = self.levels[d - 1].n_returns
        configuration: cython.Py_ssize_t = REJECT
        if d == 1:
            configuration = self.start
        elif above != REJECT:
            c = self.space.class_of_byte[self.nodes[i].bits & 255]
            if self.space.facts[above].n_ports > 0 and self.first[self.row, c]:
                n = self.add_returns(above, d - 1, n)
            configuration = after(self.space, above, c)
        if configuration == REJECT and n == 0:
            return d
        self.levels[d].configuration = configuration
        self.levels[d].n_returns = n
        label = self.space.facts[configuration].label
        if label >= 0:
            if self.displacement:
                label = configuration
            elif label == 0:
                return self.read_outright(i, d)
        if self.nodes[i].bits >> ENDS_AT & 1:
            self.add_event(label, n, self.nodes[i].group)
        return self.descend(i, d)

    def read_outright(self, i, d):
        """Record what is read completely at a node: all groups below it, if none of them leaves a loop.
        Return the depth at which to continue."""
        configuration, above = self.levels[d].configuration, self.levels[d - 1].configuration
        second, third = self.levels[max(d - 2, 0)].configuration, self.levels[max(d - 3, 0)].configuration
        learn(self.loops, self.nodes[i].bits & 255, configuration, above, second, third)
        if self.loops_below(i, configuration):
            self.add_range(self.nodes[i].group, self.nodes[i].group_end)
            return d
        if self.nodes[i].bits >> ENDS_AT & 1:
            self.add_range(self.nodes[i].group, self.nodes[i].group + 1)
        return self.descend(i, d)

    def descend(self, i, d):
        """Continue with the children of a node at depth d. Return their depth."""
        self.levels[d + 1].child = self.nodes[i].child
        self.levels[d + 1].end = self.nodes[i + 1].child
        return d + 1

    # ---------------------------------------------------------------- results

    def add_range(self, first, end):
        """Record groups that are read completely."""
        last = self.n_ranges - 1
        if last >= self.open_range and self.ranges[last].end == first:
            self.ranges[last].end = end
        else:
            self.ranges[last + 1].first = first
            self.ranges[last + 1].end = end
            self.n_ranges = last + 2

    def add_returns(self, configuration, depth, n):
        """Record that the text may leave the known part of the stack by the ports of a configuration. `n`
        returns were recorded before; return how many are now."""
        at = self.space.configurations.starts[configuration] + 2
        for k in range(at, at + self.space.facts[configuration].n_ports):
            if n >= self.returns.shape[0]:
                with cython.gil:
                    raise BudgetExceeded(self.outcomes.excess)
            self.returns[n].depth = depth
            self.returns[n].port = -1 - self.space.configurations.pool[k]
            n += 1
        return n

    def add_event(self, label, n_returns, group):
        """Record the outcome of a group: its label, and the suffixes at the depths of its returns, in the
        order of (port, suffix)."""
        n: cython.Py_ssize_t = 0
        if n_returns > 0:
            depth: cython.Py_ssize_t = 0
            suffix: cython.Py_ssize_t = self.group_suffix[group]
            for k in range(n_returns):
                while depth < self.returns[k].depth:
                    suffix = self.suffix_parent[suffix]
                    depth += 1
                n = insert_sorted(self.pairs, 0, n, (self.returns[k].port << 30) + suffix)
        self.events[self.n_events].group = group
        self.events[self.n_events].outcome = outcome_of(self.outcomes, label, self.pairs, n)
        self.n_events += 1

    def keep_rows(self, ranges, events):
        """Write ranges and events into arrays int64[n, 2] from now on."""
        self.range_rows = ranges
        self.event_rows = events
        self.ranges = of_array(ranges, RANGE)
        self.events = of_array(events, EVENT)

    def grow(self, room):
        """Make room for this many more ranges and events, and for a block of all groups."""
        old: cython.Py_ssize_t = self.ranges.shape[0]
        size: cython.Py_ssize_t = 2 * (self.n_ranges + self.group_suffix.shape[0])
        if self.n_ranges + room > old:
            self.keep_rows(self.account.bigger(self.range_rows, size, self.n_ranges), self.event_rows)
        old = self.events.shape[0]
        size = 2 * (self.n_events + self.group_suffix.shape[0])
        if self.n_events + room > old:
            self.keep_rows(self.range_rows, self.account.bigger(self.event_rows, size, self.n_events))
