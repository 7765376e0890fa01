"""Forks: what becomes of locks, threads and calls under way in a process that is forked while threads work.

What: only the thread that forks lives on in the child. A lock that another one held there stays locked for
ever, and tables that it was writing stay half written. So every lock of the project is `listed` here when it
is made: a fork takes those that guard something before it happens, and renews in the child those that it
could not get. Who has threads or calls under way says with `in_child` what becomes of them in the child.
When: by each module that makes a lock, a thread or a table of calls; ``os.fork``, multiprocessing's "fork"
and servers that load first and fork then go through it without knowing.
Limits: a fork waits `WAIT_SECONDS` at most. What it does not get by then is begun anew in the child (`torn`).
Locks in the code of other libraries are theirs.

Locks are taken in the order of `Order`: who holds one may wait for those of a later place, and for no other.
A thread that holds one waits for none of the same place. Kernels hold a classifier's lock for milliseconds,
and nobody holds a lock while a grammar is compiled.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - its handler of forks, and that of logging, come before ours
import functools
import itertools
import logging
import operator
import os
import threading
import time
import weakref
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

from equivalence.weak_methods import Call, WeakMethods, weak

logger = logging.getLogger(__name__)


class Order(IntEnum):
    """The places of locks in the order in which a fork takes them."""

    TABLES = 0  # held while compiled code writes what the lock guards
    BRIEF = 1  # held for microseconds
    SLOW = 2  # held while files are written or things are made, which are put in place whole: not waited for


WAIT_SECONDS = {Order.TABLES: 2.0, Order.BRIEF: 1.0, Order.SLOW: 0.0}
"""How long a fork waits for all locks of a place together."""

Lock = TypeVar("Lock")
Owner = TypeVar("Owner")
Torn = Callable[[], Call | None]  # a weak method

_listed: dict[Order, dict[weakref.ref[Any], Torn | None]] = {place: {} for place in Order}
_in_child = WeakMethods()
_forks = threading.RLock()  # one fork at a time: two that each hold some locks would wait for each other
_held: list[Any] = []


def listed(lock: Lock, place: Order, torn: Callable[[], object] | None = None) -> Lock:
    """A lock that forks know of from now on, for as long as it lives.

    Args:
        lock: a `threading.Lock` or `threading.RLock`.
        place: when a fork takes it, and how long it waits.
        torn: a method, called in the child where another thread held the lock, once it is free: what it
            guards may be half written.
    """
    same = _listed[place]
    same[weakref.ref(lock, lambda dead: same.pop(dead, None))] = torn and weak(torn)
    return lock


def in_child(call: Callable[[], object]) -> None:
    """Let a call be made in every child, once all locks are free there.

    Args:
        call: a function that stays, or the method of an object, which may go.
    """
    _in_child.add(call)


def with_listed_properties(owner: type[Owner]) -> type[Owner]:
    """List the locks of a class's `functools.cached_property`, which have one each before Python 3.12."""
    for value in vars(owner).values():
        if isinstance(value, functools.cached_property) and hasattr(value, "lock"):
            listed(value.lock, Order.SLOW)
    return owner


def _before() -> None:
    _forks.acquire()
    for place, listed_ones in _listed.items():
        ends = time.monotonic() + WAIT_SECONDS[place]
        locks = _alive(listed_ones)
        for lock in itertools.compress(locks, map(operator.not_, _take(locks, 0))):
            left = ends - time.monotonic()
            if left > 0:
                _take([lock], left)


def _alive(listed_ones: dict[weakref.ref[Any], Torn | None]) -> list[Any]:
    # the copy is made in one step, as other threads go on listing until the fork itself
    return [lock for reference in list(listed_ones) if (lock := reference()) is not None]


def _take(locks: list[Any], seconds: float) -> list[bool]:
    """Try to take some locks, and note which; Ctrl-C cannot come between taking one and noting it."""
    taken: list[bool] = []
    acquire = operator.methodcaller("acquire", True, seconds) if seconds else _try
    try:
        taken.extend(map(acquire, locks))
    finally:
        _held.extend(itertools.compress(locks, taken))
    return taken


_try = operator.methodcaller("acquire", False)


def _release() -> None:
    while _held:
        _held.pop().release()


def _after_in_parent() -> None:
    _release()
    _forks.release()


def _after_in_child() -> None:
    _release()
    calls: list[Call] = []
    for listed_ones in _listed.values():
        for reference, torn in list(listed_ones.items()):
            lock = reference()
            if lock is None:
                continue
            if lock.acquire(False):
                lock.release()
            else:
                lock._at_fork_reinit()
                call = None if torn is None else torn()
                if call is not None:
                    calls.append(call)
    for call in (*calls, *_in_child.alive()):
        try:
            call()
        except Exception:
            logger.exception("something was not put right in a forked process")
    _forks.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
