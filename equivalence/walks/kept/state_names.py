# cython: language_level=3
# mypy: ignore-errors
"""Canonical names of states: what can be read from a state, independent of the names of a grammar's rules.

What: `names_of_states` gives each state the number of a list of integers with everything that can be read
from it. Whole lists are compared (`Interned`), so equal names mean equal futures.
When: by `equivalence.walks.kept.naming`, which builds the names of tails and configurations from these.
Limits: unequal names may also mean equal futures. States that make calls, now or later, have no name:
naming them, too, found a quarter more walks of 600 schemas with four times the memory.

A strongly connected component of states is one list: its states in the order in which they are found from
one of them, with their edges. States outside of it are written by name, so the length of a list is
proportional to the size of its component. A hash chooses the first state. If two states have the same hash,
equal components may get different lists.

Source: components by Tarjan's algorithm (1972).
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.hashing import mix
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.records import zeros
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.equivalence.parser.automaton import Automaton
from numpy.typing import NDArray

from equivalence import built
from equivalence.arrays.records import Kind

built.check(__name__, EQUIMASK_SOURCE)

MEMBER = cython.declare(cython.Py_ssize_t, -1)
"""The first integer of the list of a state of a component, which contains its number in the component. The
list of a component begins with the number of its states. A list that begins with less than -1 is not a list
of states.
"""

# These replace a name: there is none; the component is not complete yet.
UNNAMED = cython.declare(cython.Py_ssize_t, -1)
WAITING = cython.declare(cython.Py_ssize_t, -2)

VISIT = Kind("found low position component local")
Visit = cython.struct(
    found=cython.Py_ssize_t,
    low=cython.Py_ssize_t,
    position=cython.Py_ssize_t,
    component=cython.Py_ssize_t,
    local=cython.Py_ssize_t,
)


def names_of_states(automaton: Automaton, lists: Interned) -> NDArray[np.int64]:
    """The name of each state, int64[states]; -1 if it has none.

    Args:
        automaton: the automaton of the states.
        lists: the lists that names are numbers of; new ones are added.
    """
    return _States(automaton, lists).names()


@cython.final
@cython.cclass
class _States:
    """The states of one automaton while they are named.

    Attributes:
        state_names: names, or what replaces them.
        visits: for each state, when it was `found`; the first state that it leads back to, `low`; the next
            edge; the `component`, given as one of its states; and its number in the component's list,
            `local`.
        hashes: the hashes of a component's states, now and in the step before.
        path, members, order: the states that lead to the current one; those whose component is not
            complete; and those of a component in the order of its list.
    """

    automaton: Automaton
    lists: Interned
    state_names: cython.Py_ssize_t[::1]
    visits: Visit[::1]
    hashes: cython.Py_ssize_t[:, ::1]
    path: cython.Py_ssize_t[::1]
    members: cython.Py_ssize_t[::1]
    order: cython.Py_ssize_t[::1]
    n_found: cython.Py_ssize_t
    n_members: cython.Py_ssize_t

    def __init__(self, automaton: Automaton, lists: Interned) -> None:
        n: cython.Py_ssize_t = automaton.n_states
        self.automaton = automaton
        self.lists = lists
        self.state_names = np.full(n, WAITING, np.int64)
        self.visits = zeros(VISIT, n)
        self.hashes = np.zeros((2, n), np.int64)
        self.path = np.empty(n + 1, np.int64)
        self.members = np.empty(n, np.int64)
        self.order = np.empty(n, np.int64)
        self.n_found = self.n_members = 0

    def names(self) -> NDArray[np.int64]:
        """See `names_of_states`."""
        with cython.nogil:
            self.name_states()
        return np.asarray(self.state_names)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def name_states(self) -> cython.int:
        """Name all states, component by component, in the order in which these are completed."""
        for state in range(self.automaton.n_states):
            self.visits[state].position = self.automaton.edge_starts[state]
            self.visits[state].component = -1
            self.visits[state].local = -1
        for state in range(self.automaton.n_states):
            if not self.visits[state].found:
                self.follow(state)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def push(self, state: cython.Py_ssize_t, depth: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Append a state to the path. Return the new length."""
        self.n_found += 1
        self.visits[state].found = self.n_found
        self.visits[state].low = self.n_found
        self.path[depth] = state
        self.members[self.n_members] = state
        self.n_members += 1
        return depth + 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def follow(self, begin: cython.Py_ssize_t) -> cython.int:
        """Name all states that can be reached from a state."""
        depth = self.push(begin, 0)
        while depth > 0:
            state = self.path[depth - 1]
            position = self.visits[state].position
            if position < self.automaton.edge_starts[state + 1]:
                self.visits[state].position = position + 1
                target = self.automaton.edges[position].target
                if not self.visits[target].found:
                    depth = self.push(target, depth)
                elif self.state_names[target] == WAITING:
                    self.visits[state].low = min(self.visits[state].low, self.visits[target].found)
                continue
            depth -= 1
            if depth > 0:
                before = self.path[depth - 1]
                self.visits[before].low = min(self.visits[before].low, self.visits[state].low)
            if self.visits[state].low == self.visits[state].found:
                self.name_component(state)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def name_component(self, component: cython.Py_ssize_t) -> cython.int:
        """Name the states found last, which are a component, back to the state that identifies it here."""
        first = self.n_members - 1
        while self.members[first] != component:
            first -= 1
        size = self.n_members - first
        name: cython.Py_ssize_t = UNNAMED
        calling = self.is_calling(component, first)
        if not calling:
            name = self.list_component(component, first, self.first_of(component, first))
        for i in range(first, self.n_members):
            self.state_names[self.members[i]] = name
            if size > 1 and not calling:
                at = self.lists.room(3)
                self.lists.pool[at] = MEMBER
                self.lists.pool[at + 1] = name
                self.lists.pool[at + 2] = self.visits[self.members[i]].local
                self.state_names[self.members[i]] = self.lists.intern(3)
        self.n_members = first
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def is_calling(self, component: cython.Py_ssize_t, first: cython.Py_ssize_t) -> cython.bint:
        """Set the component of its states. Return whether one of them makes calls, now or later."""
        calling: cython.bint = False
        for i in range(first, self.n_members):
            state = self.members[i]
            self.visits[state].component = component
            if self.automaton.call_starts[state + 1] > self.automaton.call_starts[state]:
                calling = True
            for k in range(self.automaton.edge_starts[state], self.automaton.edge_starts[state + 1]):
                if self.state_names[self.automaton.edges[k].target] == UNNAMED:
                    calling = True
        return calling

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def first_of(self, component: cython.Py_ssize_t, first: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The state of a component that is listed first: one with the smallest hash of what it leads to in
        four steps."""
        root = component
        if first + 1 == self.n_members:
            return root
        for number in range(4):
            now = number & 1
            for i in range(first, self.n_members):
                state = self.members[i]
                h = mix(17, 1 if self.automaton.final[state] else 0)
                for k in range(self.automaton.edge_starts[state], self.automaton.edge_starts[state + 1]):
                    target = self.automaton.edges[k].target
                    h = mix(mix(h, self.automaton.edges[k].first), self.automaton.edges[k].last)
                    if self.visits[target].component == component:
                        h = mix(h, self.hashes[1 - now, target])
                    else:
                        h = mix(h, self.state_names[target])
                self.hashes[now, state] = h
        for i in range(first, self.n_members):
            if self.hashes[1, self.members[i]] < self.hashes[1, root]:
                root = self.members[i]
        return root

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def list_component(
        self, component: cython.Py_ssize_t, first: cython.Py_ssize_t, root: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """The name of a component: its states in the order in which they are found from `root`."""
        size = self.n_members - first
        length: cython.Py_ssize_t = 1
        n: cython.Py_ssize_t = 1
        i: cython.Py_ssize_t
        for i in range(first, self.n_members):
            state = self.members[i]
            length += 2 + 3 * (self.automaton.edge_starts[state + 1] - self.automaton.edge_starts[state])
        at = self.lists.room(length)
        self.lists.pool[at] = size
        at += 1
        self.order[0] = root
        self.visits[root].local = 0
        for i in range(size):
            state = self.order[i]
            begin = self.automaton.edge_starts[state]
            end = self.automaton.edge_starts[state + 1]
            self.lists.pool[at] = self.automaton.final[state]
            self.lists.pool[at + 1] = end - begin
            at += 2
            for k in range(begin, end):
                target = self.automaton.edges[k].target
                if self.visits[target].component == component and self.visits[target].local < 0:
                    self.visits[target].local = n
                    self.order[n] = target
                    n += 1
                self.lists.pool[at] = self.automaton.edges[k].first
                self.lists.pool[at + 1] = self.automaton.edges[k].last
                self.lists.pool[at + 2] = self.state_names[target]
                if self.visits[target].component == component:
                    self.lists.pool[at + 2] = -2 - self.visits[target].local
                at += 3
        return self.lists.intern(length)
