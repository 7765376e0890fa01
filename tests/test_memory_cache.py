"""Equal calls that come at bad moments get their grammar.

When: after changes of `hybrid.compile.memory_cache`.
Limits: what calls share is tested in `tests.test_cache` and `tests.test_budget`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any
from unittest.mock import Mock

import pytest

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline
from hybrid.compile.memory_cache import MemoryCache
from tests.caches import wait_for

MADE: Any = Mock(memory_size_bytes=1)


class Lock:
    """A lock after whose first release something happens."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self.lock, self.happens = threading.Lock(), [happens]

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lock.release()
        if self.happens:
            self.happens.pop()()


class Equal(threading.Thread):
    """Another call for the grammar "k"."""

    def __init__(self, cache: MemoryCache) -> None:
        super().__init__(daemon=True)
        self.cache = cache
        self.found: list[Any] = []

    def run(self) -> None:
        try:
            self.found.append(self.cache.get("k", lambda _: MADE, Deadline(30), Mock()))
        except BudgetExceeded as error:
            self.found.append(error)


def test_a_call_that_comes_while_a_grammar_is_given_up_makes_it_anew() -> None:
    cache, asked = MemoryCache(9), Deadline()
    other = Equal(cache)

    def comes() -> None:
        other.start()
        other.join(0.2)  # it must not wait for what is given up

    def given_up(deadline: Deadline) -> Any:
        cache._lock = Lock(comes)  # type: ignore[assignment]
        asked.cancel()
        raise deadline.error("this")

    with pytest.raises(BudgetExceeded, match="cancelled"):
        cache.get("k", given_up, asked, Mock())
    other.join(30)
    assert other.found == [MADE]


def test_a_cancelled_call_does_not_shorten_the_time_of_another() -> None:
    cache, asked = MemoryCache(9), Deadline(30)
    asked.cancel()
    other = Equal(cache)

    def comes() -> None:
        other.start()
        wait_for(lambda: cache._under_way["k"].n_callers == 2)

    def made(deadline: Deadline) -> Any:
        deadline.check("this")
        return MADE

    cache._lock = Lock(comes)  # type: ignore[assignment]
    cache.get("k", made, asked, Mock())
    other.join(30)
    assert other.found == [MADE]


def test_grammars_that_grow_after_they_are_kept_stay_within_the_limit() -> None:
    """One grammar was measured again with each call, so a cache held two to three times its limit."""
    cache = MemoryCache(1000)
    made: list[Any] = []
    for key in range(600):
        made.append(Mock(memory_size_bytes=1))
        cache.get(key, lambda _: made[-1], Deadline(), Mock())
        made[-1].memory_size_bytes = 10
        if key >= 4:  # with several requests at once, grammars grow later
            made[-4].memory_size_bytes = 30
    assert 600 < cache.measured_bytes() < 1300
