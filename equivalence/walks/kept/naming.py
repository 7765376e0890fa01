# cython: language_level=3
# mypy: ignore-errors
"""Canonical names of tails and configurations, independent of the names of a grammar's rules.

What: `names_of` gives each configuration a name: the number of a list of integers with everything that a
walk can depend on. Whole lists are compared (`Interned`), so equal names mean equal walks.
When: for the blocks of each grammar, by `equivalence.walks.kept.walks`, which holds a lock around the lists.
Limits: unequal names may also mean equal walks; that costs a walk. Whatever contains a state that makes
calls, now or later, has no name (`equivalence.walks.kept.state_names`).
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.equivalence.parser.automaton import Automaton
from cython.cimports.equivalence.parser.frames import relative_of, unit_of
from cython.cimports.equivalence.parser.space import Space
from numpy.typing import NDArray

from equivalence import built
from equivalence.walks.kept.state_names import names_of_states

built.check(__name__, EQUIMASK_SOURCE)

# The first integer of a list is its kind: one of these, or -1 and above for lists of states.
TAIL = cython.declare(cython.Py_ssize_t, -2)
CONFIGURATION = cython.declare(cython.Py_ssize_t, -3)

# Kinds of frames in the list of a tail.
UNKNOWN = cython.declare(cython.Py_ssize_t, 0)
RETURN = cython.declare(cython.Py_ssize_t, 1)
ABSOLUTE = cython.declare(cython.Py_ssize_t, 2)
RELATIVE = cython.declare(cython.Py_ssize_t, 3)

# These replace a name: there is none. For configurations: not examined yet; to be named.
UNNAMED = cython.declare(cython.Py_ssize_t, -1)
WAITING = cython.declare(cython.Py_ssize_t, -2)
NAMED = cython.declare(cython.Py_ssize_t, -3)


def names_of(
    configurations: cython.const[cython.Py_ssize_t][::1], space: Space, longest: int, lists: Interned
) -> NDArray[np.int64]:
    """The name of each of some configurations; -1 if it has none.

    Args:
        configurations: int64[n].
        space: the space of the configurations.
        longest: bytes of the longest token: no walk counts further.
        lists: the lists that names are numbers of; new ones are added.
    """
    return _Naming(space, longest, lists).names_of(configurations)


@cython.final
@cython.cclass
class _Naming:
    """The names in one space.

    Attributes:
        state_names, tail_names: names, or what replaces them.
    """

    space: Space
    automaton: Automaton
    lists: Interned
    longest: cython.Py_ssize_t
    state_names: cython.Py_ssize_t[::1]
    tail_names: cython.Py_ssize_t[::1]

    def __init__(self, space: Space, longest: cython.Py_ssize_t, lists: Interned) -> None:
        self.space = space
        self.automaton = space.automaton
        self.lists = lists
        self.longest = longest
        self.state_names = names_of_states(space.automaton, lists)
        self.tail_names = np.full(space.stacks.tails.count, UNNAMED, np.int64)

    def names_of(self, configurations: cython.const[cython.Py_ssize_t][::1]) -> Any:
        """See the function of this name."""
        n: cython.Py_ssize_t = configurations.shape[0]
        needed: cython.uchar[::1] = np.zeros(self.tail_names.shape[0], np.uint8)
        name_of: cython.Py_ssize_t[::1] = np.full(self.space.configurations.count, WAITING, np.int64)
        names: cython.Py_ssize_t[::1] = np.empty(n, np.int64)
        with cython.nogil:
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

    # ---------------------------------------------------------------- tails

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def has_states(self, configuration: cython.Py_ssize_t) -> cython.bint:
        """Whether all states of a configuration have names."""
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
        """Mark the tails of a configuration as needing names."""
        begin = self.space.configurations.starts[configuration]
        end = self.space.configurations.starts[configuration + 1]
        for k in range(begin + 2 + self.space.configurations.pool[begin + 1], end, 2):
            needed[self.space.configurations.pool[k + 1]] = 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def name_tails(self, needed: cython.uchar[::1]) -> cython.int:
        """Name the tails that need names, and those below them, which have smaller numbers."""
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
        """Write a frame into the list of a tail. Return how many integers it takes; 0 if it has no name."""
        state = self.space.stacks.frames[frame].state
        below = self.tail_names[self.space.stacks.frames[frame].tail]
        unit: cython.Py_ssize_t = -1
        start = state
        if state < 0:
            unit = unit_of(state)
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
        if relative_of(state):
            # relative counts begin at 0 and grow by at most one unit for each byte
            self.lists.pool[at] = RELATIVE
            most = min(self.automaton.counted[unit].relative, self.longest + 1)
            if most >= 0:
                least = 0  # only the stacks below depend on it
        self.lists.pool[at + 3] = least
        self.lists.pool[at + 4] = most
        self.lists.pool[at + 5] = self.space.stacks.frames[frame].count
        return 6

    # ---------------------------------------------------------------- configurations

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-2, check=False)
    def name_configuration(self, configuration: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The name of a configuration whose states have names, if its tails have names, too."""
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
            # sorted by name, because the numbers of states differ between grammars
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
