# cython: language_level=3
# mypy: ignore-errors
"""Numbers of terminal sequences: sequences that no stack distinguishes, as far as items show, have equal
numbers.

What: `SequenceNumbers` computes the number of a sequence from its end, once for each pair (terminal, number
of the rest). A new pair is simulated, and its row is looked up. It is looked up again after edges that always
pass or always die are replaced by `PASS` and `DEAD`. A row that is still new is a new sequence.
When: `equivalence.lark.lalr.sequences` needs the sequences of a grammar's tokens.
Limits: those of `Simulation` and `Items`.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.pairs import Pairs
from cython.cimports.equivalence.lark.lalr.items import Items
from cython.cimports.equivalence.lark.lalr.outcomes import (
    CAN_DIE,
    CAN_PASS,
    DEAD,
    PASS,
    item_after,
    nonterminal_of,
    pending,
    pops_of,
    rest_of,
)
from cython.cimports.equivalence.lark.lalr.simulation import Simulation
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)

ROW_WIDTH = 32
"""Estimated number of integers in the key of a row."""


@cython.final
@cython.cclass
class SequenceNumbers:
    """Sequences, their items, and the tables to look them up.

    Args:
        machine: an `equivalence.lark.lalr.LalrMachine`.
        beneath: as for `Items`.
        room: sequences that fit at first, a power of two.
        most: most sequences.
        excess: the message of the error if the bytes of `bound` are exceeded.

    Attributes:
        number_of_row: int32, for each row the number of its sequence, or -1.
        cell: int64, scratch space for the edges of one row.
    """

    def __init__(
        self,
        machine: object,
        beneath: NDArray[np.uint8],
        room: cython.Py_ssize_t,
        most: cython.Py_ssize_t,
        excess: str,
    ) -> None:
        self.account = Account(None, excess=excess)
        self.simulation = Simulation(machine, room, most, self.account)
        self.items = Items(self.simulation, beneath, room, self.account)
        capacity = 2 * room
        self.pairs = Pairs(capacity, self.account)
        self.rows = Interned(capacity, ROW_WIDTH, account=self.account)
        cells = len(machine.action)
        self.account.claim(4 * (capacity + 2) + 8 * cells)
        self.number_of_row = np.full(capacity + 2, -1, np.int32)
        self.cell = np.zeros(cells, np.int64)

    def bound(self, most: cython.Py_ssize_t) -> None:
        """Set the bound of bytes for further growth; what exists already may exceed it."""
        self.account.most = most

    def find(
        self,
        terminals: cython.const[cython.int][::1],
        rests: cython.const[cython.int][::1],
        found: cython.int[::1],
        stop: object,
    ) -> None:
        """Write the number of each terminal followed by a sequence.

        Args:
            terminals: int32[n].
            rests: int32[n], numbers of sequences.
            found: int32[n], for the result.
            stop: an `equivalence.deadline.deadline.Stop`.

        Raises:
            BudgetExceeded: too many sequences or bytes, or told to stop. Nothing can be found afterwards.
            UnsupportedGrammar: the parser would reduce forever.
        """
        self.account.stop_by(stop)
        with cython.nogil:
            for i in range(found.shape[0]):
                found[i] = cython.cast(cython.int, self.before(terminals[i], rests[i]))

    def before(self, terminal, rest):
        """The number of a terminal followed by a sequence."""
        if rest == DEAD:
            return DEAD
        pair = self.pairs.number(terminal, rest)
        if self.pairs.rows[pair].result < 0:
            self.pairs.rows[pair].result = cython.cast(cython.int, self.new_sequence(terminal, rest))
        return self.pairs.rows[pair].result

    def new_sequence(self, terminal, rest):
        """The number of a terminal followed by a sequence, if this pair is new."""
        own = self.simulation.begin(terminal, rest)
        simulated = self.row_of(own)
        number: cython.Py_ssize_t = self.number_of_row[simulated]
        if number >= 0:
            return number
        self.find_edges(own)
        self.items.expand_all()
        if self.decide(own) == 0:
            number = DEAD
        else:
            plain = self.row_of(own)
            number = self.number_of_row[plain]
            if number < 0:
                number = own
                self.number_of_row[plain] = cython.cast(cython.int, own)
        if number == own:
            self.simulation.keep()
            self.items.keep()
        else:
            self.items.forget()
        self.number_of_row[simulated] = cython.cast(cython.int, number)
        return number

    def row_of(self, own):
        """The number of the row of a sequence: (state, outcome) for each state on which it does not die.

        If the rest is the sequence itself, it is written as -1, so that two sequences that repeat themselves
        in the same way are equal.
        """
        terminal = self.simulation.first[own]
        user = self.simulation.user_start[terminal]
        row = self.simulation.row[own]
        length = self.simulation.user_start[terminal + 1] - user
        begin = self.rows.room(2 * length)
        place = begin
        for k in range(length):
            found = self.simulation.outcome[row + k]
            if found != DEAD:
                if rest_of(found) == own:
                    found = pending(pops_of(found), nonterminal_of(found), -1)
                self.rows.pool[place] = self.simulation.users[user + k]
                self.rows.pool[place + 1] = found
                place += 2
        number = self.rows.intern(place - begin)
        if number >= self.number_of_row.shape[0]:
            with cython.gil:
                self.grow_rows()
        return number

    def find_edges(self, own):
        """Write the edges of a row to `cell`."""
        terminal = self.simulation.first[own]
        user = self.simulation.user_start[terminal]
        row = self.simulation.row[own]
        for k in range(self.simulation.user_start[terminal + 1] - user):
            self.cell[k] = self.items.edge_of(
                self.simulation.outcome[row + k], self.simulation.users[user + k]
            )

    def decide(self, own):
        """Replace edges that always pass or always die. Return the number of cells that do not die."""
        terminal = self.simulation.first[own]
        row = self.simulation.row[own]
        alive: cython.Py_ssize_t = 0
        for k in range(self.simulation.user_start[terminal + 1] - self.simulation.user_start[terminal]):
            if self.cell[k] > PASS:
                status = self.items.status[item_after(self.cell[k])]
                if status & CAN_DIE == 0:
                    self.cell[k] = self.simulation.outcome[row + k] = PASS
                elif status & CAN_PASS == 0:
                    self.cell[k] = self.simulation.outcome[row + k] = DEAD
            alive += self.cell[k] != DEAD
        return alive

    def grow_rows(self):
        """Make room for a number for each row that `rows` has room for; -1: not known yet."""
        old = self.number_of_row.shape[0]
        self.number_of_row = self.account.bigger(self.number_of_row, self.rows.starts.shape[0])
        self.number_of_row[old:] = -1

    def rows_of(self, asked: cython.const[cython.int][::1]) -> tuple:
        """The rows of some sequences.

        Args:
            asked: int32, numbers other than `DEAD` and `PASS`.

        Returns:
            (int64[n + 1] where the cells of each row begin, int32 their states, int64 their edges).
        """
        simulation = self.simulation
        n: cython.Py_ssize_t = asked.shape[0]
        start = np.zeros(n + 1, np.int64)
        starts: cython.Py_ssize_t[::1] = start
        for i in range(n):
            if asked[i] <= PASS or asked[i] >= simulation.count:
                raise ValueError(f"there is no row of the sequence {asked[i]}")
            terminal = simulation.first[asked[i]]
            starts[i + 1] = starts[i] + simulation.user_start[terminal + 1] - simulation.user_start[terminal]
        state, edge = np.empty(start[n], np.int32), np.empty(start[n], np.int64)
        states: cython.int[::1] = state
        edges: cython.Py_ssize_t[::1] = edge
        for i in range(n):
            user = simulation.user_start[simulation.first[asked[i]]]
            row = simulation.row[asked[i]]
            for k in range(starts[i + 1] - starts[i]):
                states[starts[i] + k] = simulation.users[user + k]
                edges[starts[i] + k] = self.items.edge_of(
                    simulation.outcome[row + k], simulation.users[user + k]
                )
        return start, state, edge

    @property
    def count(self) -> int:
        """Distinct sequences so far, without `DEAD` and `PASS`."""
        return self.simulation.count - PASS - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the tables, including those of the machine."""
        return self.account.taken
