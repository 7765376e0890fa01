"""Unions of rows of flags at given places of a table."""

from __future__ import annotations

import numpy as np
import pytest

from equivalence.arrays.row_unions import unite_rows

pytestmark = pytest.mark.kernels


def test_places_may_repeat() -> None:
    rng = np.random.default_rng(0)
    target = (rng.random((5, 70)) < 0.1).astype(np.uint8)
    place, rows = rng.integers(0, 4, 9), (rng.random((9, 70)) < 0.2).astype(np.uint8)
    expected = target.copy()
    np.maximum.at(expected, place, rows)
    unite_rows(target, place, rows)
    assert np.array_equal(target, expected)


@pytest.mark.parametrize("place", [-1, 5])
def test_a_place_that_is_none_is_refused(place: int) -> None:
    with pytest.raises(IndexError):
        unite_rows(np.zeros((5, 3), np.uint8), np.array([0, place]), np.zeros((2, 3), np.uint8))


def test_rows_of_another_length_or_type_are_refused() -> None:
    target, place = np.zeros((5, 3), np.uint8), np.array([0])
    with pytest.raises(IndexError):
        unite_rows(target, place, np.zeros((1, 4), np.uint8))
    with pytest.raises(IndexError):
        unite_rows(target, np.array([0, 1]), np.zeros((1, 3), np.uint8))
    with pytest.raises(ValueError, match="Buffer dtype mismatch"):
        unite_rows(target, place, np.zeros((1, 3), np.int64))
