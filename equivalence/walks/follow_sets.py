# cython: language_level=3
# mypy: ignore-errors
"""Follow sets: which bytes can come next after the rule of a state has ended.

What: `follow_sets_of` gives each symbol of the stack the bytes that some stack below it can read next: those
that the states after the calls of its rule can read, and, if the caller may end there, those of the caller's
own follow set. They are the least fixed point of these equations, as the follow sets of LR parsers are (Aho,
Lam, Sethi, Ullman: Compilers, 2nd edition, section 4.4.2).
When: once for each classifier. Walks for masks need it as soon as a token may be longer than the rule that
reads it.
Limits: an upper bound: a set is the union for all callers of all rules that use the state. Grammars with
counted automata have none, as which of their frames may follow each other is not known here.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.flags import unite
from cython.cimports.equivalence.network.below_sets import MergedStates
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.network.counted_automata import refuse_counted_automata

check_source(__name__)


def follow_sets_of(network: Any, state_first: NDArray[np.uint8], stop: Any = None) -> NDArray[np.uint8]:
    """The follow sets of a network with S states, K counted classes and B byte classes.

    Args:
        network: an `equivalence.network.Network`.
        state_first: uint8[S, B], the classes that each state can read next (`ByteTables.first`).
        stop: an `equivalence.deadline.deadline.Stop`; None: nothing stops the computation.

    Returns:
        uint8[S + K, B]: what can be read after the rule of each state, and after the counted rules of each
        class (which may also read another unit).

    Raises:
        BudgetExceeded: it was stopped.
        UnsupportedGrammar: it has counted automata.
    """
    refuse_counted_automata(network.automaton)
    account: Account = Account(stop)
    states: MergedStates = network.merged()
    final: cython.const[cython.uchar][::1] = network.automaton[0].view(np.uint8)
    first: cython.const[cython.uchar][:, ::1] = state_first
    n_rules: cython.Py_ssize_t = states.rule_first.shape[0]
    # the set of each rule, with counted rules at the end
    rows: cython.uchar[:, ::1] = np.zeros((n_rules + states.counted.shape[0], first.shape[1]), np.uint8)
    found = np.zeros((len(final) + len(network.automaton[5]), first.shape[1]), np.uint8)
    sets: cython.uchar[:, ::1] = found
    with cython.nogil:
        while extend(rows, states, final, first, account):
            pass
        for state in range(states.class_of.shape[0]):
            if states.class_of[state] >= 0 and states.is_top[state] and not states.is_end[state]:
                unite(sets, states.class_of[state], rows, states.rule_of_state[state])
        for c in range(states.counted.shape[0]):
            if states.class_of_counted[c] >= 0:
                unit = states.counted[c, 0]  # the next unit begins on top of the frame
                unite(sets, states.class_of[states.rule_first[unit]], rows, unit)
                unite(sets, states.n_classes + states.class_of_counted[c], rows, n_rules + c)
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def extend(
    rows: cython.uchar[:, ::1],
    states: MergedStates,
    final: cython.const[cython.uchar][::1],
    first: cython.const[cython.uchar][:, ::1],
    account: Account,
) -> cython.int:
    """Apply the equations of all rules once, callers first. Return whether a set has grown."""
    n_rules: cython.Py_ssize_t = states.rule_first.shape[0]
    grown: cython.int = 0
    for i in range(states.order.shape[0] - 1, -1, -1):
        account.check()
        rule = states.order[i]
        if rule >= n_rules:
            if states.class_of_counted[rule - n_rules] >= 0:
                unit = states.counted[rule - n_rules, 0]
                grown |= unite(rows, unit, first, states.class_of[states.rule_first[unit]])
                grown |= unite(rows, unit, rows, rule)
            continue
        for state in range(states.rule_first[rule], states.rule_last[rule]):
            if states.class_of[state] < 0:
                continue
            for k in range(states.call_starts[state], states.call_starts[state + 1]):
                callee, back = states.calls[k, 0], states.calls[k, 1]
                if not states.is_end[back]:
                    behind = states.class_of[back]
                    grown |= unite(rows, callee, first, behind)
                    if not final[behind]:
                        continue
                grown |= unite(rows, callee, rows, rule)
    return grown
