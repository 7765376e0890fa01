"""Methods that do not keep their objects alive.

What: `weak` returns a function that finds a method as long as its object exists; `WeakMethods` is a
collection of methods.
When: for calls at forks and at the end of the program (`forks`, `hybrid.compile.shutdown`).
Limits: functions are kept. `weakref.WeakMethod` is not used, because at the end of the program its callback
no longer finds the names of its module, and Python prints "Exception ignored" for each object that still
exists.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

Call = Callable[[], object]


def weak(call: Call, callback: Callable[[Any], object] | None = None) -> Callable[[], Call | None]:
    """A function that returns a method, or None when the object does not exist any more.

    Args:
        call: a method, or a function.
        callback: called when the object does not exist any more.
    """
    owner = getattr(call, "__self__", None)
    if owner is None:
        return lambda: call
    return _WeakMethod(weakref.ref(owner, callback), call.__name__)


class _WeakMethod:
    """A method by its object and its name: fewer objects than a function that has both."""

    __slots__ = ("_name", "_reference")

    def __init__(self, reference: weakref.ref[Any], name: str) -> None:
        self._reference, self._name = reference, name

    def __call__(self) -> Call | None:
        owner = self._reference()
        return None if owner is None else getattr(owner, self._name)


class WeakMethods:
    """Methods in the order in which they were added. Each operation is one look-up or store, so threads need
    no lock."""

    def __init__(self) -> None:
        self._calls: dict[int, Callable[[], Call | None]] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Call) -> None:
        """Add a method, as long as its object exists."""
        number, calls = next(self._numbers), self._calls
        calls[number] = weak(call, lambda _: calls.pop(number, None))

    def alive(self) -> list[Call]:
        """The methods whose objects exist."""
        return [call for found in list(self._calls.values()) if (call := found()) is not None]
