"""Stops that are set by hand, and computations within a limit of bytes.

When: in tests of kernels that check a `Stop` in their loops and charge an `Account` for their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from equivalence.deadline import Deadline, Stop
from equivalence.errors import BudgetExceeded


def a_stop(seconds: float | None = None) -> Stop:
    return Stop(Deadline(seconds), "a test")


def stopped() -> Stop:
    """A stop that is already set."""
    return a_stop(0.0)


def within(n_bytes: int, compute: Callable[[int], Any]) -> Any:
    """Compute something within a limit of bytes; return the result, or the message of the error."""
    try:
        return compute(n_bytes)
    except BudgetExceeded as error:
        return str(error)
