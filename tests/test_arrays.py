"""Lists that are stored side by side are numbered, and places are grouped, as plain code does it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.arrays.grouping import grouped
from equivalence.arrays.interning import number_lists

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
