# cython: language_level=3
# mypy: ignore-errors
"""The clock of deadlines. It never goes back, even if the time of day is changed.

When: used by `equivalence.deadline.deadline`, also while no thread holds the interpreter's lock.
Limits: whether the time in which a machine sleeps is counted depends on the system.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.deadline.system import monotonic_seconds
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)

LONGEST = 1e6
"""Longest deadline in seconds, 11 days; longer ones are cut to it, as no system can wait for any time."""

_ahead = cython.declare(cython.double, 0.0)


def read():
    """The time in compiled code: see `now`."""
    return monotonic_seconds() + _ahead


def now() -> float:
    """Seconds since a fixed moment."""
    return read()


def move(seconds: float) -> None:
    """Put the clock forward. Only tests do this."""
    global _ahead
    _ahead += seconds
