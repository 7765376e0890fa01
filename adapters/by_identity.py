"""What was made of objects of other libraries, kept for as long as these live.

What: `ByIdentity` finds what was made of the very same object.
When: for vocabularies and compilers, which take a second to make of a tokenizer, and for wrapped grammars.
Limits: the objects can be referred to weakly; they need not be hashed, and equal ones are not the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class ByIdentity(Generic[Made]):
    """What was made of objects, as long as they live.

    Args:
        make: makes it of an object; may be called twice where two threads ask at once.
    """

    def __init__(self, make: Callable[..., Made]) -> None:
        self._make = make
        self._made: dict[int, tuple[weakref.ref[object], Hashable, Made]] = {}

    def of(self, given: object, version: Hashable = None) -> Made:
        """What was made of this very object; it is made again where the object has another version by now."""
        number = id(given)
        known = self._made.get(number)
        # the number of an object that is gone may come again
        if known is None or known[0]() is not given or known[1] != version:
            reference = weakref.ref(given, lambda dead: self._forget(number, dead))
            known = self._made[number] = reference, version, self._make(given)
        return known[2]

    def _forget(self, number: int, dead: weakref.ref[object]) -> None:
        known = self._made.get(number)
        if known is not None and known[0] is dead:
            del self._made[number]
