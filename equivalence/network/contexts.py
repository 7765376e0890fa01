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

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.network.below_sets import BelowSets, MergedStates
from cython.cimports.equivalence.network.sorted_set import SortedSet
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.dynamic_arrays import filled
from equivalence.arrays.grouping import grouped
from equivalence.deadline import Stop

check_source(__name__)


def contexts_and_below(states: MergedStates, max_states: int, stop: Stop) -> tuple[NDArray[Any], ...]:
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
    return (*contexts_of(states, below, Account(stop)), *below.flat())


@cython.cfunc
def contexts_of(states: MergedStates, below: BelowSets, account: Account) -> tuple:
    """The symbols that may be on top of a stack, where the below sets of each begin, and these sets."""
    n: cython.Py_ssize_t = states.class_of.shape[0]
    n_rules: cython.Py_ssize_t = states.rule_first.shape[0]
    n_classes: cython.Py_ssize_t = states.n_classes
    n_symbols: cython.Py_ssize_t = n_classes + states.n_counted_classes
    # the symbol that each state is, and behind the states each counted rule; -1: it is no top
    symbol_of: cython.int[::1] = filled(n + states.counted.shape[0], -1, np.int32)
    with cython.nogil:
        for s in range(n):
            if states.is_top[s] and not states.is_end[s]:
                # everything that lies below a state also lies below the state that represents it, so one top
                # is enough if both are tops
                representative = states.representative_of[s]
                if representative == s or not states.is_top[representative]:
                    symbol_of[s] = cython.cast(cython.int, states.class_of[s])
        for c in range(states.counted.shape[0]):
            if states.class_of_counted[c] >= 0:
                symbol_of[n + c] = cython.cast(cython.int, n_classes + states.class_of_counted[c])
    starts, tops = grouped(symbol_of, n_symbols)
    top_starts: cython.Py_ssize_t[::1] = starts
    places: cython.int[::1] = tops
    symbols, set_starts = np.empty(n_symbols, np.int64), np.zeros(n_symbols + 1, np.int64)
    symbol_sets = np.empty(len(tops), np.int64)
    symbols_to: cython.Py_ssize_t[::1] = symbols
    starts_to: cython.Py_ssize_t[::1] = set_starts
    sets_to: cython.Py_ssize_t[::1] = symbol_sets
    n_found: cython.Py_ssize_t = 0
    n_sets: cython.Py_ssize_t = 0
    sets: SortedSet = SortedSet()
    with cython.nogil:
        for symbol in range(n_symbols):
            account.check()
            sets.count = 0
            for k in range(top_starts[symbol], top_starts[symbol + 1]):
                place = cython.cast(cython.Py_ssize_t, places[k])
                sets.add(below.set_of_rule[states.rule_of_state[place] if place < n else n_rules + place - n])
            if sets.sort() == 0:
                continue
            for i in range(sets.count):
                sets_to[n_sets] = sets.values[i]
                n_sets += 1
            symbols_to[n_found] = symbol if symbol < n_classes else n_classes - symbol - 1
            n_found += 1
            starts_to[n_found] = n_sets
    return symbols[:n_found].copy(), set_starts[: n_found + 1].copy(), symbol_sets[:n_sets].copy()
