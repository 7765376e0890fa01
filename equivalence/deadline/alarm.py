"""The alarm: one thread that waits for all deadlines of the program.

What: `watch` registers an object with an end; at that time, the thread calls its `ring`.
When: used by `equivalence.deadline.deadline`. A timer with its own thread took 60 to 100 us of each
compilation.
Limits: `ring` must be quick, because all other deadlines wait for it. If no thread can be started (the
program is ending), nothing rings; Python code still looks at the clock.

If the thread ended, kernels would run without a bound, unnoticed. So the thread logs every error and goes on,
and every call of `watch` starts it again if it is gone.
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

from equivalence import forks
from equivalence.deadline import clock

AWAKE_SECONDS = 3600.0
"""The longest sleep, because no system can wait for any time."""

FEWEST = 64
"""Entries of objects that are gone are removed when there are more than this, and twice as many as before."""

FAILED_SECONDS = 0.05
"""The pause after an error, so that an error that is repeated does not keep a processor busy."""

logger = logging.getLogger(__name__)


class Rings(Protocol):
    """An object with an end.

    Attributes:
        ends: its end, in the time of `clock.now`.
    """

    ends: float | None

    def ring(self) -> None:
        """Called at the end."""


# weak references: a deadline that nobody uses any more should be freed before its end
_Entry = tuple[float, int, "weakref.ref[Rings]"]

_lock = forks.registered(threading.RLock(), forks.Order.BRIEF)  # of what stands below
_changed = threading.Condition(_lock)
_waiting: list[_Entry] = []
_thread: threading.Thread | None = None
is_running = False  # whether it waits
_most = FEWEST
_order = itertools.count()


def watch(one: Rings) -> None:
    """Call `ring` at the object's end."""
    global _most
    assert one.ends is not None
    with _lock:
        if len(_waiting) > _most:  # most are gone long before their ends
            _waiting[:] = [entry for entry in _waiting if entry[2]() is not None]
            heapq.heapify(_waiting)
            _most = max(FEWEST, 2 * len(_waiting))
        entry = one.ends, next(_order), weakref.ref(one)
        heapq.heappush(_waiting, entry)
        if _waiting[0] is entry:
            _changed.notify()
    look_after()


def look_after() -> None:
    """Start the thread if it does not run."""
    global _thread
    if is_running:
        return
    with _lock:
        if _thread is None or not _thread.is_alive():
            thread = threading.Thread(target=_run, name="equimask-deadlines", daemon=True)
            with contextlib.suppress(RuntimeError):  # the program is ending: no more threads
                thread.start()
                _thread = thread


def _run() -> None:
    global is_running
    is_running = True
    try:
        while True:
            try:
                _next()
            except BaseException:  # deadlines must go on after any error
                logger.exception("an error occurred in the thread that watches time limits; it continues")
                time.sleep(FAILED_SECONDS)
    finally:
        is_running = False


def _next() -> None:
    """Sleep until the first end, and ring."""
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
    """The thread does not exist in a forked process. The next call of `watch` starts one; what is registered
    stays registered."""
    global _changed, _thread, is_running
    _changed, _thread, is_running = threading.Condition(_lock), None, False


forks.in_child(_in_child)
