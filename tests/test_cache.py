"""Caches of compiled grammars: what is found again, and how simultaneous equal calls share one computation.

What: entries that other compilers and processes find on disk, and what distinguishes entries; deletion;
threads that ask for the same grammar; errors and interrupts meanwhile; the ``_async`` methods and their end;
compilers of one vocabulary, which share their grammars in memory if their arguments are the same.
When: after any change of `hybrid.compile.cache`, `hybrid.compile.memory_cache` or
`hybrid.compile.background`, of `GrammarCompiler._cached` or of artefacts.
Limits: small vocabularies; times are measured, not tested (docs/caches.md). Damage and eviction are in
``test_cache_folder.py``.
"""

from __future__ import annotations

import copy
import gc
import json
import pickle
import re
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest

from equivalence import GrammarError, HybridError, Vocabulary
from hybrid import Budget, GrammarCompiler
from hybrid.compile import cache
from hybrid.compile.memory_cache import _caches
from hybrid.lark import LarkGrammar
from tests.caches import CALLS, OTHER_VOCABULARY, REGEX, Call, Gate, compiler_in, disk, entries, wait_for
from tests.new_process import printed_by
from tests.test_artifact import SCHEMA, VOCABULARY, masks_along

# --- What is found again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_another_compiler_finds_what_one_compiled(call: Call, tmp_path: Path) -> None:
    first, second = (compiler_in(tmp_path / "not" / "yet") for _ in range(2))
    compiled = call.on(first)
    assert disk(first) == (0, 1, 1)
    loaded = call.on(second)
    assert disk(second) == (1, 0, 0) and second.stats()["compilations"] == 0
    assert loaded is not compiled and call.on(second) is loaded, "the second time it is in memory"
    assert loaded.schema == compiled.schema and loaded.relaxed == compiled.relaxed
    assert loaded.reason == compiled.reason and set(loaded.timings) == {"load", "total"}
    assert compiled.timings["total"] > compiled.timings["store"] > 0
    for seed in range(2):
        assert masks_along(loaded, seed, 60) == masks_along(compiled, seed, 60)


def test_grammars_without_classes_have_no_files(tmp_path: Path) -> None:
    """Compiling such a grammar is faster than reading a file. Static grammars have classes."""
    compiler = compiler_in(tmp_path / "none", strategy="auto")
    for call in CALLS.values():
        compiled = call.on(compiler)
        assert compiled.known_classes is None or isinstance(compiled.grammar, LarkGrammar)
    assert disk(compiler) == (0, 1, 1), "the one in Lark's notation"
    assert compiler.compile_regex(REGEX).known_classes is None and disk(compiler) == (0, 1, 1)
    static = compiler.compile_regex(REGEX, static=True)
    assert disk(compiler) == (0, 1, 2) and static is compiler.compile_regex(REGEX)
    other = compiler_in(tmp_path / "none", strategy="auto", cache_enabled=False)
    assert other.compile_regex(REGEX).known_classes is None and disk(other) == (0, 0, 0)
    again = other.compile_regex(REGEX, static=True)
    assert again.known_classes is not None and disk(other) == (1, 0, 0)
    assert masks_along(again, 1, 60) == masks_along(static, 1, 60)


def test_another_process_finds_it_and_ends_without_closing(tmp_path: Path) -> None:
    schema = json.dumps({**SCHEMA, "not": {"required": ["a"]}})
    assert len(compiler_in(tmp_path).compile_json_schema(schema).relaxed) == 2
    program = (
        "import sys; from tests.caches import *\n"
        "c = compiler_in(sys.argv[1]); found = c.compile_json_schema_async(sys.argv[2]).result()\n"
        "print(len(found.relaxed), disk(c))"
    )
    assert printed_by(program, str(tmp_path), schema).splitlines()[-1] == "2 (1, 0, 0)"


def test_whatever_the_result_depends_on_tells_entries_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[dict[str, Any]] = [
        {}, {"on_demand": True}, {"on_demand": True, "strategy": "auto"}, {"budget": Budget(states=4000)},
    ]  # fmt: skip
    compilers = [compiler_in(tmp_path, OTHER_VOCABULARY), *(compiler_in(tmp_path, **one) for one in options)]
    for compiler in compilers:
        compiler.compile_regex("a")
    compilers[1].compile_grammar("root ::= [b]\na ::= [a]")
    compilers[1].compile_grammar("root ::= [b]\na ::= [a]", root_rule_name="a")
    compilers[1].compile_regex("root ::= [b]\na ::= [a]")
    compilers[1].compile_builtin_json_grammar()
    compilers[1].compile_json_schema("{}")
    for option in [
        {"any_whitespace": False}, {"strict_mode": False}, {"indent": 2}, {"separators": (",", ":")},
        {"max_whitespace_cnt": 3}, {"semantics": "json-schema"},
    ]:  # fmt: skip
        compilers[1].compile_json_schema("{}", **option)
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) == len(compilers) + 5 + 6
    assert all(re.fullmatch(r"compiled-[0-9a-f]{64}\.equimask", name) for name in names)
    versions = cache._versions()
    assert list(sys.version_info[:2]) in versions, "patterns depend on Python's tables"
    for place in range(len(versions)):
        changed = [*versions[:place], "another", *versions[place + 1 :]]
        monkeypatch.setattr(cache, "_versions", lambda changed=changed: changed)
        other = compiler_in(tmp_path)
        other.compile_regex("a")
        assert disk(other) == (0, 1, 1)


def test_a_key_of_this_process_only_is_not_written(tmp_path: Path) -> None:
    entry = compiler_in(tmp_path)._disk.entry
    assert entry(("json_schema", object())) is None
    assert entry(("regex", 1)) != entry(("regex", True))
    assert entry(("a", ("b", "c"))) != entry(("a", "b", "c"))


@pytest.mark.parametrize("strategy", ["representatives", "engine"])
def test_other_strategies_do_not_touch_the_folder(strategy: str, tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path / "none", strategy=strategy)
    compiler.compile_regex("a")
    assert disk(compiler) == (0, 0, 0) and not (tmp_path / "none").exists()


def test_a_grammar_that_falls_back_is_not_written(tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path, budget=Budget(states=3))
    assert compiler.compile_grammar('root ::= "abcdefgh" [0-9]{9}').strategy != "classifier"
    assert disk(compiler) == (0, 1, 0) and not entries(tmp_path)


@pytest.mark.parametrize(
    "call", [GrammarCompiler.compile_builtin_json_grammar, lambda one: one.compile_regex("a+")]
)
def test_a_grammar_is_written_only_if_the_same_budget_can_read_it(call: Any, tmp_path: Path) -> None:
    before = (0, 0)
    for table_bytes in (2_000, 20_000, 200_000):
        budget = Budget(table_bytes=table_bytes)
        for is_there in (False, True):
            compiler = compiler_in(tmp_path / str(table_bytes), budget=budget)
            assert call(compiler).strategy == "classifier"
            counts = compiler.stats()["disk"]
            assert counts["damaged"] == 0
            found = counts["hits"], counts["writes"]
            assert found in ([(1, 0), (0, 0)] if is_there else [(0, 1), (0, 0)])
            assert not is_there or found[0] == before[1]
            before = found
    assert before == (1, 0), "the last budget is large enough"


def test_a_time_limit_of_masks_does_not_keep_a_grammar_from_the_folder(tmp_path: Path) -> None:
    budget = Budget(mask_seconds=9.0)
    compiler_in(tmp_path, budget=budget).compile_regex("a")
    loaded = compiler_in(tmp_path, budget=budget).compile_regex("a")
    assert "load" in loaded.timings and loaded.mask_seconds == 9.0


# --- Forgetting --------------------------------------------------------------------------------------------


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_clear_cache_frees_memory_and_leaves_the_disk(no_collection: None, tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path)
    kept = [weakref.ref(compiler.compile_regex(letter)) for letter in "abc"]
    assert all(one() is not None for one in kept)
    compiler.clear_cache()
    assert all(one() is None for one in kept), "at once, without a collection"
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


def test_errors_are_freed_at_once(no_collection: None) -> None:
    """Otherwise they would keep the frames of their callers, and what these hold, until the next
    collection."""
    compiler = GrammarCompiler(VOCABULARY)
    schema = {"properties": {"a": {"type": 3}}}
    for call in (
        lambda: compiler.compile_grammar("root ::= root{2}"),
        lambda: compiler.compile_json_schema(schema, semantics="json-schema"),
    ):
        try:
            call()
        except GrammarError as error:
            seen = weakref.ref(error)
        assert seen() is None


# --- Simultaneous calls ----------------------------------------------------------------------------------


def n_callers(compiler: GrammarCompiler) -> int:
    """How many calls want the grammar that was asked for first."""
    return next(iter(compiler._memory._under_way.values())).n_callers


@pytest.mark.parametrize("with_disk", [False, True])
def test_equal_calls_share_one_computation(
    with_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path if with_disk else None)
    gate = Gate(compiler, monkeypatch)
    with ThreadPoolExecutor(9) as pool:
        futures = [pool.submit(compiler.compile_regex, REGEX) for _ in range(8)]
        assert gate.reached.wait(30)
        other = pool.submit(compiler.compile_regex, "z")
        wait_for(lambda: gate.count == 2)  # the first one does not hold it up
        wait_for(lambda: n_callers(compiler) == 8)
        gate.opened.set()
        assert len({id(future.result()) for future in futures}) == 1 and other.result() is not None
    assert gate.count == 2
    found = compiler.stats()
    assert found["compilations"] == 2 and found["shared"] == 7
    assert found["memory"]["misses"] == 2 and not compiler._memory._under_way


def test_an_error_is_raised_in_all_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    gate = Gate(compiler, monkeypatch)
    grammar = "root ::= root{2}"
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(compiler.compile_grammar, grammar) for _ in range(4)]
        assert gate.reached.wait(30)
        wait_for(lambda: n_callers(compiler) == 4)
        gate.opened.set()
        for future in futures:
            with pytest.raises(GrammarError, match="consists only of a repeat of itself"):
                future.result()
    assert compiler.stats()["shared"] == 3 and gate.count == 1 and not compiler._memory._under_way
    with pytest.raises(GrammarError):
        compiler.compile_grammar(grammar)
    assert compiler.stats()["errors"]["GrammarError"] == gate.count == 2


def test_an_interrupted_thread_does_not_interrupt_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    decide = Mock(wraps=compiler._compilation.decide, side_effect=[KeyboardInterrupt, DEFAULT])
    monkeypatch.setattr(compiler._compilation, "decide", decide)
    gate = Gate(compiler, monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(compiler.compile_regex, "a")
        assert gate.reached.wait(30)
        other = pool.submit(compiler.compile_regex, "a")
        wait_for(lambda: n_callers(compiler) == 2)
        gate.opened.set()
        assert isinstance(one.exception(), KeyboardInterrupt) and other.result().strategy == "classifier"
    assert not compiler._memory._under_way


def test_without_a_memory_cache_nothing_is_shared() -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_enabled=False, n_jobs=4)
    with compiler:
        futures = [compiler.compile_regex_async("a") for _ in range(4)]
        assert len({id(future.result()) for future in futures}) == 4


# --- Later -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_async_methods_give_what_the_others_give(call: Call) -> None:
    with GrammarCompiler(VOCABULARY, n_jobs=2) as compiler:
        assert call.later_on(compiler).result(60) is call.on(compiler)
        assert compiler.stats()["compilations"] == 1


def test_n_jobs_are_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY, n_jobs=2)
    assert compiler._background._pool is None, "no thread before the first call"
    gate = Gate(compiler, monkeypatch)
    futures = [compiler.compile_regex_async(letter) for letter in "abcd"]
    wait_for(lambda: gate.count == 2)
    time.sleep(0.05)
    assert gate.count == 2
    gate.opened.set()
    assert len({id(future.result(60)) for future in futures}) == 4
    compiler.close()


def test_close_cancels_what_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    gate = Gate(compiler, monkeypatch)
    futures = [compiler.compile_regex_async(letter) for letter in "abc"]
    assert gate.reached.wait(30)
    threading.Timer(0.1, gate.opened.set).start()
    compiler.close()
    assert futures[0].result(0).strategy == "classifier"
    for future in futures[1:]:
        with pytest.raises(CancelledError):
            future.result(0)
    compiler.close()
    with pytest.raises(HybridError, match="closed; only the methods that do not end in _async"):
        compiler.compile_regex_async("a")
    assert compiler.compile_regex("b").strategy == "classifier"


def test_callbacks_of_futures_close_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    gate = Gate(compiler, monkeypatch)
    first, second = (compiler.compile_regex_async(letter) for letter in "ab")
    assert gate.reached.wait(30)
    closed = threading.Event()

    def close(_: object) -> None:
        compiler.close()
        closed.set()

    first.add_done_callback(close)
    gate.opened.set()
    assert first.result(30).strategy == "classifier"
    assert closed.wait(30)
    with pytest.raises(CancelledError):
        second.result(0)


# --- Compilers of one vocabulary -------------------------------------------------------------------------


shared = pytest.mark.shared_memory


@pytest.fixture(name="vocabulary")
def fixture_vocabulary() -> Vocabulary:
    """A vocabulary for which no other test has a cache; it shares the trie of the others."""
    return copy.copy(VOCABULARY)


def memory(compiler: GrammarCompiler) -> tuple[int, int]:
    counts = compiler.stats()["memory"]
    return counts["hits"], counts["misses"]


@shared
def test_one_finds_what_another_compiled(vocabulary: Vocabulary) -> None:
    first, second = GrammarCompiler(vocabulary), GrammarCompiler(vocabulary)
    compiled = first.compile_regex("a+b")
    assert second.compile_regex("a+b") is compiled
    assert memory(first) == (0, 1) and memory(second) == (1, 0), "each counts its own calls"
    assert first.get_cache_size_bytes() == second.get_cache_size_bytes() == compiled.memory_size_bytes


@shared
def test_another_vocabulary_has_its_own(vocabulary: Vocabulary) -> None:
    first, second = GrammarCompiler(vocabulary), GrammarCompiler(pickle.loads(pickle.dumps(vocabulary)))
    assert first.compile_regex("a") is not second.compile_regex("a")


OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *(({}, options) for options in (
        {"strategy": "classifier"}, {"strategy": "engine"}, {"budget": Budget(states=1000)},
        {"budget": Budget(seconds=7)}, {"on_budget": "raise"}, {"on_demand": True}, {"deterministic": True},
        {"n_jobs": 2}, {"cache_limit_bytes": 2**20}, {"cache_enabled": False}, {"cache_dir": "folder"},
    )),
    # the seconds of deterministic compilers decide what XGrammar is not asked for
    ({"deterministic": True}, {"deterministic": True, "budget": Budget(seconds=6)}),
]  # fmt: skip


@shared
@pytest.mark.parametrize(("options", "others"), OPTIONS, ids=str)
def test_whatever_a_compiler_is_told_tells_its_grammars_apart(
    vocabulary: Vocabulary, options: Any, others: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = GrammarCompiler(vocabulary, **options), GrammarCompiler(vocabulary, **others)
    assert first.compile_regex("a") is not second.compile_regex("a")
    assert memory(second) == (0, others.get("cache_enabled", True))


@shared
def test_clearing_is_for_all(vocabulary: Vocabulary) -> None:
    first, second = GrammarCompiler(vocabulary), GrammarCompiler(vocabulary)
    compiled = weakref.ref(first.compile_regex("a"))
    assert second.compile_regex("a") is compiled()
    second.clear_cache()
    gc.collect()
    assert compiled() is None and first.get_cache_size_bytes() == 0


@shared
def test_it_ends_with_the_last_compiler(vocabulary: Vocabulary) -> None:
    first, second = GrammarCompiler(vocabulary), GrammarCompiler(vocabulary)
    compiled = weakref.ref(first.compile_regex("a"))
    del first
    gc.collect()
    assert second.compile_regex("a") is compiled()
    del second
    gc.collect()
    assert compiled() is None and not _caches[vocabulary]
