"""The memory that one computation of classes takes, measured in a process of its own.

What: `measure_memory` runs `compute_classes` in a new process and reads the largest resident size from the
system before, during and after.
When: in `bench.classes`.
Limits: Linux (None elsewhere). The vocabulary, its trie and the kernels are there before; a first
computation touches pages of code and of the allocator that a second one finds, so both are reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


def measure_memory(vocabulary: str, grammar: str, relation: str) -> dict[str, int] | None:
    """Bytes that computing classes takes; None where the system does not say.

    Args:
        vocabulary: as on the command line.
        grammar: what `xgrammar.Grammar.serialize_json` gives.
        relation: of the classes.

    Returns:
        ``before``: resident bytes before. ``first``, ``again``: bytes above them at the peak of the first and
        of the second computation. ``left``: bytes above them after the results were dropped.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_measure_here, vocabulary, grammar, relation).result()


def _measure_here(spec: str, grammar: str, relation: str) -> dict[str, int] | None:
    from equivalence import compute_classes
    from hybrid.cli.vocabulary_spec import load_vocabulary

    vocabulary = load_vocabulary(spec).prepare()
    serialized = json.loads(grammar)
    if not reset_peak():
        return None
    before = status_bytes("VmRSS")
    peaks = []
    for _ in range(2):
        reset_peak()
        found = compute_classes(serialized, vocabulary, relation)  # type: ignore[arg-type]
        peaks.append(status_bytes("VmHWM") - before)
        del found
        give_back()
    return {"before": before, "first": peaks[0], "again": peaks[1], "left": status_bytes("VmRSS") - before}


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
