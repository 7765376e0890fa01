# cython: language_level=3
# mypy: ignore-errors
"""Deterministic automata while they are built: states, their edges and calls, rule by rule.

What: `Deterministic` owns the tables of all rules, and decides which rules are small enough to be copied
into their callers.
When: filled by `equivalence.network.subsets`, read by `equivalence.network.state_merging`.
Limits: states must be added in the order of their numbers, and ended in that order.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import empty
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import bigger
from equivalence.arrays.records import Kind

check_source(__name__)

INLINE_STATES = cython.declare(cython.int, 24)  # a larger rule is called, not copied into its callers
# a rule that loops on more bytes is not copied either: each copy would be walked over the whole trie
INLINE_LOOP = cython.declare(cython.int, 8)

SPAN = Kind("first last target", np.int32)
CALL = Kind("rule back", np.int32)


@cython.final
@cython.cclass
class Deterministic:
    """The automata of finished rules, and of the current one; they read non-empty strings only. All states
    have one numbering, and there is room for more.

    Attributes:
        rule_first, rule_last: the first state of each rule, and the one after its last; -1: none yet.
        copied: whether a rule is copied into its callers.
        final: uint8[states].
        edge_starts, call_starts: int64[states + 1], where the edges and calls of each state start.
        edges: rows (first byte, last byte, target), by byte.
        calls: rows (rule, state to return to); counted rules are numbered after the others.
        n_edges, n_calls: their numbers.
    """

    def __init__(self) -> None:
        self.rule_first = self.rule_first_room = np.empty(0, np.int64)
        self.rule_last = self.rule_last_room = np.empty(0, np.int64)
        self.copied = self.copied_room = np.empty(0, np.uint8)
        self.final = np.empty(0, np.uint8)
        self.edge_starts = self.call_starts = np.empty(1, np.int64)
        self.edges = empty(SPAN, 0)
        self.calls = empty(CALL, 0)

    def prepare(self, n_rules, n_callees, room):
        """Start again, without states.

        Args:
            n_rules: number of rules that have automata.
            n_callees: number of those and of counted rules.
            room: room for at least this many states.
        """
        if n_rules > self.rule_first_room.shape[0]:
            with cython.gil:
                self.rule_first_room = np.empty(2 * n_rules, np.int64)
                self.rule_last_room = np.empty(2 * n_rules, np.int64)
        if n_callees > self.copied_room.shape[0]:
            with cython.gil:
                self.copied_room = np.empty(2 * n_callees, np.uint8)
        if room > self.final.shape[0]:
            with cython.gil:
                self.final = np.empty(room, np.uint8)
                self.edge_starts = np.empty(room + 1, np.int64)
                self.call_starts = np.empty(room + 1, np.int64)
        if 3 * room > self.edges.shape[0]:
            with cython.gil:
                self.edges = empty(SPAN, 3 * room)
        if room > self.calls.shape[0]:
            with cython.gil:
                self.calls = empty(CALL, room)
        self.rule_first = self.rule_first_room[:n_rules]
        self.rule_last = self.rule_last_room[:n_rules]
        self.copied = self.copied_room[:n_callees]
        self.rule_first[:] = -1
        self.rule_last[:] = -1
        self.copied[:] = 0
        self.edge_starts[0] = 0
        self.call_starts[0] = 0
        self.n_edges = 0
        self.n_calls = 0

    def grow_states(self):
        """Double the room for states."""
        size: cython.Py_ssize_t = self.final.shape[0]
        self.final = bigger(self.final, 2 * size)
        self.edge_starts = bigger(self.edge_starts, 2 * size + 1)
        self.call_starts = bigger(self.call_starts, 2 * size + 1)

    def grow_edges(self):
        """Double the room for edges."""
        self.edges = bigger(self.edges, 2 * self.n_edges)

    def grow_calls(self):
        """Double the room for calls."""
        self.calls = bigger(self.calls, 2 * self.n_calls)

    def add_state(self, state, is_final):
        """Add the next state; its number must be the number of states before."""
        if state == self.final.shape[0]:
            with cython.gil:
                self.grow_states()
        self.final[state] = is_final

    def add_edge(self, source, first, last, target):
        """Add an edge after the state's edges for smaller bytes, or extend its last one."""
        n = self.n_edges
        if (
            n > self.edge_starts[source]
            and self.edges[n - 1].last == first - 1
            and self.edges[n - 1].target == target
        ):
            self.edges[n - 1].last = last
            return 0
        if n == self.edges.shape[0]:
            with cython.gil:
                self.grow_edges()
        self.edges[n].first = first
        self.edges[n].last = last
        self.edges[n].target = target
        self.n_edges = n + 1
        return 0

    def add_call(self, rule, back):
        """Add a call of the current state."""
        n = self.n_calls
        if n == self.calls.shape[0]:
            with cython.gil:
                self.grow_calls()
        self.calls[n].rule = rule
        self.calls[n].back = back
        self.n_calls = n + 1

    def end_state(self, state):
        """Finish a state after its last edge and call."""
        self.edge_starts[state + 1] = self.n_edges
        self.call_starts[state + 1] = self.n_calls

    def end_rule(self, rule, end):
        """Finish a rule. Its last state is the one before `end`."""
        self.rule_last[rule] = end
        self.copied[rule] = self.is_small(self.rule_first[rule], end)

    def is_small(self, begin, end):
        """Whether the automaton begin..end is copied into callers: few states, no call, no wide loop."""
        if end - begin > INLINE_STATES or self.call_starts[end] > self.call_starts[begin]:
            return False
        for s in range(begin, end):
            loop: cython.Py_ssize_t = 0
            for k in range(self.edge_starts[s], self.edge_starts[s + 1]):
                if self.edges[k].target == s:
                    loop += self.edges[k].last - self.edges[k].first + 1
            if loop > INLINE_LOOP:
                return False
        return True
