"""Facts as one HTML page that needs no network.

What: `render` fills the template ``page.html`` with `Facts`, style and script within it.
When: by ``python -m hybrid explain --html``.
Limits: grammars, tokens and documents are anybody's. jinja2 escapes all that is put in, no text is ever put
into the script or the style, and a Content-Security-Policy lets the page run this one script and load
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
"""Of a page."""


def render(facts: Facts) -> str:
    """The page; where it would be larger than `MOST_BYTES`, less is told of places.

    Raises:
        NotInstalled: jinja2 is an extra.
    """
    try:
        import jinja2  # 50 ms, and only here
    except ModuleNotFoundError as error:
        raise NotInstalled("python -m hybrid explain --html", "jinja2", "pages") from error

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["duration"] = duration
    environment.filters["size"] = size
    environment.filters["count"] = lambda value: f"{value:,}"
    environment.filters["cut"] = shown
    template = environment.from_string(_source("page.html"))
    style, script = _source("page.css"), _source("page.js")
    n_spots = len(facts.document.spots)
    while True:
        page = template.render(
            facts=facts,
            document=facts.document,
            compiled=facts.compiled,
            spots=facts.document.spots[:n_spots],
            style=style,
            script=script,
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
        if not n_spots or len(page.encode("utf-8", "replace")) <= MOST_BYTES:
            return page
        n_spots //= 2


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.0f} us"


def size(n_bytes: int) -> str:
    """Bytes in the unit that suits them."""
    if n_bytes >= 2**20:
        return f"{n_bytes / 2**20:.1f} MiB"
    return f"{n_bytes / 1024:.1f} KiB"


def _source(name: str) -> str:
    return (importlib.resources.files("hybrid") / "pages" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
