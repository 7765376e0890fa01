"""The compiler: XGrammar's methods on every strategy, what was decided and why, errors, cache and threads.

What: every ``compile_*`` method; the attributes of `CompiledGrammar`; the fallback to the engine; what is
refused, and with which error; the memory cache; compiling in several threads.
When: after any change of the compiler, the strategies or the budget.
Limits: a byte vocabulary; masks are compared with plain XGrammar in the other test files.

Grammars that crash XGrammar's compiler are compiled only with ours.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import xgrammar
from pydantic import BaseModel, create_model
from xgrammar import StructuralTagItem

from equivalence import (
    BudgetExceeded,
    GrammarError,
    HybridError,
    UnsupportedGrammar,
    Vocabulary,
)
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask

STRATEGIES = ("auto", "representatives", "engine")
STOP = 256

VOCABULARY = Vocabulary.from_bytes(
    [bytes([value]) for value in range(256)] + [b"", b"ab", b'": ', b"}]"], stop_token_ids=STOP
)

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TAG: dict[str, Any] = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<f>",
        "content": {"type": "json_schema", "json_schema": SCHEMA},
        "end": "</f>",
    },
}
TOKEN_TAG: dict[str, Any] = {
    "type": "structural_tag",
    "format": {
        "type": "sequence",
        "elements": [{"type": "const_string", "value": "a"}, {"type": "token", "token": 257}],
    },
}


class Point(BaseModel):
    x: int


METHODS: dict[str, tuple[Callable[[GrammarCompiler], CompiledGrammar], str, str]] = {
    "EBNF": (lambda c: c.compile_grammar('root ::= "a" [bc]+'), "abc", "a"),
    "EBNF with another root": (
        lambda c: c.compile_grammar('root ::= "a"\nstart ::= "b"', root_rule_name="start"),
        "b",
        "a",
    ),
    "parsed grammar": (lambda c: c.compile_grammar(xgrammar.Grammar.from_regex("a+")), "aa", "b"),
    "Lark text": (lambda c: c.compile_grammar(xgrammar.Grammar.from_lark('start: "a" /[0-9]/')), "a1", "a"),
    "schema": (lambda c: c.compile_json_schema(SCHEMA), '{"a": 1}', '{"a": "1"}'),
    "schema as text": (lambda c: c.compile_json_schema(json.dumps(SCHEMA)), '{"a": 1}', "{}"),
    "schema with options": (
        lambda c: c.compile_json_schema(SCHEMA, any_whitespace=False, separators=(",", ":")),
        '{"a":1}',
        '{"a": 1}',
    ),
    "pydantic model": (lambda c: c.compile_json_schema(Point), '{"x": 1}', '{"a": 1}'),
    "builtin JSON": (lambda c: c.compile_builtin_json_grammar(), '{"b": [1, null]}', "{1}"),
    "regex": (lambda c: c.compile_regex("(ab)+|c"), "abab", "aba"),
    "structural tag": (lambda c: c.compile_structural_tag(TAG), '<f>{"a": 1}</f>', "<f></f>"),
    "structural tag as text": (
        lambda c: c.compile_structural_tag(json.dumps(TAG)),
        '<f>{"a": 1}</f>',
        '{"a": 1}',
    ),
    "tags and triggers": (
        lambda c: c.compile_structural_tag(
            [StructuralTagItem(begin="<f>", schema=SCHEMA, end="</f>")], ["<f"]
        ),
        'so <f>{"a": 1}</f> then',
        "<f>1</f>",
    ),
}


def accepts(compiled: CompiledGrammar, text: str) -> bool:
    matcher = GrammarMatcher(compiled)
    return matcher.accept_string(text) and matcher.accept_token(STOP) and matcher.is_terminated()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("compile_it", "inside", "outside"), METHODS.values(), ids=METHODS)
def test_methods(
    compile_it: Callable[[GrammarCompiler], CompiledGrammar], inside: str, outside: str, strategy: str
) -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy)
    compiled = compile_it(compiler)
    assert compile_it(compiler) is compiled
    assert compiler.get_cache_size_bytes() == compiled.memory_size_bytes
    assert accepts(compiled, inside)
    assert not accepts(compiled, outside)
    if strategy != "auto":
        assert compiled.strategy == strategy


# What was decided, and why.


def test_facts_of_representatives() -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar('root ::= "a" | "ab"')
    assert compiled.strategy == "representatives"
    assert (
        compiled.reason
        == f"the {VOCABULARY.size} ids of the vocabulary form {compiled.classes.n_classes} token classes"
    )
    classes = compiled.classes
    assert classes.class_of_token[[ord("a"), 257]].min() >= 0
    assert classes.class_of_token[[ord("x"), STOP]].tolist() == [-1, -1]
    assert classes.class_of_token[classes.representatives].tolist() == list(range(classes.n_classes))
    phases = {"parse", "network", "explore", "partition", "gather", "compile", "total"}
    assert phases <= set(compiled.timings)
    assert all(seconds >= 0 for seconds in compiled.timings.values())
    assert compiled.timings["total"] == max(compiled.timings.values())
    assert compiled.memory_size_bytes > compiled.engine.memory_size_bytes + 4 * VOCABULARY.size
    assert compiled.vocabulary is VOCABULARY and str(compiled.grammar).startswith("root ::=")
    assert repr(compiled).startswith(f"CompiledGrammar(representatives, {classes.n_classes} classes, ")


def test_facts_of_the_engine() -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy="engine").compile_regex("a")
    assert compiled.strategy == "engine" and compiled.reason == "requested by strategy='engine'"
    assert compiled.classes is None and compiled.gather is None
    assert compiled.memory_size_bytes == compiled.engine.memory_size_bytes > 0
    assert {"parse", "compile", "total"} <= set(compiled.timings)
    assert repr(compiled).startswith("CompiledGrammar(engine, ")


def test_what_has_no_classes_runs_on_the_engine() -> None:
    grammar = xgrammar.Grammar.from_lark('start: word "."\nword[max_tokens=3, capture]: /[a-z]+/')
    construct = "the grammar uses max_tokens: which tokens are allowed depends on more"
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(grammar)
    assert compiled.strategy == "engine" and compiled.classes is None
    assert compiled.reason.startswith("no token classes: ") and construct in compiled.reason
    assert GrammarCompiler(VOCABULARY, strategy="engine").compile_grammar(grammar).strategy == "engine"
    with pytest.raises(UnsupportedGrammar, match=f"{construct}.*; use strategy='auto'"):
        GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar(grammar)


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


# What is refused.

MALFORMED: dict[str, Callable[[GrammarCompiler], CompiledGrammar]] = {
    "EBNF": lambda c: c.compile_grammar('root ::= "a'),
    "EBNF without root": lambda c: c.compile_grammar('start ::= "a"'),
    "undefined rule": lambda c: c.compile_grammar("root ::= other"),
    "schema text": lambda c: c.compile_json_schema("{"),
    "schema": lambda c: c.compile_json_schema({"type": "nonsense"}),
    "schema with bytes": lambda c: c.compile_json_schema({"enum": [b"a"]}),
    "option of schemas": lambda c: c.compile_json_schema(SCHEMA, no_such_option=1),
    "regex": lambda c: c.compile_regex("(a"),
    "structural tag": lambda c: c.compile_structural_tag(
        {"type": "structural_tag", "format": {"type": "no"}}
    ),
    "structural tag text": lambda c: c.compile_structural_tag("{"),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("compile_it", MALFORMED.values(), ids=MALFORMED)
def test_malformed_grammars(compile_it: Callable[[GrammarCompiler], CompiledGrammar], strategy: str) -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy)
    with pytest.raises(GrammarError) as raised:
        compile_it(compiler)
    assert isinstance(raised.value, HybridError) and isinstance(raised.value, RuntimeError)
    assert accepts(compiler.compile_regex("a"), "a"), "the compiler goes on"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "grammar",
    [
        "root ::= root{2}",
        "root ::= (root{1,3})",
        'root ::= "a"\np ::= q{2}\nq ::= p{3}',
        "root ::= p\np ::= root{2,}",
    ],
)
def test_rules_that_only_repeat_themselves_are_refused(grammar: str, strategy: str) -> None:
    """XGrammar's compiler would end the process."""
    with pytest.raises(GrammarError, match="consists only of a repeat of itself"):
        GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(grammar)


def test_an_unknown_serialisation_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the classes nor the check for endless rules before them read it."""
    monkeypatch.setattr("equivalence.network.dialect.LAYOUT", "v77")
    monkeypatch.setattr(
        "hybrid.compile.compilation.refuse_endless_rules", lambda serialized: pytest.fail("was read")
    )
    compiled = GrammarCompiler(VOCABULARY).compile_grammar('root ::= "ab"')
    assert compiled.strategy == "engine"
    assert f"version {xgrammar.get_serialization_version()!r}, but only 'v77' is supported" in compiled.reason
    with pytest.raises(GrammarError, match="but only 'v77' is supported"):
        GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar('root ::= "ab"')


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


def test_models_of_one_name_are_not_mixed_up() -> None:
    """Two models with the same printed form differ in the cache if their schemas differ."""
    one, other = create_model("Item", a=(int, ...)), create_model("Item", b=(int, ...))
    assert repr(one) == repr(other)
    compiler = GrammarCompiler(VOCABULARY)
    by_schema = [compiler.compile_json_schema(model) for model in (one, other)]
    assert [accepts(each, '{"b": 1}') for each in by_schema] == [False, True]
    by_tag = [
        compiler.compile_structural_tag([StructuralTagItem(begin="<f>", schema=model, end="</f>")], ["<f>"])
        for model in (one, other)
    ]
    assert [accepts(each, '<f>{"b": 1}</f>') for each in by_tag] == [False, True]


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
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)
    GrammarMatcher(grown).fill_next_token_bitmask(bitmask)
    assert grown.memory_size_bytes > counted == compiler._memory.size_bytes
    assert compiler.compile_grammar('root ::= "a" root | "b"') is grown
    assert grown.memory_size_bytes == compiler._memory.size_bytes == compiler.get_cache_size_bytes()
    compiler._memory.limit_bytes = 3 * counted // 2
    other = compiler.compile_grammar('root ::= "a" root | "0"')
    assert [id(compiled) for compiled, _ in compiler._memory._kept.values()] == [id(other)]
    assert compiler.get_cache_size_bytes() == other.memory_size_bytes
    GrammarMatcher(other).fill_next_token_bitmask(bitmask)
    compiler._memory.limit_bytes = 100 * counted
    for number in range(4):
        compiler.compile_regex(str(number))
    assert compiler.get_cache_size_bytes() == sum(
        compiled.memory_size_bytes for compiled, _ in compiler._memory._kept.values()
    )
    compiler._memory.limit_bytes = 1
    compiler.compile_regex("0")  # it is found, and dropped with all the others
    assert compiler.get_cache_size_bytes() == 0 and compiler.stats()["memory"]["evictions"] == 6


def test_the_cache_counts_what_it_holds_after_use() -> None:
    """Tables grow in use, and the cache measures them again."""
    compiler = GrammarCompiler(VOCABULARY)
    compiled = compiler.compile_builtin_json_grammar()
    before = compiled.memory_size_bytes
    assert accepts(compiled, '{"a": [1, {"b": "ab"}]}')
    assert compiled.memory_size_bytes > before
    assert compiler.get_cache_size_bytes() == compiled.memory_size_bytes


# Threads.


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cache_enabled", [True, False])
def test_threads_compile_at_once(strategy: str, cache_enabled: bool) -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy, cache_enabled=cache_enabled)
    start = threading.Barrier(8)

    def compile_some(thread: int) -> bool:
        start.wait()
        right = True
        for number in range(6):
            name = f"k{(thread + number) % 4}"
            schema = {"type": "object", "properties": {name: {"type": "boolean"}}, "required": [name]}
            compiled = compiler.compile_json_schema(schema)
            right = right and accepts(compiled, f'{{"{name}": true}}') and not accepts(compiled, "{}")
        return right

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(compile_some, range(8)))
    if cache_enabled:
        assert compiler.get_cache_size_bytes() > 0
