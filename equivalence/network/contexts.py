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

UNIT_STATES = cython.declare(cython.Py_ssize_t, 64)
# a unit of at most this many states is explored together with its counter


@cython.final
@cython.cclass
class Contexts:
    """The tops to explore, each with its below sets; a small unit of a counted rule with its counter.

    Sets without the frames of such counters are interned with the others.

    Args:
        below: the below sets, shared.
        stop: says when to stop.

    Attributes:
        flat: (rows (symbol, counted class below or -1), starts of their below sets, below sets), int64.

    Raises:
        BudgetExceeded: the deadline has passed.
    """

    def __init__(self, below: BelowSets, stop: Stop) -> None:
        states = below.states
        self.below, self.states, self.sets = below, states, below.sets
        self.account = Account(stop)
        self.n_rules, self.n_classes = states.rule_first.shape[0], states.n_classes
        self.n_symbols = self.n_classes + below.n_counted_classes
        self.top_starts = np.zeros(self.n_symbols + 2, np.int64)
        with cython.nogil:
            self.find_tops(states, below)
        self.top_rules = np.empty(self.top_starts[self.n_symbols + 1], np.int64)
        self.frames = np.empty(below.n_sets, np.int64)
        self.rest = np.empty(below.n_sets, np.int64)
        self.seen = np.empty(below.total, np.int64)
        self.codes = SortedSet()
        self.base = 2 * below.n_sets + 1
        with cython.nogil:
            self.note_tops(states, below)
            self.count_frames()
            room = self.most_rows()
        rows, row_starts = np.empty((room, 2), np.int64), np.empty(room + 1, np.int64)
        row_sets = np.empty(room, np.int64)
        self.rows, self.row_starts, self.row_sets = rows, row_starts, row_sets
        self.row_starts[0] = 0
        self.n_rows = 0
        self.n_row_sets = 0
        with cython.nogil:
            for symbol in range(self.n_symbols):
                self.account.check()
                self.collect(symbol)
                self.write(symbol)
        self.flat = (
            rows[: self.n_rows].copy(),
            row_starts[: self.n_rows + 1].copy(),
            row_sets[: self.n_row_sets].copy(),
        )

    def find_tops(self, states, below):
        """Find where the tops of each symbol begin."""
        for s in range(states.class_of.shape[0]):
            if self.is_own_top(s):
                self.top_starts[states.class_of[s] + 2] += 1
        for c in range(below.class_of_counted.shape[0]):
            if below.class_of_counted[c] >= 0:
                self.top_starts[self.n_classes + below.class_of_counted[c] + 2] += 1
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

    def note_tops(self, states, below):
        """Record the rules of the tops of each symbol."""
        for s in range(states.class_of.shape[0]):
            if self.is_own_top(s):
                self.top_rules[self.top_starts[states.class_of[s] + 1]] = states.rule_of_state[s]
                self.top_starts[states.class_of[s] + 1] += 1
        for c in range(below.class_of_counted.shape[0]):
            if below.class_of_counted[c] >= 0:
                symbol = self.n_classes + below.class_of_counted[c]
                self.top_rules[self.top_starts[symbol + 1]] = self.n_rules + c
                self.top_starts[symbol + 1] += 1

    def count_frames(self):
        """Count the frames of each set, and mark the sets without them as unknown."""
        for i in range(self.below.n_sets):
            k = self.sets.starts[i] + 1
            while k < self.sets.starts[i + 1] and self.sets.pool[k] < 0:
                k += 2
            self.frames[i] = (k - self.sets.starts[i]) // 2
            self.rest[i] = -1
        for rule in range(self.below.total):
            self.seen[rule] = -1

    def most_rows(self):
        """The most rows there can be: one for each top, and one for each frame of its set."""
        room: cython.Py_ssize_t = self.top_rules.shape[0]
        for k in range(self.top_rules.shape[0]):
            room += self.frames[self.below.set_of_rule[self.top_rules[k]]]
        return room

    def collect(self, symbol):
        """Collect the below sets of a symbol's tops as codes (1 + counted class below, or 0; set)."""
        self.codes.count = 0
        for k in range(self.top_starts[symbol], self.top_starts[symbol + 1]):
            rule = self.top_rules[k]
            if self.seen[rule] == symbol:
                continue
            self.seen[rule] = symbol
            own = self.below.set_of_rule[rule]
            if (
                rule < self.n_rules
                and self.frames[own] > 0
                and self.states.rule_last[rule] - self.states.rule_first[rule] <= UNIT_STATES
            ):
                for i in range(self.frames[own]):
                    at = self.sets.starts[own] + 1 + 2 * i
                    self.codes.add(-self.sets.pool[at] * self.base + self.sets.pool[at + 1])
                if self.rest[own] == -1:
                    self.rest[own] = self.without_frames(own)
                own = self.rest[own]
                if own < 0:
                    continue
            self.codes.add(own)

    def without_frames(self, own):
        """The number of a set without its frames; -2 if that is empty."""
        length = self.sets.starts[own + 1] - self.sets.starts[own] - 2 * self.frames[own]
        if length == 1 and not self.sets.pool[self.sets.starts[own]]:
            return -2
        begin = self.sets.room(length)
        self.sets.pool[begin] = self.sets.pool[self.sets.starts[own]]
        first = self.sets.starts[own] + 2 * self.frames[own]
        for i in range(1, length):
            self.sets.pool[begin + i] = self.sets.pool[first + i]
        return self.sets.intern(length)

    def write(self, symbol):
        """Write a row for each counted class below a symbol, and their sets."""
        above: cython.Py_ssize_t = -2
        for i in range(self.codes.sort()):
            if self.codes.values[i] // self.base - 1 != above:
                above = self.codes.values[i] // self.base - 1
                self.rows[self.n_rows, 0] = symbol if symbol < self.n_classes else self.n_classes - symbol - 1
                self.rows[self.n_rows, 1] = above
                self.n_rows += 1
            self.row_sets[self.n_row_sets] = self.codes.values[i] % self.base
            self.n_row_sets += 1
            self.row_starts[self.n_rows] = self.n_row_sets


def contexts_and_below(
    states: MergedStates,
    counted: Integers,
    class_of_counted: Integers,
    n_counted_classes: int,
    order: Integers,
    root: int,
    max_states: int,
    stop: Stop,
) -> Below:
    """The fields of `equivalence.network.build.Below`, in their order.

    Args:
        states: the merged states.
        counted: int64[n, 3], rows (unit, least, most) of counted rules, numbered after the plain ones.
        class_of_counted: int64[n], the class of each counted rule; -1 if it is unused.
        n_counted_classes: number of those classes.
        order: int64[n], all used rules, callees first.
        root: the root rule.
        max_states: bound on the states of automata, and thereby on the size of these sets.
        stop: says when to stop.

    Raises:
        BudgetExceeded: the sets are too large for `max_states`, or the deadline has passed.
    """
    below = BelowSets(states, counted, class_of_counted, n_counted_classes, root, max_states, stop)
    below.share(order)
    contexts = Contexts(below, stop)
    return (*contexts.flat, *below.flat())
