"""Promotion: masks never change, nobody waits, and it is done where the rule says so only.

What: promotions in the background, at once, from files, beyond the budget, of grammars that are gone, and in
forked processes.
When: after any change of `hybrid.compile.promotion` or of what it is told.
Limits: the rule itself is tested in ``test_rule.py``; times are measured, not tested (docs/strategies.md).
"""

from __future__ import annotations

import gc
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equivalence import BudgetExceeded
from hybrid import BatchGrammarMatcher, Budget, GrammarCompiler, GrammarMatcher
from hybrid.classifier import completing
from hybrid.classifier.completing import Completing
from hybrid.compile import promotion as promoting
from hybrid.compile.rule import ENOUGH, Promotion, Use, choose_promotion
from tests.classifiers import mask_of
from tests.promotions import NESTED, begun, is_complete, promotions, read, text_of, use, without_walks
from tests.test_artifact import VOCABULARY

pytestmark = pytest.mark.kernels


@pytest.fixture(autouse=True)
def classes(monkeypatch: pytest.MonkeyPatch) -> None:
    without_walks(monkeypatch)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces as small as they can be, so that there are many moments between two of them."""
    monkeypatch.setattr(completing, "PIECE", 1)
    monkeypatch.setattr(completing, "CONTEXTS", 1)


@pytest.fixture
def at_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sequence of a grammar promotes it, whatever the first met."""

    def now(use: Use) -> Promotion:
        if use.static or use.deterministic:
            return choose_promotion(use)
        return Promotion(use.sequences > 1, 0 if use.sequences > 1 else 2)

    monkeypatch.setattr(promoting, "choose_promotion", now)


def test_a_grammar_that_goes_on_meeting_new_states_is_promoted() -> None:
    """By the rule as it is: each sample meets many more of this grammar."""
    compiler = GrammarCompiler(VOCABULARY)
    compiled = text_of("c_like")(compiler)
    mask_of(GrammarMatcher(compiled), VOCABULARY.size)  # a sequence that hardly begins
    for name in ("hash_table", "life"):
        assert read(compiled, name) > 200
    assert promotions(compiler) == (0, 0, 0) and "promoted" not in compiled.reason
    read(compiled, "dates")
    compiler.settle()
    assert promotions(compiler) == (1, 0, 0) and is_complete(compiled)
    assert compiled.reason.endswith("; promoted after 4 sequences")
    assert text_of("c_like")(compiler) is compiled


def test_a_grammar_that_has_served_enough_is_promoted() -> None:
    """By the rule as it is: new states are rare, and there are few."""
    compiler = GrammarCompiler(VOCABULARY)
    compiled = compiler.compile_grammar(NESTED)
    for seed in [0] * 24 + [1, 2, 3] * 3:
        if compiled.classifier is not None and compiled.classifier.served < ENOUGH - 1:
            assert promotions(compiler) == (0, 0, 0) and not is_complete(compiled)
        use(compiled, seed)
        compiler.settle()
    assert promotions(compiler) == (1, 0, 0) and is_complete(compiled)
    assert compiled.reason.endswith(f"; promoted after {ENOUGH} sequences")


def test_a_grammar_that_meets_nothing_new_is_not() -> None:
    compiler = GrammarCompiler(VOCABULARY)
    compiled = text_of("c_like")(compiler)
    for _ in range(20):
        assert read(compiled, "bits") > 200
    compiler.settle()
    assert promotions(compiler) == (0, 0, 0) and not is_complete(compiled)
    assert compiled.classifier is not None and compiled.classifier.look_at == 32


@pytest.mark.parametrize("options", [{"strategy": "classifier", "on_demand": True}, {"on_demand": True}])
def test_on_demand_stays_on_demand_where_that_was_asked_for(
    options: dict[str, Any], at_the_second: None
) -> None:
    compiler = GrammarCompiler(VOCABULARY, **options)
    compiled = compiler.compile_grammar(NESTED)
    for seed in range(9):
        use(compiled, seed)
    compiler.settle()
    assert promotions(compiler) == (0, 0, 0) and not is_complete(compiled)


def test_matchers_go_on_meanwhile(at_the_second: None, small_pieces: None) -> None:
    """Many threads, a batch, a fork and a rollback over a promotion."""
    wanted = {seed: use(GrammarCompiler(VOCABULARY).compile_grammar(NESTED), seed, 150) for seed in range(6)}
    compiler = GrammarCompiler(VOCABULARY)
    compiled = compiler.compile_grammar(NESTED)
    first = GrammarMatcher(compiled)
    assert first.accept_string("([12")
    twin = first.fork()
    mask = mask_of(first, VOCABULARY.size)
    found: dict[int, list[bytes]] = {}
    threads = [
        threading.Thread(target=lambda seed=seed: found.__setitem__(seed, use(compiled, seed, 150)))
        for seed in wanted
    ]
    for thread in threads:
        thread.start()
    batch = [GrammarMatcher(compiled) for _ in range(3)]
    rows = np.empty((3, (VOCABULARY.size + 31) // 32), np.int32)
    for byte in b"([12]{}":
        BatchGrammarMatcher().batch_fill_next_token_bitmask(batch, rows)
        assert (rows == rows[0]).all()
        assert BatchGrammarMatcher.batch_accept_token(batch, [byte] * 3) == [True] * 3
    for thread in threads:
        thread.join()
    compiler.settle()
    assert found == wanted and promotions(compiler) == (1, 0, 0) and is_complete(compiled)
    assert mask_of(first, VOCABULARY.size) == mask_of(twin, VOCABULARY.size) == mask
    assert first.accept_string("3])") and twin.accept_string("4]")
    first.rollback(2)
    assert mask_of(first, VOCABULARY.size) == mask_of(GrammarMatcher(compiled), VOCABULARY.size)


def test_the_pieces_of_a_promotion_let_matchers_in(at_the_second: None, small_pieces: None) -> None:
    """What is new to a matcher is found between two pieces."""
    compiler = GrammarCompiler(VOCABULARY)
    compiled = text_of("sql_like")(compiler)
    classifier = compiled.classifier
    assert classifier is not None
    GrammarMatcher(compiled), GrammarMatcher(compiled)
    served = 0
    while compiler._promoter._thread is not None and served < 20:
        use(compiled, served)
        served += 1
    compiler.settle()
    assert is_complete(compiled)


@pytest.mark.parametrize(
    ("budget", "word"),
    [(Budget(states=100), "states"), (Budget(table_bytes=8 << 20), "bytes")],
    ids=["states", "bytes"],
)
def test_what_exceeds_the_budget_is_given_up_for_good(
    budget: Budget, word: str, at_the_second: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = GrammarCompiler(VOCABULARY, budget=budget)
    if word == "states":  # a budget of states that suffices for the network, and not for this
        compiler = GrammarCompiler(VOCABULARY)
        compiler._promoter._budget = Budget(states=10)
    compiled = text_of("sql_like")(compiler)
    masks = use(compiled)
    assert use(compiled) == masks
    compiler.settle()
    assert promotions(compiler) == (0, 1, 0) and not is_complete(compiled)
    assert f"not promoted: more than {10 * 4 if word == 'states' else 2 << 20} {word}" in compiled.reason
    reason = compiled.reason
    for _ in range(20):
        assert use(compiled) == masks
    assert text_of("sql_like")(compiler) is compiled
    compiler._promoter.at_once(compiled, compiler._compilation.begin())
    assert promotions(compiler) == (0, 1, 0) and compiled.reason == reason


def test_used_up_seconds(at_the_second: None, small_pieces: None) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    compiler._promoter._budget = Budget(seconds=1e-6)
    compiled = text_of("sql_like")(compiler)
    masks = use(compiled)
    assert use(compiled) == masks
    compiler.settle()
    assert promotions(compiler) == (0, 1, 0) and "seconds were used up" in compiled.reason


def test_a_new_session_ends_a_promotion() -> None:
    compiled = GrammarCompiler(VOCABULARY, on_demand=True).compile_grammar(NESTED)
    work = begun(compiled)
    assert work.piece() and compiled.classifier is not None
    with compiled.classifier.lock:
        compiled.classifier.renew()
    with pytest.raises(BudgetExceeded, match="meanwhile"):
        work.piece()
    with pytest.raises(BudgetExceeded, match="meanwhile"):
        work.finish()


class Held:
    """Holds the background up before a promotion, until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.let_go = threading.Event(), threading.Event()
        begin = promoting._completing

        def held(*arguments: Any) -> Completing:
            self.reached.set()
            assert self.let_go.wait(30)
            return begin(*arguments)

        monkeypatch.setattr(promoting, "_completing", held)


def test_what_nobody_has_any_more_is_not_promoted(
    at_the_second: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, held = GrammarCompiler(VOCABULARY), Held(monkeypatch)
    first, second = compiler.compile_grammar(NESTED), text_of("sql_like")(compiler)
    for compiled in (first, second):
        use(compiled), use(compiled)
    assert held.reached.wait(30)
    del first, second, compiled
    compiler.clear_cache()
    gc.collect()
    held.let_go.set()
    compiler.settle()
    assert promotions(compiler) == (0, 0, 2)


def test_close_ends_the_promotion_under_way(at_the_second: None, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, held = GrammarCompiler(VOCABULARY), Held(monkeypatch)
    compiled, other = text_of("sql_like")(compiler), compiler.compile_grammar(NESTED)
    for one in (compiled, other):
        use(one), use(one)
    assert held.reached.wait(30)
    threading.Timer(0.1, held.let_go.set).start()
    compiler.close()
    assert compiler._promoter._thread is None and not is_complete(compiled) and not is_complete(other)
    assert promotions(compiler) == (0, 0, 1)
    masks = use(compiled)
    use(compiler.compile_regex("a+b")), use(compiler.compile_regex("a+b"))
    assert use(compiled) == masks and compiler._promoter._thread is None


def test_an_error_of_ours_leaves_a_grammar_as_it_is(
    at_the_second: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise IndexError("never")

    monkeypatch.setattr(promoting, "_completing", fails)
    compiler = GrammarCompiler(VOCABULARY)
    compiled = compiler.compile_grammar(NESTED)
    masks = use(compiled)
    assert use(compiled) == masks
    compiler.settle()
    assert promotions(compiler) == (0, 1, 0) and "stays on demand" in caplog.text
    assert use(compiled) == masks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_goes_on(at_the_second: None, small_pieces: None) -> None:
    """No lock stays held in the child by the thread that it does not have."""
    compiler = GrammarCompiler(VOCABULARY)
    compiled = text_of("sql_like")(compiler)
    wanted = use(compiled, 5)
    use(compiled, 6)
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
    compiler.settle()
    assert is_complete(compiled) and use(compiled, 5) == wanted


def test_another_process_starts_with_what_was_promoted(tmp_path: Path, at_the_second: None) -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
    compiled = compiler.compile_grammar(NESTED)
    compiler.settle()
    found = GrammarCompiler(VOCABULARY, cache_dir=tmp_path, cache_enabled=False).compile_grammar(NESTED)
    assert not is_complete(found)
    masks = use(compiled)
    assert use(compiled) == masks
    compiler.settle()
    assert compiler.stats()["disk"]["writes"] == 2
    other = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
    again = other.compile_grammar(NESTED)
    assert other.stats()["disk"]["hits"] == 1 and is_complete(again) and use(again) == masks
    assert again.reason == compiled.reason
    # what was found before it was promoted is promoted too, though it has no network
    third = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
    third._promoter.watch(found)
    assert use(found) == masks and use(found) == masks
    third.settle()
    assert is_complete(found) and promotions(third) == (1, 0, 0) and use(found) == masks
