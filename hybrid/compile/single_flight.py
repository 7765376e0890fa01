"""One process at a time compiles a grammar that all will read from the same folder.

What: `alone` waits, for a bounded time, while another process or compiler makes the same entry of a folder,
and `claimed` does not wait. The lock is one of the operating system on a file beside the entry, so that it
ends with the process that holds it, however that ends.
When: by `hybrid.compile.cache`, for grammars that are written to files before the call returns, or in the
background.
Limits: who waited does not wait again: where the other one has left no file, because it was killed, was
refused the grammar, or has it on a strategy that is not written, all that waited compile at once. On file
systems without locks nobody waits. Two that compile the same cost time, and nothing else.

The locks are those of the package filelock, which torch brings: the same calls on Windows, and no lock lives
on in a forked process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from equivalence.deadline import Deadline

MOST_SECONDS = 15.0
"""Of waiting, where the call has more time or no bound."""

SHARE = 0.5
"""Of the seconds that a call has, how much it waits at most: the rest is for compiling after all."""

POLL_SECONDS = 0.001, 0.05
"""Between two looks at a lock, at first and at last."""

Turn = Literal["ours", "after", "overdue", "unlocked"]
"""How a wait has ended: the lock is held, and nobody was before; somebody was, and has ended; it takes too
long; there are no locks here."""

logger = logging.getLogger(__name__)


def lock_file(path: Path) -> Path:
    """The file whose lock stands for the right to write another one."""
    return path.with_name(f"{path.name}.lock")


@contextlib.contextmanager
def alone(path: Path, deadline: Deadline, seconds: float | None = None) -> Iterator[Turn]:
    """Wait until nobody else makes a file, and keep others from it for as long as this lasts.

    Args:
        path: the file.
        deadline: of the call.
        seconds: what the call should take, where its deadline does not say so.

    Raises:
        BudgetExceeded: the deadline was over, or cancelled, meanwhile.
    """
    lock = _Lock(path)
    with lock.held():
        bounds = [SHARE * bound for bound in (deadline.left, seconds) if bound is not None]
        yield lock.wait(deadline, min([MOST_SECONDS, *bounds]))


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether this one should make a file: it is not there, and nobody else makes it now.

    Others are kept from it for as long as this lasts.
    """
    lock = _Lock(path)
    with lock.held():
        yield lock.take() is not False and not os.path.isfile(path)


class _Lock:
    """The lock of a file that is to be made."""

    def __init__(self, path: Path) -> None:
        self._path = lock_file(path)
        self._lock: Any = None

    def take(self) -> bool | None:
        """Whether it is held now; None where there are no locks."""
        import filelock  # slow to import, and most programs have no folder

        try:
            if self._lock is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._lock = filelock.FileLock(self._path)
            self._lock.acquire(blocking=False)
        except filelock.Timeout:
            return None if isinstance(self._lock, filelock.SoftFileLock) else False
        except (OSError, NotImplementedError) as error:
            logger.debug("no lock in %s: %s", self._path.parent, error)
            return None
        # what filelock takes where there are none of the system's outlives a process that is killed
        return None if isinstance(self._lock, filelock.SoftFileLock) else True

    def wait(self, deadline: Deadline, most: float) -> Turn:
        """Take it, or find out that it cannot be had; it is held only if nobody had it before."""
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
        self.release()  # who waits too is not to wait for this one as well
        return "unlocked" if taken is None else "after"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Release it at the end, if it is held."""
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Let others have it; its file goes, as there is one for each grammar."""
        if self._lock is None or not self._lock.is_locked:
            return
        # a lock that is taken of a file without a name is not valid: filelock looks, and takes another one
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            self._lock.release()
