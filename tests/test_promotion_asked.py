"""Promotion by other rules: grammars for long use, and compilers that decide without a clock.

What: static grammars are complete at once; deterministic compilers decide alike whatever the clock, others'
files or other vocabularies say.
When: after any change of `hybrid.compile.promotion` or of `hybrid.compile.rule`.
Limits: the rule itself is tested in ``test_rule.py``; times are measured, not tested (docs/strategies.md).
"""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.cases import CHECKOUT
from equivalence import BudgetExceeded, Vocabulary
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.compile import promotion as promoting
from hybrid.compile.rule import Promotion, Use, choose_promotion
from tests.promotions import NESTED, is_complete, promotions, use, without_walks
from tests.test_artifact import SCHEMA, VOCABULARY


@pytest.fixture
def at_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sequence of a grammar promotes it, whatever the first met."""

    def now(use: Use) -> Promotion:
        if use.static or use.deterministic:
            return choose_promotion(use)
        return Promotion(use.sequences > 1, 0 if use.sequences > 1 else 2)

    monkeypatch.setattr(promoting, "choose_promotion", now)


# --- For long use ------------------------------------------------------------------------------------------


TAG = {"type": "structural_tag", "format": {"type": "regex", "pattern": "ab*"}}


@pytest.mark.parametrize("cache_enabled", [False, True])
def test_static_grammars_are_complete_at_once(cache_enabled: bool) -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_enabled=cache_enabled)
    calls: list[Callable[..., CompiledGrammar]] = [
        lambda **o: compiler.compile_grammar(NESTED, **o),
        lambda **o: compiler.compile_json_schema(SCHEMA, **o),
        lambda **o: compiler.compile_builtin_json_grammar(**o),
        lambda **o: compiler.compile_regex("[a-c]{2,9}", **o),
        lambda **o: (
            compiler.compile_structural_tag({"type": "regex", "pattern": "ab*"}, **o)
            if False
            else compiler.compile_regex("ab*", **o)
        ),
        lambda **o: compiler.compile_grammar_async(NESTED + " ", **o).result(),
        lambda **o: compiler.compile_json_schema_async({**SCHEMA, "title": "b"}, **o).result(),
        lambda **o: compiler.compile_regex_async("[a-c]{2,8}", **o).result(),
    ]
    for call in calls:
        compiled = call(static=True)
        assert is_complete(compiled) and "because it is static" in compiled.reason, compiled.reason
        if cache_enabled:
            assert call() is compiled and call(static=True) is compiled
            assert compiled.reason.count("promoted") == 1
    compiler.close()


def test_one_that_is_in_use_already_becomes_complete() -> None:
    compiler = GrammarCompiler(VOCABULARY)
    compiled = compiler.compile_grammar(NESTED)
    assert compiled.classes is not None, "they are found when asked for"
    matcher = GrammarMatcher(compiled)
    matcher.accept_string("([1")
    session = compiled.classifier.session if compiled.classifier else None
    assert not is_complete(compiled)
    assert compiler.compile_grammar(NESTED, static=True) is compiled and is_complete(compiled)
    assert compiled.classifier is not None and compiled.classifier.session is session, "its matchers stay"
    assert matcher.accept_string("2])") and promotions(compiler) == (1, 0, 0)


def test_many_static_grammars() -> None:
    compiler = GrammarCompiler(VOCABULARY)
    found = compiler.compile_many(
        [("grammar", NESTED, {"static": True}), ("json_schema", SCHEMA, {"static": True}), ("regex", "a")]
    )
    assert [is_complete(one) for one in found] == [True, True, False]


def test_static_beyond_the_budget() -> None:
    budget = Budget(table_bytes=8 << 20)
    compiler = GrammarCompiler(VOCABULARY, budget=budget)
    text = (CHECKOUT / "hybrid" / "grammars" / "sql_like.gbnf").read_text("utf-8")
    compiled = compiler.compile_grammar(text, static=True)
    assert "not promoted: more than" in compiled.reason and promotions(compiler) == (0, 1, 0)
    strict = GrammarCompiler(VOCABULARY, budget=budget, on_budget="raise")
    with pytest.raises(BudgetExceeded, match="more than"):
        strict.compile_grammar(text, static=True)


# --- Deterministic compilers -------------------------------------------------------------------------------


class Clocks:
    """Clocks that go as they like, and threads that are slow by chance."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        rng, now, lock = random.Random(seed), [0.0], threading.Lock()

        def clock() -> float:
            with lock:
                now[0] += rng.expovariate(0.001)  # a call takes a quarter of an hour
                return now[0]

        for name in ("perf_counter", "monotonic", "thread_time", "process_time"):
            monkeypatch.setattr(time, name, clock)
        serve = GrammarMatcher.accept_token

        def slow(self: Any, token_id: int, **options: Any) -> bool:
            if rng.random() < 0.02:
                threading.Event().wait(0.001)
            return serve(self, token_id, **options)

        monkeypatch.setattr(GrammarMatcher, "accept_token", slow)


TRAFFIC: list[Any] = [
    ("regex", "[a-c]{2,9}"),
    ("json_schema", json.dumps(SCHEMA)),
    ("grammar", NESTED),
    ("grammar", "root ::= Token(97) root?"),
    (
        "grammar",
        'root ::= "a"',
    ),
    ("regex", "("),
]


def served(deterministic: bool, threads: int) -> Iterator[Any]:
    """What a compiler decides and allows, call by call."""
    compiler = GrammarCompiler(
        VOCABULARY, deterministic=deterministic, budget=Budget(seconds=20), cache_limit_bytes=8 << 20
    )
    sql = (CHECKOUT / "hybrid" / "grammars" / "sql_like.gbnf").read_text("utf-8")
    for number in range(2):
        for kind, argument in [*TRAFFIC, ("grammar", sql)]:
            try:
                compiled = getattr(compiler, f"compile_{kind}")(argument, static=number == 1)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the same
                yield type(error)  # XGrammar's messages have the time of day
                continue
            yield compiled.strategy, compiled.reason
            with ThreadPoolExecutor(threads) as pool:
                yield list(pool.map(partial(use, compiled, steps=30), range(6)))
            compiler.settle()
            yield compiled.strategy, compiled.reason
    counted = compiler.stats()
    yield counted["strategies"], counted["errors"], counted["promotions"], counted["overdue"]


@pytest.mark.parametrize("threads", [1, 4])
def test_deterministic_compilers_decide_alike_whatever_the_clock_says(threads: int) -> None:
    wanted = list(served(True, 1))
    for seed in range(2):
        with pytest.MonkeyPatch.context() as patch:
            Clocks(seed, patch)
            assert list(served(True, threads)) == wanted
    counts = wanted[-1]
    assert counts[2] == {"done": 6, "given_up": 0, "dropped": 0}, "those that are static"


def test_others_look_at_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the clocks above would be noticed."""
    wanted = list(served(True, 1))
    Clocks(1, monkeypatch)
    assert list(served(False, 1)) != wanted


def test_what_other_compilers_wrote_does_not_matter(
    tmp_path: Path, at_the_second: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_walks(monkeypatch)
    other = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
    compiled = other.compile_grammar(NESTED)
    use(compiled), use(compiled)
    other.settle()
    assert "promoted" in compiled.reason
    reasons = []
    for _ in range(2):
        compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path, deterministic=True)
        assert compiler.budget.seconds is None and compiler.deterministic
        mine = compiler.compile_grammar(NESTED)
        reasons.append(mine.reason)
        assert not is_complete(mine) and use(mine) == use(compiled)
    assert reasons[0] == reasons[1] and "promoted" not in reasons[0]


def test_vocabularies_of_other_ranks_do_not_matter() -> None:
    """Each rank has its own vocabulary object, and the walks that it keeps."""
    first = Vocabulary.from_bytes(list(VOCABULARY.tokens), stop_token_ids=list(VOCABULARY.stop_token_ids))
    GrammarCompiler(first).compile_builtin_json_grammar()
    compilers = [GrammarCompiler(one, deterministic=True) for one in (first, VOCABULARY)]
    one, two = (compiler.compile_json_schema(SCHEMA) for compiler in compilers)
    assert (one.strategy, one.reason) == (two.strategy, two.reason) and use(one) == use(two)


@pytest.mark.parametrize("deterministic", [True, False])
def test_what_was_kept_from_others_does_not_decide_what_meets_the_budget(deterministic: bool) -> None:
    """Walks that are kept are not walked again, so fewer configurations count against the budget."""

    def configurations(before: list[Any]) -> int:
        words = [bytes(word) for word in itertools.product(b'{}":,1ab ', repeat=3)]
        vocabulary = Vocabulary.from_bytes([*words, b""], stop_token_ids=[len(words)])
        compiler = GrammarCompiler(vocabulary, deterministic=deterministic, cache_enabled=False)
        for schema in before:
            assert compiler.compile_json_schema(schema).classes is not None
        compiled = compiler.compile_json_schema(SCHEMA)
        assert compiled.classes is not None
        return compiled.classes.sizes["configurations"]

    alone = configurations([])
    after = configurations([SCHEMA])
    assert (alone == after) == deterministic
