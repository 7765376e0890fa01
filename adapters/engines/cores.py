"""How many cores there really are: for pools of engines, which ask how many the machine has.

What: `usable` heeds the affinity of the process and the quota of its cgroup (v1 and v2), as joblib finds
them, and ``LOKY_MAX_CPU_COUNT``. `Cores` stands where an engine's module has ``multiprocessing``; `pool` is a
pool of threads as Python sizes it, by these cores.
When: where engines make pools. With 64 cores in the machine and one for the container, 32 threads take it
from each other, and from the engine's loop.
Limits: of quotas that one of the same cgroup namespace; a process below it is not seen to have less.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any


def usable() -> int:
    """The cores that this process may use, 1 at least."""
    import joblib  # 0.1 s, which an engine's entry point does not wait for

    return int(joblib.cpu_count())


def pool() -> ThreadPoolExecutor:
    """A pool with as many threads as Python's own would have on a machine with these cores alone."""
    return ThreadPoolExecutor(min(32, usable() + 4))


class Cores(ModuleType):
    """A module that looks all names up in another one, but for how many cores there are.

    Args:
        theirs: `multiprocessing`, or what stood in its place.
    """

    def __init__(self, theirs: Any) -> None:
        super().__init__("multiprocessing", __doc__)
        self.theirs = theirs

    def __getattr__(self, name: str) -> Any:
        return usable if name == "cpu_count" else getattr(self.theirs, name)
