"""Deadlines: cells that kernels look at are set by the clock or by a call, from another thread."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline, hold, release


def until(cell: np.ndarray, seconds: float = 10) -> float:
    """Seconds until a cell is set."""
    began = time.monotonic()
    while not cell[0]:
        assert time.monotonic() - began < seconds
        time.sleep(0.001)
    return time.monotonic() - began


def test_without_bounds_it_is_never_over() -> None:
    deadline = Deadline()
    cell = np.zeros(1, np.int64)
    with deadline.watched(cell, 0):
        deadline.check("waiting")
        assert deadline.left is None and not deadline.is_over and cell[0] == 0


def test_the_clock_sets_every_watched_cell() -> None:
    deadline = Deadline(0.05)
    one, other, late = (np.zeros(1, np.int64) for _ in range(3))
    with deadline.watched(one, 0), deadline.watched(other, 0):
        assert not one[0]
        assert until(one) >= 0.03
        until(other)
    with deadline.watched(late, 0):  # it is over already
        assert late[0] == 1
    assert deadline.left == 0
    with pytest.raises(BudgetExceeded, match="seconds were used up in the network"):
        deadline.check("the network")


def test_what_cannot_be_interrupted_is_not_begun_without_time_for_it() -> None:
    Deadline().check("writing", 1e9)
    deadline = Deadline(60)
    deadline.check("writing", 1.0)
    with pytest.raises(
        BudgetExceeded, match=r"writing takes 90\.00 s .* and (59|60)\.\d\d of the budget's are"
    ):
        deadline.check("writing", 90.0)
    assert not deadline.is_over


def test_an_earlier_deadline_that_is_added_later_rings_first() -> None:
    cell, soon = np.zeros(1, np.int64), np.zeros(1, np.int64)
    with Deadline(60).watched(cell, 0), Deadline(0.02).watched(soon, 0):
        until(soon)
        assert not cell[0]


def test_what_is_not_watched_any_more_is_left_alone() -> None:
    deadline = Deadline(0.03)
    cell = np.zeros(1, np.int64)
    with deadline.watched(cell, 0):
        pass
    time.sleep(0.08)
    assert deadline.is_over and cell[0] == 0


def test_a_call_ends_it_and_its_parts() -> None:
    deadline = Deadline()
    part = Deadline(60, within=deadline)
    closed = Deadline(60, within=deadline)
    closed.close()
    one, other = np.zeros(1, np.int64), np.zeros(1, np.int64)
    with deadline.watched(one, 0), part.watched(other, 0):
        threading.Timer(0.02, deadline.cancel).start()
        until(other)
        assert one[0] == 1
    assert deadline.is_cancelled and part.is_cancelled and not closed.is_cancelled
    assert Deadline(within=deadline).is_over
    with pytest.raises(BudgetExceeded, match="cancelled in the network"):
        part.check("the network")


def test_a_part_ends_no_later_than_the_whole() -> None:
    whole = Deadline(0.01)
    part = Deadline(60, within=whole)
    assert part.ends == whole.ends
    assert Deadline(None, within=whole).ends == whole.ends


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_a_clock_of_its_own() -> None:
    cell = np.zeros(1, np.int64)
    with Deadline(0.01).watched(cell, 0):
        until(cell)  # the thread is there now, and not in the child
    child = os.fork()
    if child == 0:
        status = 1
        try:
            cell[0] = 0
            with Deadline(0.01).watched(cell, 0):
                until(cell, 5)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_a_held_clock_stands_still() -> None:
    deadline = Deadline(0.05)
    cell = np.zeros(1, np.int64)
    with deadline.watched(cell, 0):
        hold()
        hold()
        try:
            left = deadline.left
            time.sleep(0.1)
            assert deadline.left == left and not deadline.is_over and not cell[0]
        finally:
            release()
            time.sleep(0.1)
            assert deadline.left == left, "another holds it still"
            release()
        until(cell)
        assert deadline.is_over
