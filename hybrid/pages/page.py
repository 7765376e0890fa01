"""Facts as one HTML page that loads nothing.

What: `render` fills the template ``page.html`` with `Facts`, style and script.
When: called by ``python -m hybrid explain --html``.
Limits: grammars, tokens and documents are untrusted. jinja2 escapes everything that is inserted, and nothing
is inserted into the script or the style. A Content-Security-Policy allows only this script, and loads
nothing.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources

from equivalence.errors import NotInstalled
from hybrid.explain.characters import shown
from hybrid.pages.facts import Facts

MOST_BYTES = 2 * 2**20
"""Largest size of a page."""

MOST_KEYWORDS = 200
"""Most keywords that a page lists as not enforced, and most that it lists as forbidding valid values."""


def render(facts: Facts) -> str:
    """Return the page. If it would be larger than `MOST_BYTES`, fewer places are described.

    Raises:
        NotInstalled: jinja2 is not installed; it is an extra.
    """
    try:
        import jinja2  # takes 50 ms, and is needed only here
    except ModuleNotFoundError as error:
        raise NotInstalled("python -m hybrid explain --html", "jinja2", "pages") from error

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(duration=duration, size=size, count="{:,}".format, cut=shown)
    template = environment.from_string(_source("page.html"))
    style, script = _source("page.css"), _source("page.js")
    n_spots = len(facts.document.spots)
    while True:
        page = template.render(
            facts=facts,
            classes=facts.classes,
            document=facts.document,
            compiled=facts.compiled,
            spots=facts.document.spots[:n_spots],
            most_keywords=MOST_KEYWORDS,
            style=style,
            script=script,
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
        if not n_spots or len(page.encode("utf-8", "replace")) <= MOST_BYTES:
            return page
        n_spots //= 2


def duration(seconds: float) -> str:
    """Format a duration with a suitable unit."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.0f} us"


def size(n_bytes: int) -> str:
    """Format a number of bytes with a suitable unit."""
    if n_bytes >= 2**20:
        return f"{n_bytes / 2**20:.1f} MiB"
    return f"{n_bytes / 1024:.1f} KiB"


def _source(name: str) -> str:
    return (importlib.resources.files("hybrid") / "pages" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
