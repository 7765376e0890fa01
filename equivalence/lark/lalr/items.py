# cython: language_level=3
# mypy: ignore-errors
"""What is left to decide below the known part of a stack: items, and the outcomes of each.

What: an *item* is [the states that may be exposed after the pops, a nonterminal, the sequence to read
then]. It has an edge for each of these states; an edge dies, passes, or leads to an item further down. The
status of an item says whether it can die and whether it can pass: an item that can only do one of both is
decided.
When: `equivalence.lark.lalr.sequence_numbers` needs items for the rows that it makes;
`equivalence.lark.lalr.stacks` makes an automaton of them.
Limits: `beneath` says which states may be exposed, and allows more than occur in the parser.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.pairs import Pairs
from cython.cimports.equivalence.lark.lalr.outcomes import (
    CAN_DIE,
    CAN_PASS,
    DEAD,
    PASS,
    edge_to,
    item_after,
    nonterminal_of,
    pops_of,
    rest_of,
)
from cython.cimports.equivalence.lark.lalr.simulation import Simulation
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.dynamic_arrays import bigger

check_source(__name__)

LIST_WIDTH = 32
"""Estimated number of states of a list."""

EDGES = 64
"""Edges that fit at first, for each sequence."""


@cython.final
@cython.cclass
class Items:
    """Items and their edges.

    Args:
        simulation: runs the sequences of items.
        beneath: uint8[D, S, ceil(S / 8)]: at [d, s] bit p says whether state p may lie d + 1 below state s,
            for all depths that a rule pops.
        room: sequences that fit at first, a power of two; there are about two items for each.
        account: pays for growth, and says when to stop.

    Raises:
        BudgetExceeded: too many bytes.

    Attributes:
        interned: the items as [list, nonterminal, sequence].
        lists: the sorted lists of states.
        kept: number of permanent items; those after them belong to the sequence that is being made.
        status: bits, the possible outcomes of an item: `CAN_DIE`, `CAN_PASS`.
        edge: the edges of item i, in the order of its list, begin at `edge_start[i]`.
    """

    def __init__(
        self,
        simulation: Simulation,
        beneath: cython.const[cython.uchar][:, :, ::1],
        room: cython.Py_ssize_t,
        account: Account,
    ) -> None:
        self.simulation = simulation
        self.account = account
        self.beneath = beneath
        capacity = 2 * room
        account.claim(beneath.shape[0] * beneath.shape[1] * beneath.shape[2] + 9 * (capacity + 3))
        account.claim(8 * EDGES * room)
        self.interned = Interned(capacity, 3, account=account)
        self.lists = Interned(capacity, LIST_WIDTH, account=account)
        self.below = Pairs(capacity, account)
        self.status = np.zeros(capacity + 2, np.uint8)
        self.edge_start = np.zeros(capacity + 3, np.int64)
        self.edge = np.zeros(EDGES * room, np.int64)
        self.kept = 0

    def edge_of(self, outcome, state):
        """The edge for an outcome on a state; the item that it leads to may be new."""
        if outcome <= PASS:
            return outcome
        pops = pops_of(outcome)
        nonterminal = nonterminal_of(outcome)
        states = self.exposed(pops, state, nonterminal)
        begin = self.interned.room(3)
        self.interned.pool[begin] = states
        self.interned.pool[begin + 1] = nonterminal
        self.interned.pool[begin + 2] = rest_of(outcome)
        return edge_to(self.interned.intern(3), pops)

    def exposed(self, pops, state, nonterminal):
        """The number of the list of states, those with a goto, that may lie `pops` + 1 below a state."""
        asked = self.below.number(pops * self.beneath.shape[1] + state, nonterminal)
        if self.below.rows[asked].result >= 0:
            return self.below.rows[asked].result
        begin = self.lists.room(self.beneath.shape[1])
        n: cython.Py_ssize_t = 0
        for octet in range(self.beneath.shape[2]):
            bits: cython.int = self.beneath[pops, state, octet]
            lower = 8 * octet
            while bits:
                if bits & 1 and self.simulation.after[lower, nonterminal] >= 0:
                    self.lists.pool[begin + n] = lower
                    n += 1
                bits >>= 1
                lower += 1
        number = self.lists.intern(n)
        self.below.rows[asked].result = cython.cast(cython.int, number)
        return number

    def expand_all(self):
        """Find the edges of all items that are not permanent, and of those that they lead to, and the
        status of each.

        Raises:
            BudgetExceeded, UnsupportedGrammar: as for `Simulation.begin`.
            BudgetExceeded, KeyboardInterrupt: told to stop.
        """
        item = self.kept
        while item < self.interned.count:
            self.account.check()
            if item >= self.status.shape[0]:
                with cython.gil:
                    self.grow_items()
            self.expand(item)
            item += 1
        while self.said_more():
            self.account.check()

    def expand(self, item):
        """Find the edges of an item; those of all items before it must be known."""
        begin = self.interned.starts[item]
        states = self.interned.pool[begin]
        nonterminal = self.interned.pool[begin + 1]
        rest = self.interned.pool[begin + 2]
        n_edges = self.edge_start[item]
        length = self.lists.starts[states + 1] - self.lists.starts[states]
        if n_edges + length > self.edge.shape[0]:
            with cython.gil:
                self.grow_edges(n_edges, length)
        for k in range(length):
            state = self.lists.pool[self.lists.starts[states] + k]
            self.simulation.local[0] = cython.cast(cython.int, state)
            self.simulation.local[1] = self.simulation.after[state, nonterminal]
            self.edge[n_edges + k] = self.edge_of(self.simulation.run(2, rest), state)
        self.edge_start[item + 1] = n_edges + length
        self.status[item] = 0

    def said_more(self):
        """Do one round of the least fixed point of the outcomes of items. Return whether anything changed.

        Items lead to later ones, except in cycles, so going backwards takes two or three rounds. Each round
        adds a bit to some status of two bits, or is the last one.
        """
        changed: cython.bint = False
        item = self.interned.count
        while item > self.kept:
            item -= 1
            status: cython.int = self.status[item]
            for k in range(self.edge_start[item], self.edge_start[item + 1]):
                edge = self.edge[k]
                if edge == DEAD:
                    status |= CAN_DIE
                elif edge == PASS:
                    status |= CAN_PASS
                else:
                    status |= self.status[item_after(edge)]
            if status != self.status[item]:
                self.status[item] = cython.cast(cython.uchar, status)
                changed = True
        return changed

    def keep(self):
        """Make all items permanent."""
        self.kept = self.interned.count

    def forget(self):
        """Remove the items that are not permanent, which were interned last.

        When the last list of `interned` is no longer counted, it is at the end of the pool, where `slot`
        looks it up. It was the last to enter its run of the hash table, so no other list is lost with it.
        """
        item = self.interned.count
        while item > self.kept:
            item -= 1
            self.interned.count = item
            self.interned.used = self.interned.starts[item]
            self.interned.table[self.interned.slot(3)] = -1

    def grow_items(self):
        """Make room for the status of all items that `interned` has room for."""
        old = self.status.shape[0]
        size = self.interned.starts.shape[0]
        self.account.claim(9 * size, 9 * old)
        edge_start: cython.Py_ssize_t[::1] = bigger(self.edge_start, size + 1)
        self.status = bigger(self.status, size)  # only when there is memory for both
        self.edge_start = edge_start

    def grow_edges(self, used, wanted):
        """Make room for more edges after those in use."""
        self.edge = self.account.bigger(self.edge, 2 * self.edge.shape[0] + wanted, used)

    def graph(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
        """The permanent items: int64[items] their lists, int64[items + 1] where the edges of each begin,
        int64 edges, uint8[items] the status of each.

        The arrays are not copied.
        """
        start = np.asarray(self.edge_start)[: self.kept + 1]
        lists = np.asarray(self.interned.pool)[: 3 * self.kept : 3]
        return lists, start, np.asarray(self.edge)[: start[self.kept]], np.asarray(self.status)[: self.kept]
