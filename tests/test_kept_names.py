"""Names of configurations, generations of walks and their filters, on automata that are written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equivalence.arrays.account import Account
from equivalence.arrays.interning import Interned
from equivalence.errors import BudgetExceeded
from equivalence.walks.kept.filtering import Filter
from equivalence.walks.kept.generation import Generation, interned_of, restored
from equivalence.walks.kept.joining import Part, joined
from equivalence.walks.kept.masks import class_masks, class_rows, in_order_of_masks, masks_of_blocks, widened
from equivalence.walks.kept.naming import names_of
from equivalence.walks.outcomes import first_outcomes
from tests.test_walks import space_of

pytestmark = pytest.mark.kernels

Edges = list[list[tuple[int, int, int]]]


def names(edges: Edges, final: list[bool], lists: Interned) -> list[int]:
    """The name of each state, alone over the unknown stack."""
    space = space_of(edges, final, Account())
    configurations = np.array([space.context_of(state, -1) for state in range(len(edges))])
    return names_of(configurations, space, 8, lists).tolist()


def test_names_do_not_depend_on_the_numbers_of_states() -> None:
    """Of a loop of three states, of what leads into it, and of what it leads to."""
    lists = Interned(4, 4)
    edges: Edges = [[(97, 97, 1)], [(98, 98, 2)], [(99, 99, 3)], [(97, 97, 1), (46, 46, 4)], [(1, 2, 4)]]
    first = names(edges, [False, False, True, False, True], lists)
    assert len(set(first)) == 5
    order = [3, 0, 4, 2, 1]  # the new number of each state
    renamed: Edges = [[] for _ in edges]
    for state, own in enumerate(edges):
        renamed[order[state]] = [(low, high, order[target]) for low, high, target in own]
    count = lists.count
    again = names(renamed, [False, True, False, False, True], lists)
    assert [again[order[state]] for state in range(5)] == first
    assert lists.count == count
    again = names(renamed, [True, True, False, False, False], lists)  # another state of the loop is final
    assert not {again[order[state]] for state in range(4)} & set(first)
    assert again[order[4]] == first[4], "the loop does not matter to what it leads to"


def test_no_state_has_no_name() -> None:
    """A configuration of no state has a name, too: it returns or is rejected."""
    lists = Interned(4, 4)
    returning, rejecting = names([[]], [True], lists), names([[]], [False], lists)
    assert returning != rejecting and min(returning + rejecting) >= 0


def part(blocks: list[int], rows: list[list[tuple[int, int]]]) -> Part:
    """Blocks whose ranges and events are the same rows."""
    starts = np.cumsum([0, *map(len, rows)])
    flat = np.array([row for own in rows for row in own], np.int64).reshape(-1, 2)
    return Part(np.array(blocks), starts[:-1], starts[1:], flat, starts[:-1], starts[1:], flat)


def test_a_generation_grows_and_gives_back_what_was_kept() -> None:
    """Also through a snapshot, and moved to another generation."""
    n = 3_000
    outcomes = first_outcomes(4, 10_000, None, "too many")
    for outcome in range(2, 60):
        outcomes.add(np.array([-1, 0, outcome]))
    rows = [[(block + k, 2 + (block + k) % 58) for k in range(block % 5)] for block in range(n)]
    kept, every = Generation(), np.arange(n)
    masks = np.full((n, 8), (1 << 32) - 1)
    bytes_of = every % 256
    kept.keep(every // 256, bytes_of, masks, part(every.tolist(), rows), outcomes)
    assert kept.n_walks == n
    moved = Generation()
    moved.move(kept, every, every // 256, bytes_of)
    wide = masks.copy()
    suffix_byte = np.zeros(60, np.uint8)
    for generation in (kept, restored(kept.snapshot()), moved):
        entries = np.full(n, -1)
        assert generation.find(every // 256, bytes_of, masks, wide, entries) == 0
        own = first_outcomes(4, 10_000, Account(), "too many")
        found = joined(n, [generation.recalled(every, entries, masks, suffix_byte, own)])
        assert found.range_starts.tolist() == np.cumsum([0, *map(len, rows)]).tolist()
        assert found.ranges.tolist() == [list(row) for block in rows for row in block]
        starts, pool = own.lists()
        suffixes = [pool[starts[outcome + 1] - 1] for outcome in found.events[:, 1].tolist()]
        assert suffixes == [outcome for block in rows for _, outcome in block]
    assert kept.nbytes > kept.used_bytes > 0


def test_a_walk_for_other_bytes_is_not_found_but_asked_for_anew() -> None:
    kept, one = Generation(), np.zeros(1, np.int64)
    outcomes = first_outcomes(4, 9, None, "too many")
    kept.keep(one, one + 97, np.array([[1, 0, 0, 0, 0, 0, 0, 8]]), part([0], [[(0, 1)]]), outcomes)
    for mask, found in ([1] + [0] * 7, 0), ([0] * 8, 0), ([3] + [0] * 7, -1):
        masks = np.array([mask])
        wide, entries = masks.copy(), np.full(1, -1)
        assert kept.find(one, one + 97, masks, wide, entries) == (found < 0)
        assert entries.tolist() == [found]
        assert wide.tolist() == [mask if found == 0 else [3, 0, 0, 0, 0, 0, 0, 8]]
    entries = np.full(1, -1)
    assert kept.find(one - 1, one + 97, masks, masks, entries) == 0, "what has no name is not missed"


def test_a_filter_leaves_out_what_cannot_follow() -> None:
    source = first_outcomes(4, 99, None, "too many")
    source.add(np.array([-1, 0, 1, 0, 2]))
    source.add(np.array([5, 0, 2]))
    suffix_byte = np.array([0, 97, 98], np.uint8)
    rows = np.array([[7, 2], [8, 3], [9, 2]], np.int32)
    masks = np.zeros((3, 8), np.int64)
    masks[0, 3] = 0b110  # a and b
    masks[1, 3] = 0b010  # a
    begins, ends = np.array([0, 0, 0]), np.array([3, 3, 3])
    outcomes = first_outcomes(4, 99, Account(), "too many")
    begins, ends, events = Filter(source, outcomes, suffix_byte).events(masks, begins, ends, rows)
    starts, pool = outcomes.lists()

    def read(block: int) -> list[tuple[int, list[int]]]:
        own = events[begins[block] : ends[block]].tolist()
        return [(group, pool[starts[outcome] : starts[outcome + 1]].tolist()) for group, outcome in own]

    assert read(0) == [(7, [-1, 0, 1, 0, 2]), (8, [5, 0, 2]), (9, [-1, 0, 1, 0, 2])]
    assert read(1) == [(7, [-1, 0, 1]), (8, [5]), (9, [-1, 0, 1])]
    assert read(2) == [(8, [5])], "what is left with nothing to read is rejected"
    few = first_outcomes(1, 1, Account(), "too many")
    with pytest.raises(BudgetExceeded, match="too many"):
        Filter(source, few, suffix_byte).events(masks, np.zeros(3, np.int64), np.full(3, 3), rows)


def test_masks_of_blocks_and_classes() -> None:
    random = np.random.default_rng(7)
    space = space_of([[(0, 255, 0)]], [True], Account())
    of_class = class_masks(space)  # every byte is a class
    firsts = random.integers(0, 2, (40, 256), np.uint8)
    firsts[20:] = firsts[:20]
    users = np.stack([random.integers(0, 40, 13), random.integers(0, 9, 13)], axis=1)
    masks = masks_of_blocks(users, 9, firsts, of_class)
    bits = masks[:, np.arange(256) >> 5] >> (np.arange(256) & 31) & 1
    for block in range(9):
        assert np.array_equal(bits[block], firsts[users[users[:, 1] == block, 0]].any(axis=0))
    rows, classes = class_rows(masks, of_class)
    assert np.array_equal(classes[rows], bits)
    assert np.array_equal(widened(masks, of_class), masks)
    pairs = of_class[0::2] | of_class[1::2]  # classes of two bytes
    wide = widened(of_class[[5, 6, 7]], pairs)
    assert np.array_equal(wide, pairs[[2, 3, 3]])
    chosen, numbers = in_order_of_masks(of_class[[3, 9, 3, 200, 9]], np.array([4, 3, 2, 0]))
    assert chosen.tolist() == [4, 3, 2, 0] and numbers.tolist() == [0, 1, 2, 2]
    chosen, numbers = in_order_of_masks(of_class[[3, 9, 3, 200, 9]], np.arange(5))
    assert chosen.tolist() == [0, 2, 1, 4, 3] and numbers.tolist() == [0, 0, 1, 1, 2]


def test_large_integers_are_lists_again() -> None:
    lists = interned_of(np.array([0, 2, 2, 3]), np.array([7, -(1 << 40), 1 << 40]))
    assert lists.add(np.array([7, -(1 << 40)])) == 0 and lists.add(np.zeros(0, np.int64)) == 1
    assert lists.add(np.array([1 << 40])) == 2 and lists.add(np.array([1])) == 3


@pytest.mark.parametrize("wrong", ["names", "bytes", "masks", "entries", "short"])
def test_arrays_of_another_kind_are_refused(wrong: str) -> None:
    arguments: dict[str, Any] = {
        "names": np.zeros(2, np.int64), "bytes": np.zeros(2, np.int64), "masks": np.zeros((2, 8), np.int64),
        "wide": np.zeros((2, 8), np.int64), "entries": np.full(2, -1),
    }  # fmt: skip
    if wrong == "short":
        arguments["names"] = arguments["names"][:1]
    else:
        arguments[wrong] = arguments[wrong].astype(np.int32)
    with pytest.raises(ValueError):
        Generation().find(*arguments.values())
