"""Walks over the vocabulary, on automata that are written by hand: what they record, and where they end."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from equivalence.arrays.account import Account
from equivalence.errors import BudgetExceeded
from equivalence.parser.automaton import Automaton
from equivalence.parser.space import Space
from equivalence.vocabulary import Vocabulary
from equivalence.walks.outcomes import OUTRIGHT, first_outcomes
from equivalence.walks.walks import FIRST_ROWS, Walks

pytestmark = pytest.mark.kernels


NAMES = [(ord("a"), ord("z"), 0), (ord("."), ord("."), 1)]
"""Edges of state 0: letters, and a full stop that leads to state 1."""


def space_of(
    edges: list[list[tuple[int, int, int]]], final: list[bool], account: Account, **most: int
) -> Space:
    """Return the space of states that read bytes and call nothing; each byte is a class of its own."""
    n = len(edges)
    starts = np.cumsum([0, *map(len, edges)])
    rows = np.array([edge for own in edges for edge in own], np.int64).reshape(-1, 3)
    nothing = np.zeros(n + 1, np.int64)
    automaton = Automaton(
        (np.array(final), starts, rows, nothing, np.zeros((0, 2), np.int64), np.zeros((0, 4), np.int64))
    )
    first = np.zeros((n, 256), np.uint8)
    for state, own in enumerate(edges):
        for low, high, _ in own:
            first[state, low : high + 1] = 1
    every = np.arange(256)
    tables = (every, every, first)
    limits = (most.get("frames", 1 << 20), most.get("configurations", 1 << 20))
    return Space(
        automaton, tables, np.zeros(n, np.int64), np.zeros(n, np.uint8), 16, 16, *limits, account, "too many"
    )


def walks_of(space: Space, tokens: list[bytes], most: int = 1000, displacement: bool = False) -> Walks:
    trie = Vocabulary.from_bytes(tokens).trie
    outcomes = first_outcomes(min(16, most), most, space.account, "too many")
    return Walks(
        space, trie.nodes, trie.suffix_parent, trie.group_suffix, trie.longest, outcomes, displacement
    )


def words_and_more() -> list[bytes]:
    """Return sorted, distinct strings, so that a token's number is its group's."""
    letters = ["a", "b", "z", ".", "1"]
    lengths = [itertools.product(letters, repeat=n) for n in (1, 2, 3, 4)]
    return sorted("".join(word).encode() for words in lengths for word in words)


CONTEXTS = np.array([[0, -1], [1, -1]])


def all_can_follow() -> np.ndarray[Any, Any]:
    return np.ones((2, 256), np.uint8)


def test_what_is_read_outright_is_what_the_automaton_reads() -> None:
    tokens = words_and_more()
    found = walks_of(space_of([NAMES, []], [False, False], Account()), tokens).walk_all(
        CONTEXTS, all_can_follow()
    )
    read = {
        tokens[group]
        for first, end in found.ranges[: found.range_starts[-1]].tolist()
        for group in range(first, end)
    }
    assert read == {token for token in tokens if re.fullmatch(rb"[a-z]*\.?", token)}
    assert found.event_starts[-1] == 0, "nothing lies below"
    ends = found.ranges[: found.range_starts[-1]]
    assert (ends[:, 0] < ends[:, 1]).all()


def test_what_is_left_to_be_read_is_an_outcome() -> None:
    """After the full stop, the automaton may return: the rest of a token is a suffix to be read below."""
    tokens = words_and_more()
    account = Account()
    walks = walks_of(space_of([NAMES, []], [False, True], account), tokens)
    firsts = all_can_follow()
    firsts[:, ord("1")] = 0
    found = walks.walk_all(CONTEXTS, firsts)
    left = {tokens[group] for group, _ in found.events[: found.event_starts[-1]].tolist()}
    assert left == {token for token in tokens if re.fullmatch(rb"[a-z]*\.[a-z.].*", token)}
    assert (found.events[: found.event_starts[-1], 1] > OUTRIGHT).all()


def test_with_displacement_a_token_names_where_it_leads() -> None:
    tokens = words_and_more()
    space = space_of([NAMES, []], [False, False], Account())
    found = walks_of(space, tokens, displacement=True).walk_all(CONTEXTS, all_can_follow())
    assert found.range_starts[-1] == 0
    events = found.events[: found.event_starts[-1]]
    ends = {tokens[group]: outcome for group, outcome in events.tolist()}
    assert ends[b"a"] == ends[b"zzzb"] != ends[b"."] == ends[b"ab."]


@pytest.mark.parametrize("displacement", [False, True])
def test_tables_grow(displacement: bool) -> None:
    """If there are more ranges or events than room, tables must be copied and charged to the account."""
    tokens = [bytes([97, first, second]) for first in range(1, 256, 2) for second in range(256)]
    odd = [(byte, byte, 13) for byte in range(1, 256, 2)]
    starts = [[(97, 97, 6 + k)] for k in range(6)]
    account = Account()
    space = space_of([*starts, *[[(0, 255, 12)]] * 6, odd, []], [False] * 14, account)
    contexts = np.stack([np.arange(6), np.full(6, -1)], axis=1)
    before = account.taken
    found = walks_of(space, tokens, displacement=displacement).walk_all(contexts, np.ones((6, 256), np.uint8))
    row_starts, rows = (
        (found.event_starts, found.events) if displacement else (found.range_starts, found.ranges)
    )
    assert np.diff(row_starts).tolist() == [len(tokens) // 2] * 6
    assert FIRST_ROWS < 2 * len(tokens) < row_starts[-1] <= len(rows)
    groups = np.tile(np.arange(1, len(tokens), 2), 6)
    assert np.array_equal(rows[: row_starts[-1], 0], groups)
    if not displacement:
        assert np.array_equal(rows[: row_starts[-1], 1], groups + 1)
    assert account.taken - before >= 16 * len(rows)


@pytest.mark.parametrize("most", [{"configurations": 3}, {"frames": 1, "outcomes": 3}])
def test_more_than_may_be_is_an_error(most: dict[str, int]) -> None:
    chain = [[(97, 98, state + 1)] for state in range(40)]
    account = Account()
    space = space_of([*chain, []], [False] * 41, account, configurations=most.get("configurations", 1000))
    walks = walks_of(space, [b"a" * n for n in range(1, 60)], most.get("outcomes", 1000), "outcomes" in most)
    for _ in range(3):  # each call fails in the same way
        with pytest.raises(BudgetExceeded, match="too many"):
            walks.walk_all(CONTEXTS, all_can_follow())


def test_bytes_are_an_error_and_tables_stay_whole() -> None:
    """Wherever the account refuses, the same walk may be requested again."""
    chain = [[(97, 98, state + 1)] for state in range(40)]
    tokens = [bytes(word) for n in (1, 2, 3, 4) for word in itertools.product(b"ab", repeat=n)]
    refused = 0
    for most in range(500_000, 700_000, 2_000):
        try:
            space = space_of([*chain, []], [False] * 41, Account(None, most))
            walks = walks_of(space, tokens, displacement=True)
        except BudgetExceeded:
            continue
        contexts = np.stack([np.arange(40), np.full(40, -1)], axis=1)
        for _ in range(3):
            try:
                walks.walk_all(contexts, np.ones((40, 256), np.uint8))
            except BudgetExceeded:
                refused += 1
    assert refused > 3


def test_told_to_stop() -> None:
    class Stop:
        cell = np.ones(1, np.int64)

        def check(self) -> None:
            raise BudgetExceeded("told to stop")

    walks = walks_of(space_of([NAMES, []], [False, False], Account(Stop())), [b"a"])
    with pytest.raises(BudgetExceeded, match="told to stop"):
        walks.walk_all(CONTEXTS, all_can_follow())


def test_arrays_of_another_kind_are_refused() -> None:
    space = space_of([NAMES, []], [False, False], Account())
    walks = walks_of(space, [b"a", b"b."])
    for contexts in (
        CONTEXTS.astype(np.int32),
        CONTEXTS.ravel(),
        np.asfortranarray(CONTEXTS),
        CONTEXTS[:, :1].copy(),
    ):
        with pytest.raises(ValueError):
            walks.walk_all(contexts, all_can_follow())
    for firsts in (all_can_follow()[:, :-1].copy(), all_can_follow()[:1], np.ones((2, 256))):
        with pytest.raises(ValueError):
            walks.walk_all(CONTEXTS, firsts)
    trie = Vocabulary.from_bytes([b"a"]).trie
    parts = (trie.suffix_parent, trie.group_suffix, trie.longest, first_outcomes(4, 9, Account(), ""), False)
    for nodes in (trie.nodes.astype(np.int64), trie.nodes[:, :4].copy(), trie.nodes.ravel()):
        with pytest.raises(ValueError):
            Walks(space, nodes, *parts)
