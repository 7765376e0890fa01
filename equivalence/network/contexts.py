# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Contexts: what may be on top of a stack, and what may lie below it.

What: the part of a `Network` that describes stacks (section 3 of docs/theory.md), made from its merged
states.
When: last step of `build_network`.
Limits: those of `equivalence.network.below_sets`, whose sets it uses.

Every index is always checked, as there.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.network.below_sets import BelowSets, MergedStates
from cython.cimports.equivalence.network.sorted_set import SortedSet
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.deadline import Stop

check_source(__name__)

Integers = NDArray[np.int64]
Below = tuple[Integers, Integers, Integers, Integers, Integers, Integers, NDArray[np.bool_]]


@cython.final
@cython.cclass
class Contexts:
    """The symbols that may be on top of a stack, each with its below sets.

    Args:
        below: the below sets, shared.
        stop: says when to stop.

    Attributes:
        flat: (symbols, starts of their below sets, below sets), int64.

    Raises:
        BudgetExceeded: the deadline has passed.
    """

    def __init__(self, below: BelowSets, stop: Stop) -> None:
        states = below.states
        self.below, self.states = below, states
        self.account = Account(stop)
        self.n_rules, self.n_classes = states.rule_first.shape[0], states.n_classes
        self.n_symbols = self.n_classes + states.n_counted_classes
        self.top_starts = np.zeros(self.n_symbols + 2, np.int64)
        with cython.nogil:
            self.find_tops(states)
        n_tops: cython.Py_ssize_t = self.top_starts[self.n_symbols + 1]
        self.top_rules = np.empty(n_tops, np.int64)
        self.sets = SortedSet()
        symbols, set_starts = np.empty(self.n_symbols, np.int64), np.empty(self.n_symbols + 1, np.int64)
        symbol_sets = np.empty(n_tops, np.int64)
        self.symbols, self.set_starts, self.symbol_sets = symbols, set_starts, symbol_sets
        self.set_starts[0] = 0
        self.n_found = 0
        self.n_sets = 0
        with cython.nogil:
            self.note_tops(states)
            for symbol in range(self.n_symbols):
                self.account.check()
                self.write(symbol)
        self.flat = (
            symbols[: self.n_found].copy(),
            set_starts[: self.n_found + 1].copy(),
            symbol_sets[: self.n_sets].copy(),
        )

    def find_tops(self, states):
        """Find where the tops of each symbol begin."""
        for s in range(states.class_of.shape[0]):
            if self.is_own_top(s):
                self.top_starts[states.class_of[s] + 2] += 1
        for c in range(states.class_of_counted.shape[0]):
            if states.class_of_counted[c] >= 0:
                self.top_starts[self.n_classes + states.class_of_counted[c] + 2] += 1
        for symbol in range(self.n_symbols):
            self.top_starts[symbol + 2] += self.top_starts[symbol + 1]

    def is_own_top(self, s):
        """Whether a state is a top of its own.

        Everything that lies below a state also lies below the state that represents it, so one top is
        enough if both are tops.
        """
        if not self.states.is_top[s] or self.states.is_end[s]:
            return 0
        representative = self.states.representative_of[s]
        return representative == s or not self.states.is_top[representative]

    def note_tops(self, states):
        """Record the rules of the tops of each symbol."""
        for s in range(states.class_of.shape[0]):
            if self.is_own_top(s):
                self.top_rules[self.top_starts[states.class_of[s] + 1]] = states.rule_of_state[s]
                self.top_starts[states.class_of[s] + 1] += 1
        for c in range(states.class_of_counted.shape[0]):
            if states.class_of_counted[c] >= 0:
                symbol = self.n_classes + states.class_of_counted[c]
                self.top_rules[self.top_starts[symbol + 1]] = self.n_rules + c
                self.top_starts[symbol + 1] += 1

    def write(self, symbol):
        """Write a symbol and the below sets of its tops, unless it is no top."""
        self.sets.count = 0
        for k in range(self.top_starts[symbol], self.top_starts[symbol + 1]):
            self.sets.add(self.below.set_of_rule[self.top_rules[k]])
        if self.sets.sort() == 0:
            return 0
        for i in range(self.sets.count):
            self.symbol_sets[self.n_sets] = self.sets.values[i]
            self.n_sets += 1
        self.symbols[self.n_found] = symbol if symbol < self.n_classes else self.n_classes - symbol - 1
        self.n_found += 1
        self.set_starts[self.n_found] = self.n_sets
        return 0


def contexts_and_below(states: MergedStates, max_states: int, stop: Stop) -> Below:
    """The fields of `equivalence.network.build.Below`, in their order.

    Args:
        states: the merged states.
        max_states: bound on the states of automata, and thereby on the size of these sets.
        stop: says when to stop.

    Raises:
        BudgetExceeded: the sets are too large for `max_states`, or the deadline has passed.
    """
    below = BelowSets(states, max_states, stop)
    below.share()
    contexts = Contexts(below, stop)
    return (*contexts.flat, *below.flat())
