"""What is made from an object only once, and kept as long as the object lives.

What: `made_once` adds such a cache to a class or function, `remembered` to a method. `own_lock` makes a lock.
When: for tables of a vocabulary, which take a tenth of a second, and for answers about a grammar.
Limits: what is made must not refer to the object, or neither is ever freed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from equivalence import forks

RESULTS_OF = "_results_of_"
"""The attributes with the results of a method begin with this."""

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made")
Method = TypeVar("Method", bound=Callable[..., Any])


def made_once(make: Callable[Arguments, Made], most: int = 1) -> Callable[Arguments, Made]:
    """Return a function that calls `make` for each object only once. Thread-safe.

    Args:
        make: its first argument is the object; others are hashable.
        most: for how many values of the others a result is kept; then the oldest is dropped.
    """
    lock = forks.registered(threading.Lock(), forks.Order.SLOW)
    known: weakref.WeakKeyDictionary[Any, dict[tuple[Any, ...], Made]] = weakref.WeakKeyDictionary()

    def of(*arguments: Arguments.args, **named: Arguments.kwargs) -> Made:
        owner, others = arguments[0], (*arguments[1:], *named.items())
        with lock:
            made = known.setdefault(owner, {})
            if others not in made:
                while len(made) >= most:
                    del made[next(iter(made))]
                made[others] = make(*arguments, **named)
            return made[others]

    return of


@made_once
def own_lock(owner: object) -> threading.Lock:
    """The lock of slow work on an object. Most objects need none, so it is made on first use."""
    return forks.registered(threading.Lock(), forks.Order.SLOW)


def remembered(method: Method) -> Method:
    """Keep the results of a method in its object, under its arguments. (`functools.cache` of a bound method
    would hold the object, which only Python's garbage collector could free then.)"""
    name = RESULTS_OF + method.__name__

    @wraps(method)
    def result(self: Any, *arguments: Any) -> Any:
        known: dict[tuple[Any, ...], Any] = self.__dict__.setdefault(name, {})
        if arguments not in known:
            known[arguments] = method(self, *arguments)
        return known[arguments]

    return result  # type: ignore[return-value]


def n_remembered(owner: object) -> int:
    """How many results of its methods an object keeps."""
    return sum(len(known) for name, known in list(vars(owner).items()) if name.startswith(RESULTS_OF))
