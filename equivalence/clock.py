"""The clock of deadlines: the system's monotonic clock, but for the time in which it is held.

What: `now` gives seconds that only ever grow, whatever is done to the time of day. While somebody holds the
clock, it stands still: kernels are compiled once per machine, and that is the time of no grammar.
When: by `equivalence.deadline` and its alarm; `hold` and `release` by `hybrid.warmup`.
Limits: a machine that sleeps may or may not count its sleep, as the system has it.
"""

from __future__ import annotations

import threading
import time

from equivalence import forking

LONGEST = 1e6
"""Seconds, 11 days: what is asked for beyond is cut to it, as no system waits for any time."""

# of the three below; a handler of signals may come in between
_lock = forking.listed(threading.RLock(), forking.Order.CLOCK)
_holders = 0
_since = 0.0
_held = 0.0


def now() -> float:
    """Seconds that count, from some moment on."""
    with _lock:
        return (_since if _holders else time.monotonic()) - _held


def is_held() -> bool:
    """Whether it stands still."""
    return _holders > 0


def hold() -> None:
    """Let the seconds of all deadlines stand still until `release` is called as often."""
    global _holders, _since
    with _lock:
        if not _holders:
            _since = time.monotonic()
        _holders += 1


def release() -> None:
    """Let them go on."""
    global _holders, _held
    with _lock:
        _holders -= 1
        if not _holders:
            _held += time.monotonic() - _since


def _in_child() -> None:
    """Nobody holds it there: the threads that compile are not."""
    global _holders
    while _holders:
        release()


forking.in_child(_in_child)
