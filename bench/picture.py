"""Pictures: distributions of times to the first mask, and tokens per step by number of documents.

What: `draw` and `draw_rates` write an SVG file of a few kilobytes; `new_figure`, `cumulative` and `save` are
their parts.
When: ``python -m bench schemas --picture FILE``, ``python -m bench drafts --picture FILE``, and in
`bench.reporting`. matplotlib is in the extra ``bench``.
Limits: a line of times is drawn through `POINTS` quantiles, which keeps the file small. Schemas that an
engine refuses are not in its line, so the lines of engines may be for different schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import readable

POINTS = 60

COLOURS = {"ours": "#0b6e4f", "equimask": "#0b6e4f", "XGrammar": "#c8553d", "llguidance": "#3d5a80"}


def pyplot() -> Any:
    """Return matplotlib's pyplot, for files only.

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
    """Write the picture of times.

    Args:
        path: an SVG file; it is overwritten.
        times: seconds to the first mask, by engine.
        title: the title above it.

    Raises:
        ValueError: matplotlib is not installed.
    """
    plots, figure, axes = new_figure()
    cumulative(axes, times)
    axes.set_title(title, fontsize=10)
    _written(plots, figure, path)


def draw_rates(path: Path, lines: Mapping[str, Sequence[float]], title: str) -> None:
    """Write the picture of tokens per step.

    Args:
        path: an SVG file; it is overwritten.
        lines: for each ``grammar, kind of texts``, the rate at each document in order.
        title: the title above it.

    Raises:
        ValueError: matplotlib is not installed.
    """
    plots, figure, axes = new_figure()
    colours = [*dict.fromkeys(COLOURS.values()), "#7a5195", "#8a8d91"]
    grammars = [*dict.fromkeys(name.rpartition(", ")[0] for name in lines)]
    for name, rates in lines.items():
        grammar, _, kind = name.rpartition(", ")
        seen = np.arange(len(rates)) + 1
        style = "-" if kind == "real" else "--"
        axes.plot(seen, rates, style, label=name, color=colours[grammars.index(grammar) % len(colours)])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("documents seen")
    axes.set_ylabel("tokens a step")
    axes.set_ylim(bottom=1)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    _written(plots, figure, path)


def _written(plots: Any, figure: Any, path: Path) -> None:
    """Write a figure, and close it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
    plots.close(figure)


def new_figure(width: float = 7, height: float = 3.6) -> tuple[Any, Any, Any]:
    """Return pyplot, a figure of a width and height in inches, and its axes."""
    plots = pyplot()
    fonts = {"font.size": 10, "font.sans-serif": ["DejaVu Sans", "Arial"], "text.parse_math": False}
    plots.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "equimask", **fonts})
    return plots, *plots.subplots(figsize=(width, height), layout="constrained")


def cumulative(axes: Any, times: Mapping[str, Sequence[float]]) -> None:
    """Draw the share of schemas over the seconds to the first mask, with a line for each engine."""
    shares = np.linspace(0, 100, POINTS)
    for engine, seconds in times.items():
        if len(seconds):
            label = f"{'equimask' if engine == 'ours' else engine} ({len(seconds)} schemas)"
            axes.plot(np.percentile(seconds, shares), shares, label=label, color=COLOURS.get(engine))
    axes.set_xscale("log")
    seconds_along(axes.xaxis)
    axes.set_xlabel("time to the first mask")
    axes.set_ylabel("schemas, %")
    axes.set_ylim(0, 100)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")


def seconds_along(axis: Any) -> None:
    """Label a logarithmic axis in seconds."""
    axis.set_major_formatter(lambda value, _: readable(value))
    axis.set_minor_locator(pyplot().NullLocator())


def save(figure: Any, target: Any) -> None:
    """Write a figure as SVG to a path or a binary file; equal figures give equal bytes."""
    figure.savefig(
        target, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
