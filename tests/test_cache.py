"""Compiled grammars on disk: what is found again, what is not, and what is deleted.

What: entries that other compilers and processes find, and what distinguishes entries; deletion. Damage,
eviction and simultaneous equal calls have their own files.
When: after any change of `hybrid.compile.cache`, of `GrammarCompiler._cached` or of artefacts.
Limits: small vocabularies; times are measured, not tested (docs/caches.md).
"""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xgrammar
from pydantic import create_model

from bench.cases import CHECKOUT
from equivalence import GrammarError
from hybrid import Budget, CompiledGrammar, GrammarCompiler
from hybrid.compile import cache
from hybrid.lark import LarkGrammar
from tests.caches import LARK, OTHER_VOCABULARY, REGEX, Gate, Point, compiler_in, disk, entries
from tests.test_artifact import SCHEMA, VOCABULARY, masks_along

METHODS: dict[str, Callable[[GrammarCompiler], CompiledGrammar]] = {
    "EBNF": lambda c: c.compile_grammar('root ::= "a" [bc]+'),
    "another root": lambda c: c.compile_grammar('root ::= "a"\nb ::= "b"', root_rule_name="b"),
    "parsed": lambda c: c.compile_grammar(xgrammar.Grammar.from_regex("a+")),
    "schema": lambda c: c.compile_json_schema(SCHEMA),
    "schema with options": lambda c: c.compile_json_schema(SCHEMA, any_whitespace=False, indent=2),
    "model": lambda c: c.compile_json_schema(Point),
    "builtin": lambda c: c.compile_builtin_json_grammar(),
    "regex": lambda c: c.compile_regex(REGEX),
    "beyond ASCII": lambda c: c.compile_json_schema('{"const": "é"}', separators=("，", "："), indent=1),
    "tag": lambda c: c.compile_structural_tag(
        {
            "type": "structural_tag",
            "format": {
                "type": "tag",
                "begin": "<f>",
                "content": {"type": "json_schema", "json_schema": SCHEMA},
                "end": "</f>",
            },
        }
    ),
    "Lark": lambda c: c.compile_lark(LARK),
}


# --- What is found again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_another_compiler_finds_what_one_compiled(
    method: Callable[[GrammarCompiler], CompiledGrammar], tmp_path: Path
) -> None:
    first, second = (compiler_in(tmp_path / "not" / "yet") for _ in range(2))
    compiled = method(first)
    assert disk(first) == (0, 1, 1)
    loaded = method(second)
    assert disk(second) == (1, 0, 0) and second.stats()["compilations"] == 0
    assert loaded is not compiled and method(second) is loaded, "the second time it is in memory"
    assert loaded.schema == compiled.schema and loaded.relaxed == compiled.relaxed
    assert loaded.reason == compiled.reason and set(loaded.timings) == {"load", "total"}
    assert compiled.timings["total"] > compiled.timings["store"] > 0
    for seed in range(2):
        assert masks_along(loaded, seed, 60) == masks_along(compiled, seed, 60)


def test_grammars_without_classes_have_no_files(tmp_path: Path) -> None:
    """Compiling such a grammar is faster than reading a file. Static grammars have classes."""
    compiler = compiler_in(tmp_path / "none", strategy="auto")
    for method in METHODS.values():
        compiled = method(compiler)
        assert compiled.known_classes is None or isinstance(compiled.grammar, LarkGrammar)
    assert disk(compiler) == (0, 1, 1), "the one in Lark's notation"
    static = compiler.compile_regex(REGEX, static=True)
    assert disk(compiler) == (0, 1, 2) and static is compiler.compile_regex(REGEX)
    other = compiler_in(tmp_path / "none", strategy="auto", cache_enabled=False)
    assert other.compile_regex(REGEX).known_classes is None and disk(other) == (0, 0, 0)
    again = other.compile_regex(REGEX, static=True)
    assert again.known_classes is not None and disk(other) == (1, 0, 0)
    assert masks_along(again, 1, 60) == masks_along(static, 1, 60)


def test_another_process_finds_it(tmp_path: Path) -> None:
    schema = json.dumps({**SCHEMA, "not": {"required": ["a"]}})
    assert len(compiler_in(tmp_path).compile_json_schema(schema).relaxed) == 2
    program = (
        "import sys; from tests.caches import *\n"
        "c = compiler_in(sys.argv[1]); found = c.compile_json_schema(sys.argv[2])\n"
        "print(len(found.relaxed), disk(c))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), schema],
        capture_output=True, text=True, cwd=CHECKOUT, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "2 (1, 0, 0)"


def test_whatever_the_result_depends_on_tells_entries_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilers = [
        compiler_in(tmp_path),
        compiler_in(tmp_path, OTHER_VOCABULARY),
        compiler_in(tmp_path, on_demand=True),
        compiler_in(tmp_path, on_demand=True, strategy="auto"),
        compiler_in(tmp_path, budget=Budget(states=4000)),
    ]
    for compiler in compilers:
        compiler.compile_regex("a")
    compilers[0].compile_grammar("a ::= [a]", root_rule_name="a")
    compilers[0].compile_grammar("root ::= [a]")
    compilers[0].compile_json_schema("{}")
    options: list[dict[str, Any]] = [
        {"any_whitespace": False}, {"strict_mode": False}, {"indent": 2}, {"separators": (",", ":")},
        {"max_whitespace_cnt": 3}, {"semantics": "json-schema"},
    ]  # fmt: skip
    for one in options:
        compilers[0].compile_json_schema("{}", **one)
    names = {path.name for path in entries(tmp_path)}
    assert len(names) == len(compilers) + 3 + len(options)
    versions = cache._versions()
    for place in range(len(versions)):
        changed = [*versions[:place], "another", *versions[place + 1 :]]
        monkeypatch.setattr(cache, "_versions", lambda changed=changed: changed)
        other = compiler_in(tmp_path)
        other.compile_regex("a")
        assert disk(other) == (0, 1, 1)


def test_models_are_found_by_their_schema(tmp_path: Path) -> None:
    one, other = create_model("Item", a=(int, ...)), create_model("Item", b=(int, ...))
    compiler_in(tmp_path).compile_json_schema(one)
    second = compiler_in(tmp_path)
    assert masks_along(second.compile_json_schema(other), 0, 40) != masks_along(
        second.compile_json_schema(create_model("Item", a=(int, ...))), 0, 40
    )
    assert disk(second) == (1, 1, 1)


def test_a_key_of_this_process_only_is_not_written(tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path)
    assert compiler._disk is not None
    assert compiler._disk.entry(("json_schema", object())) is None
    assert compiler._disk.entry(("regex", 1)) != compiler._disk.entry(("regex", True))
    assert compiler._disk.entry(("a", ("b", "c"))) != compiler._disk.entry(("a", "b", "c"))


@pytest.mark.parametrize("strategy", ["representatives", "engine"])
def test_other_strategies_do_not_touch_the_folder(strategy: str, tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path / "none", strategy=strategy)
    compiler.compile_regex("a")
    assert disk(compiler) == (0, 0, 0) and not (tmp_path / "none").exists()


def test_a_grammar_that_falls_back_is_not_written(tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path, budget=Budget(states=3))
    assert compiler.compile_grammar('root ::= "abcdefgh" [0-9]{9}').strategy != "classifier"
    assert disk(compiler) == (0, 1, 0) and not entries(tmp_path)


def test_a_time_limit_of_masks_does_not_keep_a_grammar_from_the_folder(tmp_path: Path) -> None:
    budget = Budget(mask_seconds=9.0)
    compiler_in(tmp_path, budget=budget).compile_regex("a")
    loaded = compiler_in(tmp_path, budget=budget).compile_regex("a")
    assert "load" in loaded.timings and loaded.mask_seconds == 9.0


def test_disk_without_memory(tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path, cache_enabled=False)
    assert compiler.compile_regex("a") is not compiler.compile_regex("a")
    assert disk(compiler) == (1, 1, 1) and compiler.get_cache_size_bytes() == 0


# --- Forgetting --------------------------------------------------------------------------------------------


def test_clear_cache_frees_memory_and_leaves_the_disk(tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path)
    gc.collect()
    gc.disable()
    try:
        kept = [weakref.ref(compiler.compile_regex(letter)) for letter in "abc"]
        assert all(one() is not None for one in kept)
        compiler.clear_cache()
        assert all(one() is None for one in kept), "at once, without a collection"
    finally:
        gc.enable()
    assert compiler.get_cache_size_bytes() == 0 == compiler.stats()["memory"]["bytes"]
    assert len(entries(tmp_path)) == 3
    compiler.compile_regex("a")
    assert disk(compiler) == (1, 3, 3)


def test_what_is_under_way_when_the_cache_is_cleared_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with GrammarCompiler(VOCABULARY) as compiler:
        gate = Gate(compiler, monkeypatch)
        future = compiler.compile_regex_async("a")
        assert gate.reached.wait(30)
        compiler.clear_cache()
        gate.opened.set()
        first = future.result(60)
        assert compiler.get_cache_size_bytes() == 0
        assert compiler.compile_regex("a") is not first and compiler.compile_regex("a") is not first
        assert compiler.get_cache_size_bytes() > 0


def test_errors_are_freed_at_once() -> None:
    """Otherwise they would keep the frames of their callers, and what these hold, until the next
    collection."""
    compiler = GrammarCompiler(VOCABULARY)
    gc.collect()
    gc.disable()
    try:
        try:
            compiler.compile_grammar("root ::= root{2}")
        except GrammarError as error:
            seen = weakref.ref(error)
        assert seen() is None
    finally:
        gc.enable()


def test_the_names_of_entries_say_nothing_of_grammars(tmp_path: Path) -> None:
    compiler_in(tmp_path).compile_regex(REGEX)
    (path,) = tmp_path.iterdir()
    assert re.fullmatch(r"compiled-[0-9a-f]{64}\.equimask", path.name)
