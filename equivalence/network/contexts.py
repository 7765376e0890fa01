# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Contexts: what may be on top of a stack, and what may lie below it.

What: the part of a `Network` that describes stacks (section 3 of docs/theory.md).
When: token classes need them.
Limits: those of `equivalence.network.below_sets`, whose sets it uses.

Every index is always checked, as there.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.network.below_sets import BelowSets
from cython.cimports.equivalence.network.regions import EDGE, Regions
from cython.cimports.equivalence.network.sorted_set import SortedSet
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.deadline import Stop

check_source(__name__)


def contexts_and_below(
    automaton: tuple[Any, ...], start: int, max_states: int, stop: Stop
) -> tuple[NDArray[Any], ...]:
    """The fields of `equivalence.network.build.Below`, in their order.

    Args:
        automaton, start: as in `equivalence.network.build.Network`.
        max_states: bound on the states of automata, and thereby on the size of these sets.
        stop: says when to stop.

    Raises:
        BudgetExceeded: the sets are too large for `max_states`, or the deadline has passed.
    """
    regions = Regions(automaton, start, Account(stop))
    below = BelowSets(regions, max_states, stop)
    below.share()
    return (*contexts_of(regions, below), *below.flat())


@cython.cfunc
def contexts_of(regions: Regions, below: BelowSets) -> tuple:
    """The symbols that may be on top of a stack, where the below sets of each begin, and these sets."""
    n_sets: cython.Py_ssize_t = below.sets.count
    n_states: cython.Py_ssize_t = regions.n_states
    codes: SortedSet = SortedSet()  # a node times `n_sets`, and a below set
    with cython.nogil:
        for node in range(regions.outside):
            regions.account.check()
            if regions.region_of[node] >= 0 and (node >= n_states or regions.is_top[node]):
                codes.add(node * n_sets + below.set_of_region[regions.region_of[node]])
        for k in range(regions.links.count):
            node = regions.head_of[regions.region_of_link(k)]
            # otherwise all that lies below that region is below the node's own, too
            if regions.symbol_of_link(k) == EDGE and not regions.is_top[node]:
                codes.add(node * n_sets + below.set_of_region[regions.below_link(k)])
        n_codes: cython.Py_ssize_t = codes.sort()
    found = np.asarray(codes.values)[:n_codes]
    nodes, starts = np.unique(found // n_sets, return_index=True)
    symbols = np.where(nodes < n_states, nodes, n_states - 1 - nodes)
    return symbols, np.append(starts, n_codes), found % n_sets
