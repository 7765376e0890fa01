# cython: language_level=3
# mypy: ignore-errors
"""Follow: which bytes can come next below the known part of a stack.

What: a below set contains the symbols (states, or counted rules after a unit) that may lie below, each on
another below set. The bytes that can come next on a set are those that its symbols can read, and, if a
symbol may return, those that can come next on the set below it.
When: once for each network, before exploring; classifiers use the same rows.
Limits: an upper bound: the bytes that can come next in some stack of the set. They are least fixed points.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.flags import unite
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)

Integers = NDArray[np.int64]


class Follow(NamedTuple):
    """What can come next, as rows of 0 and 1 by byte class.

    Attributes:
        contexts: uint8[contexts, B], below the known part of each context.
        below: uint8[below sets, B], on each below set.
        occurrences: uint8[occurrences, B], on each occurrence of a symbol in a below set.
        symbols, symbol_index: int64, the distinct symbols; int64[occurrences], the index of each
            occurrence's symbol.
        returns: uint8[symbols, B], after each distinct symbol has returned, at any of its occurrences,
            because it is read once for all of them.
    """

    contexts: NDArray[np.uint8]
    below: NDArray[np.uint8]
    occurrences: NDArray[np.uint8]
    symbols: Integers
    symbol_index: Integers
    returns: NDArray[np.uint8]


def follow_of(network: Any, state_first: NDArray[np.uint8], stop: Any = None) -> Follow:
    """Compute what can come next in a network.

    Args:
        network: an `equivalence.network.Network`.
        state_first: uint8[S, B], the classes that each state can read next (`ByteTables.first`).
        stop: an `equivalence.deadline.deadline.Stop`; None: never stop.

    Raises:
        BudgetExceeded: told to stop.
    """
    below = network.below()
    symbols, index = np.unique(below.below_symbols, return_inverse=True)
    spread = Spread(network, below, index, state_first, Account(stop))
    contexts = np.zeros((len(below.contexts), state_first.shape[1]), np.uint8)
    returns = np.zeros((len(symbols), state_first.shape[1]), np.uint8)
    spread.begin()
    spread.add_below_returning()
    spread.after_symbols(returns)
    spread.below_contexts(below.context_starts, below.context_below, contexts)
    return Follow(contexts, np.asarray(spread.below), np.asarray(spread.occurrences), symbols, index, returns)


@cython.final
@cython.cclass
class Spread:
    """The rows while they are computed.

    Attributes:
        set_starts: the occurrences of set i start at ``set_starts[i]``.
        set_below: for each occurrence, the set below it.
        symbol: for each occurrence, the number of its symbol.
        begins: for each occurrence, the state in which it reads.
        returning: for each occurrence, whether it may return.
        first: what each state can read next.
        below, occurrences: see `Follow`.
    """

    def __init__(self, network: Any, below: Any, symbol: Any, first: Any, account: Account) -> None:
        self.set_starts = below.below_starts
        self.set_below = below.below_of_symbol
        self.symbol = symbol
        self.first = first
        self.account = account
        self.n_sets = len(below.below_starts) - 1
        self.begins = np.empty(len(symbol), np.int64)
        self.returning = np.empty(len(symbol), np.uint8)
        self.below = np.zeros((self.n_sets, first.shape[1]), np.uint8)
        self.occurrences = np.zeros((len(symbol), first.shape[1]), np.uint8)
        final, counted = network.automaton[0], network.automaton[5]
        self.find_begins(below.below_symbols, final.view(np.uint8), counted)

    def find_begins(self, symbols, final, counted):
        """Find the state in which each occurrence reads, and whether it may return."""
        for k in range(symbols.shape[0]):
            if symbols[k] >= 0:
                self.begins[k] = symbols[k]
                self.returning[k] = final[symbols[k]]
            else:
                self.begins[k] = counted[-1 - symbols[k], 0]
                self.returning[k] = 1

    def begin(self):
        """Add the bytes that symbols read themselves."""
        with cython.nogil:
            for i in range(self.n_sets):
                for k in range(self.set_starts[i], self.set_starts[i + 1]):
                    unite(self.occurrences, k, self.first, self.begins[k])
                    unite(self.below, i, self.first, self.begins[k])

    def add_below_returning(self):
        """Add what can be read below symbols that return, until nothing changes."""
        changed: cython.bint = True
        with cython.nogil:
            while changed:
                changed = False
                for i in range(self.n_sets):
                    for k in range(self.set_starts[i], self.set_starts[i + 1]):
                        self.account.check()
                        if self.returning[k] and unite(self.below, i, self.below, self.set_below[k]):
                            changed = True

    def after_symbols(self, returns):
        """Compute what can be read after symbols have returned, for each occurrence and for each symbol."""
        with cython.nogil:
            for k in range(self.set_below.shape[0]):
                self.account.check()
                unite(returns, self.symbol[k], self.below, self.set_below[k])
                if self.returning[k]:
                    unite(self.occurrences, k, self.below, self.set_below[k])

    def below_contexts(self, context_starts, context_below, contexts):
        """Compute what can be read below contexts, each on some sets."""
        with cython.nogil:
            for i in range(contexts.shape[0]):
                self.account.check()
                for k in range(context_starts[i], context_starts[i + 1]):
                    unite(contexts, i, self.below, context_below[k])
