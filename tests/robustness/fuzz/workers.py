"""A process that runs the cases of `tests.robustness.fuzz`, and is replaced if a case hangs or crashes.

What: `Worker.run` runs a case in a child process; it raises `Ended` if the child hangs or crashes, and the
next case gets a new child.
When: by `tests.robustness.fuzz`, so that a hang or a crash costs one case, and is known by its seed.
Limits: memory of a child is bounded on Linux only.
"""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from tests.robustness.documents import resident_bytes
from tests.robustness.fuzz.inputs import Case
from tests.robustness.fuzz.run import run_case
from tests.robustness.fuzz.walks import Outcome

MOST_BYTES = 3 * 2**30
"""A child that holds more resident memory gets no further case."""

BOUND_BYTES = 12 * 2**30
"""Address space of a child: if XGrammar asks for more, it is refused, which ends the child."""

FRAMES = 30
"""Frames that are told of a child that hung or crashed."""


class Ended(Exception):
    """The child hung, or ended by itself. The message has its stack.

    Attributes:
        what: "hang" or "crash".
    """

    def __init__(self, stack: str) -> None:
        self.what = "hang" if stack.startswith("Timeout") else "crash"
        super().__init__("\n".join(stack.splitlines()[:FRAMES]))


class Worker:
    """A child process for cases, started when it is first needed."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def run(
        self, case: Case, strategies: tuple[str, ...] | None, seconds: float, walking: float | None = None
    ) -> Outcome:
        """Run a case as `run_case` does.

        Args:
            seconds: a case that takes longer hangs.
            walking: walks end after this time; None: after half of the other.

        Raises:
            Ended: the child hung or crashed.
        """
        if self._pool is None:
            self._stack = tempfile.NamedTemporaryFile("r", prefix="equimask-fuzz-")  # noqa: SIM115 - `close` does
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, context, _begin, (self._stack.name,))
        try:
            answer = self._pool.submit(_run, case, strategies, seconds, walking or seconds / 2)
            outcome, resident = answer.result()
        except BrokenProcessPool:
            stack = self._stack.read()
            self.close()
            raise Ended(stack) from None
        if resident > MOST_BYTES:
            self.close()
        return outcome

    def close(self) -> None:
        """End the child; the next case starts another."""
        if self._pool is not None:
            self._pool.shutdown()
            self._stack.close()
            self._pool = None


_stack: Any = None
"""The file to which a child writes its stack."""


def _begin(stack: str) -> None:
    """Prepare a child."""
    global _stack
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stderr.fileno())  # XGrammar warns of every refused token
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no child outlives its parent
        resource.setrlimit(resource.RLIMIT_DATA, (BOUND_BYTES, BOUND_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _stack = open(stack, "w")  # noqa: SIM115 - as long as the process
    faulthandler.enable(_stack, all_threads=False)


def _run(
    case: Case, strategies: tuple[str, ...] | None, seconds: float, walking: float
) -> tuple[Outcome, int]:
    faulthandler.dump_traceback_later(seconds, exit=True, file=_stack)
    try:
        return run_case(case, strategies, seconds=walking), resident_bytes()
    finally:
        faulthandler.cancel_dump_traceback_later()
