"""A report in Markdown: a page for the documentation, and the numbers of the README.

What: `render` fills the template ``page.md``; `put_into` renders ``readme.md`` between two markers of a text.
When: in ``python -m bench page DIR --markdown docs/measurements.md --readme README.md``.
Limits: names of schemas and grammars, and what programs said, are anybody's: `plain` takes from them what
Markdown or HTML could read as more than text. Both templates ask for the same tables, so that a number of the
README stands on the page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import picture
from bench.reporting.facts import Facts
from bench.reporting.page import HERE, environment
from bench.reporting.tables import Table

BEGIN = "<!-- measured: rendered by `python -m bench page`, see bench/reporting/readme.md -->"
END = "<!-- end of measured -->"

FIRST_MASK = Path("docs") / "first-mask.svg"
"""The README's picture, beside the README."""


def plain(text: object) -> str:
    """A text as Markdown shows it, on one line."""
    escaped = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_|\[\]])", r"\\\1", " ".join(escaped.split()))


def as_text(table: Table) -> str:
    """A table in Markdown, with what is said below it."""
    head = f"| {' | '.join(map(plain, table.columns))} |\n|{'---|' * len(table.columns)}"
    lines = [f"| {' | '.join(plain(cell.text) for cell in row)} |" for row in table.rows]
    told = "\n".join(f"- {plain(line)}." for line in table.told)
    return "\n".join([head, *lines, *(f"\n{part}" for part in (told,) if part)])


def _filled(name: str, facts: Facts) -> str:
    own = environment(autoescape=False, keep_trailing_newline=True)
    own.filters["plain"] = plain
    own.filters["table"] = as_text
    own.filters["numbers"] = lambda table: as_text(replace(table, told=()))
    text = own.from_string((HERE / name).read_text(encoding="utf-8")).render(facts=facts)
    return re.sub(r"\n{3,}", "\n\n", text)


def render(facts: Facts) -> str:
    """The page."""
    return _filled("page.md", facts)


def put_into(text: str, facts: Facts) -> str:
    """A README with these numbers in place of those between its markers.

    Raises:
        ValueError: the text has not both markers, once and in this order.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"expected are the lines {BEGIN!r} and {END!r}, once each and in this order")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{_filled('readme.md', facts).strip()}\n{END}{rest.partition(END)[2]}"


def draw_first_masks(path: Path, record: Mapping[str, Any]) -> None:
    """The picture of times to the first mask, of a record of new schemas."""
    times: dict[str, list[float]] = {}
    for row in record["rows"]:
        for engine, one in row["requests"].items() if not row["differences"] else ():
            seconds = one["over"] if one["over"] is not None else one["first_mask"]
            if seconds is not None:
                times.setdefault(engine, []).append(seconds)
    picture.draw(path, times, f"New JSON schemas, {len(record['rows']):,} of them")
