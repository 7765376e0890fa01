# cython: language_level=3
# mypy: ignore-errors
"""Queries: pairs of outcomes and below sets for which contexts need a color.

What: a query (outcome, below set) asks which stacks of the below set accept the outcome. `find_queries`
numbers the distinct queries that some context needs.
When: once for each exploration, after the walk. `equivalence.classes.class_merging` looks up their colors.
Limits: they are charged to an `Account`.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.grouping import grouped

check_source(__name__)

FIRST = 512
"""Initial room for queries."""


def find_queries(
    event_starts: cython.const[cython.Py_ssize_t][::1],
    events: cython.const[cython.Py_ssize_t][:, ::1],
    n_outcomes: cython.Py_ssize_t,
    users: NDArray[np.int64],
    context_starts: cython.const[cython.Py_ssize_t][::1],
    context_below: NDArray[np.int64],
    account: Account,
) -> Interned:
    """Find the distinct queries that some context needs.

    Args:
        event_starts: int64[B + 1], where the events of each of B blocks begin.
        events: int64[n, 2], rows (group, outcome); rows after the last start are ignored.
        n_outcomes: number of outcomes.
        users: int64[n, 2], rows (context, block).
        context_starts, context_below: where the below sets of each context begin, and those sets.
        account: is charged for the queries, which are kept.

    Returns:
        The queries, as lists [outcome, below set].

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    n_blocks: cython.Py_ssize_t = event_starts.shape[0] - 1
    passing: cython.Py_ssize_t = 8 * (event_starts.shape[0] + 1 + len(users) + n_outcomes)
    account.claim(passing)
    starts, by_block = grouped(users[:, 1].astype(np.int32), n_blocks)
    user_rows: cython.const[cython.Py_ssize_t][:, ::1] = users
    user_starts: cython.Py_ssize_t[::1] = starts
    places: cython.int[::1] = by_block
    below_sets: cython.const[cython.Py_ssize_t][::1] = context_below
    n_below = int(context_below.max(initial=-1)) + 1
    # for each outcome, 1 + the last block whose queries were added; for each below set, 1 + the last block
    # that listed it; the distinct below sets of all contexts that use the current block
    answered: cython.Py_ssize_t[::1] = np.zeros(n_outcomes, np.int64)
    noted: cython.Py_ssize_t[::1] = np.zeros(n_below, np.int64)
    belows: cython.Py_ssize_t[::1] = np.empty(n_below, np.int64)
    queries = Interned(FIRST, 2, account=account)
    with cython.nogil:
        for block in range(n_blocks):
            if event_starts[block] == event_starts[block + 1]:
                continue
            n: cython.Py_ssize_t = 0
            for u in range(user_starts[block], user_starts[block + 1]):
                context = user_rows[places[u], 0]
                for k in range(context_starts[context], context_starts[context + 1]):
                    below = below_sets[k]
                    if noted[below] <= block:
                        noted[below] = block + 1
                        belows[n] = below
                        n += 1
            for e in range(event_starts[block], event_starts[block + 1]):
                outcome = events[e, 1]
                if answered[outcome] > block:
                    continue
                account.check()
                answered[outcome] = block + 1
                for k in range(n):
                    queries.pair(outcome, belows[k])
    account.claim(0, passing)
    return queries
