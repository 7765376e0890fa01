"""Suffixes of byte strings: their order, the ones that outcomes leave to be read, and their strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.arrays.interning import Interned
from equivalence.trie import Trie, build_trie
from equivalence.trie.nodes import by_level, depth_first
from equivalence.trie.suffixes import mark_pending, strings_of, suffixes_of

pytestmark = pytest.mark.kernels

LONG = st.builds(
    lambda part, n, end: part * n + end, st.binary(max_size=3), st.integers(0, 20), st.binary(max_size=2)
)


def texts_of(trie: Trie) -> list[bytes]:
    """Return each suffix as a byte string."""
    texts = [b""]
    for parent, byte in zip(trie.suffix_parent[1:].tolist(), trie.suffix_byte[1:].tolist(), strict=True):
        texts.append(bytes([byte]) + texts[parent])
    return texts


@settings(max_examples=60, deadline=None)
@given(st.lists(LONG, max_size=6))
def test_suffixes_in_byte_order(tokens: list[bytes]) -> None:
    """The order must also hold for suffixes that share more bytes than are compared at once."""
    trie = build_trie(tokens)
    texts = texts_of(trie)
    assert trie.suffix_order.dtype == np.int32
    assert [texts[suffix] for suffix in trie.suffix_order.tolist()] == sorted(set(texts) - {b""})


@settings(max_examples=60, deadline=None)
@given(st.lists(LONG, max_size=6), st.randoms())
def test_strings_of_marked_suffixes(tokens: list[bytes], random: Any) -> None:
    trie = build_trie(tokens)
    texts = texts_of(trie)
    marks = np.array([random.randrange(3) for _ in texts], np.uint8)
    data, offsets, numbers = strings_of(trie.suffix_order, marks, trie.suffix_parent, trie.suffix_byte)
    wanted = sorted(text for text, mark in zip(texts, marks.tolist(), strict=True) if mark == 1 and text)
    assert [texts[suffix] for suffix in numbers.tolist()] == wanted
    assert data.tobytes() == b"".join(wanted)
    assert offsets.tolist() == [0, *np.cumsum([len(text) for text in wanted]).tolist()]


def test_pending_suffixes() -> None:
    """The first call marks what outcomes leave; later calls also mark what is left of that, byte by byte."""
    trie = build_trie([b"abc", b"xbc", b"bd"])
    texts = texts_of(trie)
    number = {text: suffix for suffix, text in enumerate(texts)}
    outcomes = Interned(4, 4)
    outcomes.add(np.array([-1]))
    outcomes.add(np.array([0, 0, number[b"bc"], 3, 0]))
    outcomes.add(np.array([0, -4, number[b"abc"], 1, number[b"bd"]]))
    noted = np.zeros(len(texts), np.uint8)
    assert mark_pending(outcomes, 0, noted, trie.suffix_parent) == 2
    assert [text for text, mark in zip(texts, noted.tolist(), strict=True) if mark] == [b"bc", b"bd"]
    outcomes.add(np.array([2, 0, number[b"xbc"], 0, number[b"bd"]]))
    outcomes.add(np.array([2, 0, number[b"d"]]))
    assert mark_pending(outcomes, 3, noted, trie.suffix_parent) == 2
    assert {text: mark for text, mark in zip(texts, noted.tolist(), strict=True) if mark} == {
        b"bc": 2, b"bd": 2, b"xbc": 1, b"d": 1,
    }  # fmt: skip
    outcomes.add(np.array([0, 0, number[b"abc"]]))
    assert mark_pending(outcomes, 5, noted, trie.suffix_parent) == 1
    assert mark_pending(outcomes, 6, noted, trie.suffix_parent) == 0
    assert set(noted.tolist()) == {0, 2}


def test_no_strings_are_one_node() -> None:
    byte, depth, skip, group, below = depth_first(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    assert [array.tolist() for array in (byte, depth, skip, group)] == [[0], [0], [1], [0, 0]]
    assert below.tolist() == [[0, 0, 0, 0, 2]]
    assert by_level(byte, depth, skip, group, below)[:, 0].tolist() == [1, 1]
    parent, first, whole = suffixes_of(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    assert (parent.tolist(), first.tolist(), whole.tolist()) == ([0], [0], [])


def test_arrays_of_other_types_are_refused() -> None:
    """Compiled code must refuse them, because it would read wrong values."""
    text, offsets = np.frombuffer(b"ab", np.uint8), np.array([0, 1, 2])
    for data, begins in (
        (text.astype(np.int8), offsets),
        (text, offsets.astype(np.int32)),
        (text, offsets[:, None]),
    ):
        with pytest.raises(ValueError):
            depth_first(data, begins)
        with pytest.raises(ValueError):
            suffixes_of(data, begins)
    with pytest.raises(ValueError):
        mark_pending(Interned(1, 1), 0, np.zeros(1, np.int64), np.zeros(1, np.int32))
    with pytest.raises(TypeError):
        mark_pending(None, 0, np.zeros(1, np.uint8), np.zeros(1, np.int32))
