"""Forks: locks, threads and running calls in a process that is forked while threads work.

What: in the child, only the thread that forked exists. A lock that another thread held would stay locked for
ever, and tables that it was changing would stay half changed. So every lock of the project is `registered`
when it is made: before a fork, the locks that protect data are taken; in the child, locks that could not be
taken are made again. Objects with threads or running calls register with `in_child` what happens to them.
When: each module that makes a lock, a thread or a table of calls uses it. Then ``os.fork``, multiprocessing's
"fork", and servers that load first and fork then need no special care.
Limits: a fork waits at most `WAIT_SECONDS`. What is protected by locks that it does not get is made again in
the child (`torn`). Locks of other libraries are not handled.

Locks are taken in the order of `Order`: a thread that holds a lock may only wait for locks with a later
place, never for one with the same place. Kernels hold a classifier's lock for milliseconds; no lock is held
while a grammar is compiled.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - its fork handler and that of logging must come before ours
import contextlib
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
    """The places of locks, in the order in which a fork takes them."""

    TABLES = 0  # held while compiled code writes what the lock guards
    BRIEF = 1  # held for microseconds
    SLOW = 2  # held while files are written or things are made, which are put in place whole: not waited for


WAIT_SECONDS = {Order.TABLES: 2.0, Order.BRIEF: 1.0, Order.SLOW: 0.0}
"""How long a fork waits for all locks of a place together."""

Lock = TypeVar("Lock")
Owner = TypeVar("Owner")
Torn = Callable[[], Call | None]  # a weak method


_registered: dict[Order, dict[weakref.ref[Any], Torn | None]] = {place: {} for place in Order}
_forget = {place: registered_ones.pop for place, registered_ones in _registered.items()}
"""What is called when a lock no longer exists: one method for all locks of a place. With one for each lock,
Python's garbage collector visited four more objects. In a function of Python, Ctrl-C would be lost: what such
a call raises is printed and dropped."""

_in_child = WeakMethods()
_forks = threading.RLock()  # one fork at a time: two that each hold some locks would wait for each other
_held: list[Any] = []


def registered(lock: Lock, place: Order, torn: Callable[[], object] | None = None) -> Lock:
    """Register a lock for forks, as long as it exists, and return it.

    Args:
        lock: a `threading.Lock` or `threading.RLock`.
        place: when a fork takes it, and how long it waits for it.
        torn: a method that is called in the child if another thread held the lock, because the data that it
            protects may be half changed.
    """
    _registered[place][weakref.ref(lock, _forget[place])] = torn and weak(torn)
    return lock


def in_child(call: Callable[[], object]) -> None:
    """Register a call that is made in every child when all locks are free.

    Args:
        call: a function, or a method; the method does not keep its object alive.
    """
    _in_child.add(call)


def with_unlocked_properties(owner: type[Owner]) -> type[Owner]:
    """Remove the locks of a class's `functools.cached_property`. Before Python 3.12, each has one for all
    objects of the class, so that they wait for each other, whatever their deadlines are."""
    for value in vars(owner).values():
        if isinstance(value, functools.cached_property) and hasattr(value, "lock"):
            value.lock = contextlib.nullcontext()
    return owner


def _before() -> None:
    _forks.acquire()
    for place, registered_ones in _registered.items():
        ends = time.monotonic() + WAIT_SECONDS[place]
        locks = _alive(registered_ones)
        for lock in itertools.compress(locks, map(operator.not_, _take(locks, 0))):
            left = ends - time.monotonic()
            if left > 0:
                _take([lock], left)


def _alive(registered_ones: dict[weakref.ref[Any], Torn | None]) -> list[Any]:
    # the copy is made in one step, as other threads go on listing until the fork itself
    return [lock for reference in list(registered_ones) if (lock := reference()) is not None]


def _take(locks: list[Any], seconds: float) -> list[bool]:
    """Take some locks, and record which. Ctrl-C cannot come between taking and recording one."""
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
    for registered_ones in _registered.values():
        for reference, torn in list(registered_ones.items()):
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
            logger.exception("some state could not be reset in a forked process")
    _forks.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
