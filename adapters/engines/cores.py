"""How many cores a process may use, for the thread pools of engines, which only ask how many the machine has.

What: `usable` respects the affinity of the process and the quota of its cgroup (v1 and v2), as joblib finds
them, and ``LOKY_MAX_CPU_COUNT``. `Cores` replaces ``multiprocessing`` in an engine's module. `pool` is a
thread pool of the size that Python chooses for this number of cores.
When: used where engines make pools. On a machine with 64 cores and one core for the container, 32 threads
would compete with each other and with the engine's loop.
Limits: only the quota of the cgroup namespace is seen, not that of a process below it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any


def usable() -> int:
    """Return how many cores this process may use, at least 1."""
    import joblib  # imported late, as it takes 0.1 s

    return int(joblib.cpu_count())


def pool() -> ThreadPoolExecutor:
    """Make a pool with the number of threads that Python chooses for this number of cores."""
    return ThreadPoolExecutor(min(32, usable() + 4))


class Cores(ModuleType):
    """A module with all names of another one, except for the number of cores.

    Args:
        theirs: `multiprocessing`, or the module that had replaced it.
    """

    def __init__(self, theirs: Any) -> None:
        super().__init__("multiprocessing", __doc__)
        self.theirs = theirs

    def __getattr__(self, name: str) -> Any:
        return usable if name == "cpu_count" else getattr(self.theirs, name)
