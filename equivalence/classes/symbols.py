# cython: language_level=3
# mypy: ignore-errors
"""Symbols: the outcomes of sets of suffixes on the symbols that may lie below.

What: `Symbols` numbers sets of suffixes, and computes the outcome of each set on a symbol once. An outcome
lists the suffixes that are still pending.
When: used by `equivalence.classes.items`.
Limits: tables and lists are charged to the account. Two threads must not use the same object at once, because
they share the space.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.pairs import Pairs
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.parser.space import REJECT, after
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.walks.outcomes import outcome_of

check_source(__name__)

OUTRIGHT = cython.declare(cython.Py_ssize_t, 1)

FIRST_OUTCOMES = 1024
"""Sets on symbols that fit at first."""


@cython.final
@cython.cclass
class Symbols:
    """Sets of suffixes, and their outcomes on symbols.

    Args:
        space: the configurations.
        follow: the bytes that can come next in the network (`equivalence.walks.follow.Follow`).
        suffixes: for each suffix, the suffix without its first byte, int32[S], and that byte, uint8[S].
        outcomes: the outcomes of tokens; those of suffixes on symbols are added.
        displacement: also distinguish what tokens leave on the stack.
        room, most: initial room for sets, and their maximum number.

    Attributes:
        sets: the sets of suffixes.
        return_first: the byte classes that can come next after each symbol has returned.
        symbol_start: the configuration of each distinct symbol.
        memo: pairs (set, symbol), and the outcome of each.
        pairs: the pending suffixes of the current set, with their ports; and its final configurations.
    """

    def __init__(self, space, follow, suffixes, outcomes, displacement, room, most) -> None:
        self.space = space
        self.account = space.account
        self.outcomes = outcomes
        self.displacement = displacement
        self.return_first = follow.returns
        self.suffix_parent, self.suffix_byte = suffixes
        self.sets = Interned(room, 16, most, self.account, self.outcomes.excess)
        self.memo = Pairs(FIRST_OUTCOMES, self.account)
        self.pairs = np.empty(256, np.int64)
        self.account.claim(self.own_bytes())
        self.find_starts(follow.symbols)

    def find_starts(self, symbols):
        """Find the configuration of each distinct symbol."""
        self.symbol_start = np.empty(symbols.shape[0], np.int64)
        with cython.nogil:
            for i in range(symbols.shape[0]):
                self.symbol_start[i] = self.space.context(symbols[i])

    def outcome_of(self, suffixes, symbol):
        """The outcome of a set of suffixes on a symbol, computed once."""
        number = self.memo.number(suffixes, symbol)
        if self.memo.rows[number].result < 0:
            self.memo.rows[number].result = cython.cast(cython.int, self.read_symbol(suffixes, symbol))
        return self.memo.rows[number].result

    def read_symbol(self, suffixes, symbol):
        """Compute the outcome of a set of suffixes on a symbol."""
        n: cython.Py_ssize_t = 0
        label: cython.Py_ssize_t = -1
        for k in range(self.sets.starts[suffixes], self.sets.starts[suffixes + 1]):
            suffix = self.sets.pool[k]
            configuration = self.symbol_start[symbol]
            while suffix != 0 and configuration != REJECT:
                c = self.space.class_of_byte[self.suffix_byte[suffix]]
                if self.space.facts[configuration].n_ports > 0 and self.return_first[symbol, c]:
                    n = self.leave(configuration, suffix, n)
                configuration = after(self.space, configuration, c)
                suffix = self.suffix_parent[suffix]
            if configuration == REJECT:
                continue
            if self.displacement:
                n = self.add_pair(n, (-2 - configuration) << 30)  # a negative port is a final configuration
            elif label < 0 or self.space.facts[configuration].label < label:
                label = self.space.facts[configuration].label
        return OUTRIGHT if label == 0 else outcome_of(self.outcomes, label, self.pairs, n)

    def leave(self, configuration, suffix, n):
        """Record that a suffix is pending at each port of a configuration. Return the number of pairs."""
        at = self.space.configurations.starts[configuration] + 2
        for k in range(at, at + self.space.facts[configuration].n_ports):
            n = self.add_pair(n, ((-1 - self.space.configurations.pool[k]) << 30) + suffix)
        return n

    def add_pair(self, n, pair):
        """Insert a pair into the sorted pairs. Return their number."""
        if n >= self.pairs.shape[0]:
            with cython.gil:
                self.pairs = self.account.bigger(self.pairs, 2 * n)
        return insert_sorted(self.pairs, 0, n, pair)

    # ---------------------------------------------------------------- room

    def own_bytes(self):
        """Bytes of the arrays that grow, without interned lists."""
        return 8 * self.pairs.shape[0]

    def nbytes(self):
        """Bytes of the arrays that grow, and of interned lists."""
        return self.own_bytes() + self.sets.nbytes + self.memo.nbytes
