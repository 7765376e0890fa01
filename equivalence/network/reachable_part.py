# cython: language_level=3
# mypy: ignore-errors
"""The part of an automaton that can be reached from one of its states, with new numbers for the states.

What: `reachable_edges` follows the edges of an XGrammar automaton, which all rules of a grammar share, and
writes them in the form of `equivalence.network.edges`.
When: for each rule whose automaton XGrammar makes (`equivalence.network.foreign`).
Limits: edges that read something other than bytes keep XGrammar's type; the caller interprets them.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.network.edge_types import BYTES, EMPTY
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.network import serial

check_source(__name__)

NOTHING = cython.declare(cython.Py_ssize_t, serial.EDGE_EMPTY)


def reachable_edges(
    rows: cython.const[cython.Py_ssize_t][:, ::1],
    starts: cython.const[cython.Py_ssize_t][::1],
    begin: cython.Py_ssize_t,
    ends: cython.const[cython.Py_ssize_t][::1],
) -> tuple[NDArray[np.int64], int]:
    """The edges that can be reached from a state.

    Args:
        rows: int64[E, 3]: the first and the last byte, and the target; or a negative type, its argument,
            and the target.
        starts: int64[states + 1], where the edges of each state begin.
        begin: the state.
        ends: int64, states in which the automaton may end.

    Returns:
        (int64[n, 5], rows (source, type, a, b, target): state 0 is the start, and all states that may end
        lead to state 1 by an edge that reads nothing; the number of states.)

    Raises:
        IndexError: a state does not exist.
    """
    n_states: cython.Py_ssize_t = starts.shape[0] - 1
    number: cython.Py_ssize_t[::1] = np.full(max(n_states, 0), -1, np.int64)
    queue: cython.Py_ssize_t[::1] = np.empty(max(n_states, 1), np.int64)
    found = np.empty((rows.shape[0] + ends.shape[0], 5), np.int64)
    edges: cython.Py_ssize_t[:, ::1] = found
    if not 0 <= begin < n_states or starts[n_states] > rows.shape[0]:
        raise IndexError("an automaton has no start, or fewer edges than it says")
    number[begin] = 0
    queue[0] = begin
    reached: cython.Py_ssize_t = 1
    n: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t = 0
    while i < reached:
        state = queue[i]
        if starts[state] < 0 or starts[state + 1] > rows.shape[0]:
            raise IndexError("an automaton has fewer edges than it says")
        for k in range(starts[state], starts[state + 1]):
            target = rows[k, 2]
            if not 0 <= target < n_states:
                raise IndexError("an automaton leads to a state that does not exist")
            if number[target] < 0:
                number[target] = reached + 1  # 1 is the end state
                queue[reached] = target
                reached += 1
            edges[n, 0], edges[n, 4] = number[state], number[target]
            if rows[k, 0] >= 0:
                edges[n, 1], edges[n, 2], edges[n, 3] = BYTES, rows[k, 0], rows[k, 1]
            elif rows[k, 0] == NOTHING:
                edges[n, 1], edges[n, 2], edges[n, 3] = EMPTY, 0, 0
            else:
                edges[n, 1], edges[n, 2], edges[n, 3] = rows[k, 0], rows[k, 1], 0
            n += 1
        i += 1
    for i in range(ends.shape[0]):
        if not 0 <= ends[i] < n_states:
            raise IndexError("an automaton ends in a state that does not exist")
        if number[ends[i]] >= 0:
            edges[n, 0], edges[n, 1], edges[n, 2], edges[n, 3] = number[ends[i]], EMPTY, 0, 0
            edges[n, 4] = 1
            n += 1
    return found[:n], reached + 1
