"""The memory that some work takes at its peak, measured in a process of its own.

What: `in_another_process` runs a function there, `reset_peak` and `status_bytes` read the largest resident
size from the system, `peak_of_classes` does so for one computation of token classes.
When: in `bench.classes` and `bench.building`, and in tests of what stays after long work.
Limits: Linux (None elsewhere). The vocabulary and its trie are there before; a first computation touches
pages of code and of the allocator that a second one finds.
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
    """What a function of a module returns in a new process, in which nothing was done before."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def with_peak(work: Callable[[], Found]) -> tuple[Found, int | None]:
    """What some work returns, and the bytes at its peak above what was resident; None if nobody says."""
    known = reset_peak()
    before = status_bytes("VmRSS") if known else 0
    found = work()
    return found, status_bytes("VmHWM") - before if known else None


def peak_of_classes(vocabulary: str, grammar: str) -> int | None:
    """Bytes at the peak of computing classes; None where the system does not say.

    Args:
        vocabulary: as on the command line.
        grammar: what `xgrammar.Grammar.serialize_json` gives.
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
    """Give back to the system what nothing uses any more."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def reset_peak() -> bool:
    """Let the peak begin at the present size; False if the system cannot."""
    give_back()
    try:
        CLEAR.write_text("5")
        return status_bytes("VmHWM") > 0
    except (OSError, LookupError):
        return False
