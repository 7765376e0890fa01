# cython: language_level=3
# mypy: ignore-errors
"""Canonical names of states, tails and configurations, whatever a grammar calls its rules.

What: `names_of` gives each configuration a name: the number of a list of integers that spells out all that
a walk can depend on. Lists are compared as a whole (`Interned`), so equal names mean equal walks.
When: for the blocks of each grammar, by `equivalence.walks.kept.walks`, which holds a lock around the lists.
Limits: unequal names may mean equal walks too: that costs a walk. States that make calls, now or later, have
no name: to name them too found a quarter more walks of 600 schemas in four times the memory, and a first
version of that was slower.

A strongly connected component of states is one list: its states in the order in which they are met from one
of them, with their edges. What leads out of it is written by name, so a list is as long as its component is
large. Which state is first is decided by a hash: where two have the same, equal components may get different
lists.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from numpy.typing import NDArray

from equivalence import built
from equivalence.arrays.growing import new_records

if cython.compiled:
    from cython.cimports.equivalence.arrays.hashing import mix
    from cython.cimports.equivalence.arrays.interning import Interned
    from cython.cimports.equivalence.built import EQUIMASK_SOURCE
    from cython.cimports.equivalence.parser.automaton import Automaton
    from cython.cimports.equivalence.parser.space import Space

    built.check(__name__, EQUIMASK_SOURCE)
else:
    built.plain(__name__)
    from equivalence.arrays.hashing import mix
    from equivalence.arrays.interning import Interned
    from equivalence.parser.automaton import Automaton
    from equivalence.parser.space import Space

# The first integer of a list tells what it is; a component begins with the number of its states.
MEMBER = cython.declare(cython.Py_ssize_t, -1)
TAIL = cython.declare(cython.Py_ssize_t, -2)
CONFIGURATION = cython.declare(cython.Py_ssize_t, -3)

# Kinds of frames in the list of a tail.
UNKNOWN = cython.declare(cython.Py_ssize_t, 0)
RETURN = cython.declare(cython.Py_ssize_t, 1)
ABSOLUTE = cython.declare(cython.Py_ssize_t, 2)
RELATIVE = cython.declare(cython.Py_ssize_t, 3)

# In place of a name. Of states: there is none; their component is not complete yet. Of configurations: to be
# given a name.
UNNAMED = cython.declare(cython.Py_ssize_t, -1)
WAITING = cython.declare(cython.Py_ssize_t, -2)
NAMED = cython.declare(cython.Py_ssize_t, -3)

NO_NAME = -1
"""`UNNAMED`, for modules that are not compiled."""

VISIT = "found low position component local"
Visit = cython.struct(
    found=cython.Py_ssize_t,
    low=cython.Py_ssize_t,
    position=cython.Py_ssize_t,
    component=cython.Py_ssize_t,
    local=cython.Py_ssize_t,
)


def names_of(
    configurations: cython.const[cython.Py_ssize_t][::1], space: Space, longest: int, lists: Interned
) -> NDArray[np.int64]:
    """The name of each of some configurations, -1 for those that have none.

    Args:
        configurations: int64[n].
        space: what they are of.
        longest: bytes of the longest token: no walk counts further.
        lists: the lists that names are numbers of; new ones are added.
    """
    return _Naming(space, longest, lists).names_of(configurations)


@cython.final
@cython.cclass
class _Naming:
    """The names of what one space has met.

    Attributes:
        state_names, tail_names: names, or what stands in their places.
        visits: of each state, when it was `found`, and the first state that it leads back to, `low`
            (Tarjan's algorithm); the edge that is next; the `component`, as one of its states; and its number
            within the component's list, `local`.
        hashes: of the states of a component, now and before.
        path, members, order: the states that lead to the one at hand; those whose component is not complete;
            and those of a component in the order of its list.
    """

    space: Space
    automaton: Automaton
    lists: Interned
    longest: cython.Py_ssize_t
    state_names: cython.Py_ssize_t[::1]
    tail_names: cython.Py_ssize_t[::1]
    visits: Visit[::1]
    hashes: cython.Py_ssize_t[:, ::1]
    path: cython.Py_ssize_t[::1]
    members: cython.Py_ssize_t[::1]
    order: cython.Py_ssize_t[::1]
    n_found: cython.Py_ssize_t
    n_members: cython.Py_ssize_t

    def __init__(self, space: Space, longest: cython.Py_ssize_t, lists: Interned) -> None:
        n: cython.Py_ssize_t = space.n_states
        self.space = space
        self.automaton = space.automaton
        self.lists = lists
        self.longest = longest
        self.state_names = np.full(n, WAITING, np.int64)
        self.tail_names = np.full(space.stacks.tails.count, UNNAMED, np.int64)
        self.visits = new_records(n, VISIT)
        self.hashes = np.zeros((2, n), np.int64)
        self.path = np.empty(n + 1, np.int64)
        self.members = np.empty(n, np.int64)
        self.order = np.empty(n, np.int64)
        self.n_found = self.n_members = 0

    def names_of(self, configurations: cython.const[cython.Py_ssize_t][::1]) -> Any:
        """As the function of this name."""
        n: cython.Py_ssize_t = configurations.shape[0]
        needed: cython.uchar[::1] = np.zeros(self.tail_names.shape[0], np.uint8)
        name_of: cython.Py_ssize_t[::1] = np.full(self.space.configurations.count, WAITING, np.int64)
        names: cython.Py_ssize_t[::1] = np.empty(n, np.int64)
        with cython.nogil:
            self.name_states()
            for i in range(n):
                if name_of[configurations[i]] == WAITING:
                    name_of[configurations[i]] = NAMED if self.has_states(configurations[i]) else UNNAMED
                    if name_of[configurations[i]] == NAMED:
                        self.need_tails(configurations[i], needed)
            self.name_tails(needed)
            for i in range(n):
                if name_of[configurations[i]] == NAMED:
                    name_of[configurations[i]] = self.name_configuration(configurations[i])
                names[i] = name_of[configurations[i]]
        return np.asarray(names)

    # ---------------------------------------------------------------- states

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def name_states(self) -> cython.int:
        """Name all states: components in the order in which they are complete."""
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
        """Put a state at the end of the path; how long it is now."""
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
        """Name all states that a state leads to."""
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
        """Name the states found last, which are a component, down to the one that it is called by here."""
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
        """Note what component its states are of; does one of them make calls, now or later?"""
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
        """The state of a component that is listed first: one of the least hash of what it leads to in four
        steps."""
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
        """The name of a component: its states in the order in which they are met from `root`."""
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

    # ---------------------------------------------------------------- tails

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def has_states(self, configuration: cython.Py_ssize_t) -> cython.bint:
        """Have all states of a configuration names?"""
        begin = self.space.configurations.starts[configuration]
        end = self.space.configurations.starts[configuration + 1]
        for k in range(begin + 2 + self.space.configurations.pool[begin + 1], end, 2):
            if self.state_names[self.space.configurations.pool[k]] == UNNAMED:
                return False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def need_tails(self, configuration: cython.Py_ssize_t, needed: cython.uchar[::1]) -> cython.void:
        """Note the tails of a configuration as those that need names."""
        begin = self.space.configurations.starts[configuration]
        end = self.space.configurations.starts[configuration + 1]
        for k in range(begin + 2 + self.space.configurations.pool[begin + 1], end, 2):
            needed[self.space.configurations.pool[k + 1]] = 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def name_tails(self, needed: cython.uchar[::1]) -> cython.int:
        """Name the tails that need names, and those below them, which have lower numbers."""
        t: cython.Py_ssize_t = needed.shape[0]
        while t > 0:
            t -= 1
            if needed[t]:
                for k in range(self.space.stacks.tails.starts[t], self.space.stacks.tails.starts[t + 1]):
                    frame = self.space.stacks.tails.pool[k]
                    if frame > 0:
                        needed[self.space.stacks.frames[frame].tail] = 1
        for t in range(needed.shape[0]):
            if needed[t]:
                self.tail_names[t] = self.name_tail(t)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-2, check=False)
    def name_tail(self, tail: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The name of a tail, if its frames have names."""
        begin = self.space.stacks.tails.starts[tail]
        end = self.space.stacks.tails.starts[tail + 1]
        at = self.lists.room(1 + 6 * (end - begin))
        self.lists.pool[at] = TAIL
        length: cython.Py_ssize_t = 1
        for k in range(begin, end):
            frame = self.space.stacks.tails.pool[k]
            if frame == 0:
                self.lists.pool[at + length] = UNKNOWN
                length += 1
                continue
            more = self.list_frame(frame, at + length)
            if more == 0:
                return UNNAMED
            length += more
        return self.lists.intern(length)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def list_frame(self, frame: cython.Py_ssize_t, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write a frame into the list of a tail; how many integers that takes, 0 if it has no name."""
        state = self.space.stacks.frames[frame].state
        below = self.tail_names[self.space.stacks.frames[frame].tail]
        unit: cython.Py_ssize_t = -1
        start = state
        if state < 0:
            unit = (-2 - state) >> 1
            start = self.automaton.counted[unit].start
        if self.state_names[start] == UNNAMED or below == UNNAMED:
            return 0
        self.lists.pool[at] = RETURN
        self.lists.pool[at + 1] = self.state_names[start]
        self.lists.pool[at + 2] = below
        if unit < 0:
            return 3
        least: cython.Py_ssize_t = min(self.automaton.counted[unit].least, self.longest + 1)
        most: cython.Py_ssize_t = self.automaton.counted[unit].most
        self.lists.pool[at] = ABSOLUTE
        if (-2 - state) & 1:
            # relative counts begin at 0 and count at most one unit a byte
            self.lists.pool[at] = RELATIVE
            most = min(self.automaton.counted[unit].relative, self.longest + 1)
            if most >= 0:
                least = 0  # is asked by the stacks below only
        self.lists.pool[at + 3] = least
        self.lists.pool[at + 4] = most
        self.lists.pool[at + 5] = self.space.stacks.frames[frame].count
        return 6

    # ---------------------------------------------------------------- configurations

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-2, check=False)
    def name_configuration(self, configuration: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The name of a configuration whose states have names, if its tails have."""
        begin = self.space.configurations.starts[configuration]
        end = self.space.configurations.starts[configuration + 1]
        first = self.lists.room(end - begin + 1)
        self.lists.pool[first] = CONFIGURATION
        begin_states = begin + 2 + self.space.configurations.pool[begin + 1]
        at = first + 1
        k: cython.Py_ssize_t
        for k in range(begin, begin_states):
            self.lists.pool[at] = self.space.configurations.pool[k]
            at += 1
        lowest = at
        for k in range(begin_states, end, 2):
            # in order of names: the numbers of states differ between grammars
            name = self.state_names[self.space.configurations.pool[k]]
            tail = self.tail_names[self.space.configurations.pool[k + 1]]
            if tail == UNNAMED:
                return UNNAMED
            i = at
            while i > lowest and (
                self.lists.pool[i - 2] > name
                or (self.lists.pool[i - 2] == name and self.lists.pool[i - 1] > tail)
            ):
                self.lists.pool[i] = self.lists.pool[i - 2]
                self.lists.pool[i + 1] = self.lists.pool[i - 1]
                i -= 2
            self.lists.pool[i] = name
            self.lists.pool[i + 1] = tail
            at += 2
        return self.lists.intern(at - first)
