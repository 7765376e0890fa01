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
    from hybrid.vocabulary_spec import load_vocabulary
    from hybrid.warmup import warm_up

    vocabulary = load_vocabulary(spec).prepare()
    warm_up()
    serialized = json.loads(grammar)
    if not _reset():
        return None
    before = _bytes("VmRSS")
    peaks = []
    for _ in range(2):
        _reset()
        found = compute_classes(serialized, vocabulary, relation)  # type: ignore[arg-type]
        peaks.append(_bytes("VmHWM") - before)
        del found
        _free()
    return {"before": before, "first": peaks[0], "again": peaks[1], "left": _bytes("VmRSS") - before}


def _bytes(name: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"{STATUS} has no {name}")


def _free() -> None:
    """Give back to the system what nothing uses any more."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _reset() -> bool:
    """Let the peak begin at the present size; False if the system cannot."""
    _free()
    try:
        CLEAR.write_text("5")
        return _bytes("VmHWM") > 0
    except (OSError, LookupError):
        return False
