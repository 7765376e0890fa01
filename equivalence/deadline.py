"""Deadlines: when a computation has to be over, by the clock or by somebody's word.

What: a `Deadline` is made where a computation begins and handed down through its phases. Python code calls
`check` between steps; kernels, which run without the interpreter's lock, look at a cell of an array that
`watched` sets to 1 from another thread (`stopping` makes one for kernels that have no such array).
When: one for each compilation; thread-safe.
Limits: whoever computes has to look. What cannot look (code of other libraries) is estimated before it is
called, or called in a process that can be ended.

The clock of deadlines stands still while kernels are compiled (`hold`, called by `hybrid.warmup`): that is
done once per machine, takes some minutes, and is the time of no grammar.

One thread wakes for all deadlines of the program: a timer's own thread for each took 60 to 100 us of a
compilation.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import BudgetExceeded

HELD_SECONDS = 0.01
"""How often the time is asked for while the clock is held."""


class _Clock:
    """Seconds that count: those of the system's clock but for the time in which it was held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._since = 0.0
        self._held = 0.0

    def now(self) -> float:
        with self._lock:
            return (self._since if self._holders else time.monotonic()) - self._held

    @property
    def is_held(self) -> bool:
        return self._holders > 0

    def forked(self) -> _Clock:
        """This clock in a process that was forked, where nobody holds it, nor its lock."""
        clock = _Clock()
        clock._held = self._held
        return clock

    def hold(self) -> None:
        with self._lock:
            if not self._holders:
                self._since = time.monotonic()
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders:
                self._held += time.monotonic() - self._since


_clock = _Clock()


def hold() -> None:
    """Let the seconds of all deadlines stand still until `release` is called as often."""
    _clock.hold()


def release() -> None:
    """Let them go on."""
    _clock.release()


class Deadline:
    """When a computation has to be over.

    Args:
        seconds: from now on; ``None``: whenever it likes, unless it is cancelled.
        within: a deadline that this is a part of: what is over for it is over for this one too.
    """

    def __init__(self, seconds: float | None = None, *, within: Deadline | None = None) -> None:
        self.seconds = seconds
        self.ends = None if seconds is None else _clock.now() + seconds
        self._within = within
        if within is not None and within.ends is not None:
            self.ends = within.ends if self.ends is None else min(self.ends, within.ends)
        self._lock = threading.Lock()
        self._cells: list[tuple[Any, int]] = []
        self._told: list[Callable[[], object]] = []  # called by `cancel`
        self._cancelled = False
        self._is_awaited = False
        if within is not None:
            within._tell(self.cancel)

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody called `cancel`."""
        return self._cancelled

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be computed."""
        return self._cancelled or (self.ends is not None and _clock.now() >= self.ends)

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least 0; ``None``: as many as it takes."""
        if self._cancelled:
            return 0.0
        return None if self.ends is None else max(self.ends - _clock.now(), 0.0)

    def check(self, phase: str, seconds: float = 0.0) -> None:
        """Go on, if there is time.

        Args:
            phase: what begins.
            seconds: what it takes at least, where nobody can interrupt it.

        Raises:
            BudgetExceeded: there is none, or less than that; the message names the phase.
        """
        if self.is_over:
            raise self.error(phase)
        left = self.left if seconds else None
        if left is not None and left < seconds:
            raise BudgetExceeded(
                f"{phase} takes {seconds:.2f} s that cannot be interrupted, and {left:.2f} of the budget's "
                "are left; raise them, or simplify the grammar"
            )

    def error(self, phase: str) -> BudgetExceeded:
        """The error of a computation that was over in some phase."""
        if self._cancelled:
            return BudgetExceeded(f"cancelled in {phase}")
        return BudgetExceeded(
            f"the budget's seconds were used up in {phase}; raise them, or simplify the grammar"
        )

    def cancel(self) -> None:
        """Let the computation end as soon as it looks."""
        with self._lock:
            self._cancelled = True
            cells, told = list(self._cells), list(self._told)
        for array, place in cells:
            array[place] = 1
        for call in told:
            call()

    @contextlib.contextmanager
    def part(self, share: float = 1.0) -> Iterator[Deadline]:
        """While this lasts, a deadline for a share of the seconds that are left; cancelled with the whole."""
        left = self.left
        part = Deadline(None if left is None else share * left, within=self)
        try:
            yield part
        finally:
            part.close()

    @contextlib.contextmanager
    def when_cancelled(self, call: Callable[[], object]) -> Iterator[None]:
        """While this lasts, `cancel` makes a call too, in its own thread; at once if it came before."""
        self._tell(call)
        try:
            yield
        finally:
            self._tell_not(call)

    @contextlib.contextmanager
    def watched(self, array: Any, place: int) -> Iterator[None]:
        """While this lasts, ``array[place]`` becomes 1 as soon as the deadline is over."""
        cell = (array, place)
        with self._lock:
            self._cells.append(cell)
            awaited, self._is_awaited = self._is_awaited, True
            if self.is_over:
                array[place] = 1
        if self.ends is not None and not awaited:
            _alarm.add(self)
        try:
            yield
        finally:
            with self._lock:
                self._cells = [one for one in self._cells if one is not cell]

    @contextlib.contextmanager
    def stopping(self, phase: str) -> Iterator[Stop]:
        """A phase: while it lasts, a cell for its kernels.

        Raises:
            BudgetExceeded: there is no time for it, or it stopped; the message names the phase.
        """
        self.check(phase)
        stop = Stop(self, phase)
        with self.watched(stop.cell, 0):
            yield stop
        stop.look()

    def close(self) -> None:
        """Forget a part that is done with; a deadline that is no part needs no closing."""
        if self._within is not None:
            self._within._tell_not(self.cancel)

    def _tell(self, call: Callable[[], object]) -> None:
        with self._lock:
            self._told.append(call)
            cancelled = self._cancelled
        if cancelled:
            call()

    def _tell_not(self, call: Callable[[], object]) -> None:
        with self._lock:
            if call in self._told:
                self._told.remove(call)

    def _ring(self) -> None:
        with self._lock:
            cells = list(self._cells)
        for array, place in cells:
            array[place] = 1


class Stop:
    """What the kernels of a phase look at, and who called them afterwards.

    Attributes:
        cell: int64[1]; a kernel that finds a 1 there returns at once, with nothing that may be used.
    """

    def __init__(self, deadline: Deadline, phase: str) -> None:
        self.cell: NDArray[np.int64] = np.zeros(1, np.int64)
        self._deadline, self._phase = deadline, phase

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


class _Alarm:
    """One daemon thread that sleeps until the next deadline; begun with the first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._order = itertools.count()
        # weak: who is done with a deadline should not keep it, and what it tells, until its time has come
        self._waiting: list[tuple[float, int, weakref.ref[Deadline]]] = []
        self._thread: threading.Thread | None = None

    def add(self, deadline: Deadline) -> None:
        assert deadline.ends is not None
        with self._changed:
            entry = deadline.ends, next(self._order), weakref.ref(deadline)
            heapq.heappush(self._waiting, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="equimask-deadlines", daemon=True)
                self._thread.start()
            elif self._waiting[0] is entry:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting or (left := self._waiting[0][0] - _clock.now()) > 0:
                    # a clock that is held does not come nearer
                    least = HELD_SECONDS if _clock.is_held else 0.0
                    self._changed.wait(max(left, least) if self._waiting else None)
                deadline = heapq.heappop(self._waiting)[2]()
            if deadline is not None:
                deadline._ring()
            del deadline


_alarm = _Alarm()


def _after_fork() -> None:
    """A forked process has no such thread, and perhaps a lock that nobody will release."""
    global _alarm, _clock
    _alarm = _Alarm()
    _clock = _clock.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
