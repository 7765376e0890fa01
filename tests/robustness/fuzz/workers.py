"""Processes that run the cases of `tests.robustness.fuzz`, and are ended where a case hangs or crashes.

What: a `Worker` is one long-lived child that answers one question at a time; `Worker.ask` raises `Hung` or
`Crashed` where it does not, and the next question starts a new child.
When: by `tests.robustness.fuzz`, so that a hang or a crash costs one case, and is known by its seed.
Limits: memory of a child is bounded on Linux only. A child is started anew once it holds `MOST_BYTES`.
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
from collections.abc import Callable
from contextlib import suppress
from itertools import islice, takewhile
from multiprocessing.connection import Connection
from typing import Any

from bench.workloads import load_vocabulary
from tests.robustness.documents import resident_bytes
from tests.robustness.fuzz.inputs import Case
from tests.robustness.fuzz.minimise import minimise
from tests.robustness.fuzz.run import run_case, vocabulary_of
from tests.robustness.fuzz.walks import Finding, Outcome

MOST_BYTES = 3 * 2**30
"""Resident memory with which a child takes no further case."""

BOUND_BYTES = 12 * 2**30
"""Address space of a child: what XGrammar asks for beyond is refused, which ends the child."""

START_SECONDS = 300.0
"""Of a child, which loads vocabularies."""

FRAMES = 30
"""Frames that are told of a child that hung or crashed: all of the case, if it is no deeper."""

TELL_SECONDS = 10.0
"""A child that hung may take so long to write its stack: other work may share the machine."""


class Hung(Exception):
    """No answer in time; the child was ended. The message has the stack that it hung in."""


class Crashed(Exception):
    """The child ended by itself. The message has the stack where it did."""


class Worker:
    """A child process for cases.

    Args:
        specs: SPECs of the real vocabularies, which the child loads when it starts.
    """

    def __init__(self, specs: tuple[str, ...]) -> None:
        self._specs = specs
        self._process: Any = None
        self._stack: Any = None
        self._connection: Any = None

    def ask(self, question: str, *arguments: Any, seconds: float) -> Any:
        """Call ``question`` of the child.

        Raises:
            Hung: no answer within `seconds`.
            Crashed: the child ended.
        """
        if self._process is None:
            self._start()
        answer, resident = self._exchange((question, arguments), seconds)
        if resident > MOST_BYTES:
            self.close()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._stack = tempfile.NamedTemporaryFile("r", prefix="equimask-fuzz-")  # noqa: SIM115 - `close` does
        self._process = context.Process(target=_serve, args=(theirs, self._specs, self._stack.name))
        self._process.start()
        theirs.close()
        self._exchange(("ready", ()), START_SECONDS)

    def _exchange(self, message: Any, seconds: float) -> Any:
        try:
            self._connection.send(message)
            if self._connection.poll(seconds):
                return self._connection.recv()
        except (EOFError, OSError):
            self._process.join(5)
            code = self._process.exitcode
            raise Crashed(f"the process ended with status {code}{self._ended()}") from None
        # The handler interrupts the thread whose stack it writes: read by another thread while it changes, a
        # stack ends the process now and then.
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
        self._process.join(TELL_SECONDS)  # after its stack is written, the signal ends it
        raise Hung(f"no answer within {seconds:g} s{self._ended()}")

    def _ended(self) -> str:
        """End the child, and what it was in, from where it was outwards, up to what answers the question."""
        self._stack.seek(0)
        told = self._stack.read().splitlines()
        self.close()
        frames = [line.strip() for line in told if line.lstrip().startswith("File ")]
        of_case = takewhile(lambda line: not line.startswith(f'File "{__file__}"'), frames)
        return "".join(f"\n    {line}" for line in islice(of_case, FRAMES))

    def close(self) -> None:
        """End the child; the next question starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._stack.close()
            self._process = self._connection = self._stack = None


def _serve(connection: Connection, specs: tuple[str, ...], stack: str) -> None:
    """Answer questions until nobody asks any more."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stderr.fileno())  # XGrammar warns of every refused token
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no child hangs on without its parent
        resource.setrlimit(resource.RLIMIT_DATA, (BOUND_BYTES, BOUND_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    real = {spec: load_vocabulary(spec).prepare() for spec in specs}
    told = open(stack, "w")  # noqa: SIM115 - as long as the process
    faulthandler.enable(told, all_threads=False)
    faulthandler.register(signal.SIGUSR1, told, all_threads=False, chain=True)
    while True:
        try:
            question, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer: Any = ANSWERS[question](real, *arguments)
        except Exception as error:  # noqa: BLE001 - raised again by the parent
            answer = RuntimeError(f"{type(error).__name__}: {error}")
        connection.send((answer, resident_bytes()))


def _run(real: dict[str, Any], case: Case, strategies: tuple[str, ...] | None, seconds: float) -> Outcome:
    return run_case(case, vocabulary_of(case, real), strategies, seconds=seconds)


def _minimise(real: dict[str, Any], case: Case, finding: Finding) -> tuple[Case, Finding]:
    return minimise(case, finding, real)


ANSWERS: dict[str, Callable[..., Any]] = {"ready": lambda real: True, "run": _run, "minimise": _minimise}
"""What a child can be asked; each call begins with the real vocabularies by SPEC."""
