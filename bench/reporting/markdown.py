"""A report in Markdown: a page of the documentation, and the numbers of the README.

What: `render` fills the template ``page.md``; `put_into` renders ``readme.md`` between two markers of a text.
When: in ``python -m bench page DIR --markdown docs/measurements.md --readme README.md``.
Limits: names of schemas and grammars, and the output of programs, are untrusted: `plain` removes what
Markdown or HTML could interpret. Both templates use the same tables, so each number of the README is also on
the page.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from bench.reporting.facts import Facts
from bench.reporting.page import HERE, environment
from bench.tables import Table

BEGIN = "<!-- measured: rendered by `python -m bench page`, see bench/reporting/readme.md -->"
END = "<!-- end of measured -->"

FIRST_MASK = Path("docs") / "first-mask.svg"
"""The README's picture, beside the README."""


def plain(text: object) -> str:
    """Escape a text for Markdown, on one line."""
    escaped = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_|\[\]])", r"\\\1", " ".join(escaped.split()))


def as_text(table: Table) -> str:
    """Write a table in Markdown, with the sentences below it."""
    head = f"| {' | '.join(map(plain, table.columns))} |\n|{'---|' * len(table.columns)}"
    lines = [f"| {' | '.join(plain(cell.text) for cell in row)} |" for row in table.rows]
    told = [f"- {plain(line)}." for line in table.told]
    return "\n".join([head, *lines, *(["", *told] if told else [])])


def _filled(name: str, facts: Facts) -> str:
    own = environment(autoescape=False, keep_trailing_newline=True)
    own.filters["plain"] = plain
    own.filters["table"] = as_text
    own.filters["numbers"] = lambda table: as_text(replace(table, told=()))
    text = own.from_string((HERE / name).read_text(encoding="utf-8")).render(facts=facts)
    return re.sub(r"\n{3,}", "\n\n", text)


def render(facts: Facts) -> str:
    """Return the page."""
    return _filled("page.md", facts)


def put_into(text: str, facts: Facts) -> str:
    """Return a README in which these numbers replace the text between the markers.

    Raises:
        ValueError: the text does not have both markers, once and in this order.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"expected are the lines {BEGIN!r} and {END!r}, once each and in this order")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{_filled('readme.md', facts).strip()}\n{END}{rest.partition(END)[2]}"
