"""Lists are numbered, places are grouped and states are separated, as plain code does it."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.arrays.grouping import grouped
from equivalence.arrays.interning import number_lists
from equivalence.arrays.refinement import classes_of

pytestmark = pytest.mark.kernels


def numbers_of(lists: list[list[int]]) -> tuple[list[int], list[int]]:
    starts = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    numbers, first = number_lists(starts, np.array([value for one in lists for value in one], np.int64))
    assert numbers.dtype == np.int32 and first.dtype == np.int64
    return numbers.tolist(), first.tolist()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(-2, 3) | st.sampled_from([1 << 30, 1 << 40, -(1 << 50)]), max_size=4)))
def test_equal_lists_have_equal_numbers_in_order_of_the_first(lists: list[list[int]]) -> None:
    known: dict[tuple[int, ...], int] = {}
    wanted = [known.setdefault(tuple(one), len(known)) for one in lists]
    numbers, first = numbers_of(lists)
    assert numbers == wanted
    assert first == [wanted.index(number) for number in range(len(known))]


def test_lists_that_the_hash_cannot_tell_apart() -> None:
    lists = [[number << 30] for number in range(100)]
    assert numbers_of(lists + lists) == ([*range(100), *range(100)], [*range(100)])


def test_parts_may_leave_values_out() -> None:
    numbers, first = number_lists(np.array([1, 3, 5], np.int64), np.array([9, 1, 2, 1, 2, 9], np.int64))
    assert numbers.tolist() == [0, 0] and first.tolist() == [0]


def test_lists_outside_of_the_values_are_refused() -> None:
    values = np.zeros(3, np.int64)
    for starts in ([0, 4], [-1, 2], [2, 1]):
        with pytest.raises(ValueError, match="does not lie within 3 values"):
            number_lists(np.array(starts, np.int64), values)


@given(st.lists(st.integers(-2, 5)), st.integers(1, 3))
def test_places_are_grouped_by_number(numbers: list[int], step: int) -> None:
    starts, places = grouped(np.repeat(np.array(numbers, np.int32), step)[::step], 6)
    assert [places[starts[k] : starts[k + 1]].tolist() for k in range(6)] == [
        [place for place, number in enumerate(numbers) if number == k] for k in range(6)
    ]
    assert (starts.dtype.name, places.dtype.name, len(starts)) == ("int64", "int32", 7)


def test_numbers_without_a_group_are_refused() -> None:
    with pytest.raises(IndexError, match="the number 3 is not below 3"):
        grouped(np.array([0, 3], np.int32), 3)


Automaton = list[tuple[int, dict[int, int]]]
"""For each state, its color, and the state to which each label leads."""

automata = st.integers(1, 12).flatmap(
    lambda n: st.lists(
        st.tuples(st.integers(0, 1), st.dictionaries(st.integers(0, 2), st.integers(0, n - 1))),
        min_size=n,
        max_size=n,
    )
)


def separated(automaton: Automaton) -> list[int]:
    rows = [sorted(edges.items()) for _, edges in automaton]
    starts = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    table = np.array([(label, label, to) for row in rows for label, to in row], np.int64).reshape(-1, 3)
    colors = {color: number for number, color in enumerate(dict.fromkeys(color for color, _ in automaton))}
    return classes_of(starts, table, [colors[color] for color, _ in automaton], lambda: None).tolist()


@settings(deadline=None)
@given(automata)
def test_states_are_separated_as_by_rounds_over_all_states(automaton: Automaton) -> None:
    block = [color for color, _ in automaton]
    for _ in automaton:
        keys = [
            (block[s], tuple(sorted((a, block[t]) for a, t in automaton[s][1].items())))
            for s in range(len(block))
        ]
        block = list(map({key: number for number, key in enumerate(dict.fromkeys(keys))}.__getitem__, keys))
    found = separated(automaton)
    assert len(set(zip(found, block, strict=True))) == len(set(found)) == len(set(block))


def test_the_largest_part_of_a_color_keeps_it() -> None:
    # In each round, one state of the chain stays as it is, and all states of the cycle could be looked at
    # again: with 20,000 states that took 16 seconds.
    n = 10_000
    automaton: Automaton = [(0, {3: 2}), (0, {3: 3}), (1, {}), (2, {})]
    automaton += [(3, {1: 4 + (i + 1) % n, 2: 1}) for i in range(n)]
    automaton += [(3, {1: 4 + n + i - 1, 2: 1} if i else {1: 4, 2: 0}) for i in range(n)]
    started = time.process_time()
    assert len(set(separated(automaton))) == n + 5
    assert time.process_time() - started < 5
