# cython: language_level=3
# mypy: ignore-errors
"""The parser, run on stacks of which only the top is known: the rows of terminal sequences.

What: sequence i is the terminal `first[i]`, followed by an earlier sequence. A `Simulation` stores its *row*:
its outcome on each state that has an action on its terminal. A longer sequence is run on a state until the
terminal is shifted; the row of its rest has the outcome from there on.
When: `equivalence.lark.lalr.sequence_numbers` simulates each new sequence, `equivalence.lark.lalr.items` what
is left of one.
Limits: a reduction that goes on forever is an error; sequences and bytes are bounded.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.lark.lalr.outcomes import (
    DEAD,
    MOST_REDUCTIONS,
    PASS,
    nonterminal_of,
    pending,
    pops_of,
    rest_of,
)
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import bigger
from equivalence.arrays.ranges import starts_of
from equivalence.errors import BudgetExceeded, UnsupportedGrammar

check_source(__name__)

LONGEST_LOCAL = 1 << 14
"""Most states that a sequence may put on top of the known part of a stack."""

CELLS = 64
"""Average number of cells of a row that fit at first."""


@cython.final
@cython.cclass
class Simulation:
    """Sequences of terminals and their rows; it grows on demand.

    Sequences `DEAD` and `PASS` have no rows: no stack accepts the first, and the second is empty.

    Args:
        machine: an `equivalence.lark.lalr.LalrMachine`.
        room: sequences that fit at first.
        most: most sequences.
        account: pays for growth.

    Raises:
        BudgetExceeded: the machine and the room take more bytes than allowed.

    Attributes:
        users: int32, the states with an action on a terminal, terminal by terminal.
        user_start: int64[T + 1], where those of a terminal begin.
        place: int32[T, S], the position of a state among a terminal's users, or -1.
        count: number of sequences; the row of the next one begins after their rows.
        cells: number of cells of all rows.
        outcome: the cells of the row of sequence i, in the order of users, begin at `row[i]`.
        local: the upper states of the simulated stack, the top last; each run overwrites it.
    """

    def __init__(
        self, machine: object, room: cython.Py_ssize_t, most: cython.Py_ssize_t, account: Account
    ) -> None:
        self.action, self.after = machine.action, machine.goto
        self.rule_length, self.rule_origin = machine.rule_length, machine.rule_origin
        users, starts, place = _users_of(machine.action)
        self.users, self.user_start, self.place = users, starts, place
        self.most = most
        self.account = account
        self.count, self.cells = PASS + 1, 0
        size = max(min(room, most), 1) + PASS + 1
        parts = (machine.action, machine.goto, machine.rule_length, machine.rule_origin, users, starts, place)
        account.claim(sum(part.nbytes for part in parts) + 12 * size + 8 * CELLS * room)
        self.first = np.zeros(size, np.int32)
        self.row = np.zeros(size, np.int64)
        self.outcome = np.zeros(CELLS * room, np.int64)
        self.local = np.zeros(LONGEST_LOCAL, np.int32)

    def begin(self, terminal, rest):
        """Simulate a terminal followed by a sequence on each of its users. Return the number that it would
        have.

        The row is overwritten when the next one begins, unless `keep` is called before.

        Raises:
            BudgetExceeded: more sequences, or more bytes, than allowed.
            UnsupportedGrammar: the parser reduces forever.
        """
        own = self.count
        row = self.cells
        begin = self.user_start[terminal]
        end = self.user_start[terminal + 1]
        if own >= self.first.shape[0]:
            with cython.gil:
                self.grow_sequences()
        if row + end - begin > self.outcome.shape[0]:
            with cython.gil:
                self.grow_cells(end - begin)
        self.first[own] = cython.cast(cython.int, terminal)
        self.row[own] = row
        for k in range(begin, end):
            self.outcome[row + k - begin] = self.run_first(self.users[k], terminal, rest)
        return own

    def keep(self):
        """Make the sequence that was begun last permanent."""
        own = self.count
        terminal = self.first[own]
        self.cells = self.cells + self.user_start[terminal + 1] - self.user_start[terminal]
        self.count = own + 1

    def run_first(self, state, terminal, rest):
        """The outcome of the new sequence, a terminal and a rest, on a state."""
        self.local[0] = cython.cast(cython.int, state)
        depth: cython.Py_ssize_t = 1
        for _ in range(MOST_REDUCTIONS):
            if depth == self.local.shape[0]:
                break
            top = self.local[depth - 1]
            if top < 0:
                return self.refuse_table()
            action = self.action[top, terminal]
            if action == 0:
                return DEAD
            if action > 0:
                if rest == PASS:
                    return PASS
                if action > self.action.shape[0]:
                    return DEAD  # nothing can follow the end of input
                self.local[depth] = action - 1
                return self.run(depth + 1, rest)
            length = self.rule_length[-action - 1]
            origin = self.rule_origin[-action - 1]
            if length >= depth:
                return pending(length - depth, origin, self.count)
            depth -= length
            self.local[depth] = self.after[self.local[depth - 1], origin]
            depth += 1
        return self.refuse_loop()

    def run(self, depth, rest):
        """The outcome of a sequence on a stack whose upper `depth` states are `local`."""
        for _ in range(MOST_REDUCTIONS):
            top = self.local[depth - 1]
            if top < 0:
                return self.refuse_table()
            place = self.place[self.first[rest], top]
            if place < 0:
                return DEAD
            found = self.outcome[self.row[rest] + place]
            if found <= PASS:
                return found
            pops = pops_of(found)
            rest = rest_of(found)
            depth -= 1
            if pops >= depth:
                return pending(pops - depth, nonterminal_of(found), rest)
            depth -= pops
            self.local[depth] = self.after[self.local[depth - 1], nonterminal_of(found)]
            depth += 1
        return self.refuse_loop()

    def refuse_loop(self):
        with cython.gil:
            raise UnsupportedGrammar(
                "the grammar's LALR parser would reduce forever, or very often in a row, on some text; "
                "remove rules that derive themselves, or nothing in many steps"
            )

    def refuse_table(self):
        with cython.gil:
            raise ValueError("the parse table reduces to a nonterminal that nothing follows in a state below")

    def grow_sequences(self):
        """Make room for more sequences."""
        if self.count - PASS - 1 >= self.most:
            raise BudgetExceeded(
                f"the grammar and the vocabulary have more than {self.count - PASS - 1} distinct "
                f"terminal sequences, but the limit is {self.most}; raise Budget.states"
            )
        old = self.first.shape[0]
        size = min(2 * old, self.most + PASS + 1)
        self.account.claim(12 * size, 12 * old)
        row: cython.Py_ssize_t[::1] = bigger(self.row, size)
        self.first = bigger(self.first, size)  # not before there is memory for both
        self.row = row

    def grow_cells(self, wanted):
        """Make room for more rows."""
        size = 2 * self.outcome.shape[0] + wanted
        self.outcome = self.account.bigger(self.outcome, size, self.cells)


def _users_of(action):
    """The states with an action on each terminal, where they begin, and the position of each state among
    them."""
    n_states, n_terminals = action.shape
    terminals, users = np.nonzero(action.T)
    starts = starts_of(np.bincount(terminals, minlength=n_terminals))
    place = np.full((n_terminals, n_states), -1, np.int32)
    place[terminals, users] = np.arange(len(users)) - starts[terminals]
    return users.astype(np.int32), starts, place
