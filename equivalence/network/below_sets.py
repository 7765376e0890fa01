# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Below sets: what may lie below the states of each rule.

What: `BelowSets` collects the sets of all rules, and lets rules with equal sets share one. Section 3 of
docs/theory.md has the definitions.
When: last step but one of `build_network`; `equivalence.network.contexts` reads the sets.
Limits: stacks are over-approximated: the set of a rule is the union of what all its callers leave below it.
It includes what lies below the rules that tail call it. Chains of tail calls therefore make sets whose
total length is the square of the chain's; a bound applies to that.

Every index is always checked. This adds a seventh to the time of this module, a hundredth to that of a
network.

A symbol is a class of states, or -1 - k for the frame of counted class k. Rules are numbered as in the
grammar, with counted rules after them.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.network.sorted_set import SortedSet
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.dynamic_arrays import bigger, filled
from equivalence.arrays.grouping import grouped
from equivalence.network.sizes import too_large

check_source(__name__)

MEMBERS_A_STATE = cython.declare(cython.Py_ssize_t, 16)
# most members of all below sets together, for each allowed state: about 40 bytes each


@cython.final
@cython.cclass
class MergedStates:
    """The deterministic automata, and the class of each of their states.

    Args:
        root: the root rule.
        arrays: the attributes down to `order`, with `final` in third place: uint8[states], states that may
            end their rule.

    Attributes:
        rule_first, rule_last: int64[rules], the first state of each rule, and the one after its last; or -1.
        edge_starts, edges, call_starts, calls: where the edges (first byte, last byte, target) of each
            state start, and its calls (callee, state after it): int64[states + 1], [n, 3], [states + 1],
            [n, 2].
        counted: int64[n, 3], rows (unit, least, most) of counted rules, numbered after the plain ones.
        n_classes, n_counted_classes: number of classes of states, and of counted rules.
        representative_of: int64[states], the state that represents each state: another one if it only tail
            calls a rule, otherwise itself.
        class_of: int64[states], the class of each state; -1 if it cannot be reached from the root.
        class_of_counted: int64[n], the class of each counted rule; -1 if it is unused.
        order: int64, all used rules, callees first.
        rule_of_state: the rule of each state.
        is_end: whether the rule ends in a state, and nothing can be read there.
        is_top: whether a state may be on top of a stack between two bytes: the start, and states after a byte
            or a call.
    """

    def __init__(self, root: cython.Py_ssize_t, arrays: tuple) -> None:
        self.root = root
        (
            self.rule_first, self.rule_last, final, self.edge_starts, self.edges, self.call_starts,
            self.calls, self.counted, self.n_classes, self.n_counted_classes, self.representative_of,
            self.class_of, self.class_of_counted, self.order,
        ) = arrays  # fmt: skip
        n: cython.Py_ssize_t = self.class_of.shape[0]
        self.rule_of_state = np.zeros(n, np.int64)
        self.is_end, self.is_top = np.zeros(n, np.uint8), np.zeros(n, np.uint8)
        self.is_top[self.rule_first[root]] = 1
        finals: cython.const[cython.uchar][::1] = final
        with cython.nogil:
            for rule in range(self.rule_first.shape[0]):
                if self.rule_first[rule] >= 0:
                    for state in range(self.rule_first[rule], self.rule_last[rule]):
                        self.rule_of_state[state] = rule
            for state in range(n):
                self.is_end[state] = (
                    finals[state] > 0
                    and self.edge_starts[state + 1] == self.edge_starts[state]
                    and self.call_starts[state + 1] == self.call_starts[state]
                )
                if self.class_of[state] >= 0:
                    for k in range(self.edge_starts[state], self.edge_starts[state + 1]):
                        self.is_top[self.edges[k, 2]] = 1
                    for k in range(self.call_starts[state], self.call_starts[state + 1]):
                        self.is_top[self.calls[k, 1]] = 1


@cython.final
@cython.cclass
class BelowSets:
    """What may lie below each rule: the return states of its calls; below a tail call, what lies below the
    caller; below the unit of a counted rule, its frame.

    Args:
        states: the merged states.
        max_states: bound on the states of automata, and thereby on the size of these sets.
        stop: says when to stop.

    Attributes:
        used: uint8[rules], the rules that the network uses.
        under: for each call, then for each counted rule, what it leaves below the callee: the rule of a tail
            call; otherwise the number of a pair (symbol, rule below it) in `pairs`.
        tail_starts, tail_calls: the tail calls of each rule, and where they begin.
        call_starts, calls: the other calls of each rule, likewise.
        sets: the sets as lists [bottom, symbol, set below it, ...].
        set_of_rule: int64[rules]; -1 if a rule is not used.

    Raises:
        BudgetExceeded: the sets have more than `MEMBERS_A_STATE` members for each state, or the deadline has
            passed.
    """

    def __init__(self, states, max_states, stop) -> None:
        self.states, self.max_states = states, max_states
        self.account = Account(stop)
        self.total = self.states.rule_first.shape[0] + self.states.counted.shape[0]
        self.used = np.zeros(self.total, np.uint8)
        n_calls: cython.Py_ssize_t = self.states.calls.shape[0] + self.states.counted.shape[0]
        self.pairs = Interned(n_calls, 2)
        self.under = np.empty(n_calls, np.int64)
        tail_callees, callees = filled(n_calls, -1, np.int32), filled(n_calls, -1, np.int32)
        self.note_calls(self.states, tail_callees, callees)
        self.tail_starts, self.tail_calls = grouped(tail_callees, self.total)
        self.call_starts, self.calls = grouped(callees, self.total)
        self.set_starts = np.empty(self.total + 1, np.int64)
        self.bottom = np.zeros(self.total, np.uint8)
        self.members = np.empty(2 * self.calls.shape[0] + 64, np.int64)
        self.n_members = 0
        self.rule_seen = filled(self.total, -1)
        self.pair_seen = filled(self.pairs.count, -1)
        self.queue = np.empty(self.total, np.int64)
        with cython.nogil:
            for rule in range(self.total):
                self.set_starts[rule] = self.n_members
                if self.used[rule]:
                    self.gather(rule)
            self.set_starts[self.total] = self.n_members

    def note_calls(self, states, tail_callees, callees):
        """Find the rules that are used, and what each call leaves below its callee; counted rules call their
        units. One of the arrays, which contain -1, gets the callee."""
        n_rules = states.rule_first.shape[0]
        with cython.nogil:
            for s in range(states.class_of.shape[0]):
                if states.class_of[s] < 0:
                    continue
                rule = states.rule_of_state[s]
                self.used[rule] = 1
                for k in range(states.call_starts[s], states.call_starts[s + 1]):
                    back = states.calls[k, 1]
                    if states.is_end[back]:
                        tail_callees[k] = cython.cast(cython.int, states.calls[k, 0])
                        self.under[k] = rule
                    else:
                        callees[k] = cython.cast(cython.int, states.calls[k, 0])
                        self.under[k] = self.pairs.pair(states.class_of[back], rule)
            for c in range(states.counted.shape[0]):
                if states.class_of_counted[c] >= 0:
                    k = states.calls.shape[0] + c
                    self.used[n_rules + c] = 1
                    callees[k] = cython.cast(cython.int, states.counted[c, 0])
                    self.under[k] = self.pairs.pair(-1 - states.class_of_counted[c], n_rules + c)

    def gather(self, rule):
        """Collect the pairs of a rule, and those of the rules that tail call it, directly or indirectly."""
        self.queue[0] = rule
        self.rule_seen[rule] = rule
        head: cython.Py_ssize_t = 0
        tail: cython.Py_ssize_t = 1
        while head < tail:
            r = self.queue[head]
            head += 1
            self.account.check()
            if self.n_members > MEMBERS_A_STATE * self.max_states:
                with cython.gil:
                    raise too_large(self.max_states)
            if r == self.states.root:
                self.bottom[rule] = 1
            self.note_members(rule, r)
            for k in range(self.tail_starts[r], self.tail_starts[r + 1]):
                caller = self.under[self.tail_calls[k]]
                if self.rule_seen[caller] != rule:
                    self.rule_seen[caller] = rule
                    self.queue[tail] = caller
                    tail += 1

    def note_members(self, rule, below):
        """Add the pairs of a rule to the set of a rule that it tail calls, or to its own."""
        first = self.call_starts[below]
        end = self.call_starts[below + 1]
        if self.n_members + end - first > self.members.shape[0]:
            with cython.gil:
                self.members = bigger(self.members, 2 * (self.n_members + end - first), self.n_members)
        n = self.n_members
        for k in range(first, end):
            p = self.under[self.calls[k]]
            if self.pair_seen[p] != rule:
                self.pair_seen[p] = rule
                self.members[n] = p
                n += 1
        self.n_members = n

    def share(self) -> None:
        """Let rules with equal sets share one. Then sets that differ only in such rules become equal, too.

        No more is shared than follows from that: rules begin separate, callers are numbered before callees,
        and rounds are repeated until nothing changes (two rounds for most grammars).

        Raises:
            BudgetExceeded: the deadline has passed.
        """
        self.codes = SortedSet()
        self.number = np.empty(self.total, np.int64)
        self.set_of_rule = np.empty(self.total, np.int64)
        most: cython.Py_ssize_t = self.states.order.shape[0] + 1
        self.example = np.empty(most, np.int64)
        self.sets = Interned(most, 1 + 2 * self.n_members // most)
        changed: cython.int = 1
        with cython.nogil:
            for rule in range(self.total):
                self.number[rule] = rule
                self.set_of_rule[rule] = -1
            while changed:
                self.sets.clear(most)
                changed = self.share_round(self.states)
            n_sets = self.sets.count
            for i in range(n_sets):
                self.set_of_rule[self.example[i]] = i
            for rule in range(self.total):
                if self.used[rule]:
                    self.set_of_rule[rule] = self.set_of_rule[self.number[rule]]
            for rule in range(self.total):
                self.number[rule] = self.set_of_rule[rule]
            self.sets.clear(most)
            for i in range(n_sets):
                self.account.check()
                self.intern_set(self.example[i])

    def share_round(self, states):
        """Let each rule share the set of the first rule with an equal set. Return whether anything
        changed."""
        changed: cython.int = 0
        for i in range(states.order.shape[0] - 1, -1, -1):
            rule = states.order[i]
            if not self.used[rule]:
                continue
            self.account.check()
            known = self.sets.count
            found = self.intern_set(rule)
            if found == known:
                self.example[found] = rule
            if self.number[rule] != self.example[found]:
                self.number[rule] = self.example[found]
                changed = 1
        return changed

    def intern_set(self, rule):
        """The number of a rule's set as a sorted list, in which the rule below each symbol is given by its
        `number`."""
        self.codes.count = 0
        for k in range(self.set_starts[rule], self.set_starts[rule + 1]):
            begin = self.pairs.starts[self.members[k]]
            symbol = self.pairs.pool[begin] + self.states.n_counted_classes
            self.codes.add(symbol * self.total + self.number[self.pairs.pool[begin + 1]])
        length = 1 + 2 * self.codes.sort()
        begin = self.sets.room(length)
        self.sets.pool[begin] = self.bottom[rule]
        for i in range(self.codes.count):
            symbol = self.codes.values[i] // self.total - self.states.n_counted_classes
            self.sets.pool[begin + 1 + 2 * i] = symbol
            self.sets.pool[begin + 2 + 2 * i] = self.codes.values[i] % self.total
        return self.sets.intern(length)

    def flat(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """The sets in the form of `Network`: (starts, symbols, set below each, bottom)."""
        starts, pool = self.sets.lists()
        is_member = np.ones(len(pool), bool)
        is_member[starts[: self.sets.count]] = False
        members = pool[is_member].reshape(-1, 2)
        bottom = pool[starts[: self.sets.count]] > 0
        return (starts - np.arange(len(starts))) >> 1, members[:, 0].copy(), members[:, 1].copy(), bottom
