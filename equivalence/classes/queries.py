# cython: language_level=3
# mypy: ignore-errors
"""Queries: pairs of outcomes and below sets for which contexts need a color.

What: a query (outcome, below set) asks which stacks of the below set accept the outcome. `find_queries` lists
the distinct queries that some context needs, and makes a hash table of them.
When: once for each exploration, after the walk. `equivalence.classes.merging` looks up their colors.
Limits: rows and table are doubled together, and an `Account` pays for them.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.hashing import mix
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from numpy.typing import NDArray

from equivalence import built
from equivalence.arrays.growing import bigger

built.check(__name__, EQUIMASK_SOURCE)

FIRST = 512
"""Queries that fit at first; their table has twice as many places."""


@cython.final
@cython.cclass
class Queries:
    """Distinct queries, numbered from 0 in the order in which they were added.

    Args:
        rows: int64[n, 2], (outcome, below set) of each query, and room for more.
        table: int64[2**k], numbers by hash; -1: none. It has at least twice as many places as there are
            queries.
        count: number of queries.
        account: pays for growth; ``None`` for queries that are only looked up.
    """

    rows: cython.Py_ssize_t[:, ::1]
    table: cython.Py_ssize_t[::1]
    count: cython.Py_ssize_t
    account: Account

    def __init__(
        self,
        rows: cython.Py_ssize_t[:, ::1],
        table: cython.Py_ssize_t[::1],
        count: cython.Py_ssize_t,
        account: Account = None,
    ) -> None:
        self.rows = rows
        self.table = table
        self.count = count
        self.account = account

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def slot(self, outcome: cython.Py_ssize_t, below: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The place of a query's number in the table, or an empty place if there is no such query."""
        last: cython.Py_ssize_t = self.table.shape[0] - 1
        slot = mix(mix(11, outcome), below) & last
        number = self.table[slot]
        while number >= 0 and not (self.rows[number, 0] == outcome and self.rows[number, 1] == below):
            slot = (slot + 1) & last
            number = self.table[slot]
        return slot

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def find(self, outcome: cython.Py_ssize_t, below: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The number of a query; -1 if there is no such query."""
        return self.table[self.slot(outcome, below)]

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def add(self, outcome: cython.Py_ssize_t, below: cython.Py_ssize_t) -> cython.int:
        """Add a query, unless it is known.

        Raises:
            BudgetExceeded: no bytes are left for it.
        """
        slot = self.slot(outcome, below)
        if self.table[slot] >= 0:
            return 0
        if self.count == self.rows.shape[0]:
            with cython.gil:
                self.grow()
        number = self.count
        self.rows[number, 0] = outcome
        self.rows[number, 1] = below
        self.table[slot] = number
        self.count = number + 1
        if 2 * self.count > self.table.shape[0]:
            with cython.gil:
                self.rehash()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self) -> cython.int:
        """Double the room for rows. The table is doubled as soon as one of the new rows is used."""
        size: cython.Py_ssize_t = 2 * self.rows.shape[0]
        taken: cython.Py_ssize_t = 8 * size + 8 * self.table.shape[0]
        self.account.claim(2 * taken, taken)
        self.rows = bigger(self.rows, size)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def rehash(self) -> cython.int:
        """Replace the table by one of twice the size."""
        self.table = np.full(2 * self.table.shape[0], -1, np.int64)
        with cython.nogil:
            for i in range(self.count):
                self.table[self.slot(self.rows[i, 0], self.rows[i, 1])] = i
        return 0


@cython.final
@cython.cclass
class Search:
    """The input of `find_queries`, and scratch arrays."""

    event_starts: cython.const[cython.Py_ssize_t][::1]
    events: cython.const[cython.Py_ssize_t][:, ::1]
    user_starts: cython.Py_ssize_t[::1]  # where the contexts of each block begin
    contexts: cython.Py_ssize_t[::1]  # the contexts that use each block
    context_starts: cython.const[cython.Py_ssize_t][::1]
    context_below: cython.const[cython.Py_ssize_t][::1]
    answered: cython.Py_ssize_t[::1]  # for each outcome, 1 + the last block whose queries were added
    noted: cython.Py_ssize_t[::1]  # for each below set, 1 + the last block that listed it
    belows: cython.Py_ssize_t[::1]  # the distinct below sets of the current block
    n_belows: cython.Py_ssize_t
    queries: Queries
    account: Account

    def __init__(
        self,
        event_starts: cython.const[cython.Py_ssize_t][::1],
        events: cython.const[cython.Py_ssize_t][:, ::1],
        context_starts: cython.const[cython.Py_ssize_t][::1],
        context_below: cython.const[cython.Py_ssize_t][::1],
        account: Account,
    ) -> None:
        self.event_starts = event_starts
        self.events = events
        self.context_starts = context_starts
        self.context_below = context_below
        self.account = account
        account.claim(32 * FIRST)
        self.queries = Queries(np.empty((FIRST, 2), np.int64), np.full(2 * FIRST, -1, np.int64), 0, account)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def sort_users(self, users: cython.const[cython.Py_ssize_t][:, ::1]) -> cython.int:
        """List the contexts by block."""
        n_blocks: cython.Py_ssize_t = self.event_starts.shape[0] - 1
        block: cython.Py_ssize_t
        self.user_starts = np.zeros(n_blocks + 2, np.int64)
        self.contexts = np.empty(users.shape[0], np.int64)
        with cython.nogil:
            # counts are stored two places ahead; each start then moves to its end, which is the next start
            for u in range(users.shape[0]):
                self.user_starts[users[u, 1] + 2] += 1
            for block in range(2, n_blocks + 2):
                self.user_starts[block] += self.user_starts[block - 1]
            for u in range(users.shape[0]):
                block = users[u, 1] + 1
                self.contexts[self.user_starts[block]] = users[u, 0]
                self.user_starts[block] += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def find(self, n_outcomes: cython.Py_ssize_t) -> cython.int:
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
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def note_belows(self, block: cython.Py_ssize_t) -> cython.void:
        """List the below sets of all contexts that use a block."""
        n: cython.Py_ssize_t = 0
        for u in range(self.user_starts[block], self.user_starts[block + 1]):
            context = self.contexts[u]
            for k in range(self.context_starts[context], self.context_starts[context + 1]):
                below = self.context_below[k]
                if self.noted[below] <= block:
                    self.noted[below] = block + 1
                    self.belows[n] = below
                    n += 1
        self.n_belows = n

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def ask(self, block: cython.Py_ssize_t) -> cython.int:
        """Add the queries for all outcomes of a block."""
        for e in range(self.event_starts[block], self.event_starts[block + 1]):
            outcome = self.events[e, 1]
            if self.answered[outcome] > block:
                continue
            self.account.look()
            self.answered[outcome] = block + 1
            for k in range(self.n_belows):
                self.queries.add(outcome, self.belows[k])
        return 0


def find_queries(
    event_starts: cython.const[cython.Py_ssize_t][::1],
    events: cython.const[cython.Py_ssize_t][:, ::1],
    n_outcomes: cython.Py_ssize_t,
    users: cython.const[cython.Py_ssize_t][:, ::1],
    context_starts: cython.const[cython.Py_ssize_t][::1],
    context_below: cython.const[cython.Py_ssize_t][::1],
    account: Account,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the distinct queries that some context needs.

    Args:
        event_starts: int64[B + 1], where the events of each of B blocks begin.
        events: int64[n, 2], rows (group, outcome); rows after the last start are ignored.
        n_outcomes: number of outcomes.
        users: int64[n, 2], rows (context, block).
        context_starts, context_below: where the below sets of each context begin, and those sets.
        account: pays for the queries, which are kept.

    Returns:
        The queries int64[n, 2], rows (outcome, below set), and the table int64[2**k] that finds them.

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    search = Search(event_starts, events, context_starts, context_below, account)
    passing: cython.Py_ssize_t = 8 * (event_starts.shape[0] + 1 + users.shape[0] + n_outcomes)
    account.claim(passing)
    search.sort_users(users)
    search.find(n_outcomes)
    account.claim(0, passing)
    return np.asarray(search.queries.rows)[: search.queries.count], np.asarray(search.queries.table)
