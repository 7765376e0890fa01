"""Work in a forked process that can be ended: a compile inside XGrammar cannot be stopped from Python.

What: `in_a_fork` returns what some work returns, `ends_within` whether it ends in time.
When: in benchmarks, before work that may take minutes or crash, and needs all that is loaded already.
Limits: Unix. Results travel as JSON. Threads of this process are not there in the forked one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
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
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.set_blocking(reading, False)
    deadline, parts, pause = time.monotonic() + seconds, [], 0.001
    try:
        while time.monotonic() < deadline:
            try:
                part = os.read(reading, 1 << 20)
            except BlockingIOError:
                time.sleep(pause)
                pause = min(pause * 1.5, 0.05)
                continue
            if not part:
                break
            parts.append(part)
        else:
            os.kill(child, signal.SIGKILL)
            return None
    finally:
        os.close(reading)
        os.waitpid(child, 0)
    try:
        return json.loads(b"".join(parts))
    except ValueError:
        return None
