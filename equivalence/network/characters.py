# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""From characters to bytes: automata over code points become automata over UTF-8.

What: `in_bytes` turns edges that read ranges of characters into chains of edges that read bytes.
When: for grammars that consist of automata instead of expressions (`hybrid.json_schema`).
Limits: only well-formed UTF-8: surrogates are left out of every range.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.network.edge_types import BYTES
from cython.cimports.equivalence.network.edges import Edges
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)

CHARACTERS = 3
"""Type of an edge that reads one of the characters from a to b; see `equivalence.network.edge_types`."""

C_CHARACTERS = cython.declare(cython.Py_ssize_t, CHARACTERS)
LAST = cython.declare(cython.Py_ssize_t, 0x10FFFF)
FIRST_SURROGATE = cython.declare(cython.Py_ssize_t, 0xD800)
LAST_SURROGATE = cython.declare(cython.Py_ssize_t, 0xDFFF)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def numbered(state: cython.Py_ssize_t, n_rules: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The number of a state when the states of the rules come first."""
    return -1 - state if state < 0 else state + 2 * n_rules


def in_bytes(read: Edges, n_rules: cython.Py_ssize_t, edges: Edges) -> cython.int:
    """Replace some edges by edges over bytes that read the same as edges over characters.

    Args:
        read: edges with `CHARACTERS` among their types. Its number of states leaves out the first and the
            last of each rule.
        n_rules: number of rules. Rule r begins at state -1 - 2 r and ends at -2 - 2 r; in the result, these
            states are 2 r and 2 r + 1, and all others follow.
        edges: what is replaced.

    Raises:
        ValueError: something is not a range of characters.
    """
    edges.renew(read.n_states + 2 * n_rules, read.count + read.count // 2 + 16)
    for i in range(read.count):
        kind, low, high = read.rows[i].type, read.rows[i].a, read.rows[i].b
        source, target = numbered(read.rows[i].source, n_rules), numbered(read.rows[i].target, n_rules)
        if kind != C_CHARACTERS:
            edges.add(source, kind, low, high, target)
            continue
        if low < 0 or high > LAST or low > high:
            raise ValueError(f"{low} to {high} is not a range of characters")
        if high < 0x80:
            edges.add(source, BYTES, low, high, target)
            continue
        if low < FIRST_SURROGATE:
            edges.code_points(low, min(high, FIRST_SURROGATE - 1), source, target)
        if high > LAST_SURROGATE:
            edges.code_points(max(low, LAST_SURROGATE + 1), high, source, target)
