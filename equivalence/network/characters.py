# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""From characters to bytes: automata over code points become automata over UTF-8.

What: `as_bytes` turns edges that read ranges of characters into chains of edges that read bytes. Chains
that end in arbitrary continuation bytes share their states, one set for each target.
When: for grammars that consist of automata instead of expressions (`hybrid.json_schema`).
Limits: only well-formed UTF-8: surrogates are left out of every range.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.equivalence.network.edges import Edges
from numpy.typing import NDArray

from equivalence import built
from equivalence.network import edge_types

built.check(__name__, EQUIMASK_SOURCE)

CHARACTERS = 3
"""Type of an edge that reads one of the characters from a to b; see `equivalence.network.edge_types`."""

BYTES = cython.declare(cython.Py_ssize_t, edge_types.BYTES)
C_CHARACTERS = cython.declare(cython.Py_ssize_t, CHARACTERS)
LAST = cython.declare(cython.Py_ssize_t, 0x10FFFF)
FIRST_SURROGATE = cython.declare(cython.Py_ssize_t, 0xD800)
LAST_SURROGATE = cython.declare(cython.Py_ssize_t, 0xDFFF)


@cython.cfunc
def continued(
    edges: Edges, shared: dict, length: cython.Py_ssize_t, target: cython.Py_ssize_t
) -> cython.Py_ssize_t:
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


@cython.cfunc
def of_length(
    edges: Edges,
    shared: dict,
    low: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
    lead: cython.Py_ssize_t,
    source: cython.Py_ssize_t,
    target: cython.Py_ssize_t,
) -> cython.int:
    """Edges for numbers from low to high in `length` bytes of six bits each; the first byte also has the
    bits of `lead`.

    The range is cut at both ends, where its last bytes are restricted; between the cuts they are arbitrary.
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


@cython.cfunc
def behind(
    edges: Edges,
    shared: dict,
    low: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
    source: cython.Py_ssize_t,
    byte: cython.Py_ssize_t,
    target: cython.Py_ssize_t,
) -> cython.int:
    """An edge for one byte, and after it edges for `length` continuation bytes from low to high."""
    if low == 0 and high == (1 << (6 * length)) - 1:
        edges.add(source, BYTES, byte, byte, continued(edges, shared, length, target))
        return 0
    state = edges.n_states
    edges.n_states += 1
    edges.add(source, BYTES, byte, byte, state)
    return of_length(edges, shared, low, high, length, 0x80, state, target)


@cython.cfunc
def characters(
    edges: Edges,
    shared: dict,
    low: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    source: cython.Py_ssize_t,
    target: cython.Py_ssize_t,
) -> cython.int:
    """Edges for characters from low to high, none of which is a surrogate."""
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
    return 0


def as_bytes(
    table: cython.const[cython.Py_ssize_t][:, ::1], n_states: cython.Py_ssize_t
) -> tuple[NDArray[np.int64], int]:
    """Edges over bytes that read the same as edges over characters.

    Args:
        table: int64[n, 5], columns as `equivalence.network.edges.FIELDS`, with `CHARACTERS` among the types.
        n_states: number of states.

    Returns:
        The edges, int64[m, 5], and the new number of states.

    Raises:
        ValueError: something is not a range of characters.
    """
    edges = Edges(np.zeros((0, 5), np.int64), n_states, 2 * table.shape[0] + 16)
    shared: dict = {}
    i: cython.Py_ssize_t
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t
    for i in range(table.shape[0]):
        source, kind, low, high, target = table[i, 0], table[i, 1], table[i, 2], table[i, 3], table[i, 4]
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
