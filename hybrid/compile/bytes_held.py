"""The bytes of compiled grammars that a process keeps, in the caches of all its compilers.

What: compilers register their caches with `add`; `bytes_held` sums up those of the compilers that are alive.
When: for metrics (`hybrid.metrics.families`).
Limits: sizes are those that the caches measured last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from equivalence.weak_methods import WeakMethods

_alive = WeakMethods()


def add(caches: Callable[[], Any]) -> None:
    """Count the caches of a compiler, as long as it is alive.

    Args:
        caches: a method of the compiler, which gives its `MemoryCache`, and its `DiskCache` or None.
    """
    _alive.add(caches)


def bytes_held() -> dict[str, int]:
    """Bytes of the compiled grammars that this process keeps: in "memory", with the bound "memory_limit", and
    on "disk", in all folders when they were last listed."""
    caches: list[Any] = [call() for call in _alive.alive()]
    memories = {id(memory): memory for memory, _ in caches}
    folders: dict[Any, int] = {}
    for disk in [disk for _, disk in caches if disk is not None]:
        # a cache that has written to the folder counts more than one that only listed it
        folders[disk.folder] = max(disk.size_bytes, folders.get(disk.folder, 0))
    return {
        "memory": sum(memory.size_bytes for memory in memories.values()),
        "memory_limit": sum(memory.limit_bytes for memory in memories.values()),
        "disk": sum(folders.values()),
    }
