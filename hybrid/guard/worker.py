"""Run tasks for XGrammar and Lark in processes that can be killed.

What: `run` lets a child of another process do one task (`hybrid.guard.process`), and waits for the answer
until a deadline; then it kills the child. That process is started when it is first needed.
When: by `hybrid.guard`, for calls that may be slow, or need too much memory or stack. Thread-safe.
Limits: it needs Linux, and a Python that can start itself (`is_available`). Starting the process takes 0.2 s,
once, and importing Lark there half a second. A task takes 2 ms, plus the time to transfer its answer. At most
`children` tasks run at once; others wait. Waiting counts towards the time of a task.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from equivalence import forks
from equivalence.deadline import Deadline
from hybrid.guard import process as protocol

FEWEST, MOST = 2, 8
"""Bounds of the number of tasks that run at once, regardless of the number of cores."""

START_SECONDS = 30.0
"""How long the process may take to start on a busy machine."""

START_POLL_SECONDS = 0.005
"""Interval between two looks whether the process has started."""

WAIT_SECONDS = 0.05
"""Interval between two checks of the deadline while a task waits for its turn."""

PACKAGES = (
    "equivalence", "equivalence.network", "equivalence.lark.lalr", "equivalence.lark.lexer", "hybrid",
    "hybrid.guard",
)  # fmt: skip
"""The packages whose modules the process imports without running their `__init__`."""

GRACE_SECONDS = 5.0
"""How long after its deadline a child kills itself, if nobody has killed it."""


class Unavailable(Exception):
    """No process can be started; the message says why."""


class Died(Exception):
    """A child ended without an answer.

    Attributes:
        signal_name: the signal that killed it; empty if there was none, or if it is unknown.
    """

    def __init__(self, status: int | None) -> None:
        self.signal_name = ""
        if status is not None and status & 0x7F:
            with contextlib.suppress(ValueError):
                self.signal_name = signal.Signals(status & 0x7F).name
        super().__init__(f"ended by {self.signal_name}" if self.signal_name else "ended without an answer")


class _Ended(Died):
    """The process that forks children ended, too."""


class Refused(Exception):
    """XGrammar raised an error; the message is XGrammar's."""


class OutOfMemory(Exception):
    """A child needed more memory than it is allowed."""


class TooLarge(Exception):
    """The answer has more bytes than allowed.

    Attributes:
        size: its bytes.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        super().__init__(f"an answer of {size} bytes")


class Task(NamedTuple):
    """A task for a child.

    Attributes:
        request: the request that `hybrid.guard.process` reads, without the bounds.
        payloads: bytes that are sent with it.
        memory_bytes: the memory that it may use in addition to that of the process at its start.
        most_bytes: bound of the answer.
        share: the share of the remaining seconds that it may take.
    """

    request: dict[str, Any]
    payloads: Sequence[bytes] = ()
    memory_bytes: int = 2**30
    most_bytes: int = 2**62
    share: float = 1.0


class _Process:
    """The process that forks children, as seen from this one. A thread waits for its start, so that callers
    need not wait longer than their deadlines."""

    def __init__(self) -> None:
        self.is_ready = False
        self.failure = ""
        self.knows_lark = False
        self.is_ended = False
        self._numbers = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None
        spec = importlib.util.find_spec("xgrammar")
        folder = os.path.dirname(spec.origin) if spec is not None and spec.origin else ""
        setup = {
            "path": sys.path,
            "library": os.path.join(folder, "libxgrammar_bindings.so"),
            "packages": {name: list(importlib.import_module(name).__path__) for name in PACKAGES},
        }
        with _opening:
            self._control, theirs = socket.socketpair()
            _open.update((self, self._control))
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", protocol.__file__], stdin=theirs.fileno(), close_fds=True
                )
        starting = threading.Thread(target=self._start, args=(setup,), name="equimask-guard", daemon=True)
        try:
            starting.start()
        except RuntimeError as error:
            self.end()
            raise Unavailable(f"it cannot be started ({error})") from error

    def _start(self, setup: dict[str, Any]) -> None:
        try:
            self._control.settimeout(START_SECONDS)
            protocol.send_frame(self._control, b"S", json.dumps(setup).encode())
            protocol.receive_frame(self._control)
            self._control.settimeout(None)
        except (OSError, EOFError) as error:
            self.failure = f"it did not start ({type(error).__name__}: {error})"
            self.end()
        finally:
            self.is_ready = True

    def submit(self, name: str) -> tuple[int, socket.socket]:
        """Request a child for a task of this name. Return its number, and the socket to it."""
        number = next(self._numbers)
        with _opening:
            try:
                mine, theirs = socket.socketpair()
            except OSError as error:
                raise Unavailable(f"it cannot be reached ({error})") from error
            _open.add(mine)
            with theirs:
                try:
                    if name == "lark" and not self.knows_lark:
                        self._control.sendall(protocol.HEADER.pack(b"L", 0))
                        self.knows_lark = True
                    message = protocol.HEADER.pack(b"T", number)
                    socket.send_fds(self._control, [message], [theirs.fileno()])
                except OSError as error:
                    mine.close()
                    self.is_ended = True
                    raise Unavailable(f"it has ended ({error})") from error
        return number, mine

    def kill(self, number: int) -> None:
        with _opening, contextlib.suppress(OSError):
            self._control.sendall(protocol.HEADER.pack(b"K", number))

    def has_ended(self) -> bool:
        """Look whether the process exists. It sends nothing after its start, so nothing can be received."""
        try:
            self._control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:  # the socket was closed at one end
            pass
        self.is_ended = True
        return True

    def end(self) -> None:
        self.is_ended = True
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        assert self._process is not None
        if not self.is_ready:  # it reads no message before it has loaded XGrammar's library
            self._process.kill()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._control.close()

    def forget(self) -> None:
        """Give up the process after a fork: it belongs to the parent."""
        if self._process is not None:
            self._process.returncode = 0  # so that nothing waits for it


_lock = forks.registered(threading.Lock(), forks.Order.SLOW)
_process: _Process | None = None
_opening = forks.registered(threading.Lock(), forks.Order.BRIEF)
"""The lock of the control socket, so that messages are sent whole. It is also held from the creation of
sockets until the other process has its ends. After a fork in between, the child would have copies of these
ends, and a thread here that waits for the other process to close them would wait for the child, too."""
_open: weakref.WeakSet[_Process | socket.socket] = weakref.WeakSet()
"""The processes and sockets that a forked process must not keep."""

_running: set[object] = set()
_waiting: dict[SimpleQueue[None], None] = {}
"""A queue for each task that waits. When a running one leaves `_running`, the first of these gets an item.

Ctrl-C may leave the lock of a `threading.Condition` or `threading.Event` locked, because Python functions
take it."""

_free_lock = forks.registered(threading.Lock(), forks.Order.BRIEF)  # of both


def is_available() -> bool:
    """Whether such a process can exist here."""
    return sys.platform == "linux" and bool(sys.executable) and hasattr(socket, "send_fds")


def run(task: Task, deadline: Deadline, phase: str) -> bytes:
    """Run a task within the time that is left.

    Args:
        task: the task.
        deadline: the deadline.
        phase: what is being done, for the error when the time is over.

    Raises:
        BudgetExceeded: the deadline is over; the child is killed.
        Refused: XGrammar raised an error.
        OutOfMemory, Died, TooLarge: see these classes.
        Unavailable: no process can be started.
    """
    if not is_available():
        raise Unavailable("it needs Linux, and a Python that can start itself")
    with _turn(deadline, phase):
        try:
            return _attempt(task, deadline, phase)
        except (Unavailable, _Ended):  # it was closed for other tasks, or killed: try again with a new one
            return _attempt(task, deadline, phase)


def _attempt(task: Task, deadline: Deadline, phase: str) -> bytes:
    current = _started(deadline, phase)
    number, channel = current.submit(task.request["task"])
    try:
        return _answer(task, channel, deadline, phase)
    except Died:
        if current.has_ended():
            raise _Ended(None) from None
        raise
    finally:
        channel.close()
        current.kill(number)


def start(is_wanted: Callable[[], bool]) -> None:
    """Start the process in the background if there is none, so that the first task need not wait 0.2 s.

    Args:
        is_wanted: whether it is still needed; called when it has started.
    """
    if is_available() and (_process is None or _process.is_ended):
        early = threading.Thread(
            target=_start_early, args=(is_wanted,), name="equimask-guard-start", daemon=True
        )
        with contextlib.suppress(RuntimeError):  # no thread can be started; a task will try again
            early.start()


def _start_early(is_wanted: Callable[[], bool]) -> None:
    with contextlib.suppress(Unavailable):  # a task will fail in the same way, and report it
        _current()
        if not is_wanted():
            close()


def close() -> None:
    """End the process, if there is one. The next task starts another one."""
    global _process
    with _lock:
        ended, _process = _process, None
    if ended is not None:
        ended.end()


def children() -> int:
    """Return how many tasks may run at once: one for each core that this process may use, by its affinity and
    its cgroup's quota, within `FEWEST` and `MOST`."""
    import joblib  # takes 0.1 s, and the first tasks need not wait for it

    return max(FEWEST, min(MOST, joblib.cpu_count()))


@contextlib.contextmanager
def _turn(deadline: Deadline, phase: str) -> Iterator[None]:
    turn, most = object(), 0
    wakes: SimpleQueue[None] = SimpleQueue()
    try:
        while True:
            with _free_lock:
                if len(_running) < max(most, FEWEST):
                    _running.add(turn)
                    break
                if most:
                    _waiting[wakes] = None
            if most:
                left = deadline.left
                with contextlib.suppress(Empty):
                    wakes.get(timeout=WAIT_SECONDS if left is None else min(left, WAIT_SECONDS))
            most = most or children()
            deadline.check(phase)
        yield
    finally:
        _running.discard(turn)  # first, so that no Ctrl-C comes before it; the rest may be left out
        with _free_lock:
            _waiting.pop(wakes, None)
            if _waiting:
                first = next(iter(_waiting))
                del _waiting[first]
                first.put(None)


def _current() -> _Process:
    """Return the process, which may still be starting."""
    global _process
    with _lock:
        current = _process
        if current is None or current.is_ended:
            if current is not None:
                current.end()
            try:
                current = _process = _Process()
            except OSError as error:
                raise Unavailable(f"it cannot be started ({error})") from error
    return current


def _started(deadline: Deadline, phase: str) -> _Process:
    current = _current()
    while not current.is_ready:
        deadline.check(f"the start of another process, for {phase}")
        time.sleep(START_POLL_SECONDS)
    if current.failure:
        raise Unavailable(current.failure)
    return current


def _answer(task: Task, channel: socket.socket, deadline: Deadline, phase: str) -> bytes:
    left = deadline.left
    seconds = None if left is None else task.share * left
    ends = None if seconds is None else time.monotonic() + seconds
    request = {
        **task.request,
        "bytes": task.memory_bytes,
        "most": task.most_bytes,
        "seconds": None if seconds is None else seconds + GRACE_SECONDS,
    }

    def stop() -> None:
        with contextlib.suppress(OSError):
            channel.shutdown(socket.SHUT_RDWR)

    with deadline.when_cancelled(stop):
        try:
            channel.settimeout(seconds)
            protocol.send_frame(channel, b"Q", json.dumps(request).encode())
            for payload in task.payloads:
                protocol.send_frame(channel, b"P", payload)
            word, payload = protocol.receive_frame(channel, ends)
        except TimeoutError as error:
            raise deadline.error(phase) from error
        except (OSError, EOFError) as error:
            deadline.check(phase)
            raise Died(None) from error
    if word == b"R":
        return payload
    if word == b"E":
        raise Refused(payload.decode("utf-8", "replace"))
    if word == b"M":
        raise OutOfMemory(f"more than {task.memory_bytes / 2**20:.0f} MiB")
    if word == b"L":
        raise TooLarge(int(payload))
    deadline.check(phase)
    raise Died(struct.unpack("!H", payload)[0])


def _in_child() -> None:
    """After a fork, forget the process, and close the sockets whose end would tell others that a process has
    ended."""
    global _process
    for one in list(_open):
        if isinstance(one, _Process):
            one.forget()
        else:
            one.close()
    _process = None
    _running.clear()
    _waiting.clear()


forks.in_child(_in_child)
atexit.register(close)
