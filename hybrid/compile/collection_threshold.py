"""Fewer garbage collections while a grammar is compiled.

What: between `raise_threshold` and `restore_threshold`, Python's garbage collector runs after 50,000 new
objects instead of 700.
When: around each compilation.
Limits: the threshold belongs to the whole process. It is not changed if the collector is disabled or runs as
rarely anyway. Of compilations that overlap, only the first one changes it, so it is never changed for long.

A compilation makes thousands of objects, and their reference counts free them when it ends. Until then, each
collection visits them in vain. Those that two collections have visited count as old, and when these are a
quarter more, Python visits all objects of the process: 150 ms if torch is imported. Of the time to the first
masks of 1,000 schemas of MaskBench under ``semantics="json-schema"``, 11% were collections; now 2%.

Rejected: to disable the collector. If a compilation takes seconds, the garbage of other threads has no bound.
"""

from __future__ import annotations

import gc
import threading

from equivalence import forking

NEW_OBJECTS = 50_000
"""The collector runs when this many more objects were made than freed."""

_before = (0, 0, 0)  # the thresholds that were there before


def raise_threshold() -> bool:
    """Raise the threshold, unless it is high. Return whether it was raised and has to be restored."""
    global _before
    before = gc.get_threshold()
    if not 0 < before[0] < NEW_OBJECTS or not gc.isenabled() or not _raised.acquire(blocking=False):
        return False
    _before = before
    gc.set_threshold(NEW_OBJECTS, *before[1:])
    return True


def restore_threshold() -> None:
    """Set the threshold back. Only the caller for whom it was raised may call this."""
    _set_back()
    _raised.release()


def _set_back() -> None:
    """Set the threshold back, unless the program has set another one."""
    if gc.get_threshold() == (NEW_OBJECTS, *_before[1:]):
        gc.set_threshold(*_before)


# held while the threshold is raised; in the child of a fork, nobody else would set it back
_raised = forking.listed(threading.Lock(), forking.Order.SLOW, _set_back)
