"""Compiling in the background: futures that can be cancelled while their grammar is being compiled.

What: `Background` runs requests in a compiler's own threads and gives a `CompileFuture` for each. When the
program ends, and in a process that is forked, what has no result yet is cancelled.
When: behind the methods of `GrammarCompiler` that end in ``_async``.
Limits: what cannot look at a deadline (XGrammar's and Lark's own code) is not interrupted by `cancel`; its
result is dropped when it is there.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from functools import partial

from equivalence import HybridError, forking
from equivalence.deadline import Deadline
from hybrid.api.compiled import CompiledGrammar
from hybrid.compile import leaving
from hybrid.compile.request import Request

Call = Callable[[Deadline], CompiledGrammar]


class CompileFuture(Future[CompiledGrammar]):
    """A `concurrent.futures.Future` that `cancel` also works on while it runs.

    `cancel` returns True, unless the result or error is there already. The future is cancelled from then on,
    as one is that had not begun: `result` raises `concurrent.futures.CancelledError`, callbacks are called,
    ``asyncio.wrap_future`` is cancelled, and a task that is cancelled while it waits for that cancels this.
    The computation ends as soon as it looks, unless another call waits for the same grammar.
    """

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._own_lock = forking.listed(threading.Lock(), forking.Order.BRIEF)  # of the three below
        self._call: Call | None = call
        self._deadline: Deadline | None = None
        self._was_told = False

    def cancel(self) -> bool:
        """Give up; whether there was still something to give up, or it was given up before."""
        # the state is "pending" for as long as it runs, in which futures can be cancelled
        if not super().cancel():
            return False
        with self._own_lock:
            first, self._was_told = not self._was_told, True
            deadline, self._deadline, self._call = self._deadline, None, None
        if first:
            self.set_running_or_notify_cancel()  # what waits for several futures hears of it here
        if deadline is not None:
            deadline.cancel()
        return True

    def running(self) -> bool:
        """Whether a thread is at it."""
        return self._call is None and not self.done()

    def give_up(self) -> None:
        """In a forked process, where nobody computes it: cancelled, unless the result is there already.

        Nobody is told: who waits for it, or listens, is in the other process.
        """
        self._condition = threading.Condition()  # a thread that is not there may hold the old one
        self._deadline = self._call = None
        if not self.done():
            vars(self).update(_done_callbacks=[], _waiters=[])
            self.cancel()

    def compute(self, begin: Callable[[], Deadline]) -> None:
        """Make the result, or the error, in the thread that calls.

        Args:
            begin: makes the deadline.
        """
        with self._own_lock:
            call, self._call = self._call, None
            if call is None or self.cancelled():
                return
        try:
            # made outside of the lock, as it may take long to be the first that does
            deadline = begin()
            with self._own_lock:
                self._deadline = None if self.cancelled() else deadline
            if self._deadline is None:
                return
            compiled = call(deadline)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is for who waits
            with contextlib.suppress(InvalidStateError):  # it is cancelled, and nobody asks why
                self.set_exception(error)
        else:
            with contextlib.suppress(InvalidStateError):
                self.set_result(compiled)
        finally:
            self._deadline = None
            del call
            self = None  # type: ignore[assignment]  # the error's traceback has this frame, which would keep it


class Background:
    """The threads of one compiler; begun with the first call.

    Args:
        n_jobs: number of threads.
        begin: makes the deadline of a call, when a thread takes it up.
        run: makes the result of a request.
    """

    def __init__(
        self,
        n_jobs: int,
        begin: Callable[[], Deadline],
        run: Callable[[Request, Deadline], CompiledGrammar],
    ) -> None:
        self._n_jobs = n_jobs
        self._begin, self._run = begin, run
        self._lock = forking.listed(threading.Lock(), forking.Order.BRIEF)
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False
        self._asked: weakref.WeakSet[CompileFuture] = weakref.WeakSet()
        forking.in_child(self._in_child)
        leaving.at_exit(self._stop)

    def _in_child(self) -> None:
        """Its threads are not there; the next call begins others."""
        self._pool = None
        for future in list(self._asked):
            future.give_up()

    def submit(self, request: Request) -> CompileFuture:
        """Let a thread compile what a request asks for.

        Raises:
            HybridError: it is closed.
        """
        future = CompileFuture(partial(self._compiled, request))
        with self._lock:
            if self._is_closed:
                raise HybridError("the compiler is closed; allowed are the methods that do not end in _async")
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._n_jobs, "equimask-compiler")
            self._asked.add(future)
            self._pool.submit(future.compute, self._begin)
        return future

    def _compiled(self, request: Request, deadline: Deadline) -> CompiledGrammar:
        # called as a method of this, which a thread at work keeps alive: else nobody would stop it at the end
        return self._run(request, deadline)

    def close(self) -> None:
        """Cancel what has not begun, and wait for what has."""
        pool, asked = self._closed()
        for future in asked:
            if not future.running():
                future.cancel()
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def _stop(self) -> None:
        """The program ends: cancel everything. Python waits for the threads, which end as they look."""
        for future in self._closed()[1]:
            future.cancel()

    def _closed(self) -> tuple[ThreadPoolExecutor | None, list[CompileFuture]]:
        with self._lock:
            self._is_closed = True
            pool, self._pool = self._pool, None
            return pool, list(self._asked)
