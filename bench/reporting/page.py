"""A report as one HTML page that loads nothing.

What: `render` fills the template ``page.html``.
When: in ``python -m bench report``.
Limits: names of schemas and grammars, and the output of programs, are untrusted: jinja2 escapes all of it.
Only pictures are inserted unchanged; matplotlib has escaped their texts. The Content-Security-Policy allows
no script and loads nothing; styles may be inline, because matplotlib's elements have such styles.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.report import readable
from bench.reporting.facts import Facts

HERE = Path(__file__).parent


def environment(**options: Any) -> Any:
    """Return the environment of all templates, with its filters."""
    import jinja2  # takes 50 ms, and is needed only here

    found = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, **options
    )
    found.filters["seconds"] = readable
    found.filters["times"] = lambda value: readable(value, "x")
    found.filters["count"] = lambda value: f"{value:,}"
    return found


def render(facts: Facts) -> str:
    """Return the page."""
    template = environment(autoescape=True).from_string((HERE / "page.html").read_text(encoding="utf-8"))
    return template.render(facts=facts, style=(HERE / "page.css").read_text(encoding="utf-8"))
