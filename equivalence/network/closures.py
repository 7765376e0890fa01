# cython: language_level=3
# mypy: ignore-errors
"""Closures: the states that can be reached before a byte is read; subsets are made of them.

What: `Closures` follows empty edges, calls of nullable rules, calls of rules that are copied into their
caller, and tail calls of a rule to itself, which become loops.
When: called by `equivalence.network.subsets` for each subset.
Limits: indices are not checked: `equivalence.network.build` has made them, or read and checked them.

An *element* is a state of the automata as they are read, or a state of a *copy*: a deterministic state of a
rule that is copied into its caller, together with the state to return to. Copies are numbered after the
states.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import empty, zeros
from cython.cimports.equivalence.network.deterministic import Deterministic
from cython.cimports.equivalence.network.edge_types import BYTES, EMPTY
from cython.cimports.equivalence.network.sorted_set import SortedSet
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import bigger
from equivalence.arrays.records import Kind

check_source(__name__)

COPIED = Kind("state back", np.int32)
ELEMENT = Kind("stamp subset")

PATH = cython.declare(cython.int, 64)  # most states that wait in the search for a rule's end
FURTHEST = cython.declare(cython.int, 32)  # most states that it visits


@cython.final
@cython.cclass
class Closures:
    """Closures of elements, one after another, for the current rule.

    Args:
        automata: the deterministic automata of earlier rules.

    Attributes:
        starts, edges: the automata as they are read, by source (`edges.SortedEdges`).
        begins, ends, nullable: the first and the last state of each rule, and whether it may be empty; the
            counted rules are numbered after the others.
        n_states: number of elements that are states; the others are copies.
        copies: for each copy, the deterministic state, and the state to return to.
        copy_of_edge: the first element of the copy of the rule that an edge calls; 0: there is none yet.
        rule, end: the current rule, and its last state.
        elements: for each element, the last closure that contained it, and one more than the subset that
            follows from it alone; 0: not known.
        stamp: number of the current closure.
        stack: its elements that must still be followed, `depth` of them.
        members: its elements that read bytes or call rules, and the rule's end.
        ends_here: whether it contains the rule's end.
    """

    def __init__(self, automata: Deterministic) -> None:
        self.automata = automata
        self.copies = empty(COPIED, 256)
        self.copy_of_edge = np.empty(0, np.int64)
        self.elements = zeros(ELEMENT, 256)
        self.stamp = 0
        self.stack = np.empty(256, np.int64)
        self.members = SortedSet()
        self.path = np.empty(PATH, np.int64)

    def prepare(self, ordered, begins, ends, nullable):
        """Start with other automata."""
        self.starts = ordered.starts
        self.edges = ordered.rows
        self.begins = begins
        self.ends = ends
        self.nullable = nullable
        self.n_states = ordered.starts.shape[0] - 1
        self.n_copies = 0
        self.depth = 0
        n_edges: cython.Py_ssize_t = ordered.rows.shape[0]
        if n_edges > self.copy_of_edge.shape[0]:
            with cython.gil:
                self.copy_of_edge = np.empty(2 * n_edges, np.int64)
        if self.n_states > self.copies.shape[0]:
            with cython.gil:
                self.copies = empty(COPIED, 2 * self.n_states)
        size: cython.Py_ssize_t = self.n_states + self.copies.shape[0]
        if size > self.elements.shape[0]:
            with cython.gil:
                self.elements = zeros(ELEMENT, 2 * size)
                self.stack = np.empty(2 * size, np.int64)
        for k in range(n_edges):
            self.copy_of_edge[k] = 0
        # the numbering of stamps continues, so that no old stamp equals a new one
        for s in range(self.n_states):
            self.elements[s].subset = 0

    def grow_copies(self, wanted):
        """Make room for `wanted` more copies, and as many elements."""
        size: cython.Py_ssize_t = 2 * self.copies.shape[0]
        while size < self.n_copies + wanted:
            size *= 2
        self.copies = bigger(self.copies, size, self.n_copies)
        size += self.n_states
        old: cython.Py_ssize_t = self.elements.shape[0]
        if size > old:
            self.elements = bigger(self.elements, size)
            for element in range(old, size):
                self.elements[element].stamp = 0
            self.stack = bigger(self.stack, size, self.depth)

    def begin_rule(self, rule):
        """Start a rule: closures are of this rule from now on, and its first state is followed first."""
        self.rule = rule
        self.end = self.ends[rule]
        self.begin()
        self.push(self.begins[rule])

    def begin(self):
        """Start another closure, which is empty."""
        self.stamp += 1
        self.depth = 0

    def push(self, element):
        """Add an element to the current closure, once."""
        if self.elements[element].stamp != self.stamp:
            self.elements[element].stamp = self.stamp
            self.stack[self.depth] = element
            self.depth += 1

    def close(self):
        """Follow the elements on the stack, and those that they lead to. The result is `members`, in no
        order."""
        self.members.count = 0
        self.ends_here = False
        while self.depth > 0:
            self.depth -= 1
            element = self.stack[self.depth]
            if self.follow(element):
                self.members.add(element)

    def follow(self, element):
        """Add what an element leads to without a byte. Return whether it is a member itself."""
        is_member: cython.int = 0
        if element >= self.n_states:
            state = self.copies[element - self.n_states].state
            if self.automata.final[state]:
                self.push(self.copies[element - self.n_states].back)
            return self.automata.edge_starts[state + 1] > self.automata.edge_starts[state]
        if element == self.end:
            is_member = 1
            self.ends_here = True
        for k in range(self.starts[element], self.starts[element + 1]):
            if self.edges[k].type == BYTES:
                is_member = 1
            elif self.edges[k].type == EMPTY:
                self.push(self.edges[k].target)
            elif self.follow_call(k):
                is_member = 1
        return is_member

    def follow_call(self, k):
        """Add what a call leads to without a byte. Return whether it stays a call."""
        rule = self.edges[k].a
        inner: cython.Py_ssize_t = -1
        if self.automata.copied[rule]:
            inner = self.copied(k)
        elif self.is_tail(k):
            inner = self.begins[rule]
        if self.nullable[rule] == 1 and self.edges[k].b == 0:
            self.push(self.edges[k].target)
        if inner < 0:
            return 1
        self.push(inner)
        return 0

    def copied(self, k):
        """The first element of the copy of the rule that an edge calls."""
        if self.copy_of_edge[k] == 0:
            rule = self.edges[k].a
            width = self.automata.rule_last[rule] - self.automata.rule_first[rule]
            if self.n_copies + width > self.copies.shape[0]:
                with cython.gil:
                    self.grow_copies(width)
            for i in range(width):
                self.copies[self.n_copies + i].state = self.automata.rule_first[rule] + i
                self.copies[self.n_copies + i].back = self.edges[k].target
                self.elements[self.n_states + self.n_copies + i].subset = 0
            self.copy_of_edge[k] = self.n_states + self.n_copies
            self.n_copies += width
        return self.copy_of_edge[k]

    def is_tail(self, k):
        """Whether an edge is a tail call of the current rule to itself."""
        return self.edges[k].a == self.rule and self.is_pure_end(self.edges[k].target)

    def is_pure_end(self, state):
        """Whether only the rule's end can follow a state (then a call before it is a tail call)."""
        self.path[0] = state
        depth: cython.Py_ssize_t = 1
        visited: cython.Py_ssize_t = 0
        reached: cython.bint = False
        while depth > 0:
            depth -= 1
            s = self.path[depth]
            visited += 1
            if visited > FURTHEST:
                return False
            if s == self.end:
                reached = True
            for k in range(self.starts[s], self.starts[s + 1]):
                if self.edges[k].type != EMPTY or depth + 1 >= PATH:
                    return False
                self.path[depth] = self.edges[k].target
                depth += 1
        return reached
