# cython: language_level=3
# mypy: ignore-errors
"""The canonical form of a state: a list of integers that describes what the state can read.

What: `CanonicalForm` lists the part of the automata that a state, or the frame of a counted rule, can reach:
the states in the order in which they are found, whether they may return, their edges, and the rules that they
call. States with equal lists read the same texts, in any grammar.
When: for long walks, to find them among those of other grammars (`hybrid.classifier.vocabulary_walker`).
Limits: parts of more than `MOST_STATES` states have no form; two grammars rarely share so large a part.
Equivalent parts may have different forms; then both are walked.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.parser.automaton import Automaton
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import bigger

check_source(__name__)

MOST_STATES = cython.declare(cython.Py_ssize_t, 256)
"""The maximum number of states in a list. A string takes 20 states, all of JSON 120."""

FIRST_WORDS = 1024


@cython.final
@cython.no_gc
@cython.cclass
class CanonicalForm:
    """Makes the lists for one grammar.

    Args:
        automaton: the automata.

    Attributes:
        place: for each state, its number in the current list; -1 if it is not in it.
        order: the states of the list.
        words: the list.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.place = np.empty(automaton.n_states, np.int32)
        self.place[:] = -1
        self.order = np.empty(MOST_STATES, np.int64)
        self.words = np.empty(FIRST_WORDS, np.int64)

    def of_state(self, state: cython.Py_ssize_t) -> Any:
        """Return the form of a state on an unknown stack, as bytes; None if it leads to too many states."""
        self.begin()
        self.put(self.number(state))
        return self.as_bytes()

    def of_unit(self, unit: cython.Py_ssize_t, count: cython.Py_ssize_t) -> Any:
        """Return the form of the frame of a counted rule after `count` units. It depends only on how many
        more units must be read, and how many more may be read."""
        self.begin()
        counted = self.automaton.counted[unit]
        self.put(-1)
        self.put(max(counted.least - count, 0))
        self.put(-1 if counted.most < 0 else counted.most - count)
        if self.automaton.is_limited(unit):
            self.put_automaton(unit)
        else:
            self.put(self.number(counted.start))
        return self.as_bytes()

    def begin(self):
        """Start a list. The one before may be unfinished, after an error."""
        for i in range(self.n_states):
            self.place[self.order[i]] = -1
        self.n_states = 0
        self.n_words = 0
        self.is_too_large = False

    def as_bytes(self):
        """Append everything that can be reached from the numbered states, and return the list as bytes; None
        if it has too many states."""
        i: cython.Py_ssize_t = 0
        while i < self.n_states and not self.is_too_large:
            self.put_state(self.order[i])
            i += 1
        return None if self.is_too_large else np.asarray(self.words)[: self.n_words].tobytes()

    def put_state(self, state):
        """Write a state with its edges and calls, each list after its length."""
        automaton = self.automaton
        self.put(automaton.final[state])
        self.put(automaton.edge_starts[state + 1] - automaton.edge_starts[state])
        self.put(automaton.call_starts[state + 1] - automaton.call_starts[state])
        k: cython.Py_ssize_t
        for k in range(automaton.edge_starts[state], automaton.edge_starts[state + 1]):
            self.put(automaton.edges[k].first)
            self.put(automaton.edges[k].last)
            self.put(self.number(automaton.edges[k].target))
        for k in range(automaton.call_starts[state], automaton.call_starts[state + 1]):
            back = automaton.calls[k].back
            self.put(-1 if back < 0 else self.number(back))
            callee = automaton.calls[k].callee
            if callee >= 0:
                self.put(self.number(callee))
            else:
                self.put(-1)
                self.put_unit(-1 - callee)

    def put_unit(self, unit):
        """Write a counted rule."""
        self.put(self.automaton.counted[unit].least)
        self.put(self.automaton.counted[unit].relative)
        self.put(self.automaton.counted[unit].most)
        self.put(self.number(self.automaton.counted[unit].start))
        if self.automaton.is_limited(unit):
            self.put_automaton(unit)

    def put_automaton(self, unit):
        """Write the edges of a counted automaton that may come after one of its edges, then those after them,
        and so on. Each list comes after its length. Also write how much less room they have than the bound in
        `counted`."""
        places: dict = {unit: 0}
        order: list = [unit]
        i: cython.Py_ssize_t = 0
        self.put(-2)
        while i < len(order):
            edge: cython.Py_ssize_t = order[i]
            i += 1
            limit = self.automaton.limits[edge]
            self.put(limit.accepts)
            self.put(limit.end - limit.first)
            k: cython.Py_ssize_t
            for k in range(limit.first, limit.end):
                after: cython.Py_ssize_t = self.automaton.following[k]
                self.put(self.automaton.limits[after].room - self.automaton.counted[after].most)
                self.put(self.number(self.automaton.counted[after].start))
                frame: cython.Py_ssize_t = self.automaton.limits[after].frame
                if frame not in places:
                    places[frame] = len(order)
                    order.append(frame)
                    self.is_too_large = self.is_too_large or len(order) > MOST_STATES
                self.put(places[frame])

    def number(self, state):
        """The number of a state in the list; a new state gets one."""
        if self.place[state] < 0:
            if self.n_states == MOST_STATES:
                self.is_too_large = True
                return 0
            self.place[state] = cython.cast(cython.int, self.n_states)
            self.order[self.n_states] = state
            self.n_states += 1
        return self.place[state]

    def put(self, word):
        """Write one integer."""
        if self.n_words == self.words.shape[0]:
            self.words = bigger(self.words, 2 * self.n_words)
        self.words[self.n_words] = word
        self.n_words += 1
