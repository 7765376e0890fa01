"""The pictures in the documentation: pages of `python -m hybrid explain`, in a headless browser.

What: writes a page about a schema that refuses its document, and one about the C-like grammar, and lets
Chromium take a picture of each.
When: ``python -m bench.screenshots docs``, after a change of the page's look.
Limits: needs Chromium (Debian: ``apt install chromium``), and uses the fonts of the machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from bench.cases import CHECKOUT
from bench.report import make_console
from hybrid.cli.explain_command import explain_grammar
from hybrid.cli.grammar_source import read_named

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
        "customer": {
            "type": "object", "required": ["name", "country"],
            "properties": {"name": {"type": "string"}, "country": {"enum": ["DE", "FR", "NL", "PT"]}},
        },
        "status": {"enum": ["open", "paid", "sent", "returned"]},
        "items": {"type": "array", "uniqueItems": True, "items": {
            "type": "object", "required": ["article", "count", "price"], "properties": {
                "article": {"type": "string"}, "count": {"type": "integer"},
                "price": {"type": "number", "multipleOf": 0.01},
            },
        }},
    },
    "required": ["order", "customer", "status", "items"],
}  # fmt: skip
DOCUMENT = """{
  "order": "NL-2041",
  "customer": {"name": "Ada Lovelace", "country": "NL"},
  "status": "paid",
  "items": [
    {"article": "Analytical engine", "count": 1, "price": 249.5},
    {"article": "Punched cards", "quantity": 500, "price": 0.1}
  ]
}
"""

C_TOKEN = 27
"""The token of the C-like sample that its picture shows."""


def picture(browser: str, page: Path, target: Path, height: int, token: str = "") -> None:
    """Take a picture of a page."""
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                f"--user-data-dir={profile}", f"--window-size=1120,{height}", "--virtual-time-budget=2000",
                f"--screenshot={target}", page.resolve().as_uri() + token,
            ],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip


def command(
    folder: Annotated[Path, typer.Argument(help="Where the pictures go.")],
    vocabulary: Annotated[str, typer.Option(help="tekken, an .npz file or a tokenizer.")] = "tekken",
) -> None:
    """Take the pictures."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise typer.BadParameter(f"no Chromium is installed; looked for {', '.join(BROWSERS)}")
    console = make_console()
    with tempfile.TemporaryDirectory() as made:
        schema, document = Path(made, "order.json"), Path(made, "answer.json")
        schema.write_text(json.dumps(SCHEMA), encoding="utf-8")
        document.write_text(DOCUMENT, encoding="utf-8")
        c_like = CHECKOUT / "hybrid" / "grammars" / "c_like.gbnf"
        sample = CHECKOUT / "bench" / "samples" / "c_like" / "life.c"
        jobs = (
            ("explain-schema", schema, document, 1010, ""),
            ("explain-grammar", c_like, sample, 980, f"#{C_TOKEN}"),
        )
        for name, grammar, text, height, token in jobs:
            page = Path(made, f"{name}.html")
            explain_grammar(console, read_named(str(grammar)), text, page, vocabulary, "auto")
            target = folder / f"{name}.png"
            picture(browser, page, target.resolve(), height, token)
            console.print(f"{target}: {target.stat().st_size / 1024:.0f} KiB", markup=False)


if __name__ == "__main__":
    typer.run(command)
