# cython: language_level=3
# mypy: ignore-errors
"""The subset construction: makes the automaton of each rule deterministic.

What: `determinise` turns automata with empty edges into deterministic ones; small rules that call nothing are
copied into their callers, and a tail call of a rule to itself becomes a loop.
When: called by `equivalence.network.build` only, once per grammar.
Limits: indices in the arrays are not checked: they are what `build` has made, or read and checked.

Rules share no element (`equivalence.network.closures`), so subsets are numbered for all rules at once, and
their numbers are the new states.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.equivalence.network.closures import Closures
from cython.cimports.equivalence.network.deterministic import Deterministic
from cython.cimports.equivalence.network.edges import Ordered
from cython.cimports.equivalence.network.transitions import Transitions

from equivalence import built
from equivalence.arrays.growing import record_type
from equivalence.deadline import Stop
from equivalence.network import edge_types
from equivalence.network.edges import FIELDS
from equivalence.network.sizes import too_large
from equivalence.network.states import Integers, States, rows

built.check(__name__, EQUIMASK_SOURCE)

CALLED = record_type("rule back next")

BYTES = cython.declare(cython.int, edge_types.BYTES)
CALL = cython.declare(cython.int, edge_types.CALL)

# of all subsets, for each state that may be: nested repeats in a pattern took a minute for 8,000 states
MEMBERS_A_STATE = cython.declare(cython.int, 64)


@cython.final
@cython.cclass
class Subsets:
    """The subsets of all rules, and what leads from one to another.

    Attributes:
        closures: of the automata as they are read.
        made: where the deterministic ones go.
        max_states: bound on the subsets.
        account: tells when to stop.
        sets: the members of each subset; a negative one is a mark, see `number`.
        members_seen: members of all subsets that were met.
        ways: what leads out of the subset at hand by bytes.
        called: what leads out of it by calls, in lists of those of the same rule, row 0 being their end.
        n_called: rows of it, with row 0.
        call_head: by rule, the first of its calls; 0: there is none, as for all rules between two subsets.
    """

    def __init__(self) -> None:
        self.sets = Interned(64, 4)
        self.ways = Transitions(512)
        self.called = np.empty(1, CALLED)
        self.call_head = np.zeros(0, np.int64)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def prepare(
        self, closures: Closures, made: Deterministic, max_states: cython.Py_ssize_t, account: Account
    ) -> cython.int:
        """Take other automata."""
        self.closures = closures
        self.made = made
        self.max_states = max_states
        self.account = account
        self.n_rules = made.rule_first.shape[0]
        self.sets.clear(closures.n_states + 64)
        self.members_seen = 0
        n_callees: cython.Py_ssize_t = closures.nullable.shape[0]
        if closures.edges.shape[0] + 1 > self.called.shape[0]:  # each edge once at most
            self.called = np.empty(2 * closures.edges.shape[0] + 1, CALLED)
        if n_callees > self.call_head.shape[0]:
            self.call_head = np.zeros(2 * n_callees, np.int64)
        self.n_called = 1
        return 0

    # ------------------------------------------------------------ what leads out of a subset

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def add_edge_of(self, k: cython.Py_ssize_t) -> cython.void:
        """The way out, or the call, by a edge of a member; there is room for it."""
        edge_type = self.closures.edges[k].type
        if edge_type == BYTES:
            self.ways.add(self.closures.edges[k].a, self.closures.edges[k].b, self.closures.edges[k].target)
        elif edge_type == CALL:
            rule = self.closures.edges[k].a
            if self.made.copied[rule] or self.closures.is_tail(k):
                return  # the closure has followed it
            self.called[self.n_called].rule = rule
            self.called[self.n_called].back = self.closures.edges[k].target
            self.n_called += 1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def add_member(self, element: cython.Py_ssize_t) -> cython.int:
        """All that leads out by a member."""
        n_states = self.closures.n_states
        state = element
        if element < n_states:
            begin = self.closures.starts[element]
            end = self.closures.starts[element + 1]
        else:
            state = self.closures.copies[element - n_states].state
            begin = self.made.edge_starts[state]
            end = self.made.edge_starts[state + 1]
        self.ways.make_room(end - begin)
        if element < n_states:
            for k in range(begin, end):
                self.add_edge_of(k)
        else:
            for k in range(begin, end):
                target = element - state + self.made.edges[k].target
                self.ways.add(self.made.edges[k].first, self.made.edges[k].last, target)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def collect(self, subset: cython.Py_ssize_t) -> cython.int:
        """What leads out of a subset: ways by bytes, and calls."""
        self.n_called = 1
        for m in range(self.sets.starts[subset], self.sets.starts[subset + 1]):
            if self.sets.pool[m] >= 0:
                self.add_member(self.sets.pool[m])
        # calls of one rule are one step: chain them behind the first
        c: cython.Py_ssize_t = self.n_called - 1
        while c > 0:
            self.called[c].next = self.call_head[self.called[c].rule]
            self.call_head[self.called[c].rule] = c
            c -= 1
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def forget(self) -> cython.void:
        """Nothing leads out any more."""
        self.ways.forget()
        for c in range(1, self.n_called):
            self.call_head[self.called[c].rule] = 0

    # ------------------------------------------------------------ numbers of subsets

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def number(self, mark: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The number of the subset that the closure at hand is.

        A mark, if negative, is one more member, which keeps it apart: no edge leads to the first subset of a
        rule, and each rule has an empty one of its own.
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
            self.made.add_state(subset, self.closures.ends_here)
        return subset

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def following(self) -> cython.Py_ssize_t:
        """The subset that follows from the elements on the stack, which are some."""
        single: cython.Py_ssize_t = -1
        if self.closures.depth == 1:
            # most steps have one target, which was closed before: half of the time was spent there
            single = self.closures.stack[0]
            if self.closures.elements[single].subset > 0:
                return self.closures.elements[single].subset - 1
        self.closures.close()
        subset = self.number(0 if self.closures.members.count > 0 else -1 - self.closures.rule)
        if single >= 0:
            self.closures.elements[single].subset = subset + 1
        return subset

    # ------------------------------------------------------------ edges and calls

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def add_edges(self, subset: cython.Py_ssize_t) -> cython.int:
        """The edges of the subset at hand: the ways are the same from one bound to the next."""
        for i in range(self.ways.n_bounds - 1):
            self.account.look()
            self.ways.activate(self.ways.bounds[i])
            if self.ways.n_active == 0:
                continue
            self.closures.begin()
            for k in range(self.ways.n_active):
                self.closures.push(self.ways.rows[self.ways.active[k]].target)
            target = self.following()
            self.made.add_edge(subset, self.ways.bounds[i], self.ways.bounds[i + 1] - 1, target)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def add_calls(self) -> cython.int:
        """The calls of the subset at hand, one for each rule."""
        for c in range(1, self.n_called):
            rule = self.called[c].rule
            if self.call_head[rule] != c:
                continue  # taken with an earlier call of the same rule
            self.account.look()
            self.closures.begin()
            way: cython.Py_ssize_t = c
            while way > 0:
                self.closures.push(self.called[way].back)
                way = self.called[way].next
            self.made.add_call(rule, self.following())
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def add_rule(self, rule: cython.Py_ssize_t) -> cython.int:
        """The automaton of a rule, behind those of the rules that it may copy."""
        self.account.look()
        subset = self.sets.count
        self.made.rule_first[rule] = subset
        self.closures.begin_rule(rule)
        self.closures.close()
        self.closures.ends_here = False  # the empty text is left to callers: see `nullable`
        self.number(-1 - self.n_rules - rule)
        while subset < self.sets.count:
            self.collect(subset)
            self.add_edges(subset)
            self.add_calls()
            self.forget()
            if self.sets.count > self.max_states:
                with cython.gil:
                    raise too_large(self.max_states)
            self.made.end_state(subset)
            subset += 1
        self.made.end_rule(rule, subset)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_rules(self, order: cython.const[cython.Py_ssize_t][::1]) -> cython.Py_ssize_t:
        """The automata of all rules in the order; how many states they have.

        Raises:
            BudgetExceeded: too many, or too many members of subsets, or it is too late.
        """
        with cython.nogil:
            for i in range(order.shape[0]):
                if order[i] < self.n_rules:
                    self.add_rule(order[i])
        return self.sets.count


def determinise(
    starts: Integers,
    edges: Integers,
    begins: cython.const[cython.Py_ssize_t][::1],
    ends: cython.const[cython.Py_ssize_t][::1],
    nullable: cython.const[cython.uchar][::1],
    order: cython.const[cython.Py_ssize_t][::1],
    max_states: int,
    stop: Stop | None = None,
) -> States:
    """The deterministic automata of all rules; small ones that call nothing are copied into their callers.

    An automaton reads non-empty strings only: its first state is never final, and a call of a nullable rule
    may be skipped by its caller. A tail call of a rule to itself becomes a loop.

    Args:
        starts: int64[states + 1], where the edges of each state start.
        edges: int64[edges, 5], columns as in `edges.FIELDS`, sorted by source.
        begins, ends: int64[rules], the first and the last state of each rule.
        nullable: uint8[rules and counted rules], the latter being numbered after the others.
        order: int64, the rules that are used, callees first where there is no recursion.
        max_states: bound on the states.
        stop: tells when it is too late.

    Raises:
        BudgetExceeded: more states than that, or 64 times as many members of subsets, or it is too late.
        ValueError: arrays of another type, or with other dimensions.
    """
    ordered: Ordered = Ordered()
    ordered.starts = starts
    ordered.rows = rows(edges, FIELDS)
    made: Deterministic = Deterministic()
    made.prepare(begins.shape[0], nullable.shape[0], 64)
    closures: Closures = Closures()
    closures.prepare(ordered, begins, ends, nullable, made)
    subsets: Subsets = Subsets()
    subsets.prepare(closures, made, max_states, Account(stop))
    return made.states(subsets.add_rules(order))
