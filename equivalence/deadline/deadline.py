# cython: language_level=3
# mypy: ignore-errors
"""Deadlines: a computation ends when its time is over, when somebody cancels it, or when Ctrl-C is pressed.

What: a `Deadline` is made at the start of a computation and passed to all of its phases. Python code calls
`check` between steps. Kernels, which run without the interpreter's lock, belong to a phase; its `Stop` looks
at the clock for them (`equivalence.arrays.account.Account.check`).
When: one for each compilation; thread-safe.
Limits: code must look at the deadline. Code of other libraries cannot; its time is estimated before it is
called, or it is called in a process that can be killed. A kernel notices Ctrl-C only in the main thread, and
only if Ctrl-C means `KeyboardInterrupt` (Python's own handler).

The clock (`equivalence.deadline.clock`) is monotonic.

Rejected: a thread that waits for all deadlines of the program and sets numbers that kernels look at, and
another one that receives Ctrl-C through the wake-up file of signals. Both had to be started again after a
fork, the file belongs to event loops, and together they took 4% of the time to a first mask.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.equivalence.atomic import publish_int, published_int
from cython.cimports.equivalence.deadline.clock import read
from cython.cimports.equivalence.deadline.system import (
    PyOS_InterruptOccurred,
    PyThread_get_thread_ident,
)
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.libc.math import INFINITY

from equivalence import forks
from equivalence.deadline.clock import LONGEST
from equivalence.errors import BudgetExceeded

check_source(__name__)

Seconds = float | None

CHECKS_A_LOOK = cython.declare(cython.Py_ssize_t, 32)
"""A kernel with quick steps looks at the clock at each 32nd check, which costs a check a nanosecond."""

QUICK_SECONDS = cython.declare(cython.double, 5e-5)
"""If more seconds have passed since the last look, it looks at the next check again."""

HEARING_SECONDS = cython.declare(cython.double, 0.05)
"""Seconds between two looks whether Ctrl-C was pressed. They need the interpreter's lock, for which a thread
may wait 5 ms."""

# `signal.getsignal` first looks for the name of a number, with an exception: 25 us
_handler_of = getattr(signal, "_signal", signal).getsignal

_main_thread = cython.declare(cython.ulong, 0)


def _find_main_thread() -> None:
    """Note which thread is the main one: after a fork it is the one that forked."""
    global _main_thread
    _main_thread = threading.main_thread().ident


_find_main_thread()
forks.in_child(_find_main_thread)


@cython.cclass
class Deadline:
    """The end of a computation.

    Args:
        seconds: time from now on, at most `clock.LONGEST`; None: it ends only if it is cancelled.
        within: a deadline of which this one is a part: when that one is over, this one is over, too.

    Attributes:
        seconds: the argument.
    """

    def __init__(self, seconds: Seconds = None, *, within: Any = None) -> None:
        self.seconds = seconds
        self._ends = INFINITY if seconds is None else read() + min(seconds, LONGEST)
        if within is not None:
            whole: Deadline = within
            self._ends = min(self._ends, whole._ends)
            with cython.critical_section(whole):
                if whole._parts is None:
                    whole._parts = []
                whole._parts.append(self)
                self._is_cancelled = whole._is_cancelled

    @property
    def ends(self) -> Seconds:
        """Its end in the time of `clock.now`; None: there is none."""
        return None if self._ends == INFINITY else self._ends

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody called `cancel`."""
        return published_int(cython.address(self._is_cancelled)) != 0

    @property
    def is_over(self) -> bool:
        """Whether the computation must end."""
        return self.passed(read())

    def passed(self, now):
        """`is_over` at a time."""
        return now >= self._ends or published_int(cython.address(self._is_cancelled)) != 0

    @property
    def left(self) -> Seconds:
        """Seconds that are left, at least 0; None: any number."""
        if self.is_cancelled:
            return 0.0
        return None if self._ends == INFINITY else max(self._ends - read(), 0.0)

    def check(self, phase: str, seconds: cython.double = 0.0) -> object:
        """Check that there is time left.

        Args:
            phase: the phase that begins.
            seconds: least time of the phase, if it cannot be interrupted.

        Raises:
            BudgetExceeded: there is no time left, or less than that; the message names the phase.
        """
        if self.passed(read()):
            raise self.error(phase)
        left = self.left if seconds else None
        if left is not None and left < seconds:
            raise BudgetExceeded(
                f"{phase} would take {seconds:.2f} s and cannot be interrupted, but only {left:.2f} s "
                "are left; raise Budget.seconds, or simplify the grammar"
            )

    def error(self, phase: str) -> BudgetExceeded:
        """The error of a computation that ended in some phase."""
        if self.is_cancelled:
            return BudgetExceeded(f"cancelled in this phase: {phase}")
        return BudgetExceeded(
            f"the time limit was reached in this phase: {phase}; raise Budget.seconds, or simplify the "
            "grammar"
        )

    def cancel(self) -> object:
        """End the computation and its parts at their next checks."""
        told: list = []
        parts: list = []
        with cython.critical_section(self):
            publish_int(cython.address(self._is_cancelled), 1)
            if self._told is not None:
                told += self._told
            if self._parts is not None:
                parts += self._parts
        for part in parts:
            part.cancel()
        for call in told:
            call()

    def part(self, share: cython.double = 1.0) -> Deadline:
        """A deadline for a share of the seconds that are left. It is cancelled with this one."""
        left = self.left
        return Deadline(None if left is None else share * left, within=self)

    def when_cancelled(self, call: Callable[[], object]) -> WhenCancelled:
        """Inside of a ``with`` statement, `cancel` also makes a call, in its own thread. If it was cancelled
        before, the call is made at once."""
        return WhenCancelled(self, call)

    def stopping(self, phase: str) -> Stop:
        """A phase with kernels, for a ``with`` statement.

        Raises:
            BudgetExceeded: there is no time left, or the kernels were stopped; the message names the phase.
        """
        return Stop(self, phase)


@cython.final
@cython.cclass
class WhenCancelled:
    """The context manager of `Deadline.when_cancelled`."""

    _deadline: Deadline
    _call: object

    def __init__(self, deadline: Deadline, call: object) -> None:
        self._deadline, self._call = deadline, call

    def __enter__(self) -> object:
        deadline: Deadline = self._deadline
        is_cancelled: cython.bint
        try:
            with cython.critical_section(deadline):
                if deadline._told is None:
                    deadline._told = []
                deadline._told.append(self._call)
                is_cancelled = deadline._is_cancelled
            if is_cancelled:
                self._call()
        except BaseException:  # Ctrl-C, if the call is made at once
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> object:
        deadline: Deadline = self._deadline
        with cython.critical_section(deadline):
            told: list = deadline._told
            for i in range(0 if told is None else len(told)):
                if told[i] == self._call:
                    del told[i]
                    break


@cython.final
@cython.cclass
class Stop:
    """Stops the kernels of a phase.

    A kernel that must stop raises an error, and its results must not be used.
    """

    def __init__(self, deadline: Deadline, phase: str) -> None:
        self._deadline, self._phase = deadline, phase
        self._every = 1
        self._looked = read()
        self._heard = 0.0

    def __enter__(self) -> Stop:
        self.check()
        return self

    def __exit__(self, error: object, value: object, trace: object) -> object:
        if error is None:
            self.check()

    def check(self) -> object:
        """Check that there is time left.

        Raises:
            BudgetExceeded: there is none.
        """
        if self._deadline.passed(read()):
            raise self._deadline.error(self._phase)

    def look(self):
        """Look at the clock, and sometimes for Ctrl-C.

        Returns:
            How many checks need not look until the next one does.

        Raises:
            BudgetExceeded: there is no time left. KeyboardInterrupt: Ctrl-C was pressed.
        """
        now: cython.double = read()
        if self._deadline.passed(now):
            with cython.gil:
                self.check()
        self._every = 1 if now - self._looked > QUICK_SECONDS else min(2 * self._every, CHECKS_A_LOOK)
        self._looked = now
        if now - self._heard > HEARING_SECONDS:
            if self._heard > 0.0 and PyThread_get_thread_ident() == _main_thread:
                with cython.gil:
                    self._hear()
            self._heard = now  # a kernel seldom takes so long that it looks again
        return self._every - 1

    def _hear(self):
        """Raise `KeyboardInterrupt` if Ctrl-C was pressed. Only the main thread may ask.

        No code of Python's runs here: it would call the program's handlers of signals in the middle of a
        kernel.
        """
        if _handler_of(signal.SIGINT) is signal.default_int_handler and PyOS_InterruptOccurred():
            raise KeyboardInterrupt


def free_frames(error: BaseException) -> None:
    """Release the arrays of the computation that an error ended; the error keeps its traceback.

    The variables of frames that have returned are cleared, also in the tracebacks of its causes. Otherwise,
    everything that keeps an error (a future does) would keep hundreds of MiB.
    """
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            pending += [one.__cause__, one.__context__]
