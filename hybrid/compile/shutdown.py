"""Stopping background threads at the end of the program.

What: the methods registered by `at_exit` are called when the main thread ends, before Python waits for the
other threads. Handlers of `atexit` would come too late: they are called after Python has waited.
When: used by everything that computes in the background.
Limits: Python has no public function for this moment. If the one that `concurrent.futures` uses is missing,
Python waits until the computations end by themselves.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - imported first: it waits for its threads after our calls have ended
import contextlib
import threading
from collections.abc import Callable

from equivalence.weak_methods import WeakMethods

_calls = WeakMethods()
_has_left = False


def at_exit(call: Callable[[], object]) -> None:
    """Register a method that is called when the program ends. If the main thread has ended, it is called
    at once.

    Args:
        call: a method, which should return quickly. It does not keep its object alive.
    """
    _calls.add(call)
    if _has_left:
        call()


def _leave() -> None:
    global _has_left
    _has_left = True  # before the calls: a method that is added meanwhile is called at least once
    for call in _calls.alive():
        with contextlib.suppress(Exception):  # nothing is left that could handle an error
            call()


_register = getattr(threading, "_register_atexit", None)
if _register is not None:
    _register(_leave)
