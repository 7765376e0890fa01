# cython: language_level=3
# mypy: ignore-errors
"""Twins: suffixes that read the same on every symbol, so that one of them can represent all.

What: `twins_of` compares the results of walks over suffixes. `rewrite_outcomes` replaces each suffix by its
twin, which turns thousands of outcomes into some hundreds.
When: in explorations with many outcomes, between the walk over the vocabulary and the walks below it.
Limits: those of `equivalence.walks.merging`, which compares suffixes.

What an outcome leaves to be read is shorter, and a shorter suffix has a smaller number. So suffixes are
processed in the order of their numbers, and compared by outcomes that are already rewritten.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.walks.merging import Merging
from cython.cimports.equivalence.walks.outcomes import outcome_of
from numpy.typing import NDArray

from equivalence.walks.merging import Rounds

check_source(__name__)

NOTHING, OUTRIGHT = 0, 1
"""The outcomes that always exist."""

FIRST_LISTS = 4096
"""Rewritten outcomes that fit at first."""


def twins_of(
    rounds: Rounds, suffixes: NDArray[np.int32], n_suffixes: int, outcomes: Interned, account: Account
) -> NDArray[np.int32]:
    """For each suffix, a suffix that reads the same on every symbol.

    Args:
        rounds: the walks; `outcomes` leave no suffixes to be read that were not walked.
        suffixes: int32[n], the suffixes that were walked, each in one round.
        n_suffixes: the number of all suffixes.
        outcomes: the outcomes that `rounds` refers to.
        account: pays for the result, which is kept, and for temporary lists.

    Returns:
        int32[S]; -1 for suffixes that were not walked.

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    taken = account.taken
    twin = np.full(n_suffixes, -1, np.int32)
    search = Twins(rounds, suffixes, Rewriting(outcomes, twin, account), account)
    search.find(np.argsort(suffixes))
    account.claim(0, account.taken - taken - twin.nbytes)
    return twin


def rewrite_outcomes(
    outcomes: Interned,
    twin: NDArray[np.int32],
    event_starts: cython.const[cython.Py_ssize_t][::1],
    events: cython.Py_ssize_t[:, ::1],
    account: Account,
) -> Interned:
    """Replace every suffix in outcomes by its twin, and intern the results.

    Args:
        outcomes: what is rewritten. They are not needed afterwards, and their bytes are returned to the
            account.
        twin: int32[S], the result of `twins_of`.
        event_starts: int64[B + 1], where the events of blocks begin.
        events: int64[n, 2], rows (group, outcome); they are changed, and may be more than the last start.
        account: pays for the result.

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    rewriting = Rewriting(outcomes, twin, account)
    rewriting.number_of(NOTHING)
    rewriting.number_of(OUTRIGHT)
    n: cython.Py_ssize_t = event_starts[event_starts.shape[0] - 1]
    with cython.nogil:
        for e in range(n):
            events[e, 1] = rewriting.number_of(events[e, 1])
    account.claim(0, rewriting.own_bytes() + outcomes.nbytes)
    return rewriting.fresh


@cython.final
@cython.cclass
class Rewriting:
    """Outcomes, and the same with twins instead of suffixes.

    Attributes:
        outcomes: the original outcomes.
        twin: the twins known so far.
        fresh: the rewritten outcomes.
        numbers: for each outcome, the number of the rewritten one; -1: not needed yet.
        pairs: what the current outcome leaves to be read.
    """

    def __init__(self, outcomes: Interned, twin: cython.int[::1], account: Account) -> None:
        n: cython.Py_ssize_t = outcomes.count
        widest: cython.Py_ssize_t = 2
        for i in range(n):
            widest = max(widest, outcomes.starts[i + 1] - outcomes.starts[i])
        self.outcomes = outcomes
        self.twin = twin
        self.account = account
        account.claim(8 * (n + widest))
        self.numbers = np.full(n, -1, np.int64)
        self.pairs = np.empty(widest, np.int64)
        self.fresh = Interned(min(n, FIRST_LISTS), 16, outcomes.most, account, outcomes.excess)

    def number_of(self, outcome):
        """The number of the rewritten outcome; the twins of its suffixes must be known."""
        if self.numbers[outcome] < 0:
            self.account.check()
            self.numbers[outcome] = self.rewritten(outcome)
        return self.numbers[outcome]

    def rewritten(self, outcome):
        """Rewrite an outcome: its label, and the twins of its suffixes in order of (port, twin)."""
        begin = self.outcomes.starts[outcome]
        end = self.outcomes.starts[outcome + 1]
        n: cython.Py_ssize_t = 0
        for k in range(begin + 1, end, 2):
            twin: cython.Py_ssize_t = self.twin[self.outcomes.pool[k + 1]]
            n = insert_sorted(self.pairs, 0, n, (self.outcomes.pool[k] << 30) + twin)
        return outcome_of(self.fresh, self.outcomes.pool[begin], self.pairs, n)

    def own_bytes(self):
        """Bytes that are useless once everything is rewritten."""
        return 8 * (self.numbers.shape[0] + self.pairs.shape[0])


@cython.final
@cython.cclass
class Twins(Merging):
    """The comparison of suffixes.

    Attributes:
        suffixes: int32, the strings.
        example: for each list in `full`, the suffix that represents all; -1: none yet.
    """

    def __init__(self, rounds: Any, suffixes: Any, rewriting: Rewriting, account: Account) -> None:
        Merging.__init__(self, rounds, account)
        account.claim(4 * len(suffixes))
        self.rewriting = rewriting
        self.suffixes = suffixes
        self.example = np.full(len(suffixes) + 1, -1, np.int32)

    def find(self, order):
        """Find the twin of each suffix, in the order of their numbers."""
        with cython.nogil:
            for i in range(order.shape[0]):
                suffix = self.suffixes[order[i]]
                number = self.number(order[i])
                if self.example[number] < 0:
                    self.example[number] = suffix
                self.rewriting.twin[suffix] = self.example[number]

    def renamed(self, outcome):
        """The number of the rewritten outcome."""
        return self.rewriting.number_of(outcome)
