"""The picture of times to the first mask: one cumulative distribution an engine, on one axis.

What: `draw` writes an SVG file of a few kilobytes.
When: ``python -m bench schemas --picture FILE``; matplotlib is part of the extra ``bench``.
Limits: a line is drawn through `POINTS` quantiles, which keeps the file small; what an engine refuses is left
out of its line, so lines of engines may stand for different schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import readable

POINTS = 60

COLOURS = {"ours": "#0b6e4f", "XGrammar": "#c8553d", "llguidance": "#3d5a80"}


def pyplot() -> Any:
    """Matplotlib's plots, for files only.

    Raises:
        ValueError: it is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("svg")
        from matplotlib import pyplot as plots
    except ImportError as error:
        raise ValueError(
            f"--picture needs matplotlib, which cannot be imported ({error}); install it with: "
            "pip install 'equimask[bench]', or pip install matplotlib"
        ) from error
    return plots


def draw(path: Path, times: Mapping[str, Sequence[float]], title: str) -> None:
    """Write the picture.

    Args:
        path: an SVG file, written over.
        times: seconds to the first mask, by engine.
        title: above it.

    Raises:
        ValueError: matplotlib is not installed.
    """
    plots = pyplot()
    fonts = {"font.size": 10, "font.sans-serif": ["DejaVu Sans", "Arial"]}
    plots.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "equimask", **fonts})
    figure, axes = plots.subplots(figsize=(7, 3.6), layout="constrained")
    shares = np.linspace(0, 100, POINTS)
    for engine, seconds in times.items():
        if len(seconds):
            label = f"{'equimask' if engine == 'ours' else engine} ({len(seconds)} schemas)"
            axes.plot(np.percentile(seconds, shares), shares, label=label, color=COLOURS.get(engine))
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: readable(value))
    axes.xaxis.set_minor_locator(plots.NullLocator())
    axes.set_xlabel("time to the first mask")
    axes.set_ylabel("schemas, %")
    axes.set_ylim(0, 100)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    plots.close(figure)
