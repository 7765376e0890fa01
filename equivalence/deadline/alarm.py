"""The alarm: one thread that wakes for all deadlines of the program.

What: `watch` notes something that has an end; when the clock is there, its `ring` is called.
When: by `equivalence.deadline.deadline` (a timer's own thread for each took 60 to 100 us of a compilation).
Limits: `ring` has to be quick, as all wait for it. Where no thread can be begun (the program is ending),
nobody rings, and Python's own looks at the clock remain.

A thread that ended would leave kernels without a bound, and nobody would know. So whatever is raised in it is
logged, and it goes on; and everyone who watches looks whether it is there, and begins it anew if it is not.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import threading
import time
import weakref
from typing import Protocol

from equivalence import forking
from equivalence.deadline import clock

AWAKE_SECONDS = 3600.0
"""The longest sleep: no system can be asked for any time."""

FAILED_SECONDS = 0.05
"""The pause after an error, so that one that comes again and again takes no whole processor."""

logger = logging.getLogger(__name__)


class Rings(Protocol):
    """What can be waited for.

    Attributes:
        ends: when, by `clock.now`.
    """

    ends: float | None

    def ring(self) -> None:
        """It is time."""


# weak: who is done with a deadline should not keep it, and what it tells, until its time has come
_Entry = tuple[float, int, "weakref.ref[Rings]"]

_lock = forking.listed(threading.RLock(), forking.Order.BRIEF)  # of the three below
_changed = threading.Condition(_lock)
_waiting: list[_Entry] = []
_thread: threading.Thread | None = None
_order = itertools.count()


def watch(one: Rings) -> None:
    """Ring when its end is there."""
    assert one.ends is not None
    with _lock:
        entry = one.ends, next(_order), weakref.ref(one)
        heapq.heappush(_waiting, entry)
        if _waiting[0] is entry:
            _changed.notify()
    look_after()


def look_after() -> None:
    """See to it that somebody wakes for what is waited for."""
    global _thread
    if _thread is not None and _thread.is_alive():
        return
    with _lock:
        if _thread is None or not _thread.is_alive():
            thread = threading.Thread(target=_run, name="equimask-deadlines", daemon=True)
            with contextlib.suppress(RuntimeError):  # the program is ending: no more threads
                thread.start()
                _thread = thread


def _run() -> None:
    while True:
        try:
            _next()
        except BaseException:  # whatever it is, deadlines go on
            logger.exception("the alarm of deadlines failed, and goes on")
            time.sleep(FAILED_SECONDS)


def _next() -> None:
    """Sleep until the first end is there, and ring."""
    with _lock:
        while not _waiting or (left := _waiting[0][0] - clock.now()) > 0:
            if not _waiting:
                _changed.wait()
                continue
            _changed.wait(min(left, AWAKE_SECONDS))
        one = heapq.heappop(_waiting)[2]()
    if one is not None:
        one.ring()


def _in_child() -> None:
    """The thread is not there; who watches next begins another, and what is waited for stays."""
    global _changed, _thread
    _changed, _thread = threading.Condition(_lock), None


forking.in_child(_in_child)
