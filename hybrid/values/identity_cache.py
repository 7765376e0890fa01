"""A cache by the identity of objects of other libraries, which it does not keep alive.

What: `IdentityCache` returns what was made from the very same object.
When: for vocabularies and compilers, which take a second to make from a tokenizer, and for wrapped grammars.
Limits: the objects must allow weak references. They need not be hashable; equal objects are different keys.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class IdentityCache(Generic[Made]):
    """A cache of what was made from objects, for as long as these live.

    Args:
        make: makes the value for an object. It may be called twice if two threads ask at once.
    """

    def __init__(self, make: Callable[..., Made]) -> None:
        self._make = make
        self._made: dict[int, tuple[weakref.ref[object], Hashable, Made]] = {}

    def get(self, given: object, version: Hashable = None) -> Made:
        """Return the value for this very object. It is made again if the version has changed."""
        number = id(given)
        known = self._made.get(number)
        # the id of an object that was freed may be reused
        if known is None or known[0]() is not given or known[1] != version:
            reference = weakref.ref(given, lambda dead: self._forget(number, dead))
            known = self._made[number] = reference, version, self._make(given)
        return known[2]

    def _forget(self, number: int, dead: weakref.ref[object]) -> None:
        known = self._made.get(number)
        if known is not None and known[0] is dead:
            del self._made[number]
