"""Compilers of one vocabulary share their grammars in memory if their arguments are the same."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import pytest

from equivalence import Vocabulary
from hybrid import Budget, CompiledGrammar, GrammarCompiler
from hybrid.compile.compilation import Compilation
from hybrid.compile.memory_cache import _caches
from tests.test_artifact import VOCABULARY

pytestmark = pytest.mark.shared_memory


@pytest.fixture(name="vocabulary")
def fixture_vocabulary() -> Vocabulary:
    """A vocabulary for which no other test has a cache; it shares the trie of the others."""
    return copy.copy(VOCABULARY)


def memory(compiler: GrammarCompiler) -> tuple[int, int]:
    counts = compiler.stats()["memory"]
    return counts["hits"], counts["misses"]


def test_one_finds_what_another_compiled(vocabulary: Vocabulary) -> None:
    first, second = GrammarCompiler(vocabulary), GrammarCompiler(vocabulary)
    compiled = first.compile_regex("a+b")
    assert second.compile_regex("a+b") is compiled
    assert memory(first) == (0, 1) and memory(second) == (1, 0), "each counts its own calls"
    assert first.get_cache_size_bytes() == second.get_cache_size_bytes() == compiled.memory_size_bytes


def test_another_vocabulary_has_its_own(vocabulary: Vocabulary) -> None:
    other = pickle.loads(pickle.dumps(vocabulary))
    first, second = GrammarCompiler(vocabulary), GrammarCompiler(other)
    assert first.compile_regex("a") is not second.compile_regex("a")


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "classifier"},
        {"strategy": "engine"},
        {"budget": Budget(states=1000)},
        {"budget": Budget(seconds=7)},
        {"on_budget": "raise"},
        {"on_demand": True},
        {"deterministic": True},
        {"n_jobs": 2},
        {"cache_limit_bytes": 2**20},
        {"cache_enabled": False},
        {"cache_dir": "folder"},
    ],
    ids=str,
)
def test_whatever_a_compiler_is_told_tells_its_grammars_apart(
    vocabulary: Vocabulary, options: dict[str, Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = GrammarCompiler(vocabulary), GrammarCompiler(vocabulary, **options)
    assert first.compile_regex("a") is not second.compile_regex("a")
    assert memory(second) == (0, options.get("cache_enabled", True))


def test_deterministic_compilers_of_other_seconds_are_apart(vocabulary: Vocabulary) -> None:
    # the seconds decide there what XGrammar is not asked for
    made = [GrammarCompiler(vocabulary, deterministic=True, budget=Budget(seconds=n)) for n in (5, 6)]
    assert made[0].compile_regex("a") is not made[1].compile_regex("a")


def test_calls_at_once_share_one_computation(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go, decide = threading.Event(), threading.Event(), Compilation.decide

    def waiting(*arguments: Any) -> CompiledGrammar:
        begun.set()
        assert go.wait(60)
        return decide(*arguments)

    monkeypatch.setattr(Compilation, "decide", waiting)
    with GrammarCompiler(vocabulary) as first, GrammarCompiler(vocabulary) as second:
        one = first.compile_regex_async("ab*")
        assert begun.wait(60)
        other = second.compile_regex_async("ab*")
        while second._memory._under_way and next(iter(second._memory._under_way.values())).n_callers < 2:
            pass
        go.set()
        assert one.result(60) is other.result(60)
    assert second.stats()["shared"] == 1 and second.stats()["compilations"] == 0


def test_clearing_is_for_all(vocabulary: Vocabulary) -> None:
    first, second = GrammarCompiler(vocabulary), GrammarCompiler(vocabulary)
    compiled = weakref.ref(first.compile_regex("a"))
    assert second.compile_regex("a") is compiled()
    second.clear_cache()
    gc.collect()
    assert compiled() is None and first.get_cache_size_bytes() == 0


def test_it_ends_with_the_last_compiler(vocabulary: Vocabulary) -> None:
    first, second = GrammarCompiler(vocabulary), GrammarCompiler(vocabulary)
    compiled = weakref.ref(first.compile_regex("a"))
    del first
    gc.collect()
    assert second.compile_regex("a") is compiled()
    del second
    gc.collect()
    assert compiled() is None and not _caches[vocabulary]
    reference = weakref.ref(vocabulary)
    del vocabulary
    assert reference() is not None, "the test's own"
