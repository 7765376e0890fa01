"""Suffixes of byte strings: their order, the ones that outcomes leave to be read, and their strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.trie import build_trie
from equivalence.trie.nodes import BELOW_OTHERS, nodes_of
from equivalence.trie.suffixes import strings_of, suffixes_of

pytestmark = pytest.mark.kernels

LONG = st.builds(
    lambda part, n, end: part * n + end, st.binary(max_size=3), st.integers(0, 20), st.binary(max_size=2)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(LONG, max_size=6), st.randoms())
def test_suffixes_with_their_order_and_strings(tokens: list[bytes], random: Any) -> None:
    """The order must also hold for suffixes that share more bytes than are compared at once."""
    trie, texts = build_trie(tokens), [b""]
    for parent, byte in zip(trie.suffix_parent[1:].tolist(), trie.suffix_byte[1:].tolist(), strict=True):
        texts.append(bytes([byte]) + texts[parent])
    distinct = sorted(set(tokens) - {b""})
    suffixes = {token[start:] for token in distinct for start in range(len(token))}
    assert sorted(texts) == sorted({b""} | suffixes)
    assert [texts[suffix] for suffix in trie.group_suffix.tolist()] == distinct
    assert trie.suffix_order.dtype == np.int32
    assert [texts[suffix] for suffix in trie.suffix_order.tolist()] == sorted(suffixes)
    marks = np.array([random.randrange(3) for _ in texts], np.uint8)
    data, offsets, numbers = strings_of(trie.suffix_order, marks, trie.suffix_parent, trie.suffix_byte)
    wanted = sorted(text for text, mark in zip(texts, marks.tolist(), strict=True) if mark == 1 and text)
    assert [texts[suffix] for suffix in numbers.tolist()] == wanted
    assert data.tobytes() == b"".join(wanted)
    assert offsets.tolist() == [0, *np.cumsum([len(text) for text in wanted]).tolist()]


def test_no_strings_are_one_node() -> None:
    nodes = nodes_of(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    assert nodes[:, :4].tolist() == [[1, 0, 0, 2 << BELOW_OTHERS], [1, 0, 0, 0]]
    assert not nodes[:, 4:].any()
    parent, first, whole = suffixes_of(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    assert (parent.tolist(), first.tolist(), whole.tolist()) == ([0], [0], [])
