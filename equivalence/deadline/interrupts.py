"""Ctrl-C while a kernel runs: the kernel ends, and `KeyboardInterrupt` is raised.

What: Python runs signal handlers in the main thread, between two instructions, and a kernel of several
seconds is one instruction. Inside of `Watched`, another thread receives the signal, and stops the kernels of
the main thread. As soon as they return, Python's own handler raises the exception.
When: used by `equivalence.deadline.deadline`, around a whole computation.
Limits: only if Ctrl-C means `KeyboardInterrupt` (Python's default handler), and if nobody else uses the
wake-up file of signals (event loops do). Otherwise, and on Windows, Ctrl-C has an effect when the kernel
returns. XGrammar's own code is not stopped.

The wake-up file is the only way in which another thread learns of a signal before the main thread handles it.
It belongs to the program. So it is set during a computation and restored afterwards; bytes that arrive while
its owner is being determined are passed on to the owner.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable

from equivalence import forks

NOBODY = -1

_lock = forks.registered(threading.RLock(), forks.Order.BRIEF)  # of the two below
_call: Callable[[], object] | None = None  # stops the computation of the main thread
_owner = NOBODY  # the wake-up file of somebody else

# `signal.getsignal` first looks for the name of a number, with an exception: 25 us for each grammar
_handler_of: Callable[[int], object] = getattr(signal, "_signal", signal).getsignal

_thread: threading.Thread | None = None
_is_running = False  # whether it listens
_reading = _writing = NOBODY  # our own pipe
_main_thread = threading.main_thread().ident  # a fork may make another thread the main one


class Watched:
    """Inside of this ``with`` statement, Ctrl-C makes a call in another thread.

    Args:
        call: stops the computation of the main thread. Python itself raises the interrupt.

    Raises:
        KeyboardInterrupt: also if a kernel turned it into a `SystemError`: compiled code does not check for
            interrupts where it makes the tuple that it returns.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._listening = False
        self._wanted = call

    def __enter__(self) -> None:
        global _call, _owner
        if not _is_possible() or not (_is_running or _is_heard()):
            return
        self._listening = True
        try:
            with _lock:
                _owner = _set(_writing)
                _call = self._wanted
            if _owner != NOBODY:
                _give_back()
        except BaseException:
            self._end()
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._end()
        if isinstance(error, SystemError) and _was_interrupted(error):
            raise KeyboardInterrupt from error

    def _end(self) -> None:
        global _call
        if self._listening:
            self._listening, _call = False, None
            _give_back()


def _was_interrupted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _is_possible() -> bool:
    """Whether this thread may set the wake-up file."""
    return (
        _call is None  # if one computation runs inside of another, the outer one listens
        and threading.get_ident() == _main_thread
        and _handler_of(signal.SIGINT) is signal.default_int_handler
        and sys.platform != "win32"
    )


def _set(file: int) -> int:
    """Set the wake-up file. Return the former one if it was not ours."""
    before = signal.set_wakeup_fd(file, warn_on_full_buffer=False)
    return NOBODY if before == _writing else before


def _give_back() -> None:
    """Restore the wake-up file of its owner."""
    global _owner
    with _lock:
        if _owner == NOBODY:  # nearly always: the other way asks the system four times, for 2 us
            now = signal.set_wakeup_fd(NOBODY)
            if now not in (NOBODY, _writing):  # a signal handler's
                _set(now)
            return
        now = _set(_writing)  # what is written before the next line is passed on
        _owner = _owner if now == NOBODY else now
        _set(_owner)


def _is_heard() -> bool:
    """Start the thread that listens, if necessary. Return whether it runs."""
    global _thread, _writing, _reading
    if _writing == NOBODY:
        _reading, _writing = os.pipe()
        os.set_blocking(_writing, False)
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_run, args=(_reading,), name="equimask-interrupts", daemon=True)
        with contextlib.suppress(RuntimeError):  # the program is ending: no more threads
            _thread.start()
    return _thread.is_alive()


def _run(reading: int) -> None:
    global _is_running
    _is_running = True
    try:
        while signals := os.read(reading, 64):
            with _lock:
                call, owner = _call, _owner
            if owner != NOBODY:
                with contextlib.suppress(OSError):
                    os.write(owner, signals)
            if call is not None and signal.SIGINT in signals:
                call()
    finally:
        _is_running = False


def _in_child() -> None:
    """After a fork, the pipe belongs to the parent: what is written to it would stop the parent's kernels."""
    global _thread, _is_running, _main_thread, _writing, _reading, _call, _owner
    if _writing != NOBODY:
        now = _set(NOBODY)
        if now != NOBODY:
            _set(now)
        os.close(_writing)
        os.close(_reading)
    _thread, _writing, _reading, _call, _owner = None, NOBODY, NOBODY, None, NOBODY
    _is_running, _main_thread = False, threading.main_thread().ident


forks.in_child(_in_child)
