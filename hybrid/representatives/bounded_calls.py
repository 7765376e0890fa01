"""Calls of XGrammar's matchers that end in bounded time for their caller.

What: `within` makes a call in another thread, and stops waiting for it after some seconds. XGrammar cannot be
interrupted, so the call itself goes on, and nothing that it uses may be used again.
When: by `hybrid.representatives.follower`, for grammars that may be very ambiguous, if masks have a time
limit. There, a mask can take hours: that of ``(("a"{0,500} "b"?){0,500} "c"?){0,500}`` for a vocabulary with
a token of 128 letters.
Limits: it takes about 10 us. While `MOST_LEFT` calls still go on, no other one is begun, so that they do not
take all cores. Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from equivalence import forks
from hybrid.values.mask_time import TooSlow, too_slow

MOST_LEFT = 4
"""Most calls of this process that may go on although nobody waits for them."""

Outcome = tuple[Any, BaseException | None]
"""What a call returned, and what it raised."""


class _Helper:
    """A thread that makes calls, one after another."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()  # None: end
        self.outcomes: SimpleQueue[Outcome] = SimpleQueue()
        threading.Thread(target=self._work, name="equimask-bounded-call", daemon=True).start()

    def _work(self) -> None:
        while (call := self.calls.get()) is not None:
            self.outcomes.put(_outcome(call))
            del call  # the matcher must not live as long as this thread
        _left.discard(self)


_idle: list[_Helper] = []
_left: set[_Helper] = set()


def within(seconds: float, phase: str, call: Callable[[], Any]) -> Outcome:
    """Make a call, and return its outcome.

    Args:
        seconds: how long it may take.
        phase: what is being done, for the error.
        call: the call.

    Raises:
        TooSlow: it takes longer, or was not begun. After this error and any other one, such as Ctrl-C, the
            call may still go on.
    """
    if len(_left) >= MOST_LEFT:
        raise TooSlow(
            f"{phase} was not begun, because {MOST_LEFT} calls of XGrammar that exceeded Budget.mask_seconds "
            "have not returned yet; end this sequence, and try again later"
        )
    helper = _free_helper()
    if helper is None:
        return _outcome(call)
    helper.calls.put(call)
    try:
        outcome = helper.outcomes.get(timeout=seconds)
    except BaseException as error:
        _left.add(helper)
        helper.calls.put(None)
        if isinstance(error, Empty):
            raise too_slow(phase, seconds, seconds) from None
        raise
    _idle.append(helper)
    return outcome


def _free_helper() -> _Helper | None:
    """A thread without a call; None if there is none, and none can be started."""
    with suppress(IndexError):
        return _idle.pop()
    with suppress(RuntimeError):
        return _Helper()
    return None


def _outcome(call: Callable[[], Any]) -> Outcome:
    try:
        return call(), None
    except Exception as error:  # noqa: BLE001 - it is raised where somebody waits
        return None, error


def _forget_threads() -> None:
    _idle.clear()
    _left.clear()


forks.in_child(_forget_threads)
