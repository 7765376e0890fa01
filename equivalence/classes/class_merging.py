# cython: language_level=3
# mypy: ignore-errors
"""Classes of runs: equal numbers for runs that all contexts treat the same, whatever their first bytes.

What: each run is described by a list of (context, feature) (`equivalence.walks.merging`). Feature 1 means
that every stack accepts the tokens. In a context with several below sets, a feature is the number of the list
of their colors.
When: the last step of the partition.
Limits: those of `equivalence.walks.merging`.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.walks.merging import Merging
from numpy.typing import NDArray

from equivalence.walks.merging import Rounds

check_source(__name__)


@cython.final
@cython.cclass
class ClassMerging(Merging):
    """The lists that describe runs; for the arguments, see `merge_classes`.

    Attributes:
        tuples: the colors of contexts with several below sets.
    """

    def __init__(self, rounds: Any, queries: Interned, colors: Any, below: Any, account: Account) -> None:
        Merging.__init__(self, rounds, account)
        self.queries, self.colors = queries, colors
        self.context_starts, self.context_below = below.context_starts, below.context_below
        self.tuples = Interned(64, 4, account=account)

    def feature(self, context, outcome):
        """The feature of an outcome in a context. 0: no stack accepts it; 1: every stack does.

        Raises:
            BudgetExceeded: no bytes left.
            LookupError: there is no query for the outcome.
        """
        begin = self.context_starts[context]
        n_below = self.context_starts[context + 1] - begin
        at = self.tuples.room(n_below)
        color: cython.Py_ssize_t = 0
        none: cython.bint = True
        every: cython.bint = True
        for k in range(n_below):
            place = self.queries.room(2)
            self.queries.pool[place] = outcome
            self.queries.pool[place + 1] = self.context_below[begin + k]
            query = self.queries.find(2)
            if query < 0:
                with cython.gil:
                    raise LookupError(f"there is no query for outcome {outcome} of context {context}")
            color = self.colors[query]
            none = none and color == 0
            every = every and color == 1
            self.tuples.pool[at + k] = color
        if none:
            return 0
        if every:
            return 1
        return color if n_below == 1 else 2 + self.tuples.intern(n_below)


def merge_classes(
    rounds: Rounds, queries: Interned, colors: NDArray[np.int64], below: Any, account: Account
) -> NDArray[np.int32]:
    """Number the classes of runs: all contexts treat the runs of a class the same.

    Args:
        rounds: what blocks do with the runs.
        queries, colors: the result of `find_queries`, and the color of each, int64.
        below: the below sets of each context (`equivalence.network.Below`).
        account: is charged for everything.

    Returns:
        int32[R], the class of each run, numbered from 0 without gaps; -1: no context accepts it.

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    n_runs: cython.Py_ssize_t = len(rounds.first_byte)
    account.claim(4 * n_runs)
    merging = ClassMerging(rounds, queries, colors, below, account)
    found = np.empty(n_runs, np.int32)
    result: cython.int[::1] = found
    with cython.nogil:
        for run in range(n_runs):
            result[run] = cython.cast(cython.int, merging.number(run) - 1)  # 0 is the empty list
    return found
