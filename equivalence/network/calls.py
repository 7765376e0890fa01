# cython: language_level=3
# mypy: ignore-errors
"""Which rules call which: their order, which of them may be empty, and which may be left recursive.

What: `Calls` reads the automata of all rules; their edges must be sorted by source.
When: third step of `build_network`, and again after left recursion was removed.
Limits: counted rules are numbered after the plain ones, and call only their unit.

Indices are not checked here, because `edges.SortedEdges` has checked the states of all edges, and `automata`
the rules that they call. Checks would add a quarter to the time.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.records import empty
from cython.cimports.equivalence.network.edge_types import CALL, EMPTY
from cython.cimports.equivalence.network.edges import SortedEdges
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.records import Kind

check_source(__name__)

RULE = Kind("first next caller")


@cython.final
@cython.cclass
class Calls:
    """The rules that can be reached from a root, and what they call.

    Args:
        ordered: the edges of all automata.
        account: says when to stop.

    Attributes:
        begins, ends: the states that start and end each rule; -1 if it is not used.
        counted: (unit, least, most) of the counted rules, one after another.
        n_rules, total: the number of plain rules; of plain and counted rules.
        rules: for each rule, where its callees begin, the next one to visit, and the rule that last called
            it.
        owner: for each state, the last rule whose automaton contains it, or -1.
        order: the rules that can be reached from the root, callees before callers unless there is recursion.
        empty: for each rule, whether it derives the empty string (`find_nullable`).
        pairs: left calls, `n_pairs` of them (`find_left_calls`).
        degree: for each rule, how many pairs lead from it; those to dropped rules do not count.
        callers, caller_starts: the callers of each rule in these pairs, and where they begin.
        seen: for each state, when it was last visited.
        stack: states or rules to visit.
    """

    def __init__(self, ordered: SortedEdges, account: Account) -> None:
        self.ordered, self.account = ordered, account
        self.owner = self.owner_room = self.seen = self.stack = np.empty(0, np.int64)
        self.order = self.order_room = self.callees = np.empty(0, np.int64)
        self.rules = empty(RULE, 0)
        self.pairs = self.pairs_room = np.empty((0, 2), np.int64)
        self.empty = self.empty_room = np.empty(0, np.uint8)
        self.degree = self.caller_starts = self.callers = np.empty(0, np.int64)

    def prepare(self, begins, ends, counted):
        """Start with other automata, whose edges are in `ordered`."""
        self.begins, self.ends = begins, ends
        self.counted = counted
        self.n_rules = begins.shape[0]
        n_counted: cython.Py_ssize_t = counted.shape[0] // 3
        self.total = self.n_rules + n_counted
        n_states: cython.Py_ssize_t = self.ordered.starts.shape[0] - 1
        n_pairs: cython.Py_ssize_t = self.ordered.rows.shape[0] + n_counted
        if self.total + 2 > self.degree.shape[0]:
            with cython.gil:
                self.grow_rules()
        if n_states > self.seen.shape[0] or n_states + self.total + 1 > self.stack.shape[0]:
            with cython.gil:
                self.grow_states(n_states)
        if n_pairs > self.callers.shape[0]:
            with cython.gil:
                self.grow_pairs(n_pairs)
        self.owner = self.owner_room[:n_states]
        self.empty = self.empty_room[: self.total]

    def grow_rules(self):
        """Make room for more rules. For the same rules this is not necessary, so `empty` is kept."""
        rules: cython.Py_ssize_t = 2 * self.total + 2
        self.rules = empty(RULE, rules)
        self.order_room = np.empty(rules, np.int64)
        self.empty_room = np.empty(rules, np.uint8)
        self.degree = np.empty(rules, np.int64)
        self.caller_starts = np.empty(rules, np.int64)

    def grow_states(self, n_states):
        """Make room for `n_states` states, and for visiting them and the rules."""
        self.seen = np.empty(n_states + n_states // 2, np.int64)
        self.owner_room = np.empty(n_states + n_states // 2, np.int64)
        self.stack = np.empty(2 * (n_states + self.total + 1), np.int64)

    def grow_pairs(self, n_pairs):
        """Make room for `n_pairs` calls."""
        self.callees = np.empty(2 * n_pairs, np.int64)
        self.pairs_room = np.empty((2 * n_pairs, 2), np.int64)
        self.callers = np.empty(2 * n_pairs, np.int64)

    def find_order(self, root):
        """Find what the rules call, and the order of those that can be reached from a root."""
        self.find_callees()
        self.sort(root)
        self.order = self.order_room[: self.n_found]

    def find_callees(self):
        """Record the callees of each rule, including counted rules, and the rule of each state."""
        n: cython.Py_ssize_t = 0
        for state in range(self.owner.shape[0]):
            self.owner[state] = -1
            self.seen[state] = 0
        self.now = 0
        for rule in range(self.total):
            self.rules[rule].caller = -1
        for rule in range(self.n_rules):
            self.rules[rule].first = n
            if self.begins[rule] < 0:
                continue
            self.stack[0] = self.begins[rule]
            self.owner[self.begins[rule]] = rule
            depth: cython.Py_ssize_t = 1
            while depth > 0:
                depth -= 1
                state = self.stack[depth]
                for e in range(self.ordered.starts[state], self.ordered.starts[state + 1]):
                    if (
                        self.ordered.rows[e].type == CALL
                        and self.rules[self.ordered.rows[e].a].caller != rule
                    ):
                        self.rules[self.ordered.rows[e].a].caller = rule
                        self.callees[n] = self.ordered.rows[e].a
                        n += 1
                    target = self.ordered.rows[e].target
                    if self.owner[target] != rule:
                        self.owner[target] = rule
                        self.stack[depth] = target
                        depth += 1
        for c in range(self.total - self.n_rules):
            self.rules[self.n_rules + c].first = n
            self.callees[n] = self.counted[3 * c]
            n += 1
        self.rules[self.total].first = n

    def sort(self, root):
        """Find the rules that can be reached from a root, callees first."""
        for rule in range(self.total):
            self.rules[rule].next = -1
        n: cython.Py_ssize_t = 0
        depth: cython.Py_ssize_t = 1
        self.stack[0] = root
        self.rules[root].next = self.rules[root].first
        while depth > 0:
            rule = self.stack[depth - 1]
            if self.rules[rule].next < self.rules[rule + 1].first:
                callee = self.callees[self.rules[rule].next]
                self.rules[rule].next += 1
                if self.rules[callee].next < 0:
                    self.rules[callee].next = self.rules[callee].first
                    self.stack[depth] = callee
                    depth += 1
            else:
                depth -= 1
                self.order_room[n] = rule
                n += 1
        self.n_found = n

    def find_nullable(self):
        """Find which of the rules in `order` derive the empty string; a least fixed point.

        Callees come first, so a chain of rules takes one round instead of one for each rule.

        Raises:
            BudgetExceeded: the deadline has passed.
        """
        self.empty[:] = 0
        changed: cython.int = 1
        while changed:
            changed = 0
            for position in range(self.n_found):
                self.account.check()
                rule = self.order[position]
                if not self.empty[rule] and self.may_be_empty(rule):
                    self.empty[rule] = 1
                    changed = 1

    def may_be_empty(self, rule):
        """Whether a rule derives the empty string, as far as its callees are known."""
        if rule >= self.n_rules:
            c = rule - self.n_rules
            return self.counted[3 * c + 1] == 0 or self.empty[self.counted[3 * c]]
        self.list_first_states(rule)
        return self.seen[self.ends[rule]] == self.now

    def list_first_states(self, rule):
        """List the states of a plain rule that can be reached before a byte is read, as far as it is known
        which callees may be empty: in `stack`, and as seen now. Return their number."""
        self.now += 1
        self.stack[0] = self.begins[rule]
        self.seen[self.begins[rule]] = self.now
        head: cython.Py_ssize_t = 0
        tail: cython.Py_ssize_t = 1
        while head < tail:
            state = self.stack[head]
            head += 1
            for e in range(self.ordered.starts[state], self.ordered.starts[state + 1]):
                edge_type = self.ordered.rows[e].type
                if edge_type == EMPTY or (edge_type == CALL and self.empty[self.ordered.rows[e].a]):
                    target = self.ordered.rows[e].target
                    if self.seen[target] != self.now:
                        self.seen[target] = self.now
                        self.stack[tail] = target
                        tail += 1
        return tail

    def find_left_calls(self):
        """Find pairs (rule, callee) such that the rule may call the callee before it has read a byte.

        Only pairs that lead to a cycle are kept. For most grammars nothing is left.
        """
        self.n_pairs = 0
        self.pairs = self.pairs_room
        for position in range(self.n_found):
            rule = self.order[position]
            if rule >= self.n_rules:
                self.note_pair(rule, self.counted[3 * (rule - self.n_rules)])
            else:
                self.collect_left_calls(rule)
        if self.n_pairs:
            self.keep_cycles()
        self.pairs = self.pairs_room[: self.n_pairs]

    def note_pair(self, caller, callee):
        """Record a left call."""
        self.pairs[self.n_pairs, 0] = caller
        self.pairs[self.n_pairs, 1] = callee
        self.n_pairs += 1

    def collect_left_calls(self, rule):
        """Record the left calls of a plain rule."""
        for i in range(self.list_first_states(rule)):
            state = self.stack[i]
            for e in range(self.ordered.starts[state], self.ordered.starts[state + 1]):
                if self.ordered.rows[e].type == CALL:
                    self.note_pair(rule, self.ordered.rows[e].a)

    def keep_cycles(self):
        """Keep the pairs that lead to a cycle: rules from which no pair leads are dropped repeatedly."""
        self.list_callers()
        head: cython.Py_ssize_t = 0
        tail: cython.Py_ssize_t = 0
        for rule in range(self.total):
            if not self.degree[rule]:
                self.stack[tail] = rule
                tail += 1
        while head < tail:
            rule = self.stack[head]
            head += 1
            for k in range(self.caller_starts[rule], self.caller_starts[rule + 1]):
                self.degree[self.callers[k]] -= 1
                if not self.degree[self.callers[k]]:
                    self.stack[tail] = self.callers[k]
                    tail += 1
        kept: cython.Py_ssize_t = 0
        for i in range(self.n_pairs):
            if self.degree[self.pairs[i, 1]]:
                self.pairs[kept, 0], self.pairs[kept, 1] = self.pairs[i, 0], self.pairs[i, 1]
                kept += 1
        self.n_pairs = kept

    def list_callers(self):
        """List the callers of each rule, and count the pairs that lead from it."""
        for rule in range(self.total):
            self.degree[rule] = 0
        for rule in range(self.total + 2):
            self.caller_starts[rule] = 0
        for i in range(self.n_pairs):
            self.degree[self.pairs[i, 0]] += 1
            self.caller_starts[self.pairs[i, 1] + 2] += 1
        for rule in range(self.total):
            self.caller_starts[rule + 2] += self.caller_starts[rule + 1]
        for i in range(self.n_pairs):
            callee = self.pairs[i, 1] + 1
            self.callers[self.caller_starts[callee]] = self.pairs[i, 0]
            self.caller_starts[callee] += 1
