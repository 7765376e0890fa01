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
from typing import Any

import numpy as np

from bench.picture import COLOURS, cumulative, new_figure, pyplot, save, seconds_along
from bench.reporting.as_written import titled
from bench.reporting.jobs import Done
from bench.reporting.others import GROWTH
from bench.reporting.questions import Question
from bench.reporting.standings import OURS, Standing, records, shared_times, standings

SIZE = (5.4, 3.3)


@dataclass(frozen=True)
class Picture:
    """A picture; `svg` is an element that is inserted into a page unchanged."""

    title: str
    svg: str


def pictures(question: Question, done: Mapping[str, Done]) -> list[Picture]:
    """Return all pictures of a question."""
    found = [
        _drawn(title, draw)
        for kind, make in _MAKERS.items()
        for name, record in records(question, done, kind)
        for title, draw in make(name, record)
    ]
    masks = [
        row
        for row in standings(question, done)
        if row.what.endswith("new document, mean") and "mask" in row.what
    ]
    if masks:
        found.insert(0, _drawn("A mask on new documents, means", lambda axes: _bars(axes, masks)))
    return found


def _drawn(title: str, draw: Callable[[Any], None]) -> Picture:
    plots, figure, axes = new_figure(*SIZE)
    draw(axes)
    written = io.BytesIO()
    save(figure, written)
    plots.close(figure)
    text = written.getvalue().decode()
    return Picture(title, text[text.index("<svg") :])


Draws = Iterator[tuple[str, Callable[[Any], None]]]


def _schemas(name: str, record: Mapping[str, Any]) -> Draws:
    _, first = shared_times(record, "first_mask")
    if not first.get(OURS):
        return
    yield (
        f"{name}: time to the first mask, schemas that all engines take",
        lambda axes: cumulative(axes, first),
    )
    _, document = shared_times(record, "document")
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
            axes.plot(
                share, ratio, label=engine, color=COLOURS.get(engine), marker="." if ratio.size < 30 else ""
            )
    axes.axhline(1, color="#444", linewidth=0.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.yaxis.set_minor_locator(pyplot().NullLocator())
    axes.set_xlabel("schemas, sorted, %")
    axes.set_ylabel("peer / equimask")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper left")


def _strategies(name: str, record: Mapping[str, Any]) -> Draws:
    if record["rows"]:
        n_schemas = len(record["rows"])
        title = f"{name}: CPU time of so many documents, compiling included, {n_schemas} schemas together"
        yield title, lambda axes: _break_even(axes, record["summary"])


def _break_even(axes: Any, summary: Mapping[str, Any]) -> None:
    counts = [int(count) for count in summary]
    ways = {"auto": (OURS, "-"), "XGrammar": ("XGrammar", "-"), "classifier": ("strategy classifier", ":"),
            "representatives": ("strategy representatives", ":")}  # fmt: skip
    for way, (label, line) in ways.items():
        seconds = [one["seconds"][way] for one in summary.values()]
        axes.plot(counts, seconds, line, marker="o", label=label, color=COLOURS.get(label))
    axes.set_xscale("log")
    axes.set_yscale("log")
    seconds_along(axes.yaxis)
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.xaxis.set_minor_locator(pyplot().NullLocator())
    axes.set_xlabel("documents of each schema")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def _growth(name: str, record: Mapping[str, Any]) -> Draws:
    for what, title in GROWTH.items():
        engines = [one for one in record[what][0] if one != "size"]
        part = next(iter(record[what][0][engines[0]]))
        rows = [
            {"series": OURS if one == "ours" else one, "size": row["size"], "cpu_seconds": row[one][part]}
            for one in engines
            for row in record[what]
        ]
        yield f"{title}: {part}, {name}", partial(_lines, found={"rows": rows}, title=what)


def _scaling(name: str, record: Mapping[str, Any]) -> Draws:
    for what, found in record.get("scaling", {}).items():
        title = {"properties": "properties of a schema", "vocabulary": "ids of the vocabulary"}[what]
        yield f"CPU time of token classes over {title}", partial(_lines, found=found, title=title)


def _lines(axes: Any, found: Mapping[str, Any], title: str) -> None:
    for series in dict.fromkeys(row["series"] for row in found["rows"]):
        own = [row for row in found["rows"] if row["series"] == series and row.get("cpu_seconds")]
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


def _bars(axes: Any, rows: Sequence[Standing]) -> None:
    engines = list(dict.fromkeys(name for row in rows for name in row.values))
    places = np.arange(len(rows))[::-1]
    height = 0.8 / len(engines)
    for number, engine in enumerate(engines):
        values = [row.values.get(engine, np.nan) for row in rows]
        axes.barh(places - number * height, values, height, label=engine, color=COLOURS.get(engine))
    axes.set_yticks(places - height * (len(engines) - 1) / 2, [row.where for row in rows])
    axes.set_xscale("log")
    seconds_along(axes.xaxis)
    axes.grid(alpha=0.3, axis="x")
    axes.legend(frameon=False, fontsize=8)


def _maskbench(name: str, record: Mapping[str, Any]) -> Draws:
    times = {titled(engine, record): one["first_masks"] for engine, one in record["rows"].items()}
    if not record["quick"] and any(times.values()):
        yield f"{name}: time to the first mask, what each engine takes", lambda axes: cumulative(axes, times)


_MAKERS: Mapping[str, Callable[[str, Mapping[str, Any]], Draws]] = {
    "maskbench": _maskbench,
    "schemas": _schemas, "strategies": _strategies, "scaling": _scaling, "growth": _growth,
}  # fmt: skip
