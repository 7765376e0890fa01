"""What is made from an object only once, and kept as long as the object lives.

What: `made_once` adds such a cache to a class or function.
When: for tables of a vocabulary, which take a tenth of a second.
Limits: what is made must not refer to the object, or neither is ever freed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

from equivalence import forking

Key = TypeVar("Key")
Made = TypeVar("Made")


def made_once(make: Callable[[Key], Made]) -> Callable[[Key], Made]:
    """Return a function that calls `make` for each object only once. Thread-safe."""
    lock = forking.listed(threading.Lock(), forking.Order.SLOW)
    known: weakref.WeakKeyDictionary[Key, Made] = weakref.WeakKeyDictionary()

    def of(key: Key) -> Made:
        with lock:
            found = known.get(key)
            if found is None:
                found = known[key] = make(key)
            return found

    return of
