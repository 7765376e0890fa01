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
