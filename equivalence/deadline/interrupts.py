"""Ctrl-C while a kernel runs: the kernel ends, and `KeyboardInterrupt` is raised.

What: Python calls handlers of signals in the main thread, between two of its own steps, and a kernel is one
step of seconds. While `Watched` lasts, a thread hears of the signal and calls what stops the kernels of the
main thread; as soon as they return, Python's own handler raises the exception.
When: by `equivalence.deadline.deadline`, around a whole computation.
Limits: only where Ctrl-C means `KeyboardInterrupt` (Python's default handler) and nobody else has asked for
the signals' wake-up file (an event loop has); elsewhere, and on Windows, it is heard when the kernel returns.
XGrammar's own code is not stopped by this.

The wake-up file is the one way by which Python lets another thread hear of a signal before the main thread
has time for it. It is the program's, not ours: it is taken for as long as a computation lasts, and left as it
was; what is written in the moment in which its owner is found out is passed on to the owner.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable

from equivalence import forking

NOBODY = -1

_lock = forking.listed(threading.RLock(), forking.Order.BRIEF)  # of the two below
_call: Callable[[], object] | None = None  # stops what the main thread computes
_owner = NOBODY  # somebody else's wake-up file

# `signal.getsignal` looks for a number's name first, by an exception that it catches: 25 us for each grammar
_handler_of: Callable[[int], object] = getattr(signal, "_signal", signal).getsignal

_thread: threading.Thread | None = None
_reading = _writing = NOBODY  # a pipe of our own


class Watched:
    """While this lasts, make a call in another thread when Ctrl-C is pressed.

    Args:
        call: lets the computation of the main thread end; the interrupt is raised by Python itself.

    Raises:
        KeyboardInterrupt: also where a kernel made a `SystemError` of it: compiled code that calls Python to
            return a tuple does not look whether it was interrupted there.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._listening = False
        self._wanted = call

    def __enter__(self) -> None:
        global _call, _owner
        if not _is_possible() or not _is_heard():
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
    """Whether this thread, and this program, may listen."""
    return (
        _call is None  # of a computation within another one, the outer listens
        and threading.current_thread() is threading.main_thread()
        and _handler_of(signal.SIGINT) is signal.default_int_handler
        and sys.platform != "win32"
    )


def _set(file: int) -> int:
    """Set the wake-up file; whose it was, if it was not ours."""
    before = signal.set_wakeup_fd(file, warn_on_full_buffer=False)
    return NOBODY if before == _writing else before


def _give_back() -> None:
    """Leave the wake-up file to whom it belongs."""
    global _owner
    with _lock:
        now = _set(_writing)  # what is written before the next line is passed on
        _owner = _owner if now == NOBODY else now
        _set(_owner)


def _is_heard() -> bool:
    """Whether a thread listens, after beginning it if need be."""
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
    while signals := os.read(reading, 64):
        with _lock:
            call, owner = _call, _owner
        if owner != NOBODY:
            with contextlib.suppress(OSError):
                os.write(owner, signals)
        if call is not None and signal.SIGINT in signals:
            call()


def _in_child() -> None:
    """The pipe is the other process's: what is written there would stop kernels there."""
    global _thread, _writing, _reading, _call, _owner
    if _writing != NOBODY:
        now = _set(NOBODY)
        if now != NOBODY:
            _set(now)
        os.close(_writing)
        os.close(_reading)
    _thread, _writing, _reading, _call, _owner = None, NOBODY, NOBODY, None, NOBODY


forking.in_child(_in_child)
