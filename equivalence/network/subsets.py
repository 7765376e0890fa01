# cython: language_level=3
# mypy: ignore-errors
"""The subset construction: makes the automaton of each rule deterministic.

What: `Subsets` turns automata with empty edges into deterministic ones. Small rules without calls are
copied into their callers, and a tail call of a rule to itself becomes a loop.
When: called only by `equivalence.network.pipeline`, once for each grammar.
Limits: indices in the arrays are not checked, because `build` has made them, or read and checked them.

Rules share no element (`equivalence.network.closures`), so subsets are numbered for all rules together, and
their numbers are the new states.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.records import empty
from cython.cimports.equivalence.network.closures import Closures
from cython.cimports.equivalence.network.deterministic import Deterministic
from cython.cimports.equivalence.network.edge_types import BYTES, CALL
from cython.cimports.equivalence.network.transitions import Transitions
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.records import Kind
from equivalence.network.sizes import too_large

check_source(__name__)

CALLED = Kind("rule back next", np.int32)

# the maximum number of members of all subsets, for each allowed state: nested repeats in a pattern took a
# minute for 8,000 states
MEMBERS_A_STATE = cython.declare(cython.int, 64)


@cython.final
@cython.cclass
class Subsets:
    """The subsets of all rules, and their transitions.

    An automaton reads only non-empty strings: its first state is never final, and the caller of a nullable
    rule may skip the call. A tail call of a rule to itself becomes a loop.

    Args:
        closures: the closures of the automata as they are read.
        automata: the deterministic automata.
        account: says when to stop.

    Attributes:
        max_states: bound on the subsets.
        sets: the members of each subset; a negative one is a mark, see `number`.
        members_seen: number of members of all subsets so far.
        ways: the transitions by bytes of the current subset.
        called: its calls, as linked lists of the calls of each rule; row 0 is the end of each list.
        n_called: number of its rows, including row 0.
        call_head: by rule, the first of its calls; 0: there is none. All entries are 0 between two subsets.
    """

    def __init__(self, closures: Closures, automata: Deterministic, account: Account) -> None:
        self.closures = closures
        self.automata = automata
        self.account = account
        self.sets = Interned(64, 4)
        self.ways = Transitions()
        self.called = empty(CALLED, 1)
        self.call_head = np.zeros(0, np.int64)

    def prepare(self, max_states):
        """Start with the automata of `closures`."""
        self.max_states = max_states
        self.n_rules = self.automata.rule_first.shape[0]
        self.sets.clear(2 * self.closures.n_states + 64)
        self.members_seen = 0
        n_callees: cython.Py_ssize_t = self.closures.nullable.shape[0]
        n_edges: cython.Py_ssize_t = self.closures.edges.shape[0]
        if n_edges + 1 > self.called.shape[0]:  # each edge is there at most once
            with cython.gil:
                self.called = empty(CALLED, 2 * n_edges + 1)
        if n_callees > self.call_head.shape[0]:
            with cython.gil:
                self.call_head = np.empty(2 * n_callees, np.int64)
                self.call_head[:] = 0
        self.n_called = 1

    # ------------------------------------------------------------ what leads out of a subset

    def add_edge_of(self, k):
        """Add the transition, or the call, for an edge of a member; there must be room for it."""
        edge_type = self.closures.edges[k].type
        if edge_type == BYTES:
            self.ways.add(self.closures.edges[k].a, self.closures.edges[k].b, self.closures.edges[k].target)
        elif edge_type == CALL:
            rule = self.closures.edges[k].a
            if self.automata.copied[rule] or self.closures.is_tail(k):
                return  # the closure has followed it already
            self.called[self.n_called].rule = rule
            self.called[self.n_called].back = self.closures.edges[k].target
            self.n_called += 1

    def add_member(self, element):
        """Add all transitions and calls of a member."""
        n_states = self.closures.n_states
        state = element
        if element < n_states:
            begin = self.closures.starts[element]
            end = self.closures.starts[element + 1]
        else:
            state = self.closures.copies[element - n_states].state
            begin = self.automata.edge_starts[state]
            end = self.automata.edge_starts[state + 1]
        self.ways.make_room(end - begin)
        if element < n_states:
            for k in range(begin, end):
                self.add_edge_of(k)
        else:
            for k in range(begin, end):
                target = element - state + self.automata.edges[k].target
                self.ways.add(self.automata.edges[k].first, self.automata.edges[k].last, target)

    def collect(self, subset):
        """Collect the transitions by bytes, and the calls, of a subset."""
        self.n_called = 1
        for m in range(self.sets.starts[subset], self.sets.starts[subset + 1]):
            if self.sets.pool[m] >= 0:
                self.add_member(self.sets.pool[m])
        # calls of one rule are one step: link them after the first
        c: cython.Py_ssize_t = self.n_called - 1
        while c > 0:
            self.called[c].next = self.call_head[self.called[c].rule]
            self.call_head[self.called[c].rule] = c
            c -= 1

    def forget(self):
        """Remove all transitions and calls."""
        self.ways.forget()
        for c in range(1, self.n_called):
            self.call_head[self.called[c].rule] = 0

    # ------------------------------------------------------------ numbers of subsets

    def number(self, mark):
        """The number of the subset that equals the current closure.

        A mark, if negative, is one more member, which keeps it different: no edge leads to the first subset
        of a rule, and each rule has its own empty subset.
        """
        n = self.closures.members.sort()
        self.members_seen += n
        if self.members_seen > MEMBERS_A_STATE * self.max_states:
            with cython.gil:
                raise too_large(self.max_states)
        at = self.sets.room(n + 1)
        length = n
        if mark < 0:
            self.sets.pool[at] = mark
            at += 1
            length += 1
        for i in range(n):
            self.sets.pool[at + i] = self.closures.members.values[i]
        known = self.sets.count
        subset = self.sets.intern(length)
        if subset == known:
            self.automata.add_state(subset, self.closures.ends_here)
        return subset

    def following(self):
        """The subset that follows from the elements on the stack; there must be at least one."""
        single: cython.Py_ssize_t = -1
        if self.closures.depth == 1:
            # most steps have one target, whose closure is known: computing it each time took half of the time
            single = self.closures.stack[0]
            if self.closures.elements[single].subset > 0:
                return self.closures.elements[single].subset - 1
        self.closures.close()
        subset = self.number(0 if self.closures.members.count > 0 else -1 - self.closures.rule)
        if single >= 0:
            self.closures.elements[single].subset = subset + 1
        return subset

    # ------------------------------------------------------------ edges and calls

    def add_edges(self, subset):
        """Add the edges of the current subset: between two bounds, the transitions are the same for all
        bytes."""
        for i in range(self.ways.n_bounds - 1):
            self.account.check()
            self.ways.activate(self.ways.bounds[i])
            if self.ways.n_active == 0:
                continue
            self.closures.begin()
            for k in range(self.ways.n_active):
                self.closures.push(self.ways.rows[self.ways.active[k]].target)
            target = self.following()
            self.automata.add_edge(subset, self.ways.bounds[i], self.ways.bounds[i + 1] - 1, target)

    def add_only_edge(self, subset):
        """Add the edge of a subset that has one member with one edge, over bytes, as inside a literal.
        Return whether this is such a subset."""
        begin = self.sets.starts[subset]
        element = self.sets.pool[begin]
        if self.sets.starts[subset + 1] - begin != 1 or element < 0:
            return False
        n_states = self.closures.n_states
        if element < n_states:
            k = self.closures.starts[element]
            if self.closures.starts[element + 1] - k != 1 or self.closures.edges[k].type != BYTES:
                return False
            first, last = self.closures.edges[k].a, self.closures.edges[k].b
            target = self.closures.edges[k].target
        else:
            state = self.closures.copies[element - n_states].state
            k = self.automata.edge_starts[state]
            if self.automata.edge_starts[state + 1] - k != 1:
                return False
            first, last = self.automata.edges[k].first, self.automata.edges[k].last
            target = element - state + self.automata.edges[k].target
        self.account.check()
        self.closures.begin()
        self.closures.push(target)
        self.automata.add_edge(subset, first, last, self.following())
        return True

    def add_calls(self):
        """Add the calls of the current subset, one for each rule."""
        for c in range(1, self.n_called):
            rule = self.called[c].rule
            if self.call_head[rule] != c:
                continue  # done with an earlier call of the same rule
            self.account.check()
            self.closures.begin()
            way: cython.Py_ssize_t = c
            while way > 0:
                self.closures.push(self.called[way].back)
                way = self.called[way].next
            self.automata.add_call(rule, self.following())

    def add_rule(self, rule):
        """Make the automaton of a rule, after those of the rules that it may copy."""
        self.account.check()
        subset = self.sets.count
        self.automata.rule_first[rule] = subset
        self.closures.begin_rule(rule)
        self.closures.close()
        self.closures.ends_here = False  # callers handle the empty text: see `nullable`
        self.number(-1 - self.n_rules - rule)
        while subset < self.sets.count:
            if not self.add_only_edge(subset):
                self.collect(subset)
                self.add_edges(subset)
                self.add_calls()
                self.forget()
            if self.sets.count > self.max_states:
                with cython.gil:
                    raise too_large(self.max_states)
            self.automata.end_state(subset)
            subset += 1
        self.automata.end_rule(rule, subset)

    def add_rules(self, order):
        """Make the automata of all rules in an order. Return the number of their states.

        Raises:
            BudgetExceeded: too many states, or too many members of subsets, or the deadline has passed.
        """
        for i in range(order.shape[0]):
            if order[i] < self.n_rules:
                self.add_rule(order[i])
        return self.sets.count
