"""Checked bounds of callers.

What: `check_count` and `check_seconds` return a bound, or raise an error that says what is allowed. They
refuse bounds that no kernel could keep.
When: when a public call takes a bound.
Limits: none.
"""

from __future__ import annotations

import sys
from typing import Any

from equivalence.errors import HybridError

MOST = 2**48
"""Of states and bytes: more than any machine has, and an int64 still where a hundred times as much occurs."""


def check_count(name: str, given: Any) -> int:
    """A number of states, rows or bytes.

    Raises:
        HybridError: it is not an integer from 1 to `MOST`.
    """
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST:
        raise HybridError(f"{name} must be an integer from 1 to {MOST}, but is {given!r}")
    return given


def check_seconds(name: str, given: Any) -> float | None:
    """Seconds; None: there is no bound.

    Raises:
        HybridError: it is neither None nor a finite number above 0.
    """
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= sys.float_info.max:
        raise HybridError(f"{name} must be a positive number, or None for no limit, but is {given!r}")
    return given
