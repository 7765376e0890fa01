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

from equivalence.arrays.grouping import grouped

check_source(__name__)

FIRST = 512
"""Initial room for queries."""


@cython.final
@cython.cclass
class Search:
    """The input of `find_queries`, and scratch arrays."""

    def __init__(self, event_starts, events, users, context_starts, context_below, account) -> None:
        self.users = users
        self.user_starts, self.places = grouped(
            np.asarray(users)[:, 1].astype(np.int32), len(event_starts) - 1
        )
        self.event_starts = event_starts
        self.events = events
        self.context_starts = context_starts
        self.context_below = context_below
        self.account = account
        self.queries = Interned(FIRST, 2, account=account)

    def find(self, n_outcomes):
        """Find the queries of all blocks."""
        n_below: cython.Py_ssize_t = 0
        for k in range(self.context_below.shape[0]):
            n_below = max(n_below, self.context_below[k] + 1)
        self.answered = np.zeros(n_outcomes, np.int64)
        self.noted = np.zeros(n_below, np.int64)
        self.belows = np.empty(n_below, np.int64)
        with cython.nogil:
            for block in range(self.event_starts.shape[0] - 1):
                if self.event_starts[block] < self.event_starts[block + 1]:
                    self.note_belows(block)
                    self.ask(block)

    def note_belows(self, block):
        """List the below sets of all contexts that use a block."""
        n: cython.Py_ssize_t = 0
        for u in range(self.user_starts[block], self.user_starts[block + 1]):
            context = self.users[self.places[u], 0]
            for k in range(self.context_starts[context], self.context_starts[context + 1]):
                below = self.context_below[k]
                if self.noted[below] <= block:
                    self.noted[below] = block + 1
                    self.belows[n] = below
                    n += 1
        self.n_belows = n

    def ask(self, block):
        """Add the queries for all outcomes of a block."""
        for e in range(self.event_starts[block], self.event_starts[block + 1]):
            outcome = self.events[e, 1]
            if self.answered[outcome] > block:
                continue
            self.account.check()
            self.answered[outcome] = block + 1
            for k in range(self.n_belows):
                self.queries.pair(outcome, self.belows[k])


def find_queries(
    event_starts: cython.const[cython.Py_ssize_t][::1],
    events: cython.const[cython.Py_ssize_t][:, ::1],
    n_outcomes: cython.Py_ssize_t,
    users: cython.const[cython.Py_ssize_t][:, ::1],
    context_starts: cython.const[cython.Py_ssize_t][::1],
    context_below: cython.const[cython.Py_ssize_t][::1],
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
    passing: cython.Py_ssize_t = 8 * (event_starts.shape[0] + 1 + users.shape[0] + n_outcomes)
    account.claim(passing)
    search = Search(event_starts, events, users, context_starts, context_below, account)
    search.find(n_outcomes)
    account.claim(0, passing)
    return search.queries
