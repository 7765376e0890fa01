"""Follow: which bytes can come next below the known part of a stack, for exploring.

What: `follow_of` selects the rows of follow sets (`equivalence.walks.follow_sets`) for contexts and below
sets. A below set contains the symbols (states, or counted rules after a unit) that may lie below. The bytes
that can come next on a set are those that its symbols can read, and, if a symbol may return, those of the
symbol's follow set.
When: once for each network, before exploring.
Limits: an upper bound, as follow sets are: what lies below a symbol may differ from set to set.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.walks.follow_sets import follow_sets_of

Integers = NDArray[np.int64]


class Follow(NamedTuple):
    """What can come next, as rows of 0 and 1 by byte class.

    Attributes:
        contexts: uint8[contexts, B], below the known part of each context.
        below: uint8[below sets, B], on each below set.
        symbols, symbol_index: int64, the distinct symbols; int64[occurrences], the index of each
            occurrence's symbol.
        on_symbols: uint8[symbols, B], on each distinct symbol.
        returns: uint8[symbols, B], after each distinct symbol has returned.
    """

    contexts: NDArray[np.uint8]
    below: NDArray[np.uint8]
    symbols: Integers
    symbol_index: Integers
    on_symbols: NDArray[np.uint8]
    returns: NDArray[np.uint8]


def follow_of(network: Any, state_first: NDArray[np.uint8], stop: Any = None) -> Follow:
    """Find what can come next in a network.

    Args:
        network: an `equivalence.network.Network`.
        state_first: uint8[S, B], the classes that each state can read next (`ByteTables.first`).
        stop: an `equivalence.deadline.deadline.Stop`; None: never stop.

    Raises:
        BudgetExceeded: told to stop.
    """
    below = network.below()
    sets = follow_sets_of(network, state_first, stop)
    final, counted = network.automaton[0], network.automaton[5]
    symbols, index = np.unique(below.below_symbols, return_inverse=True)
    is_frame = symbols < 0
    begins = symbols.copy()
    begins[is_frame] = counted[-1 - symbols[is_frame], 0]
    returns = sets[_rows_of(symbols, len(final))]
    may_return = is_frame | (final[begins] != 0)
    on_symbols = state_first[begins] | returns * may_return[:, None]
    on_sets = np.zeros((len(below.below_starts) - 1, state_first.shape[1]), np.uint8)
    some = np.diff(below.below_starts) > 0
    if some.any():
        on_sets[some] = np.bitwise_or.reduceat(on_symbols[index], below.below_starts[:-1][some], axis=0)
    contexts = sets[_rows_of(below.contexts, len(final))]
    return Follow(contexts, on_sets, symbols, index, on_symbols, returns)


def _rows_of(symbols: Integers, n_states: int) -> Integers:
    """The follow sets of symbols: counted rules come after states."""
    return np.where(symbols < 0, n_states - 1 - symbols, symbols)
