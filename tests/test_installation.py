"""The core works with its own requirements only, and loads nothing else; if an optional package is missing,
the error says which part of the project needs it. Engines find the plugins by the metadata of a wheel.

When: after a change of a requirement, of an extra, or of an import at the top of a file.
Limits: XGrammar's own import loads torch and transformers, which takes two seconds.
"""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from importlib.metadata import EntryPoint, PathDistribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import adapters.demo
import hybrid.cli
from bench.cases import CHECKOUT
from equivalence import Vocabulary
from tests import sglang_stand_in, vllm_stand_in
from tests.new_process import printed_by
from tests.stand_ins import standing_in

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

FIELD = {"xgrammar", "torch", "numpy", "lark", "transformers", "joblib", "filelock"}
"""Packages that an engine's environment has."""

OF_JSON_SCHEMA = {"referencing", "attrs", "jsonschema-specifications"}
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
import numpy, torch, xgrammar
before = set(sys.modules)
import adapters.xgrammar, hybrid
new = {name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(*sorted(new))

import adapters.engines.bounded_compiler, adapters.mlx_lm, adapters.opportunistic, adapters.outlines
import adapters.transformers
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
    return re.match(r"[A-Za-z0-9_.-]+", requirement)[0].lower()


def test_the_core_depends_on_the_packages_of_the_field_alone() -> None:
    assert {name_of(one) for one in PROJECT["dependencies"]} == FIELD | OF_JSON_SCHEMA
    assert any(re.fullmatch(r"xgrammar>=[0-9.]+,<1", one) for one in PROJECT["dependencies"])


def test_the_core_runs_without_what_only_extras_have_and_loads_nothing_but_itself() -> None:
    hide = f"import sys\nsys.meta_path = [Without(one, {EXTRAS!r}) for one in sys.meta_path]"
    new = printed_by("\n".join((WITHOUT, hide, CORE))).split()
    own = {name for name in new if not name.startswith(("_cython", "cython_shared"))}
    assert own == {"adapters", "hybrid", "equivalence"}


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
    absent: str, arguments: list[str], extra: str, tmp_path: Path, monkeypatch: Any, capsys: Any
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
    assert absent in {name_of(one).replace("-", "_") for one in PROJECT["optional-dependencies"][extra]}


# --- What `make test` installs -----------------------------------------------------------------------------


def test_requirements_of_an_extra(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Their markers stay but for the extra's name."""

    def print_lines(extra: str) -> None:
        monkeypatch.setattr(sys, "argv", ["extra.py", extra])
        runpy.run_path(str(CHECKOUT / "tools" / "extra.py"), run_name="__main__")

    print_lines("test")
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert "extra" not in printed and any(line.startswith("pytest>=") for line in lines)
    assert any(line.startswith("tomli") and line.endswith('; python_version < "3.11"') for line in lines)
    assert not any(line.startswith("matplotlib") for line in lines)
    with pytest.raises(SystemExit, match="no extra 'tests'"):
        print_lines("tests")


# --- Plugins of engines ------------------------------------------------------------------------------------

PREPARE = "import sys, setuptools.build_meta as build; build.prepare_metadata_for_build_wheel(sys.argv[1])"
GROUPS = {"vllm.general_plugins": "adapters.vllm", "sglang.srt.plugins": "adapters.sglang"}


@pytest.mark.skipif(find_spec("setuptools") is None, reason="the build's requirements are not installed")
def test_entry_points_of_a_wheel(tmp_path: Path) -> None:
    """`importlib.metadata` finds them. The wheel is made without ``setup.py``, which would compile
    everything."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, tmp_path)
    (tmp_path / "made").mkdir()
    printed_by(PREPARE, str(tmp_path / "made"), cwd=tmp_path)
    found = PathDistribution(next((tmp_path / "made").glob("*.dist-info")))
    assert found.metadata["Name"] == "equimask"
    by_group = {one.group: one.module for one in found.entry_points if one.name == "equimask"}
    assert {group: by_group[group] for group in GROUPS} == GROUPS
    assert all(find_spec(module) is not None for module in GROUPS.values())


@pytest.mark.parametrize(
    ("group", "make"), [*zip(GROUPS, (vllm_stand_in.stand_in, sglang_stand_in.stand_in), strict=True)]
)
def test_the_entry_point_names_what_registers(group: str, make) -> None:
    engine = GROUPS[group].rpartition(".")[2]
    with standing_in(engine, make) as put:
        adapter = put()[0]
        value = PROJECT["entry-points"][group]["equimask"]
        assert EntryPoint("equimask", value, group).load() is adapter.register
    assert any(one.startswith(engine) for one in PROJECT["optional-dependencies"][engine])


PLUGIN = """
import importlib.machinery, sys, types

sys.modules[ENGINE] = None
try:
    importlib.import_module(f"adapters.{ENGINE}")
except ImportError as error:
    print(error)
engine = sys.modules[ENGINE] = types.ModuleType(ENGINE)
engine.__spec__ = importlib.machinery.ModuleSpec(ENGINE, None)
importlib.import_module(f"adapters.{ENGINE}")
print(*{name.split(".")[0] for name in sys.modules})
"""


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_plugin_imports_nothing_heavy_and_says_how_to_install_the_engine(engine: str) -> None:
    told, loaded = printed_by(f"ENGINE = {engine!r}{PLUGIN}").splitlines()
    assert f'pip install "equimask[{engine}]"' in told
    heavy = {"numpy", "torch", "xgrammar", "transformers", "hybrid", "equivalence", "lark"}
    assert "adapters" in loaded.split() and not heavy & set(loaded.split())
