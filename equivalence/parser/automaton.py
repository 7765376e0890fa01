# cython: language_level=3
# mypy: ignore-errors
"""The automata of a grammar as compiled code reads them.

What: an `Automaton` owns the states of all rules: their edges on bytes, their calls of other rules, and the
counted rules that some of them call.
When: made from `Network.automaton`, once for each computation.
Limits: the arrays are those of a network, whose indices `equivalence.network` vouches for; nothing is checked
here but types and shapes.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import of_array
from cython.cimports.equivalence.built import EQUIMASK_SOURCE

from equivalence import built
from equivalence.arrays.records import Kind

built.check(__name__, EQUIMASK_SOURCE)

EDGE, CALL = Kind("first last target"), Kind("callee back")
COUNTED = Kind("start least relative most")


@cython.final
@cython.cclass
class Automaton:
    """States, edges, calls and counted rules.

    Args:
        arrays: as `equivalence.network.Network.automaton` has them.

    Attributes:
        final: whether a state may return.
        edge_starts, edges: the edges of state s are those from ``edge_starts[s]``: bytes `first` to `last`
            lead to `target`.
        call_starts, calls: the calls of state s likewise: state `callee` begins, or counted rule ``-1 -
            callee``; `back` is the state to return to, or -1 where a call is the last thing that a rule does.
        counted: of each counted rule, the state where one unit begins, and how many units are read: at
            `least`; at most `most` (-1: any number), or, counted from an unknown number on, `relative`.
        n_states: states.
        arrays: as given.
    """

    final: cython.const[cython.uchar][::1]
    edge_starts: cython.const[cython.Py_ssize_t][::1]
    call_starts: cython.const[cython.Py_ssize_t][::1]
    n_states: cython.Py_ssize_t
    arrays: object

    def __init__(self, arrays: tuple[Any, ...]) -> None:
        self.arrays = arrays
        final, edge_starts, edges, call_starts, calls, counted = arrays[:6]
        self.final = np.ascontiguousarray(final).view(np.uint8)
        self.n_states = len(final)
        self.edge_starts = np.ascontiguousarray(edge_starts)
        self.edges = of_array(np.ascontiguousarray(edges), EDGE)
        self.call_starts = np.ascontiguousarray(call_starts)
        self.calls = of_array(np.ascontiguousarray(calls), CALL)
        self.counted = of_array(np.ascontiguousarray(counted), COUNTED)
