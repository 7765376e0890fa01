"""Ctrl-C while a call waits for another thread: neither of the two hangs afterwards.

What: an exception at every moment of a wait at which Python may handle a signal, also inside the functions of
Python's own `threading` and `concurrent.futures`.
When: after any change of code that waits for threads.
Limits: as in `tests.test_interrupts`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pytest

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline
from hybrid.compile.memory_cache import MemoryCache
from hybrid.guard import worker
from tests import test_interrupts
from tests.caches import wait_for
from tests.test_interrupts import Injected, Injector, assert_nothing_is_locked, interrupted


@pytest.fixture
def locks_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupts come inside Python's own `Event`, `Condition` and `Future`, too."""
    files = threading.__file__, sys.modules[Future.__module__].__file__
    monkeypatch.setattr(test_interrupts, "OURS", (*test_interrupts.OURS, *files))


def test_who_waits_for_an_equal_call_does_not_stop_it(locks_of_python: None) -> None:
    cache, found = MemoryCache(9), Mock(memory_size_bytes=0)
    others: list[threading.Thread] = []
    ends = threading.Semaphore(0)

    def compute(deadline: Deadline) -> Any:
        ends.acquire()
        return found

    def waits() -> None:
        with suppress(BudgetExceeded):
            cache.get("k", compute, Deadline(0.01), Mock())

    def begin() -> Callable[[], Any]:
        others.append(
            threading.Thread(target=cache.get, args=("k", compute, Deadline(), Mock()), daemon=True)
        )
        others[-1].start()
        wait_for(lambda: "k" in cache._under_way)
        return waits

    def end() -> None:
        ends.release()
        others[-1].join(10)
        assert not others[-1].is_alive()
        cache.clear()

    for n_moment in range(200):
        injector, call = Injector(n_moment), begin()
        try:
            with injector.at_work():
                call()
        except Injected:
            end()
        else:
            return end()
    raise AssertionError("it never ended")


def test_who_waits_for_a_turn_leaves_nothing_locked(
    locks_of_python: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_running", others := {object() for _ in range(worker.MOST)})

    def waits() -> None:
        with suppress(BudgetExceeded), worker._turn(Deadline(0.01), "a task"):
            raise AssertionError

    for _ in interrupted(lambda: waits, 200):
        assert_nothing_is_locked()
        assert len(others) == worker.MOST
