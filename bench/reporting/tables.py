"""Tables of a report: cells with marks, and short numbers.

What: `Table` and `Cell` are what every page shows; `together` writes several numbers, and each unit once.
When: in `bench.reporting.answers` and the modules beside it.
Limits: three digits of each number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report import readable


@dataclass(frozen=True)
class Cell:
    """A text; `look` is ``"best"``, ``"behind"`` (a peer is ahead of us), ``"bad"`` or ""."""

    text: str
    look: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        told: sentences below it.
        is_long: whether it is only for the HTML page.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    told: Sequence[str] = ()
    is_long: bool = False

    def only(self, *names: str) -> Table:
        """Return the table with only the rows that have these first cells, in this order; missing rows are
        skipped."""
        by_name = {row[0].text: row for row in self.rows}
        rows = [by_name[name] for name in names if name in by_name]
        return Table(self.title, self.columns, rows, self.note, self.told)


def cells(values: Iterable[Any]) -> list[Cell]:
    return [value if isinstance(value, Cell) else Cell(str(value)) for value in values]


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


def versioned(engine: str, record: Mapping[str, Any]) -> str:
    """Return the name of an engine for columns, with its version if the record has it."""
    if engine == "ours":
        return "equimask"
    version = record.get("packages", {}).get(engine.lower())
    return f"{engine} {version}" if version else engine
