"""The report as one HTML page that needs no network.

What: `render` fills the template ``page.html``.
When: in ``python -m bench report``.
Limits: names of schemas and grammars, and what programs said, are anybody's: jinja2 escapes all of it. Only
pictures are put in as they are, which matplotlib has escaped. The Content-Security-Policy allows no
script and loads nothing; styles may be inline, as those of matplotlib's elements are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.report import readable
from bench.reporting.answers import Table
from bench.reporting.plots import Picture
from bench.reporting.standings import Standing


@dataclass(frozen=True)
class Section:
    """One question answered; `failures` are jobs that went wrong, with what they said."""

    letter: str
    title: str
    tables: Sequence[Table]
    pictures: Sequence[Picture]
    missing: Sequence[str] = ()
    failures: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """All that the page tells.

    Attributes:
        environment: `bench.report.environment` of the report.
        masks, differences: compared with plain XGrammar, over all records.
        when: rows of "when to use what".
        behind: where a peer is ahead of us.
        n_ahead: rows in which nobody is.
        missing_peers: with the way out.
        command: that makes the page again.
    """

    environment: Mapping[str, Any]
    masks: int
    differences: int
    when: Table
    behind: Sequence[Standing]
    n_standings: int
    sections: Sequence[Section]
    missing_peers: Sequence[str]
    command: str
    is_quick: bool


def render(facts: Facts) -> str:
    """The page."""
    import jinja2  # 50 ms, and only here

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["seconds"] = readable
    environment.filters["times"] = lambda value: readable(value, "x")
    environment.filters["count"] = lambda value: f"{value:,}"
    here = Path(__file__).parent
    template = environment.from_string((here / "page.html").read_text(encoding="utf-8"))
    return template.render(facts=facts, style=(here / "page.css").read_text(encoding="utf-8"))
