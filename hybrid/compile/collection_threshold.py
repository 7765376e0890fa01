"""Fewer garbage collections while a grammar is compiled.

What: between `raise_threshold` and `restore_threshold`, Python's garbage collector runs after 50,000 new
objects instead of 700.
When: around each compilation.
Limits: the threshold belongs to the whole process. It is not changed if the collector is disabled or runs as
rarely anyway. Of compilations that overlap, the first one that ends sets it back, so it is never changed for
long. There is no lock, because Ctrl-C could come between taking it and recording that it was taken.

A compilation makes thousands of objects, and their reference counts free them when it ends. Until then, each
collection visits them and finds nothing to free. Objects that have survived two collections count as old.
When there are a quarter more of these, Python visits all objects of the process: 150 ms if torch is imported.
Of the time to the first masks of 1,000 schemas of MaskBench under ``semantics="json-schema"``, 11% were
collections; now 2%.

Rejected: disabling the collector. During a compilation of seconds, the garbage of other threads would have no
limit.
"""

from __future__ import annotations

import gc

from equivalence import forks

NEW_OBJECTS = 50_000
"""The collector runs when this many more objects were made than freed."""

Thresholds = tuple[int, int, int]

_usual: Thresholds = (0, 0, 0)  # the thresholds before the last change


def raise_threshold(usual: Thresholds) -> None:
    """Raise the threshold, unless it is high already. The caller must always call `restore_threshold`
    afterwards.

    Args:
        usual: the present thresholds.
    """
    global _usual
    if 0 < usual[0] < NEW_OBJECTS and gc.isenabled():
        _usual = usual
        gc.set_threshold(NEW_OBJECTS, *usual[1:])


def restore_threshold(usual: Thresholds) -> None:
    """Set the thresholds back, unless the program, or another compilation, has set others."""
    if usual[0] < NEW_OBJECTS and gc.get_threshold() == (NEW_OBJECTS, *usual[1:]):
        gc.set_threshold(*usual)


def _restore_in_child() -> None:
    """In the child of a fork, the thread that would set the thresholds back does not exist."""
    restore_threshold(_usual)


forks.in_child(_restore_in_child)
