"""The core works with its own requirements only; if an optional package is missing, the error says which part
of the project needs it.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import adapters.demo
import hybrid.cli
from bench.cases import CHECKOUT
from equivalence import Vocabulary

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

FIELD = {"xgrammar", "torch", "numpy", "lark", "transformers", "joblib", "filelock"}
"""Packages that an engine's environment has."""

OF_JSON_SCHEMA = {"referencing", "jsonschema-specifications"}
"""Requirements of `semantics="json-schema"`, a setting of servers; vLLM and SGLang install both."""

EXTRAS = ("typer", "rich", "jinja2", "mistral_common", "jsonschema", "prompt_toolkit")

WITHOUT = """
class Without:
    def __init__(self, finder, absent):
        self.finder, self.absent = finder, absent

    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in self.absent else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)
"""
"""Wraps a finder of modules, and hides some packages from it."""

CORE = """
import adapters.engines.bounded_compiler, adapters.mlx_lm, adapters.opportunistic, adapters.outlines
import adapters.transformers, adapters.xgrammar
import hybrid, hybrid.device, hybrid.drafts, hybrid.healing
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary
from hybrid.pages import facts_of

words = Vocabulary.from_bytes([*(bytes([one]) for one in range(256)), b""], stop_token_ids=[256])
schema = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}
for semantics in ("xgrammar", "json-schema"):
    compiled = GrammarCompiler(words, semantics=semantics).compile_json_schema(schema)
    assert GrammarMatcher(compiled).accept_string("[[], []]"), semantics
    assert facts_of(compiled, "schema", "JSON schema", 0.1, b"[]", "a document").document
lark = GrammarCompiler(words).compile_lark('start: "a"+')
assert GrammarMatcher(lark).accept_string("aa")
"""


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert found is not None
    return found[0].lower()


def test_the_core_depends_on_the_packages_of_the_field_alone() -> None:
    assert {name_of(one) for one in PROJECT["dependencies"]} == FIELD | OF_JSON_SCHEMA
    assert any(re.fullmatch(r"xgrammar>=[0-9.]+,<1", one) for one in PROJECT["dependencies"])


def test_the_core_runs_without_what_only_extras_have() -> None:
    hide = f"import sys\nsys.meta_path = [Without(one, {EXTRAS!r}) for one in sys.meta_path]"
    code = "\n".join((WITHOUT, hide, CORE))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=CHECKOUT)
    assert not done.returncode, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("absent", "arguments", "extra"),
    [
        ("typer", ["classes", 'root ::= "a"'], "cli"),
        ("rich", ["demo"], "cli"),
        ("jsonschema", ["demo"], "demo"),
        ("mistral_common", ["demo"], "demo"),
        ("mistral_common", ["classes", 'root ::= "a"'], "demo"),
        ("jinja2", ["explain", 'root ::= "a"', "--html", "PAGE", "--vocabulary", "SPEC"], "pages"),
        ("prompt_toolkit", ["try", 'root ::= "a"'], "try"),
    ],
)
def test_what_is_missing_is_named_with_the_line_that_installs_it(
    absent: str,
    arguments: list[str],
    extra: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Vocabulary.from_bytes([b"a", b""], stop_token_ids=[1]).save(tmp_path / "a.npz")
    places = {"PAGE": str(tmp_path / "page.html"), "SPEC": str(tmp_path / "a.npz")}
    monkeypatch.setattr(sys, "argv", ["hybrid", *(places.get(one, one) for one in arguments)])
    found: dict[str, Any] = {}
    exec(WITHOUT, found)
    monkeypatch.setattr(sys, "meta_path", [found["Without"](one, {absent}) for one in sys.meta_path])
    # modules imported here are removed afterwards
    monkeypatch.setattr(hybrid, "cli", hybrid.cli)
    monkeypatch.setattr(adapters, "demo", adapters.demo)
    for name in list(sys.modules):
        if name.split(".")[0] == absent or name.startswith("hybrid.cli") or name == "adapters.demo":
            monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("hybrid", run_name="__main__")
    printed = capsys.readouterr()
    told = " ".join((printed.out + printed.err + str(ended.value)).split())
    assert ended.value.code
    assert absent.replace("_", "") in told.replace("_", "").replace("-", ""), told
    assert f'pip install "equimask[{extra}]"' in told, told
    names = {name_of(one).replace("-", "_") for one in PROJECT["optional-dependencies"][extra]}
    assert absent in names
