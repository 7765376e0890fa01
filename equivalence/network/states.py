"""Deterministic states of a grammar's rules.

What: `States` are the deterministic automata of all rules, with one numbering for all states. `rows` gives
the rows of an array fields with names.
When: made by `equivalence.network.subsets`, read by `equivalence.network.merging`.
Limits: indices are not checked; the code that makes these arrays must follow the descriptions here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.growing import as_type, record_type

Integers = NDArray[np.int64]


class States(NamedTuple):
    """The deterministic automata of all rules that are used; they read non-empty strings only.

    Attributes:
        rule_first, rule_last: int64[rules], the first state of a rule, and the one after its last; -1: the
            rule is not used.
        final: uint8[states].
        edge_starts: int64[states + 1], where the edges of each state start.
        edges: int64[edges, 3], rows (first byte, last byte, target), by byte.
        call_starts: int64[states + 1], where the calls of each state start.
        calls: int64[calls, 2], rows (rule, state to return to); counted rules are numbered after the others.
    """

    rule_first: Integers
    rule_last: Integers
    final: NDArray[np.uint8]
    edge_starts: Integers
    edges: Integers
    call_starts: Integers
    calls: Integers


def rows(array: Integers, fields: str) -> Any:
    """The rows of an array as records; nothing is copied if the array is contiguous.

    Args:
        array: int64[n, number of fields]; compiled code refuses other types than int64.
        fields: their names, separated by blanks.

    Raises:
        ValueError: another number of columns.
    """
    if array.ndim != 2 or array.shape[1] != fields.count(" ") + 1:
        raise ValueError(f"rows of ({fields}) cannot have the shape {array.shape}")
    return as_type(np.ascontiguousarray(array), record_type(fields, array.dtype), len(array))
