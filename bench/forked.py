"""Work in a forked process that can be ended: a compile inside XGrammar cannot be stopped from Python.

What: `in_a_fork` returns what some work returns, `ends_within` whether it ends in time.
When: in benchmarks, before work that may take minutes or crash, and needs all that is loaded already.
Limits: Unix. Threads of this process are not there in the forked one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from typing import Any


def ends_within(work: Callable[[], Any], seconds: float) -> bool:
    """Whether some work ends in time, be it with an error; False if its process crashes."""

    def tried() -> bool:
        with contextlib.suppress(Exception):  # an error shows when the work is done in earnest
            work()
        return True

    return in_a_fork(tried, seconds) is True


def in_a_fork(work: Callable[[], Any], seconds: float) -> Any:
    """What some work returns, done in a forked process; None if it does not end in time, or crashes."""
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    child = context.Process(target=lambda: writing.send(work()))
    child.start()
    writing.close()
    try:
        return reading.recv() if reading.poll(seconds) else None
    except EOFError:
        return None
    finally:
        child.kill()
        child.join()
        reading.close()
