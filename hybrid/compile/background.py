"""Compiling in the background: futures that can be cancelled while their grammar is being compiled.

What: `Background` runs requests in a compiler's own threads, and returns a `CompileFuture` for each. At the
end of the program, and in a forked process, unfinished futures are cancelled.
When: used by the methods of `GrammarCompiler` that end in ``_async``.
Limits: `cancel` cannot interrupt code that does not check the deadline (XGrammar and Lark). Its result is
dropped when it returns.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from functools import partial

from equivalence import HybridError, forks
from equivalence.deadline import Deadline
from hybrid.compile import shutdown
from hybrid.compile.request import Request
from hybrid.compiled import CompiledGrammar

Call = Callable[[Deadline], CompiledGrammar]


class CompileFuture(Future[CompiledGrammar]):
    """A `concurrent.futures.Future` that can also be cancelled while it is running.

    `cancel` returns True unless there is a result or an error already. Then the future is cancelled like one
    that had not started: `result` raises `concurrent.futures.CancelledError`, callbacks are called, and
    ``asyncio.wrap_future`` is cancelled. Cancelling a task that waits for the latter cancels this one, too.
    The computation stops at its next check of the deadline, unless another call waits for the same grammar.
    """

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._own_lock = forks.registered(threading.Lock(), forks.Order.BRIEF)  # of the three below
        self._call: Call | None = call
        self._deadline: Deadline | None = None
        self._has_notified = False

    def cancel(self) -> bool:
        """Cancel the future; return whether it is cancelled now."""
        # the state stays "pending" during the computation, because only pending futures can be cancelled
        if not super().cancel():
            return False
        with self._own_lock:
            first, self._has_notified = not self._has_notified, True
            deadline, self._deadline, self._call = self._deadline, None, None
        if first:
            self.set_running_or_notify_cancel()  # notifies those that wait for several futures
        if deadline is not None:
            deadline.cancel()
        return True

    def running(self) -> bool:
        """Whether a thread is computing it."""
        return self._call is None and not self.done()

    def give_up(self) -> None:
        """In a forked process, where no thread computes it: cancel it unless it has a result.

        Waiting threads are not notified: they exist only in the parent process.
        """
        self._condition = threading.Condition()  # a thread of the parent may hold the old one
        self._deadline = self._call = None
        if not self.done():
            vars(self).update(_done_callbacks=[], _waiters=[])
            self.cancel()

    def compute(self, begin: Callable[[], Deadline]) -> None:
        """Compute the result or the error in the calling thread.

        Args:
            begin: makes the deadline.
        """
        with self._own_lock:
            call, self._call = self._call, None
            if call is None or self.cancelled():
                return
        try:
            # outside the lock, because the first call may take long
            deadline = begin()
            with self._own_lock:
                self._deadline = None if self.cancelled() else deadline
            if self._deadline is None:
                return
            compiled = call(deadline)
        except BaseException as error:  # noqa: BLE001 - `result` raises every error for its caller
            with contextlib.suppress(InvalidStateError):  # it was cancelled meanwhile
                self.set_exception(error)
        else:
            with contextlib.suppress(InvalidStateError):
                self.set_result(compiled)
        finally:
            self._deadline = None
            del call
            self = None  # type: ignore[assignment]  # the traceback has this frame, which would keep it alive


class Background:
    """The threads of one compiler, started by the first call.

    Args:
        n_jobs: number of threads.
        begin: makes the deadline of a call when a thread starts to work on it.
        run: computes the result of a request.
    """

    def __init__(
        self, n_jobs: int, begin: Callable[[], Deadline],
        run: Callable[[Request, Deadline], CompiledGrammar],
    ) -> None:  # fmt: skip
        self._n_jobs = n_jobs
        self._begin, self._run = begin, run
        self._lock = forks.registered(threading.Lock(), forks.Order.BRIEF)
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False
        self._here = threading.local()  # has `is_worker` in the threads of the pool
        self._asked: weakref.WeakSet[CompileFuture] = weakref.WeakSet()
        forks.in_child(self._in_child)
        shutdown.at_exit(self._stop)

    def _in_child(self) -> None:
        """A forked process has none of the threads. The next call starts new ones."""
        self._pool, self._here = None, threading.local()
        for future in list(self._asked):
            future.give_up()

    def submit(self, request: Request) -> CompileFuture:
        """Let a thread compile a request.

        Raises:
            HybridError: the compiler is closed.
        """
        future = CompileFuture(partial(self._compiled, request))
        with self._lock:
            if self._is_closed:
                raise HybridError(
                    "the compiler is closed; only the methods that do not end in _async can still be used"
                )
            if self._pool is None:
                self._pool = ThreadPoolExecutor(
                    self._n_jobs, "equimask-compiler", setattr, (self._here, "is_worker", True)
                )
            self._asked.add(future)
            self._pool.submit(future.compute, self._begin)
        return future

    def _compiled(self, request: Request, deadline: Deadline) -> CompiledGrammar:
        # a method, so that the thread keeps this object alive, which stops it at the end of the program
        return self._run(request, deadline)

    def close(self) -> None:
        """Cancel what has not started, and wait for the rest. A callback of a future does not wait, because
        its thread cannot wait for its own end."""
        pool, asked = self._closed()
        for future in asked:
            if not future.running():
                future.cancel()
        if pool is not None:
            pool.shutdown(wait=not hasattr(self._here, "is_worker"), cancel_futures=True)

    def _stop(self) -> None:
        """At the end of the program: cancel everything. Python waits for the threads, which stop soon."""
        for future in self._closed()[1]:
            future.cancel()

    def _closed(self) -> tuple[ThreadPoolExecutor | None, list[CompileFuture]]:
        with self._lock:
            self._is_closed = True
            pool, self._pool = self._pool, None
            return pool, list(self._asked)
