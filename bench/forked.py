"""Work in a forked process that can be killed, because a compilation inside XGrammar cannot be stopped from
Python.

What: `in_a_fork` returns the result of some work, `ends_within` whether it ends in time.
When: in benchmarks, before work that may take minutes or crash, and that needs loaded data.
Limits: Unix. The threads of this process do not exist in the forked one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from typing import Any


def ends_within(work: Callable[[], Any], seconds: float) -> bool:
    """Whether some work ends in time, even with an error; False if its process crashes."""

    def tried() -> bool:
        with contextlib.suppress(Exception):  # the error will be raised again when the work is really done
            work()
        return True

    return in_a_fork(tried, seconds) is True


def in_a_fork(work: Callable[[], Any], seconds: float) -> Any:
    """Do some work in a forked process, and return its result; None if it does not end in time, or
    crashes."""
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
