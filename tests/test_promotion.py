"""Promotion: masks never change, nobody waits, and it is done where the rule says so only.

What: a classifier completed piece by piece beside its matchers, on random grammars; promotions in the
background, at once, by hand, from files, beyond the budget, of grammars that are gone, and in forked
processes; deterministic compilers.
When: after any change of `hybrid.compile.promotion`, `hybrid.classifier.completing` or of what they are told.
Limits: the rule itself is tested in ``test_rule.py``; times are measured, not tested (docs/strategies.md).
"""

from __future__ import annotations

import gc
import itertools
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
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cases import CHECKOUT
from equivalence import BudgetExceeded, Vocabulary
from hybrid import BatchGrammarMatcher, Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.classifier import completing
from hybrid.classifier.completing import Completing
from hybrid.classifier.matcher import ClassifierMatcher
from hybrid.classifier.reachable import Reachable
from hybrid.compile import promotion as promoting
from hybrid.compile.rule import ENOUGH, Promotion, Use, choose_promotion
from hybrid.files import from_bytes, to_bytes
from tests.random_grammars import GrammarCase, grammar_cases
from tests.test_artifact import SCHEMA, VOCABULARY, masks_along
from tests.test_classifier import EXAMPLES, SMALL, classifier_case, compiled_of, mask_of

NESTED = 'root ::= ("(" root ")" | "[" [0-9]{2,9} "]" | "{" root "}" root)*'


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


def reachable_of(compiled: CompiledGrammar) -> Reachable:
    assert compiled.classifier is not None and compiled.classifier.reachable is not None
    return compiled.classifier.reachable


def begun(compiled: CompiledGrammar) -> Completing:
    assert compiled.classifier is not None
    return Completing(compiled.classifier, reachable_of(compiled), states=10_000, limit=1 << 30)


def known_states(compiled: CompiledGrammar) -> int:
    assert compiled.classifier is not None
    return compiled.classifier.n_found


def is_complete(compiled: CompiledGrammar) -> bool:
    return compiled.classifier is not None and compiled.classifier.is_complete


def use(compiled: CompiledGrammar, seed: int = 1, steps: int = 40) -> list[bytes]:
    """Serve one sequence, and give its masks."""
    return masks_along(compiled, seed, steps)


# --- Piece by piece ----------------------------------------------------------------------------------------


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(case=grammar_cases(), rng=st.randoms(use_true_random=False))
@pytest.mark.kernels
def test_masks_are_the_same_before_between_and_after_pieces(case: GrammarCase, rng: random.Random) -> None:
    """Tokens, forks, rollbacks and other sequences, with a piece between any two of them."""
    compiled, vocabulary = classifier_case(case, on_demand=True)
    calm = compiled_of(case.ebnf, vocabulary, on_demand=True, budget=SMALL)
    ahead = compiled_of(case.ebnf, vocabulary, budget=SMALL)
    work, is_left = begun(compiled), True
    pairs = [(GrammarMatcher(compiled), GrammarMatcher(calm), [b""])]
    for step in range(30):
        ours, other, history = pairs[rng.randrange(len(pairs))]
        act = rng.randrange(6)
        if act == 0 and len(history) > 1:
            back = rng.randrange(1, len(history))
            ours.rollback(back)
            other.rollback(back)
            del history[-back:]
        elif act == 1 and len(pairs) < 4:
            pairs.append((ours.fork(), other.fork(), list(history)))
        else:
            token_id = rng.randrange(len(case.vocabulary))
            taken = ours.accept_token(token_id)
            assert taken == other.accept_token(token_id), (history, case.ebnf)
            if taken:
                history.append(history[-1] + case.vocabulary[token_id])
        if is_left and step > 3:
            is_left = work.piece()
        assert mask_of(ours, vocabulary.size) == mask_of(other, vocabulary.size), (history, case.ebnf)
        assert ours.is_completed() == other.is_completed()
    while is_left:
        is_left = work.piece()
    work.finish()
    assert is_complete(compiled) and ahead.classifier is not None and compiled.classifier is not None
    assert compiled.classifier.known.n_known == ahead.classifier.known.n_known, case.ebnf
    found = known_states(compiled)
    for ours, other, history in pairs:
        assert mask_of(ours, vocabulary.size) == mask_of(other, vocabulary.size), (history, case.ebnf)
    with compiled.classifier.lock:
        compiled.classifier.renew()  # from now on a state that is missing is an error
    for ours, other, history in pairs:
        for _ in range(4):
            assert mask_of(ours, vocabulary.size) == mask_of(other, vocabulary.size), (history, case.ebnf)
            token_id = rng.randrange(len(case.vocabulary))
            assert ours.accept_token(token_id) == other.accept_token(token_id)
        assert isinstance(ours, ClassifierMatcher), "no fallback was needed"
        if len(history) > 1:
            ours.rollback(1)
            other.rollback(1)
            assert mask_of(ours, vocabulary.size) == mask_of(other, vocabulary.size)
    assert found >= known_states(compiled)


@pytest.mark.parametrize("grammar", ["json", "schema", "sql_like", "arithmetic"])
def test_all_states_are_found(grammar: str, small_pieces: None) -> None:
    ahead, compiled = both(grammar)
    before = use(compiled, 3)
    assert compiled.promote() and compiled.promote(), "twice is once"
    assert "promoted by its caller" in compiled.reason
    assert is_complete(compiled) and ahead.classifier is not None and compiled.classifier is not None
    found = known_states(compiled)
    assert compiled.classifier.known.n_known == ahead.classifier.known.n_known
    assert use(compiled, 3) == before == use(ahead, 3)
    for seed in range(4, 9):
        assert use(compiled, seed, 80) == use(ahead, seed, 80)
    assert known_states(compiled) == found, "nothing is left to be found"


def text_of(grammar: str) -> Callable[[GrammarCompiler], CompiledGrammar]:
    if grammar == "json":
        return lambda compiler: compiler.compile_builtin_json_grammar()
    if grammar == "schema":
        return lambda compiler: compiler.compile_json_schema(SCHEMA)
    text = (CHECKOUT / "hybrid" / "grammars" / f"{grammar}.gbnf").read_text("utf-8")
    return lambda compiler: compiler.compile_grammar(text)


def both(grammar: str) -> tuple[CompiledGrammar, CompiledGrammar]:
    """Ahead of time, and on demand by "auto"."""
    return text_of(grammar)(GrammarCompiler(VOCABULARY, strategy="classifier")), text_of(grammar)(
        GrammarCompiler(VOCABULARY)
    )


def test_what_was_read_from_a_file_builds_its_network_again() -> None:
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(NESTED)
    again = from_bytes(to_bytes(compiled), VOCABULARY)
    assert again.classifier is not None and again.classifier.reachable is None and not is_complete(again)
    masks = use(again)
    assert again.promote() and is_complete(again) and compiled.promote()
    assert use(again) == masks == use(compiled)
    assert compiled.classifier is not None
    assert again.classifier.known.n_known == compiled.classifier.known.n_known
    third = from_bytes(to_bytes(again), VOCABULARY)
    assert is_complete(third) and use(third) == masks


def test_another_network_is_not_completed() -> None:
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(NESTED)
    again = from_bytes(to_bytes(compiled), VOCABULARY)
    assert again.classifier is not None
    final = again.classifier._fixed.net[0]
    final[-1] = 1 - final[-1]
    with pytest.raises(BudgetExceeded, match="another version"):
        again.promote()


def test_what_has_no_such_classifier() -> None:
    engine = GrammarCompiler(VOCABULARY, strategy="engine").compile_grammar(NESTED)
    few = GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar(NESTED)
    lark = GrammarCompiler(VOCABULARY).compile_lark('start: "a"+')
    assert not engine.promote() and not few.promote() and not lark.promote()
    static = GrammarCompiler(VOCABULARY, strategy="engine").compile_grammar(NESTED, static=True)
    assert static.strategy == "engine"


# --- In the background ------------------------------------------------------------------------------------


def promotions(compiler: GrammarCompiler) -> tuple[int, int, int]:
    found = compiler.stats()["promotions"]
    return found["done"], found["given_up"], found["dropped"]


def read(compiled: CompiledGrammar, name: str) -> int:
    """Serve a sample, byte by byte; how many masks it took."""
    matcher = GrammarMatcher(compiled)
    text = (CHECKOUT / "bench" / "samples" / "c_like" / f"{name}.c").read_bytes()
    for place, byte in enumerate(text):
        mask_of(matcher, VOCABULARY.size)
        if not matcher.accept_token(byte):  # a comment at the beginning, a space at the end
            return place
    return len(text)


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
    compiler._kinds._obtaining._promoter.at_once(compiled, compiler._compilation.begin())
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
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(NESTED)
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
    found = GrammarCompiler(VOCABULARY, cache_dir=tmp_path).compile_grammar(NESTED)
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
        assert is_complete(compiled) and "for long use" in compiled.reason, compiled.reason
        if cache_enabled:
            assert call() is compiled and call(static=True) is compiled
            assert compiled.reason.count("promoted") == 1
    compiler.close()


def test_one_that_is_in_use_already_becomes_complete() -> None:
    compiler = GrammarCompiler(VOCABULARY)
    compiled = compiler.compile_grammar(NESTED)
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
        serve = ClassifierMatcher.accept_token

        def slow(self: Any, token_id: int, **options: Any) -> bool:
            if rng.random() < 0.02:
                threading.Event().wait(0.001)
            return serve(self, token_id, **options)

        monkeypatch.setattr(ClassifierMatcher, "accept_token", slow)


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
    assert counts[2] == {"done": 5, "given_up": 0, "dropped": 0}, "those that are static"


def test_others_look_at_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the clocks above would be noticed."""
    wanted = list(served(True, 1))
    Clocks(1, monkeypatch)
    assert list(served(False, 1)) != wanted


def test_what_other_compilers_wrote_does_not_matter(tmp_path: Path, at_the_second: None) -> None:
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
            compiler.compile_json_schema(schema)
        compiled = compiler.compile_json_schema(SCHEMA)
        assert compiled.classes is not None
        return compiled.classes.sizes["configurations"]

    alone = configurations([])
    after = configurations([SCHEMA])
    assert (alone == after) == deterministic
