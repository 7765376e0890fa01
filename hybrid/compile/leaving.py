"""The end of the program: who has threads at work stops them first.

What: methods that are listed by `at_exit` are called when the main thread has come to its end, before Python
waits for other threads; handlers of `atexit` come after that, when it has waited for all that was asked for.
When: by what computes in the background.
Limits: Python has no public function for this moment; where it lacks the one that `concurrent.futures` uses,
it waits until the computations end by themselves.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - it waits for its threads after our calls, as it is listed before
import contextlib
import threading
import weakref
from collections.abc import Callable

_calls: dict[weakref.WeakMethod[Callable[[], object]], None] = {}


def at_exit(call: Callable[[], object]) -> None:
    """Make a call when the program ends.

    Args:
        call: the method of an object, which may go before; it should take no longer than one may wait.
    """
    _calls[weakref.WeakMethod(call, _forget)] = None


def _forget(dead: weakref.ref[Callable[[], object]]) -> None:
    _calls.pop(dead, None)  # type: ignore[call-overload]


def _leave() -> None:
    for reference in list(_calls):
        call = reference()
        if call is not None:
            with contextlib.suppress(Exception):  # nobody is left to whom it could be told
                call()


_register = getattr(threading, "_register_atexit", None)
if _register is not None:
    _register(_leave)
