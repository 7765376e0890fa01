# cython: language_level=3
# mypy: ignore-errors
"""The automata of a grammar, for compiled code.

What: an `Automaton` owns the states of all rules: their edges on bytes, their calls of other rules, and the
counted rules that they call.
When: made from `Network.automaton`, once for each computation.
Limits: only types and shapes are checked. The indices are valid, because `equivalence.network` made them.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import of_array
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.records import Kind

check_source(__name__)

EDGE, CALL = Kind("first last target"), Kind("callee back")
COUNTED = Kind("start least relative most")
LIMIT = Kind("frame first end accepts room automaton")

NO_NUMBERS = cython.declare(cython.const[cython.Py_ssize_t][::1], np.empty(0, np.int64))
NO_LIMITS = cython.declare(cython.const[Limit][::1], of_array(np.empty((0, 6), np.int64), LIMIT))  # noqa: F821


@cython.final
@cython.no_gc
@cython.cclass
class Automaton:
    """States, edges, calls and counted rules.

    Args:
        arrays: `equivalence.network.Network.automaton`; each is contiguous.

    Attributes:
        final: whether a rule may end in a state.
        edge_starts, edges: the edges of state s begin at ``edge_starts[s]``. Bytes `first` to `last` lead to
            `target`.
        call_starts, calls: the calls of state s, likewise. `callee` is the first state of the called rule, or
            ``-1 - k`` for counted rule k. `back` is the state to return to, or -1 for a tail call.
        counted: for each counted rule, the first state of a unit, and the number of units: at least `least`,
            and at most `relative` if the number of earlier units is unknown, otherwise `most` (-1: no
            bound, or for token classes one that no token reaches).
        limits, following: the tables of counted automata (`equivalence.network.counted_automata`); empty if
            there are none.
        n_states: number of states.
        arrays: the argument.
    """

    def __init__(self, arrays: tuple[Any, ...]) -> None:
        self.arrays = arrays
        final, edge_starts, edges, call_starts, calls, counted = arrays[:6]
        if len(arrays) > 6:
            self.limits, self.following = of_array(arrays[6], LIMIT), arrays[7]
        else:
            self.limits, self.following = NO_LIMITS, NO_NUMBERS
        self.final = final.view(np.uint8) if final.dtype == bool else final
        self.n_states = len(final)
        self.edge_starts, self.call_starts = edge_starts, call_starts
        self.edges, self.calls = of_array(edges, EDGE), of_array(calls, CALL)
        self.counted = of_array(counted, COUNTED)

    def is_limited(self, unit):
        """Whether a counted rule is an edge of a counted automaton."""
        return self.limits.shape[0] > 0 and self.limits[unit].first >= 0
