"""Methods of objects that may go: who keeps them keeps no object alive.

What: `weak` is a method that is found again as long as its object lives; `WeakMethods` keeps several.
When: for what forks, and the end of the program, have to call (`forking`, `hybrid.compile.shutdown`).
Limits: functions stay. `weakref.WeakMethod` would do, but its own callback finds its module's names gone when
the program ends, and Python prints an "Exception ignored" for each object that was still alive.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

Call = Callable[[], object]


def weak(call: Call, gone: Callable[[Any], object] | None = None) -> Callable[[], Call | None]:
    """What gives a call as long as the object lives whose method it is, then None.

    Args:
        call: a method, or a function.
        gone: called when the object has gone.
    """
    owner = getattr(call, "__self__", None)
    if owner is None:
        return lambda: call
    reference, name = weakref.ref(owner, gone), call.__name__
    return lambda: None if (alive := reference()) is None else getattr(alive, name)


class WeakMethods:
    """Methods in the order in which they came; one look-up or store each, so that threads need no lock."""

    def __init__(self) -> None:
        self._calls: dict[int, Callable[[], Call | None]] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Call) -> None:
        """Keep a method for as long as its object lives."""
        number, calls = next(self._numbers), self._calls
        calls[number] = weak(call, lambda _: calls.pop(number, None))

    def alive(self) -> list[Call]:
        """Those whose objects live."""
        return [call for found in list(self._calls.values()) if (call := found()) is not None]
