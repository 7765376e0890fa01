"""The clock of deadlines: seconds that only ever grow, whatever is done to the time of day.

When: by `equivalence.deadline.deadline` and its alarm; tests set it in its place.
Limits: a machine that sleeps may or may not count its sleep, as the system has it.
"""

from __future__ import annotations

import time

LONGEST = 1e6
"""Seconds, 11 days: what is asked for beyond is cut to it, as no system waits for any time."""


def now() -> float:
    """Seconds from some moment on."""
    return time.monotonic()
