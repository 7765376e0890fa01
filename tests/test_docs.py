"""The documentation: its examples run, its site builds strictly and loads nothing from the network.

What: the code blocks of README, docs/quickstart.md and docs/usage.md are executed, with small random models,
and the first one of some other pages; the table of docs/settings.md.
When: after a change of a page, of a docstring or of the public interface.
Limits: the tests of the site are skipped where MkDocs is not installed (on Python 3.10).
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import math
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AddedToken

import equivalence.errors
import hybrid
from adapters.transformers import GrammarLogitsProcessor
from bench.cases import CHECKOUT
from hybrid import BudgetExceeded, GrammarCompiler, GrammarMatcher, Vocabulary
from tests.byte_tokenizer import byte_tokenizer
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
    assert isinstance(json.loads(capsys.readouterr().out)["name"], str)
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
        "model": make_model(3), "logits": torch.zeros(1, VOCABULARY.size),
        "schema": {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "additionalProperties": False},
        "ebnf_text": 'root ::= "a" root "b" | "ab"', "lark_text": 'start: "a"+',
    }  # fmt: skip

    def reads(text: str, compiled: Any = None) -> bool:
        return GrammarMatcher(compiled or names["compiled"]).accept_string(text)

    exec(first, names)
    assert reads(PERSON) and names["logits"][0, names["token_id"]] == 0 and names["logits"].min() == -math.inf
    try:
        exec(budget, names)
        assert reads('{"n": 2}', names["future"].result())
        exec(lark, names)  # with the same compiler
    except BudgetExceeded:  # a busy machine may need more than two seconds
        pytest.skip("the example took longer than its budget")
    assert reads("aaa")
    exec(explained, names)
    assert "expected" in capsys.readouterr().out
    exec(static, names)
    assert (tmp_path / "grammar.equimask").exists() and reads("aabb")


def test_the_page_of_lark_finds_grammars_of_the_package() -> None:
    names: dict[str, Any] = {}
    exec(blocks("docs/lark.md")[1], names)
    assert "select" in names["text"]


@pytest.mark.parametrize("page", ["classifier", "strategies", "caches", "gather"])
def test_a_first_example_prints_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(blocks(f"docs/{page}.md")[0], {})
    after = (CHECKOUT / "docs" / f"{page}.md").read_text(encoding="utf-8").split("```python\n")[1]
    (printed,) = re.findall(r"^.*?\n```\n.*?\n```\n(.*?)```", after, re.DOTALL)
    assert capsys.readouterr().out == printed


LOADED = re.compile(
    r"""<link[^>]*\shref=["']?([^"'\s>]+)|\s(?:src|srcset|poster)=["']?([^"'\s>]+)"""
    r"""|(?:url\(|@import )["']?([^"')\s]+)"""
)
"""What a browser loads for a page or a style sheet, without a click."""


def elsewhere(folder: Path) -> list[str]:
    """Return the addresses that the pages and style sheets of a folder load from another host."""
    texts = [path.read_text("utf-8") for path in folder.rglob("*.*") if path.suffix in (".html", ".css")]
    found = ["".join(groups) for text in texts for groups in LOADED.findall(text)]
    assert found
    return [address for address in found if re.match(r"(https?:)?//", address)]


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="the extra docs is not installed")
def test_the_site(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert elsewhere(tmp_path) == []
    reference = (tmp_path / "reference" / "decoding.html").read_text()
    methods = ("GrammarCompiler.compile_json_schema", "GrammarMatcher.fill_next_token_bitmask")
    assert all(f'id="hybrid.{name}"' in reference for name in methods)


def test_the_reference_has_every_public_name() -> None:
    pages = [path.read_text() for path in (CHECKOUT / "docs" / "reference").glob("*.md")]
    named = set(re.findall(r"^::: hybrid\.(\w+)$", "\n".join(pages), re.MULTILINE))
    errors = {name for name in hybrid.__all__ if hasattr(equivalence.errors, name)}
    assert named | errors | {"bitmask_dtype"} >= set(hybrid.__all__)


def test_every_public_method_has_a_signature() -> None:
    kinds = [kind for kind in map(vars(hybrid).get, hybrid.__all__) if isinstance(kind, type)]
    for kind in (kind for kind in kinds if not issubclass(kind, Exception)):
        for name, method in inspect.getmembers(kind, callable):
            if not name.startswith("_"):
                given = inspect.signature(method)
                assert "args" not in given.parameters, f"{kind.__name__}.{name}{given}"


def test_every_page_is_in_the_index() -> None:
    folder = CHECKOUT / "docs"
    pages = {str(path.relative_to(folder)) for path in folder.rglob("*.md")} - {"index.md"}
    assert set(re.findall(r"\]\(([^)]+\.md)\)", (folder / "index.md").read_text())) == pages


# --- docs/settings.md --------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"],
          "additionalProperties": False}  # fmt: skip
TEXTS = {
    "compact": b'{"a":true}', "plain": b'{"a": true}', "wide": b'{  "a"  :  true  }',
    "lines": b'{\n  "a": true\n}', "endless": b"{" + b" " * 500,
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "read"),
    [
        ("none", {*TEXTS}),
        ("max_whitespace_cnt=2", {"compact", "plain", "wide"}),
        ("any_whitespace=False", {"plain"}),
        ('any_whitespace=False, separators=(",", ":")', {"compact"}),
        ("any_whitespace=False, indent=2", {"lines"}),
    ],
)
def test_the_table_of_white_space(row: str, read: set[str]) -> None:
    page = (CHECKOUT / "docs" / "settings.md").read_text()
    assert f"| `{row}` |" in page or f"| {row} |" in page
    options = {} if row == "none" else eval(f"dict({row})")
    compiled = GrammarCompiler(VOCABULARY).compile_json_schema(SCHEMA, **options)
    assert {name for name, text in TEXTS.items() if GrammarMatcher(compiled).accept_string(text)} == read


@pytest.mark.parametrize("is_added", [False, True])
def test_a_processor_never_allows_control_tokens_in_strings(is_added: bool) -> None:
    tokenizer = byte_tokenizer("<|end|>", [] if is_added else ["<|im_start|>"])
    if is_added:  # as in Llama 3's tokenizer, where no list of special tokens names it
        tokenizer.add_tokens([AddedToken("<|im_start|>", special=True)])
        assert "<|im_start|>" not in tokenizer.all_special_tokens
    control = tokenizer.convert_tokens_to_ids("<|im_start|>")
    prompt = torch.tensor([tokenizer.encode("a", add_special_tokens=False)])
    text = torch.tensor([tokenizer.encode('a"', add_special_tokens=False)])
    as_text = GrammarCompiler(Vocabulary.from_huggingface(tokenizer)).compile_json_schema({"type": "string"})
    scores = torch.zeros(1, len(tokenizer))
    for given, is_allowed in (({"type": "string"}, False), (as_text, True)):
        processor = GrammarLogitsProcessor(given, tokenizer)
        processor(prompt, scores.clone())
        masked = processor(text, scores.clone())[0]
        assert bool(masked[control] > -math.inf) is is_allowed
        assert masked[tokenizer.convert_tokens_to_ids("t")] > -math.inf
    GrammarLogitsProcessor([{"type": "string"}, as_text], tokenizer)  # of one tokenizer
