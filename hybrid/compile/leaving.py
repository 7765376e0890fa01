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
from collections.abc import Callable

from equivalence.weak_methods import WeakMethods

_calls = WeakMethods()


def at_exit(call: Callable[[], object]) -> None:
    """Make a call when the program ends.

    Args:
        call: the method of an object, which may go before; it should take no longer than one may wait.
    """
    _calls.add(call)


def _leave() -> None:
    for call in _calls.alive():
        with contextlib.suppress(Exception):  # nobody is left to whom it could be told
            call()


_register = getattr(threading, "_register_atexit", None)
if _register is not None:
    _register(_leave)
