"""Deadlines: the clock, or a call in another thread, ends kernels and what Python does between them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equivalence import BudgetExceeded, Capacity, HybridError, compute_classes
from equivalence.deadline import Deadline, clock
from equivalence.network.build import build_network
from hybrid import Budget, GrammarCompiler
from hybrid.guard import worker
from tests.test_artifact import VOCABULARY, grammar_of
from tests.test_interrupts import ENDLESS

GRAMMAR = grammar_of("small")
REQUEST = {"task": "convert", "function": "from_regex", "arguments": ["a+", False]}


def kernel(deadline: Deadline) -> float:
    """Run a kernel until it is stopped. Return the seconds that it took."""
    began = time.monotonic()
    with pytest.raises(BudgetExceeded) as caught:
        build_network(ENDLESS, token_bytes=8, max_states=4_000_000, deadline=deadline)
    assert "in this phase: the grammar's network" in str(caught.value)
    return time.monotonic() - began


READERS = {
    "json": lambda compiler: compiler.compile_builtin_json_grammar(),
    "lark": lambda compiler: compiler.compile_lark('start: "[" ["a" ("," "a")*] "]"'),
}


@pytest.mark.parametrize(("name", "item"), [("json", b"1"), ("lark", b"a")])
def test_it_ends_the_reading_of_a_long_text(name: str, item: bytes) -> None:
    """Also if all steps are known."""
    session = READERS[name](GrammarCompiler(VOCABULARY)).classifier.session
    text = b"[" + (item + b",") * 10_000
    end = session.store.advance_text(session.start, text)
    deadline = Deadline()
    session.store.account.stop_by(deadline.stopping("a text"))
    assert session.store.advance_text(session.start, text) == end > 0
    deadline.cancel()
    with pytest.raises(BudgetExceeded, match="cancelled in this phase: a text"):
        session.store.advance_text(session.start, text)
    session.store.account.stop_by(None)
    assert session.store.advance_text(session.start, text) == end
    assert session.store.advance_text(session.start, b"]" + text) == 0


def test_without_bounds_it_is_never_over() -> None:
    deadline = Deadline()
    deadline.check("waiting")
    assert deadline.left is None and deadline.ends is None and not deadline.is_over


def test_the_clock_ends_a_kernel() -> None:
    assert 0.2 < kernel(Deadline(0.2)) < 5
    late = Deadline(0.0)
    assert late.left == 0 and late.is_over
    with pytest.raises(BudgetExceeded, match="time limit was reached in this phase: the network"):
        late.check("the network")


def test_what_cannot_be_interrupted_is_not_begun_without_time_for_it() -> None:
    Deadline().check("writing", 1e9)
    deadline = Deadline(60)
    deadline.check("writing", 1.0)
    with pytest.raises(BudgetExceeded, match=r"writing would take 90\.00 s .* only (59|60)\.\d\d s are left"):
        deadline.check("writing", 90.0)
    assert not deadline.is_over


def test_a_part_ends_no_later_than_the_whole() -> None:
    whole = Deadline(0.01)
    assert Deadline(60, within=whole).ends == Deadline(None, within=whole).ends == whole.ends


def test_a_call_ends_it_and_its_parts() -> None:
    deadline = Deadline()
    part = Deadline(60, within=deadline)
    threading.Timer(0.05, deadline.cancel).start()
    assert kernel(part.part(0.5)) < 5
    assert deadline.is_cancelled and part.is_cancelled and Deadline(within=deadline).is_over
    with pytest.raises(BudgetExceeded, match="cancelled in this phase: the network"):
        part.check("the network")


def test_a_part_that_is_cancelled_leaves_the_whole_time() -> None:
    deadline = Deadline()
    deadline.part().cancel()
    assert not deadline.is_over


def test_who_wants_to_know_is_told_once() -> None:
    deadline, told = Deadline(), []
    part = deadline.part()
    with part.when_cancelled(lambda: told.append("part")):
        with deadline.when_cancelled(lambda: told.append("left before")):
            pass
        deadline.cancel()
        assert told == ["part"]
        with deadline.when_cancelled(lambda: told.append("late")):
            assert told == ["part", "late"]


# --- Bounds of any size ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1e300, 1.7e308, 1e9, 9.3e9, float(2**63), 10**400])
def test_a_deadline_may_have_any_length(seconds: float) -> None:
    deadline = Deadline(seconds)
    assert not deadline.is_over
    assert deadline.left is not None and 0.99 * clock.LONGEST < deadline.left <= clock.LONGEST


@pytest.mark.parametrize("seconds", [1e300, 1e7, None])
def test_a_budget_of_any_length_compiles(seconds: float | None) -> None:
    """This includes calls of the guard process, whose sockets can wait for 24 days at most."""
    compiler = GrammarCompiler(VOCABULARY, budget=Budget(seconds=seconds), cache_enabled=False)
    assert compiler.compile_regex("a{2,4}").strategy == "classifier"
    if worker.is_available():
        assert worker.run(worker.Task(REQUEST), Deadline(seconds), "a test")


@pytest.mark.parametrize("given", [0, -1, 2**49, 2**61, 2**63, 2**64, True, 1.5, "9", None, np.int64(5)])
def test_bounds_that_no_kernel_can_keep_are_refused_by_name(given: Any) -> None:
    for name in ("states", "bytes", "table_bytes"):
        with pytest.raises(
            HybridError, match=rf"^Budget\.{name} must be an integer from 1 to {2**48}, but is "
        ):
            Budget(**{name: given})
    for name in Capacity._fields:
        with pytest.raises(HybridError, match=rf"^capacity\.{name} must be "):
            compute_classes(GRAMMAR, VOCABULARY, capacity=Capacity()._replace(**{name: given}))
    with pytest.raises(HybridError, match=r"^max_states must be "):
        compute_classes(GRAMMAR, VOCABULARY, max_states=given)


def test_the_largest_budget_does() -> None:
    most = Budget(states=2**48, bytes=2**48, table_bytes=2**48)
    for strategy in ("auto", "classifier", "representatives"):
        compiler = GrammarCompiler(VOCABULARY, strategy=strategy, budget=most, cache_enabled=False)
        assert compiler.compile_grammar('root ::= "a" root "b" | [0-9]{2,40}').strategy == (
            "classifier" if strategy == "auto" else strategy
        )
    assert GrammarCompiler(VOCABULARY, budget=most).compile_lark('start: "a" B*\nB: /[b-d]+/').classes
    assert compute_classes(GRAMMAR, VOCABULARY, capacity=Capacity(*[2**48] * 5), max_states=2**48).n_classes


@pytest.mark.parametrize(
    "seconds", [0, -1.0, float("inf"), float("nan"), True, "9", [1], pytest.param(10**400, id="huge")]
)
def test_seconds_that_are_none_are_refused_by_name(seconds: Any) -> None:
    for name in ("seconds", "mask_seconds"):
        with pytest.raises(HybridError, match=rf"^Budget\.{name} must be a positive number, or None"):
            Budget(**{name: seconds})
    with pytest.raises(HybridError, match=r"^seconds must be "):
        compute_classes(GRAMMAR, VOCABULARY, seconds=seconds)


def test_the_time_of_day_does_not_matter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Move the clock by a year, both ways, while grammars are compiled, found again and dropped."""
    real, steps = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + steps[-1])
    deadline = Deadline(60)
    for jump in (3e7, -3e7, 0.0):
        steps.append(jump)
        assert not deadline.is_over
        for number in range(2):
            compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path, cache_dir_limit_bytes=200_000)
            compiler.compile_regex(f"a{number}", static=True)
            found = compiler.stats()["disk"]
            assert found["failures"] == found["damaged"] == 0 and found["hits"] == (jump != 3e7)
    assert len(list(tmp_path.glob("*.equimask"))) == 2
