"""The peak memory of some work, measured in a separate process.

What: `in_another_process` runs a function there. `reset_peak` and `status_bytes` use the largest resident
size that the system records. `peak_of_classes` measures one computation of token classes.
When: in `bench.classes` and `bench.build_cost`, and in tests of memory that stays after long work.
Limits: Linux (None elsewhere). The vocabulary and its trie are loaded before. A first computation uses pages
of code and of the allocator for the first time, a second one does not.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

Found = TypeVar("Found")

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


def in_another_process(function: Callable[..., Found], *arguments: Any) -> Found:
    """Run a function of a module in a new process, in which nothing was done before, and return its
    result."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def with_peak(work: Callable[[], Found]) -> tuple[Found, int | None]:
    """Do some work. Return its result, and by how many bytes its peak exceeded the resident size before; None
    if unknown."""
    known = reset_peak()
    before = status_bytes("VmRSS") if known else 0
    found = work()
    return found, status_bytes("VmHWM") - before if known else None


def peak_of_classes(vocabulary: str, grammar: str) -> int | None:
    """Return the bytes at the peak of computing classes; None if the system does not record them.

    Args:
        vocabulary: as on the command line.
        grammar: the result of `xgrammar.Grammar.serialize_json`.
    """
    return in_another_process(_peak_here, vocabulary, grammar)


def _peak_here(spec: str, grammar: str) -> int | None:
    from equivalence import compute_classes
    from hybrid.cli.vocabulary_spec import load_vocabulary

    vocabulary, serialized = load_vocabulary(spec).prepare(), json.loads(grammar)
    return with_peak(lambda: compute_classes(serialized, vocabulary))[1]


def status_bytes(name: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"{STATUS} has no {name}")


def give_back() -> None:
    """Return unused memory to the system."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def reset_peak() -> bool:
    """Set the recorded peak to the present size; return False if the system cannot."""
    give_back()
    try:
        CLEAR.write_text("5")
        return status_bytes("VmHWM") > 0
    except (OSError, LookupError):
        return False
