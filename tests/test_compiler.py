"""The compiler: XGrammar's methods on every strategy, what was decided and why, errors, cache and threads.

What: every ``compile_*`` method; the attributes of `CompiledGrammar`, of which each is a variant of one type;
the fallback to the engine; what is refused, and with which error; the memory cache; compiling in several
threads.
When: after any change of the compiler, the strategies or the budget.
Limits: a byte vocabulary; masks are compared with plain XGrammar in the other test files.

Grammars that crash XGrammar's compiler are compiled only with ours.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import xgrammar
from pydantic import create_model
from xgrammar import StructuralTagItem

from equivalence import BudgetExceeded, HybridError, UnsupportedGrammar, Vocabulary
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.compiled import reason_of
from tests.caches import CALLS, TAG, Call, compiler_in
from tests.matchers import mask_of

STRATEGIES = ("auto", "representatives", "engine")
STOP = 256

VOCABULARY = Vocabulary.from_bytes(
    [bytes([value]) for value in range(256)] + [b"", b"ab", b'": ', b"}]"], stop_token_ids=STOP
)


def accepts(compiled: CompiledGrammar, text: str) -> bool:
    matcher = GrammarMatcher(compiled)
    return matcher.accept_string(text) and matcher.accept_token(STOP) and matcher.is_terminated()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_methods(call: Call, strategy: str) -> None:
    if call.method == "lark" and strategy != "auto":
        with pytest.raises(HybridError, match="strategy"):
            call.on(GrammarCompiler(VOCABULARY, strategy=strategy))
        return
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy)
    compiled = call.on(compiler)
    assert call.on(compiler) is compiled
    assert compiler.get_cache_size_bytes() == compiled.memory_size_bytes
    assert accepts(compiled, call.inside)
    assert not accepts(compiled, call.outside)
    if strategy != "auto":
        assert compiled.strategy == strategy


# What was decided, and why.


def test_facts_of_representatives() -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar('root ::= "a" | "ab"')
    classes = compiled.classes
    assert compiled.reason == reason_of(classes, VOCABULARY)
    assert {"parse", "network", "explore", "partition", "gather", "compile", "total"} <= set(compiled.timings)
    assert compiled.timings["total"] == max(compiled.timings.values())
    assert min(compiled.timings.values()) >= 0
    assert compiled.memory_size_bytes > compiled.engine.memory_size_bytes + 4 * VOCABULARY.size
    assert compiled.vocabulary is VOCABULARY and str(compiled.grammar).startswith("root ::=")
    assert repr(compiled).startswith(f"CompiledGrammar(representatives, {classes.n_classes} classes, ")


@pytest.mark.parametrize(
    ("grammar", "budget", "error", "why"),
    [
        ('root ::= "abcdefgh" root | "c"', Budget(states=5), BudgetExceeded, "more than 5 states"),
        ('root ::= root{1,300} "c" | "c"', Budget(), UnsupportedGrammar, "through a bounded repeat"),
    ],
)
def test_what_has_no_network_runs_on_the_engine(
    grammar: str, budget: Budget, error: type[Exception], why: str
) -> None:
    compiled = GrammarCompiler(VOCABULARY, budget=budget).compile_grammar(grammar)
    assert compiled.strategy == "engine" and why in compiled.reason and accepts(compiled, "c")
    with pytest.raises(error, match=why):
        GrammarCompiler(VOCABULARY, strategy="representatives", budget=budget).compile_grammar(grammar)


# What is refused; ``test_messages.py`` has malformed grammars.


@pytest.mark.parametrize("vocabulary", [[b"a", b"b"], None, {"a": 0}, "tekken"])
def test_other_vocabularies_are_refused(vocabulary: Any) -> None:
    with pytest.raises(HybridError, match=r"must be a hybrid\.Vocabulary or an xgrammar\.TokenizerInfo"):
        GrammarCompiler(vocabulary)


def test_tokenizer_info_is_a_vocabulary() -> None:
    info = xgrammar.TokenizerInfo([b"a", b"b", b"ab", b""], stop_token_ids=[3], vocab_size=40)
    compiler = GrammarCompiler(info)
    assert compiler.vocabulary.tokens[:4] == (b"a", b"b", b"ab", b"") and compiler.vocabulary.size == 40
    compiled = compiler.compile_grammar('root ::= "ab"')
    assert compiled.tokenizer_info.stop_token_ids == [3]
    matcher = GrammarMatcher(compiled)
    assert matcher.accept_token(2) and matcher.accept_token(3) and matcher.is_terminated()


def test_max_threads_is_a_name_of_n_jobs() -> None:
    assert GrammarCompiler(VOCABULARY, max_threads=3).n_jobs == 3
    assert GrammarCompiler(VOCABULARY, n_jobs=2).n_jobs == 2


# The memory cache.


@pytest.mark.parametrize("cached", ["in memory", "on disk"])
def test_models_of_one_name_are_not_mixed_up(cached: str, tmp_path: Path) -> None:
    """Two models with the same printed form differ in caches if their schemas differ."""
    one, other = create_model("Item", a=(int, ...)), create_model("Item", b=(int, ...))
    assert repr(one) == repr(other)
    compiler = GrammarCompiler(VOCABULARY)
    if cached == "on disk":
        compiler = compiler_in(tmp_path, VOCABULARY, cache_enabled=False)

    def tag_of(model: Any) -> CompiledGrammar:
        item = StructuralTagItem(begin="<f>", schema=model, end="</f>")
        return compiler.compile_structural_tag([item], ["<f>"])

    for compile_it, text in ((compiler.compile_json_schema, '{"b": 1}'), (tag_of, '<f>{"b": 1}</f>')):
        compiled = [compile_it(model) for model in (one, other)]
        assert [accepts(each, text) for each in compiled] == [False, True]


def test_a_tag_that_comes_again_is_not_converted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    item = StructuralTagItem(begin="<f>", schema=create_model("Item", a=(int, ...)), end="</f>")
    forms = [(json.dumps(TAG),), (TAG,), (xgrammar.StructuralTag(**TAG),), ([item], ["<f>"])]
    compiler = GrammarCompiler(VOCABULARY)
    first = [compiler.compile_structural_tag(*form) for form in forms]
    monkeypatch.delattr(xgrammar.Grammar, "from_structural_tag")
    assert [compiler.compile_structural_tag(*form) for form in forms] == first


def test_cache_is_bounded_and_the_oldest_use_goes_first() -> None:
    size = GrammarCompiler(VOCABULARY).compile_regex("a0").memory_size_bytes
    compiler = GrammarCompiler(VOCABULARY, cache_limit_bytes=3 * size + size // 2)
    assert compiler.cache_limit_bytes == 3 * size + size // 2
    kept = [compiler.compile_regex(f"a{number}") for number in range(3)]
    assert compiler.compile_regex("a0") is kept[0]
    compiler.compile_regex("a3")
    assert compiler.get_cache_size_bytes() <= compiler.cache_limit_bytes
    assert compiler.compile_regex("a0") is kept[0], "it was used again"
    assert compiler.compile_regex("a2") is kept[2]
    assert compiler.compile_regex("a1") is not kept[1]
    assert accepts(kept[1], "a1"), "what was forgotten stays usable"
    memory = compiler.stats()["memory"]
    assert (memory["evictions"], memory["misses"]) == (2, 5)
    compiler.clear_cache()
    memory = compiler.stats()["memory"]
    assert (memory["evictions"], memory["bytes"]) == (2, 0), "to be told to forget is no eviction"


def test_what_is_larger_than_the_cache_is_not_kept() -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_limit_bytes=10)
    assert compiler.compile_regex("a") is not compiler.compile_regex("a")
    assert compiler.get_cache_size_bytes() == 0


def test_the_cache_forgets_as_many_bytes_as_it_counted() -> None:
    """A classifier grows in use. The cache measures it again when it is requested, when its turn comes, and
    when the cache's size is requested."""
    compiler = GrammarCompiler(VOCABULARY, strategy="classifier")
    grown = compiler.compile_grammar('root ::= "a" root | "b"')
    counted = compiler._memory.size_bytes
    mask_of(GrammarMatcher(grown))
    assert grown.memory_size_bytes > counted == compiler._memory.size_bytes
    assert compiler.compile_grammar('root ::= "a" root | "b"') is grown
    assert grown.memory_size_bytes == compiler._memory.size_bytes == compiler.get_cache_size_bytes()
    compiler._memory.limit_bytes = 3 * counted // 2
    other = compiler.compile_grammar('root ::= "a" root | "0"')
    assert [id(compiled) for compiled, _ in compiler._memory._kept.values()] == [id(other)]
    assert compiler.get_cache_size_bytes() == other.memory_size_bytes
    mask_of(GrammarMatcher(other))
    assert compiler.get_cache_size_bytes() == other.memory_size_bytes == compiler._memory.size_bytes
    compiler._memory.limit_bytes = 100 * counted
    for number in range(4):
        compiler.compile_regex(str(number))
    assert compiler.get_cache_size_bytes() == sum(
        compiled.memory_size_bytes for compiled, _ in compiler._memory._kept.values()
    )
    compiler._memory.limit_bytes = 1
    compiler.compile_regex("0")  # it is found, and dropped with all the others
    assert compiler.get_cache_size_bytes() == 0 and compiler.stats()["memory"]["evictions"] == 6


def test_what_single_matchers_need_is_counted() -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy="classifier").compile_grammar('root ::= "a" root | "b"')
    sizes = [compiled.memory_size_bytes]
    for stop in range(4):
        GrammarMatcher(compiled, override_stop_tokens=stop)
        sizes.append(compiled.memory_size_bytes)
    assert all(after > before + 2000 for before, after in pairwise(sizes)), "they have their own masks"
    other = compiled.fallback.memory_size_bytes
    assert compiled.memory_size_bytes == sizes[-1] + other > sizes[-1]


# --- Compiled grammars -----------------------------------------------------------------------------------


VARIANTS = {
    "engine": ("engine", {"engine", "budget"}),
    "representatives": ("representatives", {"engine", "engine_stop", "classes", "gather", "budget"}),
    "classifier": ("classifier", {"classes", "features", "classifier", "budget"}),
    "lark": ("classifier", {"classes", "classifier"}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_has_what_it_needs_and_nothing_can_be_set(variant: str, tmp_path: Path) -> None:
    strategy, own = VARIANTS[variant]
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy, deterministic=True)
    compiled = compiler.compile_lark('start: "a"') if variant == "lark" else compiler.compile_regex("[ab]+")
    assert compiled.strategy == strategy
    assert variant != "engine" or compiled.reason == "requested by strategy='engine'"
    assert repr(compiled).startswith(f"CompiledGrammar({strategy}")
    some = {"engine", "engine_stop", "classes", "gather", "features", "classifier", "budget"}
    assert {name for name in some if getattr(compiled, name) not in (None, -1)} == own
    assert compiled.memory_size_bytes > 0
    for field in fields(compiled):
        with pytest.raises(FrozenInstanceError):
            setattr(compiled, field.name, None)
    if compiled.classifier is not None:
        compiled.save(tmp_path / "one")
        loaded = CompiledGrammar.load(tmp_path / "one", VOCABULARY)
        assert {name for name in some if getattr(loaded, name) not in (None, -1)} == own - {"features"}


def test_notes_are_added_once_and_none_is_lost() -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy="engine").compile_regex("[ab]+")
    reason = compiled.reason
    notes = [f"<{number}>" for number in range(200)] * 2
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(compiled.note, notes))
    assert compiled.reason.startswith(f"{reason}; ")
    assert sorted(compiled.reason.split("; ")[1:]) == sorted(set(notes))


def test_timings_of_a_grammar_that_is_out_stay_what_they_are() -> None:
    compiler = GrammarCompiler(VOCABULARY, budget=Budget())
    compiled = compiler.compile_regex("[ab]+")
    timings = dict(compiled.timings)
    assert compiler.compile_regex("[ab]+", static=True) is compiled and compiled.promote()
    assert compiled.timings == timings
