# cython: language_level=3
# mypy: ignore-errors
"""Absorbing states: return states of which two in a row on a stack are equivalent to one.

What: an absorbing state is final. Each final state that it leads to has all moves of the absorbing state. So
whatever the lower of two such frames can do, the upper one can do as well (docs/theory.md, section 4).
When: once for each network, before it is explored. `equivalence.parser.stacks` then pushes no second frame.
Limits: the search gives up if too many states or moves have to be compared. Then there are more stacks, which
read the same.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.parser.automaton import Automaton
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.dynamic_arrays import filled

check_source(__name__)

MOST_REACHED = cython.declare(cython.Py_ssize_t, 64)
"""At most this many states are examined for each return state."""

MOST_CLOSED = cython.declare(cython.Py_ssize_t, 16)
"""A state and its tail calls may begin with at most this many states."""

MOST_COMPARED = cython.declare(cython.Py_ssize_t, 1 << 24)
"""At most this many pairs of moves are compared for all return states together, which takes about 20 ms. The
JSON grammar needs a few hundred."""

OWN = cython.declare(cython.Py_ssize_t, 0)
OTHER = cython.declare(cython.Py_ssize_t, 1)


def absorbing_states(automaton: Automaton) -> NDArray[np.uint8]:
    """Find the absorbing states, uint8[states]: 1 for each of them."""
    found = np.zeros(automaton.n_states, np.uint8)
    first: cython.Py_ssize_t = 0
    while first < automaton.calls.shape[0] and not is_candidate(automaton, first):
        first += 1
    if first == automaton.calls.shape[0]:
        return found  # most schemas have none
    absorbing: cython.uchar[::1] = found
    tried: cython.uchar[::1] = np.zeros(automaton.n_states, np.uint8)
    search = Search(automaton)
    with cython.nogil:
        for call in range(first, automaton.calls.shape[0]):
            state = automaton.calls[call].back
            if is_candidate(automaton, call) and not tried[state]:
                tried[state] = 1
                absorbing[state] = search.absorbs(state)
    return found


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_candidate(automaton: Automaton, call: cython.Py_ssize_t) -> cython.bint:
    """Whether the state to which a call returns is final."""
    state = automaton.calls[call].back
    return state >= 0 and automaton.final[state] != 0


@cython.final
@cython.cclass
class Search:
    """The search for one return state at a time.

    Attributes:
        closed: two sets of states, each with the first states of its tail calls: row `OWN` for the return
            state, row `OTHER` for a state that it leads to.
        sizes: the size of each set.
        reached: the states that the return state leads to.
        stamp: for each state, the last return state that led to it.
        n_left: pairs of moves that may still be compared.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.closed = np.empty((2, MOST_CLOSED), np.int64)
        self.sizes = np.zeros(2, np.int64)
        self.reached = np.empty(MOST_REACHED, np.int64)
        self.stamp = filled(automaton.n_states, -1)
        self.n_left = MOST_COMPARED

    def absorbs(self, state):
        """Whether two frames of a final return state are equivalent to one."""
        if not self.close(state, OWN):
            return False
        self.reached[0] = state
        self.stamp[state] = state
        self.n_reached = 1
        i: cython.Py_ssize_t = 0
        while i < self.n_reached:
            if not self.close(self.reached[i], OTHER):
                return False
            if self.automaton.final[self.reached[i]] and not self.moves_are_kept():
                return False
            if not self.reach(state):
                return False
            i += 1
        return True

    def close(self, state, row):
        """Fill a row with a state, the first states of its tail calls, of their tail calls, and so on. Return
        False if there are too many, or if a counted rule is among them."""
        self.closed[row, 0] = state
        n: cython.Py_ssize_t = 1
        i: cython.Py_ssize_t = 0
        while i < n:
            state = self.closed[row, i]
            for k in range(self.automaton.call_starts[state], self.automaton.call_starts[state + 1]):
                callee = self.automaton.calls[k].callee
                if self.automaton.calls[k].back >= 0:
                    continue
                if callee < 0 or n == MOST_CLOSED:
                    return False
                known: cython.bint = False
                for j in range(n):
                    known = known or self.closed[row, j] == callee
                if not known:
                    self.closed[row, n] = callee
                    n += 1
            i += 1
        self.sizes[row] = n
        return True

    def moves_are_kept(self):
        """Whether every move of row `OWN` is a move of row `OTHER`, too, with the same target. False if too
        many moves would have to be compared."""
        edges, calls = self.automaton.edge_starts, self.automaton.call_starts
        self.n_left -= self.n_moves(edges, OWN) * self.n_moves(edges, OTHER)
        self.n_left -= self.n_moves(calls, OWN) * self.n_moves(calls, OTHER)
        if self.n_left < 0:
            return False
        for i in range(self.sizes[OWN]):
            state = self.closed[OWN, i]
            for k in range(self.automaton.edge_starts[state], self.automaton.edge_starts[state + 1]):
                if not self.has_edge(k):
                    return False
            for k in range(self.automaton.call_starts[state], self.automaton.call_starts[state + 1]):
                # of a tail call, the callee is among the states
                if self.automaton.calls[k].back >= 0 and not self.has_call(k):
                    return False
        return True

    def n_moves(self, starts, row):
        """Number of edges or calls of all states of a row, given where those of each state start."""
        n: cython.Py_ssize_t = 0
        for i in range(self.sizes[row]):
            n += starts[self.closed[row, i] + 1] - starts[self.closed[row, i]]
        return n

    def has_edge(self, edge):
        """Whether an edge of row `OTHER` contains an edge, and has the same target."""
        for j in range(self.sizes[OTHER]):
            state = self.closed[OTHER, j]
            for m in range(self.automaton.edge_starts[state], self.automaton.edge_starts[state + 1]):
                if (
                    self.automaton.edges[m].first <= self.automaton.edges[edge].first
                    and self.automaton.edges[edge].last <= self.automaton.edges[m].last
                    and self.automaton.edges[m].target == self.automaton.edges[edge].target
                ):
                    return True
        return False

    def has_call(self, call):
        """Whether row `OTHER` has an equal call."""
        for j in range(self.sizes[OTHER]):
            state = self.closed[OTHER, j]
            for m in range(self.automaton.call_starts[state], self.automaton.call_starts[state + 1]):
                if (
                    self.automaton.calls[m].callee == self.automaton.calls[call].callee
                    and self.automaton.calls[m].back == self.automaton.calls[call].back
                ):
                    return True
        return False

    def reach(self, origin):
        """Add the targets of the moves of row `OTHER` to `reached`. Return False if there are too many."""
        for j in range(self.sizes[OTHER]):
            state = self.closed[OTHER, j]
            for k in range(self.automaton.edge_starts[state], self.automaton.edge_starts[state + 1]):
                if not self.note(self.automaton.edges[k].target, origin):
                    return False
            for k in range(self.automaton.call_starts[state], self.automaton.call_starts[state + 1]):
                if not self.note(self.automaton.calls[k].back, origin):
                    return False
        return True

    def note(self, target, origin):
        """Add a state to `reached`, unless it is -1 or was added before. Return False if there are too
        many."""
        if target < 0 or self.stamp[target] == origin:
            return True
        self.stamp[target] = origin
        if self.n_reached == MOST_REACHED:
            return False
        self.reached[self.n_reached] = target
        self.n_reached += 1
        return True
