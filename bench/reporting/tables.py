"""Tables of a report: cells with a look, and numbers in few letters.

What: `Table` and `Cell` are what every page shows; `together` writes several numbers with their units once.
When: in `bench.reporting.answers` and its neighbours.
Limits: three digits of each number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report import readable


@dataclass(frozen=True)
class Cell:
    """A text; `look` is ``"best"``, ``"behind"`` (a peer is ahead of us), ``"bad"`` or nothing."""

    text: str
    look: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        told: sentences below it, one each.
        is_long: whether it is for the HTML page alone.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    told: Sequence[str] = ()
    is_long: bool = False

    def only(self, *names: str) -> Table:
        """The rows whose first cells are these, in this order; what is not there is left out."""
        by_name = {row[0].text: row for row in self.rows}
        rows = [by_name[name] for name in names if name in by_name]
        return Table(self.title, self.columns, rows, self.note, self.told)


def cells(values: Iterable[Any]) -> list[Cell]:
    return [value if isinstance(value, Cell) else Cell(str(value)) for value in values]


def together(values: Iterable[float | None]) -> str:
    """Seconds one after the other, as in ``1.2 / 7.9 / 31 ms``: a unit stands behind the last that has it."""
    texts = [readable(value).split() if value is not None else ["-", ""] for value in values]
    found = []
    for number, (digits, unit) in enumerate(texts):
        is_last = number + 1 == len(texts) or texts[number + 1][1] != unit
        found.append(f"{digits} {unit}".strip() if is_last else digits)
    return " / ".join(found)


def percentiles(spread: Mapping[str, Any] | None) -> str:
    """p50 / p90 / p99 of a spread in seconds; "" for one of nothing."""
    if not spread or not spread["count"]:
        return ""
    return together(spread[share] for share in ("p50", "p90", "p99"))


def versioned(engine: str, record: Mapping[str, Any]) -> str:
    """An engine as columns name it, with its version where the record has one."""
    if engine == "ours":
        return "equimask"
    version = record.get("packages", {}).get(engine.lower())
    return f"{engine} {version}" if version else engine
