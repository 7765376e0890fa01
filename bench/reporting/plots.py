"""The pictures of the report, as SVG inside the page.

What: `pictures` draws pictures from the records of a question.
When: in ``python -m bench report``. Without matplotlib there are none, and the page says so.
Limits: all lines of one picture are for the same schemas and the same work. Names of grammars and
vocabularies are untrusted; matplotlib escapes them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.picture import COLOURS, cumulative, draw, new_figure, pyplot, save, seconds_along
from bench.reporting.as_written import titled
from bench.reporting.jobs import Done
from bench.reporting.others import GROWTH
from bench.reporting.questions import Question
from bench.reporting.standings import OURS, records, shared_times, time_of

SIZE = (5.4, 3.3)


@dataclass(frozen=True)
class Picture:
    """A picture; `svg` is an element that is inserted into a page unchanged."""

    title: str
    svg: str


def pictures(question: Question, done: Mapping[str, Done]) -> list[Picture]:
    """Return all pictures of a question."""
    return [
        _drawn(title, draw)
        for kind, make in _MAKERS.items()
        for name, record in records(question, done, kind)
        for title, draw in make(name, record)
    ]


def _drawn(title: str, draw: Callable[[Any], None]) -> Picture:
    plots, figure, axes = new_figure(*SIZE)
    draw(axes)
    written = io.BytesIO()
    save(figure, written)
    plots.close(figure)
    text = written.getvalue().decode()
    return Picture(title, text[text.index("<svg") :])


Record = Mapping[str, Any]
Draws = Iterator[tuple[str, Callable[[Any], None]]]


def _schemas(name: str, record: Record) -> Draws:
    first, document = (shared_times(record, what) for what in ("first_mask", "document"))
    if first.get(OURS):
        title = f"{name}: time to the first mask, schemas that all engines take"
        yield title, lambda axes: cumulative(axes, first)
        if document.get(OURS) and len(document) > 1:
            title = (
                f"{name}: a peer's time / ours, schema by schema (first mask and one document); "
                "below 1x the peer is ahead"
            )
            yield title, lambda axes: _ratios(axes, document)


def _ratios(axes: Any, times: Mapping[str, Sequence[float]]) -> None:
    ours = np.asarray(times[OURS])
    for engine, seconds in times.items():
        if engine != OURS:
            ratio = np.sort(np.asarray(seconds) / ours)
            share = np.arange(1, ratio.size + 1) * 100 / ratio.size
            marker = "." if ratio.size < 30 else ""
            axes.plot(share, ratio, label=engine, color=COLOURS.get(engine), marker=marker)
    axes.axhline(1, color="#444", linewidth=0.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.yaxis.set_minor_locator(pyplot().NullLocator())
    axes.set_xlabel("schemas, sorted, %")
    axes.set_ylabel("peer / equimask")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper left")


def _strategies(name: str, record: Record) -> Draws:
    if record["rows"]:
        ways = {"auto": OURS, "XGrammar": "XGrammar", "classifier": "strategy classifier",
                "representatives": "strategy representatives"}  # fmt: skip
        rows = [
            {"series": label, "size": int(count), "cpu_seconds": one["seconds"][way]}
            for way, label in ways.items()
            for count, one in record["summary"].items()
        ]
        title = f"CPU time of so many documents, compiling included, {len(record['rows'])} schemas together"
        yield f"{name}: {title}", partial(_lines, rows=rows, title="documents of each schema")


def _growth(name: str, record: Record) -> Draws:
    for what, (title, _) in GROWTH.items():
        engines = [one for one in record[what][0] if one != "size"]
        part = next(iter(record[what][0][engines[0]]))
        rows = [
            {"series": OURS if one == "ours" else one, "size": row["size"], "cpu_seconds": row[one][part]}
            for one in engines
            for row in record[what]
        ]
        yield f"{title}: {part}, {name}", partial(_lines, rows=rows, title=what)


def _scaling(name: str, record: Record) -> Draws:
    for what, found in record.get("scaling", {}).items():
        title = {"properties": "properties of a schema", "vocabulary": "ids of the vocabulary"}[what]
        draw = partial(_lines, rows=found["rows"], title=title)
        yield f"CPU time of token classes over {title}", draw


def _lines(axes: Any, rows: Sequence[Record], title: str) -> None:
    for series in dict.fromkeys(row["series"] for row in rows):
        own = [row for row in rows if row["series"] == series and row.get("cpu_seconds")]
        sizes, seconds = ([row[key] for row in own] for key in ("size", "cpu_seconds"))
        axes.plot(sizes, seconds, marker=".", label=series, color=COLOURS.get(series))
    axes.set_xscale("log")
    axes.set_yscale("log")
    seconds_along(axes.yaxis)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.set_minor_locator(pyplot().NullLocator())
    axes.set_xlabel(title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


def _maskbench(name: str, record: Record) -> Draws:
    times = {titled(engine, record): one["first_masks"] for engine, one in record["rows"].items()}
    if not record["quick"] and any(times.values()):
        yield f"{name}: time to the first mask, what each engine takes", lambda axes: cumulative(axes, times)


_MAKERS: Mapping[str, Callable[[str, Record], Draws]] = {
    "maskbench": _maskbench, "schemas": _schemas, "strategies": _strategies, "scaling": _scaling,
    "growth": _growth,
}  # fmt: skip


def draw_first_masks(path: Path, record: Mapping[str, Any]) -> None:
    """Draw the picture of times to the first mask, from a record of new schemas."""
    times: dict[str, list[float]] = {}
    for row in record["rows"]:
        for engine, one in row["requests"].items() if not row["differences"] else ():
            if (seconds := time_of(one, "first_mask")) is not None:
                times.setdefault(engine, []).append(seconds)
    draw(path, times, f"New JSON schemas, {len(record['rows']):,} of them")
