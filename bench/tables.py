"""Tables of a report: cells with marks, and short numbers.

What: `Table` and `Cell` are what every page shows, and what commands print; `together` writes several
numbers, and each unit once.
When: in `bench.reporting.answers` and the modules beside it.
Limits: three digits of each number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.table import Table as Screen
from rich.text import Text

from bench.report import readable, say


@dataclass(frozen=True)
class Cell:
    """A text; `look` is ``"best"``, ``"behind"`` (a peer is ahead of us), ``"bad"`` or ""."""

    text: str
    look: str = ""


def cell(value: Any, look: str = "") -> Cell:
    """Format a value: a number of something with commas, a float as seconds, None as ``-``."""
    if isinstance(value, Cell):
        return value
    if isinstance(value, float):
        return Cell(readable(value), look)
    return Cell("-" if value is None else f"{value:,}" if isinstance(value, int) else str(value), look)


def errors(count: int) -> Cell:
    """Return a cell with a number that should be 0."""
    return cell(count, "bad" if count else "best")


@dataclass
class Table:
    """A table; values in its rows become cells (`cell`).

    Attributes:
        told: sentences below it.
        is_long: whether it is not for the documentation.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    told: Sequence[str] = ()
    is_long: bool = False

    def __post_init__(self) -> None:
        self.rows = [[cell(value) for value in row] for row in self.rows]

    def only(self, *names: str) -> Table:
        """Return the table with only the rows that have these first cells, in this order; missing rows are
        skipped."""
        by_name = {row[0].text: row for row in self.rows}
        return replace(self, rows=[by_name[name] for name in names if name in by_name])

    def print(self, console: Console) -> None:
        """Print the table, and what is said below it."""
        shown = Screen(title=self.title, title_justify="left")
        for number, name in enumerate(self.columns):
            shown.add_column(name, justify="right" if number else "left", overflow="fold")
        for row in self.rows:
            shown.add_row(*(Text(one.text) for one in row))
        console.print(shown)
        for line in (*self.told, *filter(None, [self.note])):
            say(console, line)


def together(values: Iterable[float | None]) -> str:
    """Format several seconds, as in ``1.2 / 7.9 / 31 ms``: if units are equal, only the last number has
    it."""
    texts = [readable(value).split() if value is not None else ["-", ""] for value in values]
    found = []
    for number, (digits, unit) in enumerate(texts):
        is_last = number + 1 == len(texts) or texts[number + 1][1] != unit
        found.append(f"{digits} {unit}".strip() if is_last else digits)
    return " / ".join(found)


def percentiles(spread: Mapping[str, Any] | None) -> str:
    """Format p50 / p90 / p99 of a spread in seconds; "" if it is empty."""
    if not spread or not spread["count"]:
        return ""
    return together(spread[share] for share in ("p50", "p90", "p99"))


def size(count: float | None, unit: int = 1 << 20, digits: int = 0) -> str | None:
    """Format a number of bytes in MiB, or in KiB."""
    return None if count is None else f"{count / unit:,.{digits}f} {'MiB' if unit == 1 << 20 else 'KiB'}"


def versioned(engine: str, record: Mapping[str, Any]) -> str:
    """Return the name of an engine for columns, with its version if the record has it."""
    if engine == "ours":
        return "equimask"
    version = record.get("packages", {}).get(engine.lower())
    return f"{engine} {version}" if version else engine
