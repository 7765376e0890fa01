"""Letting only one process at a time compile a grammar that all will read from the same folder.

What: `wait_for_other_processes` waits, for a limited time, while another process or compiler makes the same
entry of a folder. The lock is an operating system lock on a file next to the entry, so it is released when
its process ends, even if that is killed.
When: `hybrid.compile.pipeline` uses it for grammars that are written to files.
Limits: a process waits only once. If the other one has left no file, because it was killed, the grammar was
refused, or its strategy is not written, then all that waited compile at once. On file systems without locks
no process waits. If two processes compile the same grammar, that costs only time.

The locks come from the package filelock, which torch requires: it has the same interface on Windows, and its
locks do not survive in a forked process.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from equivalence.deadline import Deadline

MOST_SECONDS = 15.0
"""Longest wait in seconds, even if the call has more time."""

SHARE = 0.5
"""The share of a call's seconds that it may wait. The rest remains for compiling."""

POLL_SECONDS = 0.001, 0.05
"""Shortest and longest pause between two attempts to take a lock."""

Turn = Literal["ours", "after", "overdue", "unlocked"]
"""How a wait has ended. "ours": this process got the lock without waiting. "after": another process held it,
and has finished. "overdue": the other process takes too long. "unlocked": there are no locks here."""

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def wait_for_other_processes(path: Path, deadline: Deadline, seconds: float | None = None) -> Iterator[Turn]:
    """A context for making a file. Before it is entered, wait for a limited time until no other process makes
    the file. The value says how the wait ended.

    Args:
        path: the file.
        deadline: the deadline of the call.
        seconds: how long the call should take, if its deadline never ends.

    Raises:
        BudgetExceeded: the deadline ended or was cancelled during the wait.
    """
    with contextlib.closing(_Lock(path)) as lock:
        bounds = [SHARE * bound for bound in (deadline.left, seconds) if bound is not None]
        yield lock.wait(deadline, min([MOST_SECONDS, *bounds]))


class _Lock:
    """The lock for a file that is to be written."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.lock")
        self._lock: Any = None

    def take(self) -> bool | None:
        """Try to take the lock; return whether it is held now, or None if there are no locks."""
        import filelock  # imported late: it is slow, and most programs have no folder

        try:
            if self._lock is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._lock = filelock.FileLock(self._path)
            self._lock.acquire(blocking=False)
        except filelock.Timeout:
            return None if isinstance(self._lock, filelock.SoftFileLock) else False
        except (OSError, NotImplementedError) as error:
            logger.debug(
                "cannot lock files in %s, so processes may compile the same grammar at the same time: %s",
                self._path.parent, error,
            )  # fmt: skip
            return None
        # filelock's substitute for missing system locks would survive a killed process
        return None if isinstance(self._lock, filelock.SoftFileLock) else True

    def wait(self, deadline: Deadline, most: float) -> Turn:
        """Wait for the lock. Keep it only if no other process held it before."""
        taken = self.take()
        if taken is not False:
            return "unlocked" if taken is None else "ours"
        ends = time.monotonic() + most
        pause, longest = POLL_SECONDS
        while (taken := self.take()) is False:
            deadline.check("waiting for another process that compiles the same grammar")
            if time.monotonic() >= ends:
                return "overdue"
            time.sleep(pause)
            pause = min(2 * pause, longest)
        self.close()  # so that other waiting processes do not also wait for this one
        return "unlocked" if taken is None else "after"

    def close(self) -> None:
        """Release the lock if it is held, and delete its file, because there is one for each grammar."""
        if self._lock is None or not self._lock.is_locked:
            return
        # filelock notices if it locked a deleted file, and locks a new one
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            self._lock.release()
