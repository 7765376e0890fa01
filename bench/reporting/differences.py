"""``python -m bench diff A B``: compare two records of one benchmark, row by row.

What: pairs the rows of both by their names. For each time, it prints the median and the 90th percentile of B
/ A, and in how many rows either is faster. For folders of reports, it compares all records that both have.
When: before and after a change, or on two machines.
Limits: only times are compared (floating-point numbers above 0 that a row has in both records), not counts.
Differences of machines, versions and arguments are printed first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from bench import report, workloads
from bench.tables import Table

NAMES = (
    "vocabulary", "name", "grammar", "series", "size", "ids", "dtype", "batch", "row", "family", "tools",
    "reasoning", "shape",
)  # fmt: skip
"""Keys that together name a row."""

LEFT_OUT = (
    "max", "p90", "p99", "phases", "load_average", "ratios", "exponents", "summary.classes",
)  # fmt: skip
"""Values whose paths have one of these parts are left out; ``--metric`` includes them."""

CLOSE = 1.05
"""Two times that differ by less than this factor count as equal."""


def rows_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows of a record by name; those of a grammar are its summary."""
    if record.get("benchmark") == "grammar":
        return {"": record.get("summary", {})}
    rows, schemas = record.get("rows", {}), record.get("schemas", {})
    found: dict[str, Any] = dict(rows) if isinstance(rows, dict) else {}
    parts = [("", rows), ("", record.get("grammars", []))]
    for more in (schemas if isinstance(schemas, dict) else {}, record.get("scaling", {})):
        parts += [(name, own["rows"]) for name, own in more.items()]
    for part, some in parts:
        for row in some if isinstance(some, list) else []:
            found[", ".join([part, *(str(row[key]) for key in NAMES if row.get(key) is not None)])] = row
    return found


def times_of(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield all times in a value with their paths; of a list, the median."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from times_of(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and all(isinstance(item, float) for item in value):
        yield path, float(np.median(value))
    elif isinstance(value, float) and value > 0:
        yield path, value


def ratios(a: Mapping[str, Any], b: Mapping[str, Any], metric: str | None) -> dict[str, list[float]]:
    """Return B / A for each chosen time, over the rows that both records have."""
    found: dict[str, list[float]] = defaultdict(list)
    ours, theirs = rows_of(a), rows_of(b)
    for name in ours.keys() & theirs.keys():
        before, after = dict(times_of(ours[name])), dict(times_of(theirs[name]))
        for path in before.keys() & after.keys():
            if metric in path if metric is not None else not set(path.split(".")) & set(LEFT_OUT):
                found[path].append(after[path] / before[path])
    return dict(sorted(found.items()))


def print_difference(
    console: Console, title: str, a: Mapping[str, Any], b: Mapping[str, Any], metric: str | None
) -> None:
    """Print how the runs differ, and the table."""
    for key in ("machine", "packages", "commit", "arguments"):
        if a.get(key) != b.get(key):
            report.say(console, f"{title}: {key} differ: {a.get(key)} / {b.get(key)}")
    rows = []
    for path, values in ratios(a, b, metric).items():
        p50, p90 = np.percentile(values, (50, 90))
        a_ahead, b_ahead = sum(one > CLOSE for one in values), sum(one < 1 / CLOSE for one in values)
        counts = (a_ahead, b_ahead, len(values) - a_ahead - b_ahead)
        rows.append([path, len(values), f"{p50:.3g}", f"{p90:.3g}", *counts])
    columns = ["time", "rows", "B / A, p50", "p90", "A ahead", "B ahead", "equal"]
    Table(title, columns, rows).print(console)


def pairs(a: Path, b: Path) -> dict[str, tuple[Path, Path]]:
    """Return the records to compare, by name.

    Raises:
        ValueError: one argument is a file and the other a folder, or two folders have no record of the same
            name.
    """
    if a.is_dir() != b.is_dir():
        raise ValueError(
            "one is a folder, the other a file; give two records, or two folders of `bench report`"
        )
    if not a.is_dir():
        return {f"{a.stem} / {b.stem}": (a, b)}
    folders = [path / "records" if (path / "records").is_dir() else path for path in (a, b)]
    found = {path.stem: (path, folders[1] / path.name) for path in sorted(folders[0].glob("*.json"))}
    found = {name: both for name, both in found.items() if both[1].exists()}
    if not found:
        raise ValueError("the folders have no record of the same name")
    return found


def read(path: Path) -> dict[str, Any]:
    """Read a record.

    Raises:
        ValueError: the file is not a record.
    """
    record = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(record, dict) or not {"benchmark", "bench"} & record.keys():
        raise ValueError(f"{path.name} is no record of a benchmark; expected is what --json has written")
    return record


def command(
    a: Annotated[Path, typer.Argument(help="A record, or the folder of a report.", exists=True)],
    b: Annotated[Path, typer.Argument(help="The other one.", exists=True)],
    metric: Annotated[str | None, typer.Option(help="Only times whose name contains this.")] = None,
) -> None:
    """Compare two records: ratios of every time, row by row."""
    console = report.make_console()
    with workloads.usage_errors():
        found = {name: (read(one), read(other)) for name, (one, other) in pairs(a, b).items()}
        for name, (one, other) in found.items():
            kinds = [record.get("benchmark", record.get("bench")) for record in (one, other)]
            if kinds[0] != kinds[1]:
                raise ValueError(
                    f"{name} are records of {kinds[0]!r} and {kinds[1]!r}; give two of one benchmark"
                )
    for name, (one, other) in found.items():
        print_difference(console, name, one, other, metric)
