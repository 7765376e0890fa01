"""Promotion: masks never change, matchers continue, and grammars are promoted only on request.

What: static grammars, `promote`, budgets, files and forked processes; compilers that decide without a clock.
When: after any change of `hybrid.compile.pipeline.promote_static` or of `hybrid.classifier.promotion`.
Limits: times are measured, not tested (docs/strategies.md).
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.cases import CHECKOUT
from equivalence import BudgetExceeded, Vocabulary
from equivalence.network import dialect
from hybrid import BatchGrammarMatcher, Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.compile.pipeline import promote_static
from tests.matchers import mask_of
from tests.promotions import NESTED, begun, is_complete, promotions, text_of, use
from tests.test_artifact import SCHEMA, VOCABULARY

pytestmark = pytest.mark.kernels


def promoting(compiled: CompiledGrammar) -> threading.Thread:
    """Start a thread that promotes a grammar."""
    thread = threading.Thread(target=compiled.promote)
    thread.start()
    return thread


@pytest.mark.parametrize("options", [{}, {"on_demand": True}, {"strategy": "classifier", "on_demand": True}])
def test_use_alone_never_promotes(options: dict[str, Any]) -> None:
    compiler = GrammarCompiler(VOCABULARY, **options)
    compiled = compiler.compile_grammar(NESTED)
    for seed in range(40):
        use(compiled, seed)
    assert promotions(compiler) == (0, 0) and not is_complete(compiled)


def test_matchers_go_on_meanwhile(small_pieces: None) -> None:
    """Many threads, a batch, a fork and a rollback must work during a promotion."""
    wanted = {seed: use(GrammarCompiler(VOCABULARY).compile_grammar(NESTED), seed, 150) for seed in range(6)}
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(NESTED)
    first = GrammarMatcher(compiled)
    assert first.accept_string("([12")
    twin = first.fork()
    mask = mask_of(first)
    found: dict[int, list[bytes]] = {}
    threads = [
        threading.Thread(target=lambda seed=seed: found.__setitem__(seed, use(compiled, seed, 150)))
        for seed in wanted
    ]
    for thread in threads:
        thread.start()
    threads.append(promoting(compiled))
    batch = [GrammarMatcher(compiled) for _ in range(3)]
    rows = np.empty((3, (VOCABULARY.size + 31) // 32), np.int32)
    for byte in b"([12]{}":
        BatchGrammarMatcher().batch_fill_next_token_bitmask(batch, rows)
        assert (rows == rows[0]).all()
        assert BatchGrammarMatcher.batch_accept_token(batch, [byte] * 3) == [True] * 3
    for thread in threads:
        thread.join()
    assert found == wanted and is_complete(compiled)
    assert mask_of(first) == mask_of(twin) == mask
    assert first.accept_string("3])") and twin.accept_string("4]")
    first.rollback(2)
    assert mask_of(first) == mask_of(GrammarMatcher(compiled))


def test_the_pieces_of_a_promotion_let_matchers_in(small_pieces: None) -> None:
    """Masks that are new to a matcher must be computed between two pieces."""
    compiled = text_of("sql_like")(GrammarCompiler(VOCABULARY))
    assert compiled.classes is not None
    wanted = [use(compiled, seed) for seed in range(3)]
    thread = promoting(compiled)
    n_served = 0
    while thread.is_alive() and n_served < 20:
        assert use(compiled, n_served % 3) == wanted[n_served % 3]
        n_served += 1
    thread.join()
    assert is_complete(compiled)


@pytest.mark.parametrize(
    ("budget", "word"),
    [(Budget(states=10), "40 states"), (Budget(bytes=1 << 30), "2097152 bytes")],
    ids=["states", "bytes"],
)
def test_what_exceeds_the_budget_is_given_up_for_good(budget: Budget, word: str) -> None:
    compiler = GrammarCompiler(VOCABULARY, budget=Budget(table_bytes=8 << 20))
    compiled = text_of("sql_like")(compiler)
    assert compiled.classes is not None
    masks, deadline = use(compiled), compiler._compilation.begin()
    assert promote_static(compiled, budget, deadline) == "given_up" and not is_complete(compiled)
    assert (
        "not all states could be computed in advance: the classifier" in compiled.reason
        and word in compiled.reason
    )
    reason = compiled.reason
    assert promote_static(compiled, budget, deadline) == "" and compiled.reason == reason
    with pytest.raises(BudgetExceeded, match=word):
        promote_static(compiled, budget, deadline, raises=True)
    assert use(compiled) == masks and not is_complete(compiled)


def test_used_up_seconds(small_pieces: None) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    compiled = text_of("sql_like")(compiler)
    assert compiled.classes is not None
    masks = use(compiled)
    deadline = compiler._compilation.begin()
    deadline.cancel()
    with pytest.raises(BudgetExceeded, match="cancelled"):
        promote_static(compiled, Budget(), deadline)
    assert use(compiled) == masks and not is_complete(compiled)


def test_a_new_session_ends_a_promotion() -> None:
    compiled = GrammarCompiler(VOCABULARY, on_demand=True).compile_grammar(NESTED)
    work = begun(compiled)
    assert work.piece() and compiled.classifier is not None
    with compiled.classifier.lock:
        compiled.classifier.renew()
    with pytest.raises(BudgetExceeded, match="became full and were replaced"):
        work.piece()
    with pytest.raises(BudgetExceeded, match="became full and were replaced"):
        work.finish()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_goes_on(small_pieces: None) -> None:
    """No lock may stay held in the child by a thread that exists only in the parent."""
    compiled = text_of("sql_like")(GrammarCompiler(VOCABULARY))
    assert compiled.classes is not None
    wanted = use(compiled, 5)
    thread = promoting(compiled)
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            ok = use(compiled, 5) == wanted and compiled.promote() and use(compiled, 5) == wanted
            os._exit(0 if ok else 1)
        children.append(child)
        time.sleep(0.002)
    ends = time.monotonic() + 60
    for child in children:
        status = None
        while status is None and time.monotonic() < ends:
            done, code = os.waitpid(child, os.WNOHANG)
            status = code if done else None
            time.sleep(0.01)
        if status is None:
            os.kill(child, 9)
        assert status == 0
    thread.join()
    assert is_complete(compiled) and use(compiled, 5) == wanted


def test_another_process_starts_with_what_was_promoted(tmp_path: Path) -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
    compiled = compiler.compile_grammar(NESTED)
    assert compiler.stats()["disk"]["writes"] == 0 and not is_complete(compiled)
    masks = use(compiled)
    assert compiler.compile_grammar(NESTED, static=True) is compiled and use(compiled) == masks
    assert compiler.stats()["disk"]["writes"] == 1
    other = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
    again = other.compile_grammar(NESTED, static=True)
    assert other.stats()["disk"]["hits"] == 1 and is_complete(again) and use(again) == masks
    assert again.reason == compiled.reason


def test_a_grammar_from_a_file_can_be_promoted(tmp_path: Path) -> None:
    """It has no network."""
    for _ in range(2):
        compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path, on_demand=True)
        found = compiler.compile_grammar(NESTED)
    assert compiler.stats()["disk"]["hits"] == 1 and not is_complete(found)
    masks = use(found)
    assert found.promote() and is_complete(found) and use(found) == masks


# --- Long use ----------------------------------------------------------------------------------------------


TAG = {"type": "structural_tag", "format": {"type": "regex", "pattern": "ab*"}}


@pytest.mark.parametrize("cache_enabled", [False, True])
def test_static_grammars_are_complete_at_once(cache_enabled: bool) -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_enabled=cache_enabled)
    calls: list[Callable[..., CompiledGrammar]] = [
        lambda **o: compiler.compile_grammar(NESTED, **o),
        lambda **o: compiler.compile_json_schema(SCHEMA, **o),
        lambda **o: compiler.compile_builtin_json_grammar(**o),
        lambda **o: compiler.compile_regex("[a-c]{2,9}", **o),
        lambda **o: compiler.compile_structural_tag(TAG, **o),
        lambda **o: compiler.compile_grammar_async(NESTED + " ", **o).result(),
        lambda **o: compiler.compile_json_schema_async({**SCHEMA, "title": "b"}, **o).result(),
        lambda **o: compiler.compile_regex_async("[a-c]{2,8}", **o).result(),
    ]
    for call in calls:
        compiled = call(static=True)
        assert is_complete(compiled) and "because the grammar is static" in compiled.reason, compiled.reason
        if cache_enabled:
            assert call() is compiled and call(static=True) is compiled
            assert compiled.reason.count("in advance") == 1
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
    assert matcher.accept_string("2])") and promotions(compiler) == (1, 0)


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
    assert "not all states could be computed in advance: the classifier" in compiled.reason
    assert promotions(compiler) == (0, 1)
    strict = GrammarCompiler(VOCABULARY, budget=budget, on_budget="raise")
    with pytest.raises(BudgetExceeded, match="more than"):
        strict.compile_grammar(text, static=True)


# --- Deterministic compilers -------------------------------------------------------------------------------


class Clocks:
    """Replace all clocks by ones that advance at random, and slow `accept_token` down at random."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        rng, now, lock = random.Random(seed), [0.0], threading.Lock()

        def clock() -> float:
            with lock:
                now[0] += rng.expovariate(0.001)  # each call advances it by 1000 s on average
                return now[0]

        for name in ("perf_counter", "monotonic", "thread_time", "process_time"):
            monkeypatch.setattr(time, name, clock)
        monkeypatch.setattr("equivalence.deadline.clock.now", clock)
        serve = GrammarMatcher.accept_token

        def slow(self: Any, token_id: int, **options: Any) -> bool:
            if rng.random() < 0.02:
                threading.Event().wait(0.001)
            return serve(self, token_id, **options)

        monkeypatch.setattr(GrammarMatcher, "accept_token", slow)


TRAFFIC: list[Any] = [
    ("regex", "[a-c]{2,9}"), ("json_schema", json.dumps(SCHEMA)), ("grammar", NESTED),
    ("grammar", "root ::= Token(97) root?"), ("grammar", 'root ::= "a"'), ("regex", "("),
]  # fmt: skip


def served(deterministic: bool, threads: int) -> Iterator[Any]:
    """Yield what a compiler decides and allows, call by call."""
    compiler = GrammarCompiler(
        VOCABULARY, deterministic=deterministic, budget=Budget(seconds=20), cache_limit_bytes=8 << 20
    )
    sql = (CHECKOUT / "hybrid" / "grammars" / "sql_like.gbnf").read_text("utf-8")
    for number in range(2):
        for kind, argument in [*TRAFFIC, ("grammar", sql)]:
            try:
                compiled = getattr(compiler, f"compile_{kind}")(argument, static=number == 1)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the same
                yield type(error)  # XGrammar's messages contain the time of day
                continue
            yield compiled.strategy, compiled.reason
            with ThreadPoolExecutor(threads) as pool:
                yield list(pool.map(partial(use, compiled, steps=30), range(6)))
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
    # one of them names token ids
    done = 5 if dialect.JOINS_TOKENS else 6
    assert counts[2] == {"done": done, "given_up": 0}, "those that are static"


def test_others_look_at_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other compilers must notice these clocks; otherwise the test above proves nothing."""
    wanted = list(served(True, 1))
    Clocks(1, monkeypatch)
    assert list(served(False, 1)) != wanted


def test_what_other_compilers_wrote_does_not_matter(tmp_path: Path) -> None:
    other = GrammarCompiler(VOCABULARY, cache_dir=tmp_path, on_demand=True)
    compiled = other.compile_grammar(NESTED, static=True)
    assert "in advance" in compiled.reason
    for hits in range(2):
        compiler = GrammarCompiler(
            VOCABULARY, cache_dir=tmp_path, cache_enabled=False, deterministic=True, on_demand=True
        )
        assert compiler.budget.seconds is None and compiler.deterministic
        mine = compiler.compile_grammar(NESTED)
        assert mine.strategy == "classifier" and "in advance" not in mine.reason
        assert not is_complete(mine) and use(mine) == use(compiled)
        assert compiler.stats()["disk"]["hits"] == hits  # the second one reads what the first one wrote


def test_vocabularies_of_other_ranks_do_not_matter() -> None:
    """Each rank has its own vocabulary object, which keeps its own walks."""
    first = Vocabulary.from_bytes(list(VOCABULARY.tokens), stop_token_ids=list(VOCABULARY.stop_token_ids))
    GrammarCompiler(first).compile_builtin_json_grammar()
    compilers = [GrammarCompiler(one, deterministic=True) for one in (first, VOCABULARY)]
    one, two = (compiler.compile_json_schema(SCHEMA) for compiler in compilers)
    assert (one.strategy, one.reason) == (two.strategy, two.reason) and use(one) == use(two)
