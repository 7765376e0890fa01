"""Characters to bytes: automata over code points read exactly the encodings of these code points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equivalence.network.characters import CHARACTERS, in_bytes
from equivalence.network.edges import Edges
from hybrid.explain.characters import first_bytes

pytestmark = pytest.mark.kernels

EDGES = (
    0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x100000, 0x10FFFF,
)  # fmt: skip


def byte_edges(rows: list[tuple[int, ...]], n_states: int) -> tuple[np.ndarray, int]:
    """What edges over characters become, and the number of states."""
    table, edges = Edges(n_states, 1), Edges(0, 1)
    table.put(np.array(rows, np.int64), n_states)
    in_bytes(table, 0, edges)
    return edges.table(), edges.n_states


def reads(edges: np.ndarray, data: bytes) -> bool:
    """Whether the edges lead from state 0 to state 1 when they read some bytes."""
    states = {0}
    for byte in data:
        states = {int(t) for s, _, low, high, t in edges if s in states and low <= byte <= high}
    return 1 in states


@given(
    st.lists(
        st.tuples(*[st.sampled_from(EDGES) | st.integers(0, 0x10FFFF)] * 2).map(sorted),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.integers(0, 0x10FFFF), max_size=5),
)
@example([[0xD800, 0xDFFF]], [])  # no edges
@settings(max_examples=150, deadline=None)
def test_ranges_read_the_encodings_of_their_characters(ranges: list[list[int]], more: list[int]) -> None:
    table = [(0, CHARACTERS, low, high, 1) for low, high in ranges]
    edges, n_states = byte_edges(table, 2)
    assert edges[:, [0, 4]].max(initial=0) < n_states
    for code in {*EDGES, *more, *(end + step for one in ranges for end in one for step in (-1, 0, 1))}:
        if 0 <= code <= 0x10FFFF:
            is_in = any(low <= code <= high for low, high in ranges) and not 0xD800 <= code <= 0xDFFF
            assert reads(edges, chr(code).encode("utf-8", "surrogatepass")) == is_in


def test_other_edges_stay_and_ends_are_shared() -> None:
    table = [(0, 1, 5, 6, 1), (0, CHARACTERS, 0x80, 0x10FFFF, 1), (2, CHARACTERS, 0x80, 0x10FFFF, 1)]
    edges, n_states = byte_edges(table, 3)
    assert (0, 1, 5, 6, 1) in list(map(tuple, edges.tolist()))
    assert n_states < 20  # three ways to end in continuation bytes, and what begins with E0, ED, F0 and F4


@pytest.mark.parametrize(("low", "high"), [(-1, 5), (5, 4), (0, 0x110000)])
def test_what_is_no_range_is_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match="is not a range of characters"):
        byte_edges([(0, CHARACTERS, low, high, 1)], 2)


@given(st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 300)), max_size=4), st.booleans())
def test_first_bytes_of_characters(begun: list[tuple[int, int]], excluded: bool) -> None:
    ranges = tuple((first, min(first + length, 0x10FFFF)) for first, length in begun)
    some = {0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}
    some |= {code + step for pair in ranges for code in pair for step in (-1, 0, 1)}
    told = first_bytes(excluded, ranges)
    for code in (code for code in some if 0 <= code < 0xD800 or 0xE000 <= code <= 0x10FFFF):
        if any(first <= code <= last for first, last in ranges) is not excluded:
            assert chr(code).encode()[0] in told
    if not excluded:
        assert len(told) <= sum(last - first + 1 for first, last in ranges)
