"""Pictures of records: times over sizes, on logarithmic axes.

What: `draw_growth` writes one picture with a line for each series.
When: with ``--pictures FOLDER``.
Limits: needs matplotlib (``pip install 'equimask[bench]'``), which nothing else here does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def require_matplotlib() -> None:
    """Fail before anything is measured.

    Raises:
        ValueError: matplotlib is missing; the message says how to get it.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ValueError(
            f"pictures need matplotlib ({error}); install it with: pip install 'equimask[bench]'"
        ) from error
    matplotlib.use("Agg")


def draw_growth(rows: Iterable[dict[str, Any]], path: Path, *, title: str, size_label: str) -> None:
    """CPU seconds over size, a line for each series, beside a line that grows like the size.

    Args:
        rows: with ``series``, ``size`` and ``cpu_seconds``; a row without was refused and is left out.
        path: of the picture; the ending chooses the format.
        title: above the picture.
        size_label: what the horizontal axis counts, with its unit.
    """
    from matplotlib.figure import Figure

    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.get("cpu_seconds"):
            series.setdefault(row["series"], []).append((row["size"], row["cpu_seconds"]))
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, points in series.items():
        axes.loglog(*zip(*sorted(points), strict=True), marker="o", label=name)
    _draw_guide(axes, [point for points in series.values() for point in points])
    axes.set_xlabel(size_label)
    axes.set_ylabel("CPU time for token classes, one thread [s]")
    axes.set_title(title)
    axes.grid(visible=True, which="both", alpha=0.3)
    figure.legend(loc="outside right upper")  # beside the lines, not on them
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def _draw_guide(axes: Any, points: Sequence[tuple[float, float]]) -> None:
    if not points:
        return
    begin, end = min(size for size, _ in points), max(size for size, _ in points)
    low = min(seconds for _, seconds in points)
    axes.loglog([begin, end], [low, low * end / begin], "k:", alpha=0.6, label="grows like the size")


def draw_traffic(
    marks: Sequence[dict[str, Any]], firsts: Sequence[dict[str, Any]], path: Path, *, cache_bytes: int
) -> None:
    """Memory, and times to the first mask, over the requests of a run.

    Args:
        marks: with ``requests``, ``resident`` and ``cache`` (bytes).
        firsts: with ``request``, ``seconds`` and ``source``, in the order of their ends.
        path: of the picture; the ending chooses the format.
        cache_bytes: the bound of the cache.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    at = [mark["requests"] for mark in marks]
    above.plot(at, [mark["resident"] / 2**20 for mark in marks], label="resident")
    above.plot(at, [mark["cache"] / 2**20 for mark in marks], label="memory cache, own account")
    above.axhline(cache_bytes / 2**20, color="k", linestyle=":", alpha=0.6, label="bound of the cache")
    above.set_ylabel("MiB")
    above.set_ylim(bottom=0)
    above.legend(loc="best")
    sources: dict[str, list[tuple[int, float]]] = {}
    for place, first in enumerate(firsts):
        sources.setdefault(first["source"], []).append((place, first["seconds"] * 1000))
    for source, points in sorted(sources.items()):
        below.semilogy(*zip(*points, strict=True), ".", markersize=2, alpha=0.6, label=source)
    below.set_xlabel("requests done")
    below.set_ylabel("time to first mask [ms]")
    below.legend(loc="best", markerscale=5)
    for axes in (above, below):
        axes.grid(visible=True, which="major", alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
