# cython: language_level=3
# mypy: ignore-errors
"""What the states of automata reach without a byte.

What: the least fixed point of sets of states, a bit each, under silent steps.
When: once per grammar whose automata are read (`equivalence.classes.byte_strings.automata`).
Limits: the sets have a bit for each pair of states; `automata.MAX_STATES` bounds them.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from numpy.typing import NDArray

from equivalence import built

built.check(__name__, EQUIMASK_SOURCE)


def silent_reach(
    n_nodes: cython.Py_ssize_t,
    steps: cython.const[cython.Py_ssize_t][:, ::1],
    reading: cython.const[cython.Py_ssize_t][::1],
    entry_states: cython.const[cython.Py_ssize_t][::1],
    account: Account,
) -> NDArray[np.uint64]:
    """The reading states that each entry reaches by silent steps, itself among them.

    Args:
        n_nodes: nodes of the steps; the states are the first of them.
        steps: int64[n, 2], from one node to another.
        reading: int64[R], the reading states, which are numbered as they stand here.
        entry_states: int64[entries], states.
        account: looked at for the word to stop.

    Returns:
        uint64[entries, words], a bit for each reading state.

    Raises:
        BudgetExceeded: somebody has said stop.
        ValueError: a step from or to something that is no node.
    """
    n_words = max(1, (reading.shape[0] + 63) // 64)
    sets: cython.ulonglong[:, ::1] = np.zeros((n_nodes, n_words), np.uint64)
    result = np.empty((entry_states.shape[0], n_words), np.uint64)
    reach: cython.ulonglong[:, ::1] = result
    one: cython.ulonglong = 1
    changed: cython.bint = True
    out: cython.bint = False
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(reading.shape[0]):
            sets[reading[i], i >> 6] |= one << (i & 63)
        for i in range(steps.shape[0]):
            out |= not (0 <= steps[i, 0] < n_nodes and 0 <= steps[i, 1] < n_nodes)
        while changed and not out:
            changed = False
            i = steps.shape[0] - 1
            while i >= 0:
                account.look()
                a = steps[i, 0]
                b = steps[i, 1]
                for w in range(n_words):
                    more = sets[a, w] | sets[b, w]
                    if more != sets[a, w]:
                        sets[a, w] = more
                        changed = True
                i -= 1
        for i in range(entry_states.shape[0]):
            for w in range(n_words):
                reach[i, w] = sets[entry_states[i], w]
    if out:
        raise ValueError("a silent step leads out of the automata")
    return result
