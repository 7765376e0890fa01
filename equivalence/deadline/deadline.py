"""Deadlines: when a computation has to be over, by the clock or by somebody's word.

What: a `Deadline` is made where a computation begins and handed down through its phases. Python code calls
`check` between steps; kernels, which run without the interpreter's lock, look at its `cell`, which another
thread sets to 1 (`stopping` names the phase that they belong to).
When: one for each compilation; thread-safe.
Limits: whoever computes has to look. What cannot look (code of other libraries) is estimated before it is
called, or called in a process that can be ended.

The clock of deadlines (`equivalence.deadline.clock`) is monotonic. One thread wakes for all deadlines of the
program (`equivalence.deadline.alarm`), another hears of Ctrl-C while kernels run
(`equivalence.deadline.interrupts`).
"""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from equivalence import forking
from equivalence.deadline import alarm, clock, interrupts
from equivalence.errors import BudgetExceeded

_lock = forking.listed(threading.RLock(), forking.Order.BRIEF)
"""Of what deadlines are told and watch, for all of them: it is held for a microsecond. A handler of signals
that comes in between may compile, too."""


class Deadline:
    """When a computation has to be over.

    Args:
        seconds: from now on, at most `clock.LONGEST`; ``None``: whenever it likes, unless it is cancelled.
        within: a deadline that this is a part of: what is over for it is over for this one too.
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
        """Whether nothing more is to be computed."""
        return self._cancelled or (self.ends is not None and clock.now() >= self.ends)

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least 0; ``None``: as many as it takes."""
        if self._cancelled:
            return 0.0
        return None if self.ends is None else max(self.ends - clock.now(), 0.0)

    def check(self, phase: str, seconds: float = 0.0) -> None:
        """Go on, if there is time.

        Args:
            phase: what begins.
            seconds: what it takes at least, where nobody can interrupt it.

        Raises:
            BudgetExceeded: there is none, or less than that; the message names the phase.
        """
        # `is_over`, written out: a schema's grammar asks this 25 times
        if self._cancelled or (self.ends is not None and clock.now() >= self.ends):
            raise self.error(phase)
        left = self.left if seconds else None
        if left is not None and left < seconds:
            raise BudgetExceeded(
                f"{phase} takes {seconds:.2f} s that cannot be interrupted, and {left:.2f} of the budget's "
                "are left; raise them, or simplify the grammar"
            )

    def error(self, phase: str) -> BudgetExceeded:
        """The error of a computation that was over in some phase.

        Raises:
            KeyboardInterrupt: it is over because Ctrl-C was pressed.
        """
        one: Deadline | None = self
        while one is not None:
            if one._interrupted:
                raise KeyboardInterrupt
            one = one._within
        if self._cancelled:
            return BudgetExceeded(f"cancelled in {phase}")
        return BudgetExceeded(
            f"the budget's seconds were used up in {phase}; raise them, or simplify the grammar"
        )

    def cancel(self) -> None:
        """Let the computation end as soon as it looks."""
        with _lock:
            self._cancelled = True
            told = list(self._told)
        self.ring()
        for call in told:
            call()

    def interrupt(self) -> None:
        """Let it end as by `cancel`, because Ctrl-C was pressed."""
        self._interrupted = True
        self.cancel()

    def interruptible(self) -> contextlib.AbstractContextManager[None]:
        """While this lasts, Ctrl-C ends kernels of the main thread too, where that can be."""
        return interrupts.Watched(self.interrupt)

    def part(self, share: float = 1.0) -> Deadline:
        """A deadline for a share of the seconds that are left, cancelled with the whole; a ``with`` statement
        closes it."""
        left = self.left
        return Deadline(None if left is None else share * left, within=self)

    def __enter__(self) -> Deadline:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def when_cancelled(self, call: Callable[[], object]) -> WhenCancelled:
        """While this lasts, `cancel` makes a call too, in its own thread; at once if it came before."""
        return WhenCancelled(self, call)

    @property
    def cell(self) -> NDArray[np.int64]:
        """int64[1], which becomes 1 as soon as the deadline is over: what kernels look at."""
        cell = self._cell
        if cell is None:
            with _lock:
                if (cell := self._cell) is None:
                    cell = self._cell = np.zeros(1, np.int64)
            if self.ends is not None:
                alarm.watch(self)
        elif self.ends is not None:
            alarm.look_after()
        if self.is_over:
            cell[0] = 1
        return cell

    def stopping(self, phase: str) -> Stop:
        """A phase, for a ``with`` statement: what its kernels look at.

        Raises:
            BudgetExceeded: there is no time for it, or it stopped; the message names the phase.
        """
        return Stop(self, phase)

    def close(self) -> None:
        """Forget a part that is done with; a deadline that is no part needs no closing."""
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
        """Tell all kernels that its time has come."""
        cell = self._cell
        if cell is not None:
            cell[0] = 1


class WhenCancelled:
    """What `Deadline.when_cancelled` gives to a ``with`` statement."""

    def __init__(self, deadline: Deadline, call: Callable[[], object]) -> None:
        self._deadline, self._call = deadline, call

    def __enter__(self) -> None:
        try:
            self._deadline._tell(self._call)
        except BaseException:  # Ctrl-C, which may come as soon as it is told
            self._deadline._tell_not(self._call)
            raise

    def __exit__(self, *error: object) -> None:
        self._deadline._tell_not(self._call)


class Stop:
    """What the kernels of a phase look at, and who called them afterwards.

    Attributes:
        cell: int64[1]; a kernel that finds a 1 there returns at once, with nothing that may be used.
    """

    def __init__(self, deadline: Deadline, phase: str) -> None:
        self.cell = deadline.cell
        self._deadline, self._phase = deadline, phase

    def __enter__(self) -> Stop:
        self._deadline.check(self._phase)
        return self

    def __exit__(self, error: type[BaseException] | None, *others: object) -> None:
        if error is None:
            self.look()

    def look(self) -> None:
        """Go on with what a kernel gave, unless it may have stopped.

        Raises:
            BudgetExceeded: it may.
        """
        if self.cell[0]:
            raise self._deadline.error(self._phase)


def free_frames(error: BaseException) -> None:
    """Let an error keep its traceback, but not the arrays of the computation that it ended.

    Frames that have returned forget their variables, in the tracebacks of all errors behind it too: whoever
    keeps an error (a future does) would keep hundreds of MiB with it.
    """
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            pending += [one.__cause__, one.__context__]
