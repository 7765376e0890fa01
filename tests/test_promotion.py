"""Promotion: masks never change, all states are found, and grammars are promoted only on request.

What: a classifier that is completed piece by piece while matchers use it, on random grammars; static
grammars, `promote`, budgets, files and forked processes; compilers that decide without a clock.
When: after any change of `hybrid.compile.pipeline.promote_static` or of `hybrid.classifier.promotion`.
Limits: times are measured, not tested (docs/strategies.md).
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence import BudgetExceeded, Vocabulary
from equivalence.deadline import clock as deadline_clock
from equivalence.network import below_of, dialect
from hybrid import BatchGrammarMatcher, Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.classifier.follower import ClassifierFollower
from hybrid.classifier.promotion import Promotion
from hybrid.compile.pipeline import promote_static
from hybrid.files import from_bytes, to_bytes
from tests.caches import CALLS
from tests.classifiers import EXAMPLES, SMALL, classifier_case, compiled_of
from tests.limits import a_stop
from tests.matchers import Sides, mask_of
from tests.random_grammars import GrammarCase, grammar_cases
from tests.test_artifact import SCHEMA, VOCABULARY, grammar_of, masks_along
from tests.test_forks import Child, at_work

pytestmark = pytest.mark.kernels

NESTED = 'root ::= ("(" root ")" | "[" [0-9]{2,9} "]" | "{" root "}" root)*'


def begun(compiled: CompiledGrammar) -> Promotion:
    fixed = compiled.classifier.fixed
    below = below_of(fixed.parser.net, fixed.start, 10_000, a_stop())
    return Promotion(compiled.classifier, below, states=10_000, limit=1 << 30)


def known_states(compiled: CompiledGrammar) -> int:
    summaries = compiled.classifier.session.store.summaries
    return int(summaries.n_pairs + (summaries.first_rows()[:, 0] >= 0).sum())


def is_complete(compiled: CompiledGrammar) -> bool:
    return compiled.classifier is not None and compiled.classifier.is_complete


def compiled_as(name: str, **options: Any) -> CompiledGrammar:
    """Compile a grammar of `tests.test_artifact.grammar_of`."""
    return GrammarCompiler(VOCABULARY, **options).compile_grammar(grammar_of(name))


def promotions(compiler: GrammarCompiler) -> tuple[int, int]:
    found = compiler.stats()["promotions"]
    return found["done"], found["given_up"]


def test_matchers_go_on_meanwhile(small_pieces: None) -> None:
    """Many threads, a batch, a fork and a rollback must work during a promotion."""
    wanted = {
        seed: masks_along(GrammarCompiler(VOCABULARY).compile_grammar(NESTED), seed, 150) for seed in range(6)
    }
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(NESTED)
    first = GrammarMatcher(compiled)
    assert first.accept_string("([12")
    twin = first.fork()
    mask = mask_of(first)
    with ThreadPoolExecutor(7) as pool:
        serving = {seed: pool.submit(masks_along, compiled, seed, 150) for seed in wanted}
        promoted = pool.submit(compiled.promote)
        batch = [GrammarMatcher(compiled) for _ in range(3)]
        rows = np.empty((3, (VOCABULARY.size + 31) // 32), np.int32)
        for byte in b"([12]{}":
            BatchGrammarMatcher().batch_fill_next_token_bitmask(batch, rows)
            assert (rows == rows[0]).all()
            assert BatchGrammarMatcher.batch_accept_token(batch, [byte] * 3) == [True] * 3
    assert {seed: future.result() for seed, future in serving.items()} == wanted
    assert promoted.result() and is_complete(compiled)
    assert mask_of(first) == mask_of(twin) == mask
    assert first.accept_string("3])") and twin.accept_string("4]")
    first.rollback(2)
    assert mask_of(first) == mask_of(GrammarMatcher(compiled))


@pytest.mark.parametrize(
    ("budget", "word"),
    [(Budget(states=10), "40 states"), (Budget(bytes=1 << 30), "2097152 bytes")],
    ids=["states", "bytes"],
)
def test_what_exceeds_the_budget_is_given_up_for_good(budget: Budget, word: str) -> None:
    compiler = GrammarCompiler(VOCABULARY, budget=Budget(table_bytes=8 << 20))
    compiled = compiler.compile_grammar(grammar_of("sql_like"))
    assert compiled.classes is not None
    masks, deadline = masks_along(compiled), compiler._compilation.begin()
    assert promote_static(compiled, budget, deadline) == "given_up" and not is_complete(compiled)
    reason = compiled.reason
    assert "not all states could be computed in advance: the classifier" in reason and word in reason
    assert promote_static(compiled, budget, deadline) == "" and compiled.reason == reason
    with pytest.raises(BudgetExceeded, match=word):
        promote_static(compiled, budget, deadline, raises=True)
    assert masks_along(compiled) == masks and not is_complete(compiled)


def test_a_new_session_ends_a_promotion() -> None:
    compiled = GrammarCompiler(VOCABULARY, on_demand=True).compile_grammar(NESTED)
    GrammarMatcher(compiled)  # from now on, pieces are small
    work = begun(compiled)
    assert work.piece()
    with compiled.classifier.lock:
        compiled.classifier.renew()
    with pytest.raises(BudgetExceeded, match="became full and were replaced"):
        work.piece()
    with pytest.raises(BudgetExceeded, match="became full and were replaced"):
        work.finish()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_goes_on(small_pieces: None) -> None:
    """No lock may stay held in the child by a thread that exists only in the parent."""
    compiled = compiled_as("sql_like")
    assert compiled.classes is not None
    wanted = masks_along(compiled, 5)

    def work() -> None:
        assert (
            masks_along(compiled, 5) == wanted and compiled.promote() and masks_along(compiled, 5) == wanted
        )

    children = []
    with at_work(compiled.promote):
        for _ in range(3):
            children.append(Child(work, 60))
            time.sleep(0.002)
        for child in children:
            child.wait()
    assert is_complete(compiled) and masks_along(compiled, 5) == wanted


def test_what_is_in_use_becomes_complete_and_another_process_starts_with_it(tmp_path: Path) -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
    compiled = compiler.compile_grammar(NESTED)
    assert compiled.classes is not None, "they are found when asked for"
    assert not is_complete(compiled)
    masks, session = masks_along(compiled), compiled.classifier.session
    matcher = GrammarMatcher(compiled)
    matcher.accept_string("([1")
    assert compiler.stats()["disk"]["writes"] == 0
    assert compiler.compile_grammar(NESTED, static=True) is compiled and is_complete(compiled)
    assert compiled.classifier.session is session, "its matchers stay"
    assert matcher.accept_string("2])") and masks_along(compiled) == masks and promotions(compiler) == (1, 0)
    assert compiler.stats()["disk"]["writes"] == 1
    other = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
    again = other.compile_grammar(NESTED, static=True)
    assert other.stats()["disk"]["hits"] == 1 and is_complete(again) and masks_along(again) == masks
    assert again.reason == compiled.reason


# --- Piece by piece ----------------------------------------------------------------------------------------


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(case=grammar_cases(), rng=st.randoms(use_true_random=False))
def test_masks_are_the_same_before_between_and_after_pieces(case: GrammarCase, rng: random.Random) -> None:
    """Tokens, forks, rollbacks and other sequences, with a piece between any two of them."""
    compiled, vocabulary = classifier_case(case, on_demand=True)
    calm = compiled_of(case.ebnf, vocabulary, on_demand=True, budget=SMALL)
    ahead = compiled_of(case.ebnf, vocabulary, budget=SMALL)
    work, is_left = begun(compiled), True
    pairs = [(Sides(GrammarMatcher(compiled), GrammarMatcher(calm), vocabulary.size), list[int]())]
    for step in range(30):
        sides, read = pairs[rng.randrange(len(pairs))]
        act = rng.randrange(6)
        if act == 0 and read:
            back = rng.randint(1, len(read))
            sides.same("rollback", back)
            del read[-back:]
        elif act == 1 and len(pairs) < 4:
            pairs.append((sides.fork(), list(read)))
        else:
            token_id = rng.randrange(len(case.vocabulary))
            if sides.same("accept_token", token_id):
                read.append(token_id)
        if is_left and step > 3:
            is_left = work.piece()
        sides.mask()
        sides.same("is_completed")
    while is_left:
        is_left = work.piece()
    work.finish()
    assert is_complete(compiled)
    assert compiled.classifier.summaries.n_pairs == ahead.classifier.summaries.n_pairs, case.ebnf
    found = known_states(compiled)
    for sides, _ in pairs:
        sides.mask()
    with compiled.classifier.lock:
        compiled.classifier.renew()  # from now on a state that is missing is an error
    for sides, read in pairs:
        for _ in range(4):
            sides.mask()
            sides.same("accept_token", rng.randrange(len(case.vocabulary)))
        assert isinstance(sides.ours._follower, ClassifierFollower), "no fallback was needed"
        if read:
            sides.same("rollback", 1)
            sides.mask()
    assert found >= known_states(compiled)


@pytest.mark.parametrize("grammar", ["json", "schema", "sql_like", "arithmetic"])
def test_all_states_are_found(grammar: str, small_pieces: None) -> None:
    ahead, compiled = compiled_as(grammar, strategy="classifier"), compiled_as(grammar)
    before = masks_along(compiled, 3)
    assert compiled.promote() and compiled.promote(), "twice is once"
    assert "because promote was called" in compiled.reason
    assert is_complete(compiled)
    found = known_states(compiled)
    assert compiled.classifier.summaries.n_pairs == ahead.classifier.summaries.n_pairs
    assert masks_along(compiled, 3) == before == masks_along(ahead, 3)
    for seed in range(4, 9):
        assert masks_along(compiled, seed, 80) == masks_along(ahead, seed, 80)
    assert known_states(compiled) == found, "nothing is left to be found"


def test_what_was_read_from_a_file_is_promoted() -> None:
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(NESTED)
    again = from_bytes(to_bytes(compiled), VOCABULARY)
    assert not is_complete(again)
    masks = masks_along(again)
    assert again.promote() and is_complete(again) and compiled.promote()
    assert masks_along(again) == masks == masks_along(compiled)
    assert again.classifier.summaries.n_pairs == compiled.classifier.summaries.n_pairs
    third = from_bytes(to_bytes(again), VOCABULARY)
    assert is_complete(third) and masks_along(third) == masks


def test_equal_static_calls_at_once_are_one_promotion(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY, on_budget="raise")
    piece = Promotion.piece
    others: list[threading.Thread] = []

    def interrupted(self: Promotion) -> bool:
        if not others:
            others.append(threading.Thread(target=compile_it))
            others[0].start()
            others[0].join(0.2)  # it waits for this promotion, and must not start a new session meanwhile
        return piece(self)

    def compile_it() -> None:
        assert is_complete(compiler.compile_grammar(NESTED, static=True))

    monkeypatch.setattr(Promotion, "piece", interrupted)
    compile_it()
    others[0].join(30)
    assert compiler.stats()["promotions"] == {"done": 1, "given_up": 0} and not compiler.stats()["errors"]


def test_what_has_no_such_classifier() -> None:
    for strategy in ("engine", "representatives"):
        assert not GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(NESTED).promote()
    assert not GrammarCompiler(VOCABULARY).compile_lark('start: "a"+').promote()
    static = GrammarCompiler(VOCABULARY, strategy="engine").compile_grammar(NESTED, static=True)
    assert static.strategy == "engine"


# --- Long use ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in CALLS if "Lark" not in name])
def test_static_grammars_are_complete_at_once(name: str) -> None:
    call = CALLS[name]
    for cache_enabled in (False, True):
        compiler = GrammarCompiler(VOCABULARY, cache_enabled=cache_enabled)
        compiled = call.on(compiler, static=True)
        assert is_complete(compiled) and "because the grammar is static" in compiled.reason, compiled.reason
    assert call.on(compiler) is compiled is call.on(compiler, static=True)
    assert compiled.reason.count("in advance") == 1
    with GrammarCompiler(VOCABULARY) as other:
        assert is_complete(call.later_on(other, static=True).result())


def test_static_beyond_the_budget() -> None:
    budget = Budget(table_bytes=8 << 20)
    compiler = GrammarCompiler(VOCABULARY, budget=budget)
    compiled = compiler.compile_grammar(grammar_of("sql_like"), static=True)
    assert "not all states could be computed in advance: the classifier" in compiled.reason
    assert promotions(compiler) == (0, 1)
    strict = GrammarCompiler(VOCABULARY, budget=budget, on_budget="raise")
    with pytest.raises(BudgetExceeded, match="more than"):
        strict.compile_grammar(grammar_of("sql_like"), static=True)


# --- Deterministic compilers -------------------------------------------------------------------------------


def upset_clocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace all clocks by ones that advance at random, and slow `accept_token` down at random."""
    rng, now, lock = random.Random(seed), [0.0], threading.Lock()

    def clock() -> float:
        with lock:
            more = rng.expovariate(0.001)  # each call advances it by 1000 s on average
            now[0] += more
            deadline_clock.move(more)
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
    ("regex", "[a-c]{2,9}"), ("json_schema", json.dumps(SCHEMA)), ("grammar", NESTED),
    ("grammar", "root ::= Token(97) root?"), ("grammar", 'root ::= "a"'), ("regex", "("),
]  # fmt: skip


def served(threads: int) -> Iterator[Any]:
    """Yield what a deterministic compiler decides and allows, call by call."""
    compiler = GrammarCompiler(
        VOCABULARY, deterministic=True, budget=Budget(seconds=20), cache_limit_bytes=8 << 20
    )
    for number in range(2):
        for kind, argument in [*TRAFFIC, ("grammar", grammar_of("sql_like"))]:
            try:
                compiled = getattr(compiler, f"compile_{kind}")(argument, static=number == 1)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the same
                yield type(error)  # XGrammar's messages contain the time of day
                continue
            yield compiled.strategy, compiled.reason
            with ThreadPoolExecutor(threads) as pool:
                yield list(pool.map(partial(masks_along, compiled, steps=30), range(6)))
    counted = compiler.stats()
    yield counted["strategies"], counted["errors"], counted["promotions"], counted["overdue"]


def test_deterministic_compilers_decide_alike_whatever_the_clock_says() -> None:
    wanted = list(served(1))
    for seed, threads in enumerate((1, 4, 4)):
        with pytest.MonkeyPatch.context() as patch:
            upset_clocks(seed, patch)
            assert list(served(threads)) == wanted
    # one of those that are static names token ids
    assert wanted[-1][2] == {"done": 5 if dialect.JOINS_TOKENS else 6, "given_up": 0}


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
        assert not is_complete(mine) and masks_along(mine) == masks_along(compiled)
        assert compiler.stats()["disk"]["hits"] == hits  # the second one reads what the first one wrote


def test_vocabularies_of_other_ranks_do_not_matter() -> None:
    """Each rank has its own vocabulary object, which keeps its own walks."""
    first = Vocabulary.from_bytes(list(VOCABULARY.tokens), stop_token_ids=list(VOCABULARY.stop_token_ids))
    GrammarCompiler(first).compile_builtin_json_grammar()
    compilers = [GrammarCompiler(one, deterministic=True) for one in (first, VOCABULARY)]
    one, two = (compiler.compile_json_schema(SCHEMA) for compiler in compilers)
    assert (one.strategy, one.reason) == (two.strategy, two.reason) and masks_along(one) == masks_along(two)
