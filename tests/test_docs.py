"""The documentation: its examples run, its site builds strictly and loads nothing from the network.

What: the code blocks of README, docs/quickstart.md and docs/usage.md are executed, with small random models,
and the first one of some other pages.
When: after a change of a page, of a docstring or of the public interface.
Limits: the tests of the site are skipped where MkDocs is not installed (on Python 3.10).
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import equivalence.errors
import hybrid
from bench.cases import CHECKOUT
from hybrid import BudgetExceeded, GrammarMatcher
from hybrid.healing import HealingMatcher
from tests.generating import EOS, TOKENIZER, VOCABULARY, make_model

PERSON = '{"name": "Ada"}'


def blocks(page: str, language: str = "python") -> list[str]:
    """The code blocks of a page."""
    return re.findall(rf"```{language}\n(.*?)```", (CHECKOUT / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    make_model(3).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return str(folder)


def test_the_readme_generates(saved_model: str, capsys: pytest.CaptureFixture[str]) -> None:
    generate, loop = blocks("README.md")
    written = [*TOKENIZER(PERSON)["input_ids"], EOS]
    coming = iter(written)

    def choose(bitmask: torch.Tensor) -> int:
        token = next(coming)
        assert bitmask[0, token // 32] >> token % 32 & 1
        return token

    names: dict[str, Any] = {"choose": choose}
    exec(re.sub('name = ".*"', f"name = {saved_model!r}", generate), names)
    printed = json.loads(capsys.readouterr().out)
    assert isinstance(printed["name"], str)
    assert len(generate.strip().splitlines()) <= 12
    exec(loop, names)
    assert names["matcher"].is_terminated() and next(coming, None) is None


def test_the_readme_has_the_commands_of_the_makefile() -> None:
    targets = re.findall(r"^([a-z]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"^make ([a-z]+)", "\n".join(blocks("README.md", "sh")), re.MULTILINE)
    assert "test" in commands and set(commands) <= set(targets)
    assert re.search("^make test$", (CHECKOUT / ".ci" / "run").read_text(), re.MULTILINE)


@pytest.mark.parametrize("module", ["hybrid.api.compiler", "hybrid.api.matcher"])
def test_examples_of_docstrings(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 5 and not found.failed


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_to_files(page: str) -> None:
    """Links in docs/ are checked when the site is built."""
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("https://")]
    assert [link for link in links if not (CHECKOUT / link.partition("#")[0]).exists()] == []
    assert links


def test_the_quick_start(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in blocks("docs/quickstart.md"):
        exec(block, names)
    printed = capsys.readouterr().out
    assert names["person"].keys() == {"name", "age"}
    assert printed.startswith("classifier - ") and 'key "age"' in printed and "refused" in printed


def test_the_page_of_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    first, budget, static, lark, explained = blocks("docs/usage.md")
    names: dict[str, Any] = {
        "tokenizer": TOKENIZER, "token_id": VOCABULARY.tokens.index(b"{"), "folder": tmp_path / "kept",
        "schema": {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "additionalProperties": False},
        "ebnf_text": 'root ::= "a" root "b" | "ab"', "lark_text": 'start: "a"+',
    }  # fmt: skip
    exec(first, names)
    assert GrammarMatcher(names["compiled"]).accept_string(PERSON)
    try:
        exec(budget, names)
        assert GrammarMatcher(names["future"].result()).accept_string('{"n": 2}')
        exec(lark, names)  # with the same compiler
    except BudgetExceeded:  # a busy machine may need more than two seconds
        pytest.skip("the example took longer than its budget")
    assert GrammarMatcher(names["compiled"]).accept_string("aaa")
    exec(explained, names)
    assert "expected" in capsys.readouterr().out
    exec(static, names)
    assert (tmp_path / "grammar.equimask").exists() and GrammarMatcher(names["compiled"]).accept_string(
        "aabb"
    )


@pytest.mark.parametrize("page", ["classifier", "strategies", "caches", "gather"])
def test_a_first_example_prints_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(blocks(f"docs/{page}.md")[0], {})
    after = (CHECKOUT / "docs" / f"{page}.md").read_text(encoding="utf-8").split("```python\n")[1]
    (printed,) = re.findall(r"^.*?\n```\n.*?\n```\n(.*?)```", after, re.DOTALL)
    assert capsys.readouterr().out == printed


class Loaded(HTMLParser):
    """The addresses that a browser loads for a page, without a click."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value and (name in ("src", "srcset", "poster") or (tag == "link" and name == "href")):
                self.found.append(value)


def elsewhere(folder: Path) -> list[str]:
    """Return the addresses that the pages and style sheets of a folder load from another host."""
    found = []
    for path in sorted(folder.rglob("*.html")):
        reader = Loaded()
        reader.feed(path.read_text(encoding="utf-8"))
        found += reader.found
    for path in sorted(folder.rglob("*.css")):
        found += re.findall(r"""(?:url\(|@import )["']?([^"')\s]+)""", path.read_text(encoding="utf-8"))
    return [address for address in found if re.match(r"(https?:)?//", address)]


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="the extra docs is not installed")
def test_the_site(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert elsewhere(tmp_path / "site") == []
    reference = (tmp_path / "site" / "reference" / "decoding.html").read_text()
    for name in (
        "GrammarCompiler.compile_json_schema",
        "CompiledGrammar.narrowed",
        "GrammarMatcher.accept_token",
        "GrammarMatcher.fill_next_token_bitmask",
    ):
        assert f'id="hybrid.{name}"' in reference


def test_the_reference_has_every_public_name() -> None:
    pages = [path.read_text() for path in (CHECKOUT / "docs" / "reference").glob("*.md")]
    named = set(re.findall(r"^::: hybrid\.(\w+)$", "\n".join(pages), re.MULTILINE))
    errors = {name for name in hybrid.__all__ if hasattr(equivalence.errors, name)}
    assert named | errors | {"bitmask_dtype"} >= set(hybrid.__all__)


CLASSES = [
    kind
    for kind in map(vars(hybrid).get, hybrid.__all__)
    if isinstance(kind, type) and not issubclass(kind, Exception)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_public_method_has_a_signature(kind: type) -> None:
    for name in [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]:
        given = inspect.signature(getattr(kind, name))
        assert "args" not in given.parameters, f"{kind.__name__}.{name}{given}"


def test_the_signatures_of_compiled_methods() -> None:
    fill, accept = GrammarMatcher.fill_next_token_bitmask, GrammarMatcher.accept_token
    assert str(inspect.signature(fill)) == "(self, /, bitmask, index=0, *, debug_print=False)"
    assert str(inspect.signature(accept)) == "(self, /, token_id, *, debug_print=False)"
    assert str(accept.__doc__).startswith("Advance by a token")


def test_what_is_loaded_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="https://a.b"><img src="//c.d/e.png"><link href="own.css">')
    (tmp_path / "own.css").write_text("@import 'http://f.g'; p { background: url(img.png) }")
    assert elsewhere(tmp_path) == ["//c.d/e.png", "http://f.g"]


def test_every_page_is_in_the_index() -> None:
    folder = CHECKOUT / "docs"
    pages = {str(path.relative_to(folder)) for path in folder.rglob("*.md")} - {"index.md"}
    assert set(re.findall(r"\]\(([^)]+\.md)\)", (folder / "index.md").read_text())) == pages


def test_what_a_healing_matcher_lacks_is_documented() -> None:
    lacking = {one for one in dir(GrammarMatcher) if not one.startswith("_")} - set(dir(HealingMatcher))
    lacking -= {"explain_within", "forced_within", "remember", "remembered"}  # for other rooms
    text = HealingMatcher.__doc__ or ""
    page = (CHECKOUT / "docs" / "drafts.md").read_text("utf-8")
    for words in (
        text.split("it has")[1].split(", and batches")[0],
        page.split("except for")[1].split(";")[0],
    ):
        assert set(re.findall(r"`(\w+)`", words)) == lacking
