"""Deadlines: a computation ends when its time is over, or when somebody cancels it.

What: a `Deadline` is made at the start of a computation and passed to all of its phases. Python code calls
`check` between steps. Kernels, which run without the interpreter's lock, look at its `cell`, which another
thread sets to 1; `stopping` names their phase.
When: one for each compilation; thread-safe.
Limits: code must look at the deadline. Code of other libraries cannot; its time is estimated before it is
called, or it is called in a process that can be killed.

The clock (`equivalence.deadline.clock`) is monotonic. One thread waits for all deadlines of the program
(`equivalence.deadline.alarm`), another one receives Ctrl-C while kernels run
(`equivalence.deadline.interrupts`).
"""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from equivalence import forks
from equivalence.deadline import alarm, clock, interrupts
from equivalence.errors import BudgetExceeded

_lock = forks.registered(threading.RLock(), forks.Order.BRIEF)
"""Protects the state of all deadlines; it is held for a microsecond. It is reentrant, because a signal
handler may run in between, and compile."""


class Deadline:
    """The end of a computation.

    Args:
        seconds: time from now on, at most `clock.LONGEST`; None: it ends only if it is cancelled.
        within: a deadline of which this one is a part: when that one is over, this one is over, too.
    """

    def __init__(self, seconds: float | None = None, *, within: Deadline | None = None) -> None:
        self.seconds = seconds
        self.ends = None if seconds is None else clock.now() + min(seconds, clock.LONGEST)
        self._within = within
        if within is not None and within.ends is not None:
            self.ends = within.ends if self.ends is None else min(self.ends, within.ends)
        self._cell: NDArray[np.int64] | None = None
        self._told: list[Callable[[], object]] = []  # called by `cancel`
        self._cancelled = self._interrupted = False
        if within is not None:
            within._tell(self.cancel)

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody called `cancel`."""
        return self._cancelled

    @property
    def is_over(self) -> bool:
        """Whether the computation must end."""
        return self._cancelled or (self.ends is not None and clock.now() >= self.ends)

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least 0; None: any number."""
        if self._cancelled:
            return 0.0
        return None if self.ends is None else max(self.ends - clock.now(), 0.0)

    def check(self, phase: str, seconds: float = 0.0) -> None:
        """Check that there is time left.

        Args:
            phase: the phase that begins.
            seconds: least time of the phase, if it cannot be interrupted.

        Raises:
            BudgetExceeded: there is no time left, or less than that; the message names the phase.
        """
        # `is_over`, written out: a schema's grammar asks this 25 times
        if self._cancelled or (self.ends is not None and clock.now() >= self.ends):
            raise self.error(phase)
        left = self.left if seconds else None
        if left is not None and left < seconds:
            raise BudgetExceeded(
                f"{phase} would take {seconds:.2f} s and cannot be interrupted, but only {left:.2f} s "
                "are left; raise Budget.seconds, or simplify the grammar"
            )

    def error(self, phase: str) -> BudgetExceeded:
        """The error of a computation that ended in some phase.

        Raises:
            KeyboardInterrupt: it ended because Ctrl-C was pressed.
        """
        one: Deadline | None = self
        while one is not None:
            if one._interrupted:
                raise KeyboardInterrupt
            one = one._within
        if self._cancelled:
            return BudgetExceeded(f"cancelled in this phase: {phase}")
        return BudgetExceeded(
            f"the time limit was reached in this phase: {phase}; raise Budget.seconds, or simplify the "
            "grammar"
        )

    def cancel(self) -> None:
        """End the computation at its next check."""
        with _lock:
            self._cancelled = True
            told = list(self._told)
        self.ring()
        for call in told:
            call()

    def interrupt(self) -> None:
        """End it like `cancel`, because Ctrl-C was pressed."""
        self._interrupted = True
        self.cancel()

    def interruptible(self) -> contextlib.AbstractContextManager[None]:
        """Inside of a ``with`` statement, Ctrl-C also ends kernels of the main thread, if possible."""
        return interrupts.Watched(self.interrupt)

    def part(self, share: float = 1.0) -> Deadline:
        """A deadline for a share of the seconds that are left. It is cancelled with this one; a ``with``
        statement closes it."""
        left = self.left
        return Deadline(None if left is None else share * left, within=self)

    def __enter__(self) -> Deadline:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def when_cancelled(self, call: Callable[[], object]) -> WhenCancelled:
        """Inside of a ``with`` statement, `cancel` also makes a call, in its own thread. If it was cancelled
        before, the call is made at once."""
        return WhenCancelled(self, call)

    @property
    def cell(self) -> NDArray[np.int64]:
        """int64[1], for kernels: it becomes 1 as soon as the deadline is over."""
        cell = self._cell
        if cell is None:
            with _lock:
                if (cell := self._cell) is None:
                    cell = self._cell = np.zeros(1, np.int64)
            if self.ends is not None:
                alarm.watch(self)
        elif self.ends is not None and not alarm.is_running:
            alarm.look_after()
        if self._cancelled or (self.ends is not None and clock.now() >= self.ends):
            cell[0] = 1
        return cell

    def stopping(self, phase: str) -> Stop:
        """A phase with kernels, for a ``with`` statement.

        Raises:
            BudgetExceeded: there is no time left, or the kernels were stopped; the message names the phase.
        """
        return Stop(self, phase)

    def close(self) -> None:
        """End the connection of a part to its whole; other deadlines need not be closed."""
        if self._within is not None:
            self._within._tell_not(self.cancel)

    def _tell(self, call: Callable[[], object]) -> None:
        with _lock:
            self._told.append(call)
            cancelled = self._cancelled
        if cancelled:
            call()

    def _tell_not(self, call: Callable[[], object]) -> None:
        with _lock:
            if call in self._told:
                self._told.remove(call)

    def ring(self) -> None:
        """Stop all kernels: the time is over."""
        cell = self._cell
        if cell is not None:
            cell[0] = 1


class WhenCancelled:
    """The context manager of `Deadline.when_cancelled`."""

    def __init__(self, deadline: Deadline, call: Callable[[], object]) -> None:
        self._deadline, self._call = deadline, call

    def __enter__(self) -> None:
        try:
            self._deadline._tell(self._call)
        except BaseException:  # Ctrl-C, which may come as soon as it is registered
            self._deadline._tell_not(self._call)
            raise

    def __exit__(self, *error: object) -> None:
        self._deadline._tell_not(self._call)


class Stop:
    """Tells the kernels of a phase when to stop.

    Attributes:
        cell: int64[1]. A kernel that finds a 1 there returns at once, and its results must not be used.
    """

    def __init__(self, deadline: Deadline, phase: str) -> None:
        self.cell = deadline.cell
        self._deadline, self._phase = deadline, phase

    def __enter__(self) -> Stop:
        if self.cell[0]:
            self.check()
        return self

    def __exit__(self, error: type[BaseException] | None, *others: object) -> None:
        if error is None and self.cell[0]:
            self.check()

    def check(self) -> None:
        """Check that no kernel was stopped, so that its results may be used.

        Raises:
            BudgetExceeded: a kernel may have been stopped.
        """
        if self.cell[0]:
            raise self._deadline.error(self._phase)


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
