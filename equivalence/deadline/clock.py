"""The clock of deadlines. It never goes back, even if the time of day is changed.

When: used by `equivalence.deadline.deadline` and its alarm; tests replace it.
Limits: whether the time in which a machine sleeps is counted depends on the system.
"""

from __future__ import annotations

import time

LONGEST = 1e6
"""Longest deadline in seconds, 11 days; longer ones are cut to it, as no system can wait for any time."""

now = time.monotonic
"""Seconds since a fixed moment."""
