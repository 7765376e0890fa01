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
from cython.cimports.equivalence.network.regions import EDGE, TAIL_CALL, Regions
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
    regions: Regions = Regions(network.automaton, network.start, Account(stop))
    first: cython.const[cython.uchar][:, ::1] = state_first
    rows: cython.uchar[:, ::1] = np.zeros((regions.n_regions, first.shape[1]), np.uint8)
    found = np.zeros((regions.outside, first.shape[1]), np.uint8)
    sets: cython.uchar[:, ::1] = found
    with cython.nogil:
        while extend(rows, regions, first):
            pass
        for node in range(regions.outside):
            if regions.region_of[node] >= 0 and (node >= regions.n_states or regions.is_top[node]):
                unite(sets, node, rows, regions.region_of[node])
        for k in range(regions.links.count):
            region = regions.region_of_link(k)
            symbol = regions.symbol_of_link(k)
            if symbol < 0:  # the next unit begins on top of the frame
                unite(sets, regions.head_of[region], rows, region)
            elif symbol == EDGE:
                unite(sets, regions.head_of[region], rows, regions.below_link(k))
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def extend(
    rows: cython.uchar[:, ::1], regions: Regions, first: cython.const[cython.uchar][:, ::1]
) -> cython.int:
    """Apply the equations of all regions once, callers first. Return whether a set has grown."""
    grown: cython.int = 0
    for k in range(regions.links.count):
        regions.account.check()
        region = regions.region_of_link(k)
        symbol = regions.symbol_of_link(k)
        if symbol < 0:
            grown |= unite(rows, region, first, regions.counted[-1 - symbol, 0])
        elif symbol < TAIL_CALL:
            grown |= unite(rows, region, first, symbol)
            if not regions.final[symbol]:
                continue
        grown |= unite(rows, region, rows, regions.below_link(k))
    return grown
