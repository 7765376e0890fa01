"""What every benchmark reports: the machine, percentiles, a JSON record.

What: `environment` describes where numbers come from, `Spread` summarises a list of numbers, and `write_json`
writes a record.
When: in every benchmark, so that records can be compared.
Limits: percentiles are interpolated linearly. The commit is that of the working directory; ``dirty`` says
that files differ from it.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from rich.console import Console

from equivalence.array_files import write_whole
from hybrid.testing.comparison import Comparison

PACKAGES = ("equimask", "xgrammar", "numpy", "torch", "lark", "llguidance", "cfgzip", "transformers")
"""Packages whose versions may change the numbers; those that are not installed are left out."""


@dataclass(frozen=True)
class Spread:
    """Count, mean, median, tail and maximum of some numbers (all zero for none)."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        numbers = np.fromiter(values, np.float64)
        if not numbers.size:
            return cls(0, 0.0, 0.0, 0.0, 0.0, 0.0)
        p50, p90, p99 = (float(value) for value in np.percentile(numbers, (50, 90, 99)))
        return cls(int(numbers.size), float(numbers.mean()), p50, p90, p99, float(numbers.max()))


def environment(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine, the versions, the commit and the arguments of this run."""
    return {
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "usable_cores": usable_cores(),
            "memory_bytes": _memory_bytes(),
            "system": platform.platform(),
        },
        "python": platform.python_version(),
        "packages": _versions(),
        "commit": _commit(),
        "load_average": load_average(),
        "arguments": {name: _plain(value) for name, value in arguments.items()},
    }


def load_average() -> tuple[float, float, float] | None:
    """Return how many processes wanted a core in the last 1, 5 and 15 minutes."""
    return os.getloadavg() if hasattr(os, "getloadavg") else None


def usable_cores() -> int:
    """Return how many cores this process may use, by its affinity and its cgroup's quota."""
    return int(joblib.cpu_count())


def write_json(path: Path | None, record: Mapping[str, Any]) -> dict[str, Any]:
    """Write a record, with dataclasses as objects and arrays as spreads; the file is written completely or
    not at all. Return what was written. Without a path, only return it."""
    plain: dict[str, Any] = _finite(record)
    if path is not None:
        text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{text}\n".encode())
    return plain


def make_console() -> Console:
    """Return the console, wide enough for the tables if the output is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=180)


def say(console: Console, text: str) -> None:
    """Print a line of plain text, however long."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def readable(value: float, unit: str = "s") -> str:
    """Format a number with three significant digits and its unit; seconds become us, ms or s."""
    if unit != "s":
        digits = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
        return f"{digits}{unit}"
    for scale, name in ((1e-6, "us"), (1e-3, "ms"), (1.0, "s")):
        if abs(value) < 1000 * scale or name == "s":
            scaled = value / scale
            return f"{scaled:,.0f} {name}" if scaled >= 100 else f"{scaled:.3g} {name}"
    raise AssertionError


def compared(comparison: Comparison) -> dict[str, Any]:
    """Return the result of a comparison with plain XGrammar, for a record."""
    times = comparison.times
    return {
        "masks": comparison.masks,
        "equal": comparison.equal,
        "contradictions": comparison.contradiction_count,
        "differences": [str(item) for item in comparison.differences],
        "mask": Spread.of(times.fill),
        "plain_mask": Spread.of(times.plain_fill),
        "accept": Spread.of(times.accept),
        "plain_accept": Spread.of(times.plain_accept),
    }


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> dict[str, Any] | None:
    command = ["git", "-C", str(Path(__file__).parent), "status", "--porcelain=v2", "--branch"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    first, *lines = done.stdout.splitlines()
    return {"id": first.removeprefix("# branch.oid "), "dirty": any(line[0] != "#" for line in lines)}


def _plain(value: Any) -> Any:
    """Convert an argument to JSON. Of paths only the last part is kept, which tells nothing about the
    machine."""
    if isinstance(value, Path):
        return value.name
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, str) and os.sep in value:
        return Path(value).name
    return value


def _finite(value: Any) -> Any:
    """Convert a value to JSON: arrays to their spread, and floats that JSON does not have to null."""
    if is_dataclass(value):
        return {one.name: _finite(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, array):
        return _finite(Spread.of(value))
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value
