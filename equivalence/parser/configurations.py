# cython: language_level=3
# mypy: ignore-errors
"""Configurations as numbers, and facts about each of them.

What: `Configurations` interns all configurations of one computation. It has a table of the known steps
between them, and facts that walks use.
When: the base class of `equivalence.parser.space.Space`, which computes steps, and says what a configuration
is.
Limits: configurations are never removed; their number and the account's bytes are bounded.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.bits import has_bit
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.records import empty
from cython.cimports.equivalence.parser.automaton import Automaton, has_moves
from cython.cimports.equivalence.parser.byte_tables import ByteTables
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import bigger
from equivalence.arrays.records import Kind

check_source(__name__)

FACTS = Kind("loop_0 loop_1 character_loop characters_known label n_ports")
WIDTH = 6
"""Initial room for the integers of each configuration: a single stack takes four."""


@cython.no_gc
@cython.cclass
class Configurations:
    """All configurations of a computation, by number. There are S states and B byte classes.

    Args:
        automaton: the grammar's automata.
        byte_tables: the byte classes.
        rows: initial room for configurations.
        most: the maximum number of configurations.
        account: counts bytes, and may stop the computation.
        excess: the message of the error if there are more configurations.

    Attributes:
        configurations: the lists (see `equivalence.parser.space`).
        steps: int32[configurations, B], the next configuration; -1: not computed yet.
        facts: for each configuration: the ASCII bytes that are known to lead back to it, as two words of 64
            bits; whether all characters of several bytes lead back to it (2: each of their bytes does), and
            whether that is known; its label and its number of ports.
        class_of_byte, byte_classes, first_bits: `class_row`, `rows` and `bits` of `ByteTables`.
    """

    def __init__(
        self,
        automaton: Automaton,
        byte_tables: ByteTables,
        rows: cython.Py_ssize_t,
        most: cython.Py_ssize_t,
        account: Account,
        excess: str,
    ) -> None:
        self.automaton = automaton
        self.account = account
        self.class_of_byte = byte_tables.class_row
        self.n_states = automaton.n_states
        self.n_classes = byte_tables.n_classes
        account.claim((rows + 2) * (4 * self.n_classes + FACTS.size))
        self.configurations = Interned(rows, WIDTH, most, account, excess)
        self.steps = np.empty((rows + 2, self.n_classes), np.int32)
        self.facts = empty(FACTS, rows + 2)
        self.byte_classes = byte_tables.rows
        self.first_bits = byte_tables.bits
        self.configurations.pair(-1, 0)
        self.begin_row(0)
        self.facts[0].label = -1  # configuration 0: no stack at all
        self.facts[0].n_ports = 0

    # ---------------------------------------------------------------- new ones

    def put(self, length):
        """The number of the configuration that was written to the end of the pool. For a new one, the only
        steps that are known are those that none of its states can read."""
        at = self.configurations.used
        number = self.configurations.count
        if number >= self.steps.shape[0]:  # before it has a number: without room it must not get one
            with cython.gil:
                self.grow_configurations()
        configuration = self.configurations.intern(length)
        if configuration < number:
            return configuration
        self.begin_row(configuration)
        for i in range(at + 2 + self.configurations.pool[at + 1], at + length, 2):
            state = self.configurations.pool[i]
            for c in range(self.n_classes):  # -1 is not known yet, 0 is REJECT
                self.steps[configuration, c] |= -cython.cast(cython.int, has_bit(self.first_bits, state, c))
        self.facts[configuration].label = self.configurations.pool[at]
        self.facts[configuration].n_ports = self.configurations.pool[at + 1]
        return configuration

    def begin_row(self, configuration):
        """Initialise the row of a new configuration: no step and no fact is known."""
        for c in range(self.n_classes):
            self.steps[configuration, c] = 0
        self.facts[configuration].loop_0 = 0
        self.facts[configuration].loop_1 = 0
        self.facts[configuration].character_loop = 0
        self.facts[configuration].characters_known = 0

    def bottom(self, state, is_final):
        """The configuration with one state on an empty stack; without a state if it is -1."""
        first = self.configurations.room(5)
        self.configurations.pool[first] = 0
        self.configurations.pool[first + 1] = 1 if is_final else 0
        self.configurations.pool[first + 2] = -1
        end = first + (3 if is_final else 2)
        if state >= 0 and has_moves(self.automaton, state):
            self.configurations.pool[end] = state
            self.configurations.pool[end + 1] = 0
            end += 2
        return self.put(end - first)

    def grow_configurations(self):
        """Make room for the steps and facts of more configurations. After an error, nothing has changed."""
        old: cython.Py_ssize_t = self.steps.shape[0]
        row: cython.Py_ssize_t = 4 * self.n_classes + FACTS.size
        self.account.claim(2 * old * row, old * row)
        steps: cython.int[:, ::1] = bigger(self.steps, 2 * old)
        self.facts = bigger(self.facts, 2 * old)
        self.steps = steps

    # ---------------------------------------------------------------- from Python

    def list_of(self, configuration: cython.Py_ssize_t) -> Any:
        """A copy of the list of a configuration, int64[n]."""
        begin = self.configurations.starts[configuration]
        return np.array(self.configurations.pool[begin : self.configurations.starts[configuration + 1]])

    def known_steps(self) -> Any:
        """A copy of the steps, int32[configurations, B]."""
        return np.array(self.steps[: self.configurations.count])

    def known_facts(self) -> Any:
        """A copy of the facts, as records."""
        return np.array(np.asarray(self.facts)[: self.configurations.count]).view(np.recarray)
