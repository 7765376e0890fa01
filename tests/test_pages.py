"""Pages about grammars: their contents, no user text as markup, their size, and their scripts in a browser.

What: `python -m hybrid explain` with and without ``--html``, on all kinds of grammars and strategies.
When: after a change of `hybrid.pages`, its template, or the command.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bench import explain_pages
from equivalence import Vocabulary
from hybrid import GrammarCompiler
from hybrid.cli.commands import app
from hybrid.pages import facts_of, render
from hybrid.pages.document import MOST_SPOTS, MOST_STEPS
from hybrid.pages.page import MOST_BYTES
from tests.benches import write_schemas
from tests.browser import needs_browser, shown
from tests.test_cli import run

HOSTILE = [
    "</script>", "</template><script>", "<img src=x onerror=alert(1)>", "{{ 7*7 }}", '" onclick="x',
    "</style>", "<!--", "]]>", "\u202e", "\x1b[2J",
]  # fmt: skip
WORDS = ["true", "name", '": "', '", "', "12", *HOSTILE]
VOCABULARY = Vocabulary.from_bytes(
    [bytes([value]) for value in range(256)] + [word.encode() for word in WORDS] + [b""],
    stop_token_ids=256 + len(WORDS),
)

TALK = 'root ::= "hello " name "!"\nname ::= [A-Z] [a-z]*'
LARK = 'start: "select" NAME ("," NAME)*\nNAME: /[a-z]+/\n%ignore " "'
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {}, "uniqueItems": True}},
    "required": ["name"],
}


class Parsed(HTMLParser):
    """The elements of a page with their attributes, and the text inside each kind of element."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "rect", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect":
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self._open):
            self.texts.setdefault(tag, []).append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, tag: str) -> str:
        return "".join(self.texts.get(tag, ()))


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "small.npz"
    VOCABULARY.save(path)
    return str(path)


def written(tmp_path: Path, spec: str, grammar: str, *options: str, status: int = 0) -> tuple[str, Parsed]:
    target = tmp_path / "page.html"
    told = run("explain", grammar, "--vocabulary", spec, "--html", str(target), *options, status=status)
    return told, Parsed(target.read_text(encoding="utf-8"))


def file(path: Path, text: str) -> str:
    """The path of a new file with a text."""
    path.write_text(text)
    return str(path)


def test_a_page_tells_of_a_schema_and_a_document(tmp_path: Path, spec: str) -> None:
    document = file(tmp_path / "document.json", '{"name": "x", "tags": [1, true]}')
    _, page = written(tmp_path, spec, json.dumps(SCHEMA), "--text", document)
    assert "uniqueItems" in page.text("table") and "/properties/tags/uniqueItems" in page.text("table")
    assert "classifier" in page.text("header") and "token classes" in page.text("span")
    spans = [one for one in page.named("span") if "data-spot" in one]
    assert len(spans) >= 10 and any("forced" in (one["class"] or "") for one in spans)
    assert {f"spot-{one['data-spot']}" for one in spans} <= {one["id"] for one in page.named("template")}
    assert '{"name": "x", "tags": [1, true]}' in page.text("pre")
    assert '"name"' in page.text("dd") and "key" in page.text("dt")
    assert "most common classes" in page.text("template")
    named = re.findall(r"<code>(--[a-z-]+)", (tmp_path / "page.html").read_text(encoding="utf-8"))
    assert named and set(named) <= set(re.findall("--[a-z-]+", run("explain", "--help")))


def test_a_refused_document_is_said_where_and_why(tmp_path: Path, spec: str) -> None:
    given = (json.dumps(SCHEMA), "--text", file(tmp_path / "document.json", '{"name": 1}'))
    told, page = written(tmp_path, spec, *given, status=1)
    for printed in (told, run("explain", *given, "--vocabulary", spec, status=1)):
        assert "line 1, column 10" in printed and "a string" in printed
    assert "Refused." in page.text("p") and "at /name" in page.text("p")
    assert any("refused" in (one.get("class") or "") for one in page.named("span") if "data-spot" in one)


@pytest.mark.parametrize("strategy", ["auto", "representatives", "engine"])
def test_every_strategy_has_a_page(tmp_path: Path, spec: str, strategy: str) -> None:
    _, page = written(tmp_path, spec, TALK, "--strategy", strategy)
    assert strategy in page.text("header") or strategy == "auto"
    assert ("None: the grammar runs in XGrammar" in page.text("p")) == (strategy == "engine")
    summary = run("explain", TALK, "--vocabulary", spec, "--strategy", strategy)
    assert "hello" in summary and "compiled in" in summary


def test_a_lark_grammar_and_the_builtin_one(tmp_path: Path, spec: str) -> None:
    grammar, document = file(tmp_path / "talk.lark", LARK), file(tmp_path / "text", "select a, b")
    _, page = written(tmp_path, spec, grammar, "--text", document)
    assert "NAME" in page.text("template") and "talk.lark" in page.text("h1")
    written(tmp_path, spec, "builtin:json")


def test_nobodys_text_becomes_markup(tmp_path: Path, spec: str) -> None:
    everything = "".join(HOSTILE)
    schema = {
        "type": "object",
        "properties": {
            everything: {"enum": HOSTILE},
            "p": {"type": "string", "pattern": "^[<>/a-z]+$", "not": {"const": everything}},
        },
        "required": [everything, "p"],
    }
    content = {everything: HOSTILE[0], "p": "</script>A" + everything}
    document = file(tmp_path / "<b>&.json", json.dumps(content, ensure_ascii=False))
    given = (file(tmp_path / "<i>schema.json", json.dumps(schema)), "--text", document)
    _, page = written(tmp_path, spec, *given, status=1)
    [script], [style] = page.texts["script"], page.texts["style"]
    root = Path(__file__).parent.parent / "hybrid" / "pages"
    assert script == (root / "page.js").read_text() and style == (root / "page.css").read_text()
    policy = page.named("meta")[1]["content"] or ""
    for text in (script, style):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy
    allowed = "html head meta title style body header footer section aside div p b i h1 h2 h3 span pre code"
    allowed += " table tr th td svg rect template dl dt dd ul li script"
    assert {tag for tag, _ in page.elements} <= {*allowed.split()}
    names = {name for _, attributes in page.elements for name in attributes}
    assert not [name for name in names if name.startswith("on") or name in ("src", "href", "style")]
    assert "{{ 7*7 }}" in page.text("body") and "<img src=x onerror" in page.text("body")
    assert "\u202e" not in page.text("body")
    # in the terminal, too, text is neither markup nor a command to the terminal
    summary = run("explain", *given, "--vocabulary", spec, status=1)
    assert "\x1b" not in summary and "\u202e" not in summary


def test_a_key_that_is_no_text(tmp_path: Path, spec: str) -> None:
    schema = {"type": "object", "properties": {"\ud800": {"type": "null"}}, "required": ["\ud800"]}
    for html in ([], ["--html", str(tmp_path / "page.html")]):
        result = CliRunner().invoke(app, ["explain", json.dumps(schema), "--vocabulary", spec, *html])
        assert result.exit_code in (0, 2) and isinstance(result.exception, (SystemExit, type(None)))


def test_pages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {f"{'<&>' * 40}{k}": {"enum": [f"{'&' * 50}{one}" for one in range(20)]} for k in range(20)}
    schema = {"type": "object", "properties": keys, "required": list(keys)}
    text = json.dumps({key: value["enum"][7] for key, value in keys.items()})
    compiled = GrammarCompiler(VOCABULARY).compile_json_schema(schema)
    facts = facts_of(compiled, "<" * 10_000, "JSON schema", 0.0, text.encode())
    assert len(facts.document.steps) == MOST_STEPS and facts.document.n_cut > 0
    assert len(facts.document.spots) <= MOST_SPOTS
    whole = len(render(facts).encode())
    assert whole <= MOST_BYTES
    monkeypatch.setattr("hybrid.pages.page.MOST_BYTES", whole // 2)
    assert len(render(facts).encode()) <= whole // 2


@pytest.mark.parametrize(("end", "refused"), [("}]", None), (",]", -2), ("}", 0)])
def test_all_of_a_document_is_checked(end: str, refused: int | None, tmp_path: Path, spec: str) -> None:
    text = "[" + '{"a": 1}, ' * MOST_STEPS + "{" + end
    given = ["builtin:json", "--vocabulary", spec, "--text", file(tmp_path / "document.json", text)]
    status, page = int(refused is not None), tmp_path / "page.html"
    summary = run("explain", *given, status=status)
    printed = run("explain", *given, "--html", str(page), status=status)
    for one in (summary, printed + page.read_text()):
        assert "more bytes are not shown" in one
        place = "" if refused is None else f"(byte {len(text) + refused:,})"
        assert place in " ".join(one.split()) and ("(byte" in one) == bool(place)


@needs_browser
def test_a_browser_shows_it(tmp_path: Path, spec: str) -> None:
    document = file(tmp_path / "document.json", '{"name": "x", "tags": [1, tru]}')
    written(tmp_path, spec, json.dumps(SCHEMA), "--text", document)
    dom = shown(tmp_path / "page.html", tmp_path / "profile")
    panel = re.search(r'<aside id="panel".*?</aside>', dom, re.DOTALL)
    assert panel is not None and "may follow" in panel[0] and "tokens allowed" in panel[0]
    page = Parsed(dom)
    assert any("on" in (one.get("class") or "").split() for one in page.named("span"))
    assert len(page.named("table")) == 4 and len(page.named("rect")) > 5


def test_pages_are_timed(tmp_path: Path, spec: str) -> None:
    folder = write_schemas(tmp_path / "schemas", {"one": (SCHEMA, [(False, {}), (True, {"name": "x"})])})
    timed = typer.Typer()
    timed.command()(explain_pages.command)
    record = tmp_path / "record.json"
    options = ["--vocabulary", spec, "--schemas", str(folder), "--json", str(record)]
    result = CliRunner().invoke(timed, options)
    assert result.exit_code == 0, result.output
    rows = json.loads(record.read_text())["rows"]
    assert [row["refused"] for row in rows] == [""] * (len(explain_pages.LANGUAGES) + 1)
    assert max(row["bytes"] for row in rows) <= MOST_BYTES
