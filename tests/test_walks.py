"""Walks over the vocabulary, on automata that are written by hand: their tables grow, and what they refuse.

Limits: what walks record is tested in `tests.test_explore` and, with classes and masks, in `tests.test_laws`.
"""

from __future__ import annotations

import numpy as np
import pytest

from equivalence.arrays.account import Account
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import ByteTables
from equivalence.parser.space import Space
from equivalence.vocabulary import Vocabulary
from equivalence.walks.outcomes import first_outcomes
from equivalence.walks.walks import FIRST_ROWS, Walks

pytestmark = pytest.mark.kernels


def space_of(edges: list[list[tuple[int, int, int]]], account: Account) -> Space:
    """Return the space of states that read bytes and call nothing."""
    n = len(edges)
    starts = np.cumsum([0, *map(len, edges)])
    rows = np.array([edge for own in edges for edge in own], np.int64).reshape(-1, 3)
    nothing = np.zeros(n + 1, np.int64)
    automaton = Automaton(
        (np.zeros(n, bool), starts, rows, nothing, np.zeros((0, 2), np.int64), np.zeros((0, 4), np.int64))
    )
    nowhere, never = np.zeros(n, np.int64), np.zeros(n, np.uint8)
    tables = ByteTables(automaton, nowhere)
    return Space(automaton, tables, nowhere, never, 16, 16, 1 << 20, 1 << 20, account, "too many")


def walks_of(space: Space, tokens: list[bytes], displacement: bool = False) -> Walks:
    trie = Vocabulary.from_bytes(tokens).trie
    outcomes = first_outcomes(16, 1000, space.account, "too many")
    return Walks(
        space, trie.nodes, trie.suffix_parent, trie.group_suffix, trie.longest, outcomes, displacement
    )


@pytest.mark.parametrize("displacement", [False, True])
def test_tables_grow(displacement: bool) -> None:
    """If there are more ranges or events than room, tables must be copied and charged to the account."""
    tokens = [bytes([97, first, second]) for first in range(1, 256, 2) for second in range(256)]
    odd = [(byte, byte, 13) for byte in range(1, 256, 2)]
    starts = [[(97, 97, 6 + k)] for k in range(6)]
    account = Account()
    space = space_of([*starts, *[[(0, 255, 12)]] * 6, odd, []], account)
    before = account.taken
    walks = walks_of(space, tokens, displacement=displacement)
    found = walks.walk_all(np.arange(6), np.ones((6, 256), np.uint8))
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


def test_arrays_of_another_shape_are_refused() -> None:
    space = space_of([[(ord("a"), ord("z"), 0), (ord("."), ord("."), 1)], []], Account())
    walks = walks_of(space, [b"a", b"b."])
    right, all_follow = np.arange(2), np.ones((2, space.n_classes), np.uint8)
    with pytest.raises(ValueError):
        walks.walk_all(right[:1].copy(), all_follow)
    for firsts in (all_follow[:, :-1].copy(), all_follow[:1]):
        with pytest.raises(ValueError):
            walks.walk_all(right, firsts)
    trie = Vocabulary.from_bytes([b"a"]).trie
    parts = (trie.suffix_parent, trie.group_suffix, trie.longest, first_outcomes(4, 9, Account(), ""), False)
    with pytest.raises(ValueError):
        Walks(space, trie.nodes[:, :4].copy(), *parts)
