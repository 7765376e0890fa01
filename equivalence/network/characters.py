# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""From characters to bytes: automata over code points become automata over UTF-8.

What: `in_bytes` turns edges that read ranges of characters into chains of edges that read bytes. Chains
that end in arbitrary continuation bytes share their states, one set for each target.
When: for grammars that consist of automata instead of expressions (`hybrid.json_schema`).
Limits: only well-formed UTF-8: surrogates are left out of every range.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.built import check_source
from cython.cimports.equivalence.network.edge_types import BYTES
from cython.cimports.equivalence.network.edges import Edges

check_source(__name__)

CHARACTERS = 3
"""Type of an edge that reads one of the characters from a to b; see `equivalence.network.edge_types`."""

C_CHARACTERS = cython.declare(cython.Py_ssize_t, CHARACTERS)
LAST = cython.declare(cython.Py_ssize_t, 0x10FFFF)
FIRST_SURROGATE = cython.declare(cython.Py_ssize_t, 0xD800)
LAST_SURROGATE = cython.declare(cython.Py_ssize_t, 0xDFFF)


def continued(edges, shared, length, target):
    """The state from which `length` arbitrary continuation bytes lead to a target; made once for each
    target."""
    if length == 0:
        return target
    key: cython.Py_ssize_t = 4 * target + length
    found = shared.get(key)
    if found is not None:
        return found
    after = continued(edges, shared, length - 1, target)
    state = edges.n_states
    edges.n_states += 1
    edges.add(state, BYTES, 0x80, 0xBF, after)
    shared[key] = state
    return state


def of_length(edges, shared, low, high, length, lead, source, target):
    """Add edges for numbers from low to high in `length` bytes of six bits each.

    The first byte also has the bits of `lead`. The range is cut at both ends, where its last bytes are
    restricted; between the cuts they are arbitrary.
    """
    bits: cython.Py_ssize_t = 6 * (length - 1)
    mask: cython.Py_ssize_t = (1 << bits) - 1
    first = low >> bits
    last = high >> bits
    if length == 1:
        edges.add(source, BYTES, lead | low, lead | high, target)
        return 0
    if first == last:
        return behind(edges, shared, low & mask, high & mask, length - 1, source, lead | first, target)
    if low & mask:
        behind(edges, shared, low & mask, mask, length - 1, source, lead | first, target)
        first += 1
    if high & mask != mask:
        behind(edges, shared, 0, high & mask, length - 1, source, lead | last, target)
        last -= 1
    if first <= last:
        edges.add(source, BYTES, lead | first, lead | last, continued(edges, shared, length - 1, target))
    return 0


def behind(edges, shared, low, high, length, source, byte, target):
    """Add an edge for one byte, and after it edges for `length` continuation bytes from low to high."""
    if low == 0 and high == (1 << (6 * length)) - 1:
        edges.add(source, BYTES, byte, byte, continued(edges, shared, length, target))
        return 0
    state = edges.n_states
    edges.n_states += 1
    edges.add(source, BYTES, byte, byte, state)
    return of_length(edges, shared, low, high, length, 0x80, state, target)


def characters(edges, shared, low, high, source, target):
    """Add edges for characters from low to high, none of which is a surrogate."""
    length: cython.Py_ssize_t
    for length in range(1, 5):
        first: cython.Py_ssize_t = (
            0 if length == 1 else 0x80 if length == 2 else 0x800 if length == 3 else 0x10000
        )
        last: cython.Py_ssize_t = (
            0x7F if length == 1 else 0x7FF if length == 2 else 0xFFFF if length == 3 else LAST
        )
        lead: cython.Py_ssize_t = 0 if length == 1 else 0xC0 if length == 2 else 0xE0 if length == 3 else 0xF0
        if low <= last and high >= first:
            of_length(edges, shared, max(low, first), min(high, last), length, lead, source, target)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def numbered(state: cython.Py_ssize_t, n_rules: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The number of a state when the states of the rules come first."""
    return -1 - state if state < 0 else state + 2 * n_rules


def in_bytes(read: Edges, n_states: cython.Py_ssize_t, n_rules: cython.Py_ssize_t) -> tuple:
    """Edges over bytes that read the same as edges over characters.

    Args:
        read: the edges, with `CHARACTERS` among the types.
        n_states: number of states, without the first and the last of each rule.
        n_rules: number of rules. Rule r begins at state -1 - 2 r and ends at -2 - 2 r; in the result, these
            states are 2 r and 2 r + 1, and all others follow.

    Returns:
        The edges, int64[m, 5], and the new number of states.

    Raises:
        ValueError: something is not a range of characters.
    """
    edges = Edges(n_states + 2 * n_rules, read.count + read.count // 2 + 16)
    shared: dict = {}
    for i in range(read.count):
        kind, low, high = read.rows[i].type, read.rows[i].a, read.rows[i].b
        source, target = numbered(read.rows[i].source, n_rules), numbered(read.rows[i].target, n_rules)
        if kind != C_CHARACTERS:
            edges.add(source, kind, low, high, target)
            continue
        if low < 0 or high > LAST or low > high:
            raise ValueError(f"{low} to {high} is no range of characters")
        if high < 0x80:
            edges.add(source, BYTES, low, high, target)
            continue
        if low < FIRST_SURROGATE:
            characters(edges, shared, low, min(high, FIRST_SURROGATE - 1), source, target)
        if high > LAST_SURROGATE:
            characters(edges, shared, max(low, LAST_SURROGATE + 1), high, source, target)
    return edges.table(), edges.n_states
