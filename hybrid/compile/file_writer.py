"""Writing grammars that have no classes yet to the folder of a compiler, in the background.

What: a file has the classes of a grammar. A grammar whose masks come from walks has none when it is compiled,
so `FileWriter` computes them in a thread and writes the file.
When: one for each `GrammarCompiler` with a folder; `hybrid.compile.pipeline` hands it what was compiled.
Limits: at most `MOST_TO_WRITE` grammars wait. A grammar is kept alive until it is written. From then on its
masks come from its classes, and they are the same.

The thread exists only while there is work. After each grammar it sleeps for as long as the grammar took, so
other threads get at least half of a processor. Other processes that compile the same grammar meanwhile leave
the work to one of them (`single_flight.claimed`).

Rejected: giving the thread a lower priority. It would hold a grammar's lock while the system runs others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque

from equivalence import HybridError, forks
from equivalence.deadline import Deadline
from hybrid.compile import shutdown, single_flight
from hybrid.compile.cache import DiskCache
from hybrid.compiled import OnWalks
from hybrid.values.budget import Budget

logger = logging.getLogger("hybrid")

EXIT_SECONDS = 1.0
"""How long the end of the program waits for the file that is being written."""

WRITE_AFTER = 0.05
"""Delay in seconds before the classes of a grammar are computed: its first masks come first."""

MOST_TO_WRITE = 256
"""At most this many grammars wait to be written; further ones are not written."""

MOST_PAUSE = 0.5
"""Longest pause in seconds. A grammar takes milliseconds, unless the system suspended the process."""


class FileWriter:
    """Computes the classes of grammars and writes them to a folder. Thread-safe.

    Args:
        disk: the folder.
        budget: its seconds bound each computation of classes.
    """

    def __init__(self, disk: DiskCache, budget: Budget) -> None:
        self._disk = disk
        self._budget = budget
        self._lock = forks.registered(threading.Lock(), forks.Order.BRIEF)  # of the three below
        self._waiting: deque[tuple[OnWalks, bytes, float]] = deque()  # each with the time to begin
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._skip_pauses = threading.Event()
        forks.in_child(self._in_child)
        shutdown.at_exit(self._at_exit)

    def _in_child(self) -> None:
        """A forked process does not have the thread, and the parent writes what was waiting."""
        self._waiting.clear()
        self._thread = None
        self._skip_pauses = threading.Event()  # the lock of the old one may have been held

    def write(self, compiled: OnWalks, entry: bytes) -> None:
        """Queue a grammar to be written to its entry, even if nobody uses it any more."""
        with self._lock:
            if self._is_closed or len(self._waiting) >= MOST_TO_WRITE:
                return
            self._waiting.append((compiled, entry, time.perf_counter() + WRITE_AFTER))
            # after a fork the old thread is not alive
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="equimask-files", daemon=True)
                self._thread.start()

    def close(self, seconds: float | None = None) -> None:
        """Accept no more grammars, and wait until those that are queued are written.

        Args:
            seconds: how long to wait for them; those not started by then are dropped.
        """
        with self._lock:
            self._is_closed = True
            self._skip_pauses.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)
        with self._lock:
            self._waiting.clear()

    def _at_exit(self) -> None:
        """At the end of the program: no thread should be inside a kernel then."""
        self.close(EXIT_SECONDS)

    def wait(self) -> None:
        """Wait until everything is written."""
        self._skip_pauses.set()
        while (thread := self._thread) is not None and thread.is_alive():
            thread.join()
        if not self._is_closed:
            self._skip_pauses.clear()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                compiled, entry, begin = self._waiting.popleft()
            self._skip_pauses.wait(max(begin - time.perf_counter(), 0.0))  # unless somebody waits for it
            began = time.perf_counter()
            try:
                self._write(compiled, entry)
            except HybridError as error:
                logger.debug("a grammar cannot be written to the folder: %s", error)
            except Exception:  # nothing waits for this thread, and the grammar stays usable
                logger.exception(
                    "an error occurred while a grammar was written to the folder; the grammar stays in memory"
                )
            del compiled  # nothing else may keep it alive
            self._skip_pauses.wait(min(time.perf_counter() - began, MOST_PAUSE))

    def _write(self, compiled: OnWalks, entry: bytes) -> None:
        """Write a grammar, unless another process is writing it or has written it."""
        with single_flight.claimed(self._disk.path(entry)) as is_ours:
            if is_ours:
                compiled.compute_classes(Deadline(self._budget.seconds))
                self._disk.keep(entry, compiled)
