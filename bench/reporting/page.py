"""A report as one HTML page that needs no network.

What: `render` fills the template ``page.html``.
When: in ``python -m bench report``.
Limits: names of schemas and grammars, and what programs said, are anybody's: jinja2 escapes all of it. Only
pictures are put in as they are, which matplotlib has escaped. The Content-Security-Policy allows no
script and loads nothing; styles may be inline, as those of matplotlib's elements are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.report import readable
from bench.reporting.facts import Facts

HERE = Path(__file__).parent


def environment(**options: Any) -> Any:
    """What fills templates, with the filters that all of them have."""
    import jinja2  # 50 ms, and only here

    found = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, **options
    )
    found.filters["seconds"] = readable
    found.filters["times"] = lambda value: readable(value, "x")
    found.filters["count"] = lambda value: f"{value:,}"
    return found


def render(facts: Facts) -> str:
    """The page."""
    template = environment(autoescape=True).from_string((HERE / "page.html").read_text(encoding="utf-8"))
    return template.render(facts=facts, style=(HERE / "page.css").read_text(encoding="utf-8"))
