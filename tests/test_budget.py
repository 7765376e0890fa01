"""Budgets: every phase of a compilation checks its deadline, and an abandoned compilation leaves nothing
behind.

What: compilations that are cancelled at each of their checks in turn, on every strategy, with both settings
of `on_budget`; equal calls, some of which are cancelled; memory, counts, and work that is not done twice.
When: after any change of a phase of compiling, or of how callers are cancelled.
Limits: nothing is timed here: how soon a kernel notices is measured (docs/budgets.md). The deadlines
themselves are tested in ``test_deadline.py``, and the guard process in ``test_guard.py``, where it is
available.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any
from unittest.mock import Mock

import pytest

from equivalence import BudgetExceeded, UnsupportedGrammar
from equivalence.classes import classes, explore
from equivalence.deadline import Deadline, Stop
from equivalence.network import build_network
from equivalence.parser.absorption import absorbing_states
from hybrid import Budget, CompiledGrammar, GrammarCompiler
from hybrid.compile.compilation import Compilation
from hybrid.compile.engine_strategies import EngineStrategies
from hybrid.compile.request import RegexRequest
from hybrid.guard import Guard
from hybrid.representatives.engines import Engines
from hybrid.testing.mask_comparison import compare_along
from tests.caches import Gate, wait_for
from tests.test_artifact import VOCABULARY

RECURSIVE = """root ::= sum | "[" (root ("," root)*)? "]" | [a-z]{2,70} [0-9]{3,9}
sum ::= sum "+" part | part | maybe sum "!"
part ::= part "*" [0-9]+ | "(" root ")" | "é" | "\\U00020000"
maybe ::= "o"?
"""

LARK = 'start: "a" NUMBER*\nNUMBER: /[0-9]+/\n%ignore " "'

PHASES: dict[str, tuple[str, Callable[[GrammarCompiler], CompiledGrammar], list[str]]] = {
    "on demand": (
        "auto", lambda c: c.compile_grammar(RECURSIVE),
        ["reading the grammar", "the grammar's network", "the exploration", "the partition",
         "the tables of the classifier"],
    ),
    "ahead": ("classifier", lambda c: c.compile_json_schema({"type": ["object", "null"]}), ["the partition"]),
    "promoted": ("auto", lambda c: c.compile_regex("(a[bc])+", static=True), ["the classifier's states"]),
    "representatives": ("representatives", lambda c: c.compile_grammar(RECURSIVE), ["the gather"]),
    "engine": ("engine", lambda c: c.compile_grammar(RECURSIVE), ["XGrammar's compiler of the grammar"]),
    "Lark": (
        "auto", lambda c: c.compile_lark(LARK),
        ["Lark's parser and lexer", "the lexer's part", "the classes of a Lark grammar"],
    ),
}  # fmt: skip
"""Calls on a strategy, and beginnings of the names of phases that they have."""


class Checks:
    """Count how often one thread checks its deadlines, and cancel the deadline of one of these checks.

    If that deadline is part of another one, only the part is cancelled: the whole still has time left, as
    after half of its seconds.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.last = 0, -1
        self._thread = threading.get_ident()
        note = self._note

        class Counted(Deadline):  # type: ignore[misc]
            """A deadline that tells when somebody looks at it; so do its parts."""

            def check(self, phase: str, seconds: float = 0.0) -> None:
                note(self)
                super().check(phase, seconds)

            def stopping(self, phase: str) -> Stop:
                note(self)
                return super().stopping(phase)

            def part(self, share: float = 1.0) -> Deadline:
                left = self.left
                return Counted(None if left is None else share * left, within=self)

        monkeypatch.setattr(EngineStrategies, "begin", lambda of: Counted(of.settings.budget.seconds))

    def _note(self, deadline: Deadline) -> None:
        if threading.get_ident() == self._thread:
            if self.count == self.last:
                deadline.cancel()
            self.count += 1

    @contextlib.contextmanager
    def cancelling(self, last: int = -1) -> Iterator[None]:
        """In this context, count from 0, and cancel at check `last`."""
        self.count, self.last = 0, last
        yield
        self.last = -1


def compiler_of(strategy: str, on_budget: Any = "raise", **options: Any) -> GrammarCompiler:
    """Return a compiler that finds classes when it compiles (``test_deferred_classes.py`` tests those that do
    not)."""
    options.setdefault("on_demand", strategy == "auto")
    return GrammarCompiler(VOCABULARY, strategy=strategy, on_budget=on_budget, cache_enabled=False, **options)


# --- Every check -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PHASES)
def test_every_check_ends_a_compilation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, call, phases = PHASES[name]
    checks, compiler = Checks(monkeypatch), compiler_of(strategy)
    call(compiler)  # a caller that waits for the guard process to start checks more often
    with checks.cancelling():
        call(compiler)
    total, met = checks.count, ""
    assert total >= 5
    for last in range(total):
        with (
            checks.cancelling(last),
            pytest.raises(BudgetExceeded, match="cancelled in this phase: ") as caught,
        ):
            call(compiler)
        met += f"{caught.value}\n"
    assert [phase for phase in phases if f"cancelled in this phase: {phase}" not in met] == []
    assert compiler.stats()["errors"] == {"BudgetExceeded": total}
    assert call(compiler).strategy != ""


@pytest.mark.parametrize("strategy", ["auto", "classifier"])
def test_after_our_own_part_the_rest_goes_on(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks, compiler = Checks(monkeypatch), compiler_of(strategy, "engine")
    with checks.cancelling():
        wanted = compiler.compile_grammar(RECURSIVE)
    assert wanted.strategy == "classifier"
    fallen = 0
    for last in range(checks.count):
        try:
            with checks.cancelling(last):
                compiled = compiler.compile_grammar(RECURSIVE)
        except BudgetExceeded:
            continue  # the whole was cancelled, not a part
        if compiled.strategy == "classifier" and strategy == "classifier":
            assert "computed on demand, because " in compiled.reason
            continue
        assert compiled.strategy in ("representatives", "engine")
        assert "cancelled in this phase: " in compiled.reason
        fallen += 1
        found = compare_along(compiled, wanted, b"[a")
        assert found.exact and found.complete and not found.contradiction_count
    assert fallen >= 5


# --- What is left ------------------------------------------------------------------------------------------


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Any]]]:
    """Weak references to the arrays of compilations that are cancelled in the middle of exploring."""
    made: list[weakref.ref[Any]] = []
    inner, build = explore._explore, build_network
    deadlines: list[Deadline] = []

    def building(*arguments: Any, **options: Any) -> Any:
        network = build(*arguments, **options)
        deadlines.append(options["deadline"])
        made.extend(map(weakref.ref, (*network.automaton, network.below().contexts)))
        return network

    def held_by_the_space(automaton: Any) -> Any:
        states = absorbing_states(automaton)
        made.append(weakref.ref(states))
        return states

    def exploring(*arguments: Any) -> Any:
        made.extend(map(weakref.ref, arguments[2]))  # what can follow
        deadlines.pop().cancel()
        return inner(*arguments)

    monkeypatch.setattr("equivalence.classes.classes.build_network", building)
    monkeypatch.setattr(explore, "absorbing_states", held_by_the_space)
    monkeypatch.setattr(explore, "_explore", exploring)
    gc.collect()
    gc.disable()
    try:
        yield made
    finally:
        gc.enable()


@pytest.mark.parametrize("in_background", [False, True])
def test_an_error_keeps_nothing_of_its_computation(
    in_background: bool, arrays: list[weakref.ref[Any]]
) -> None:
    with GrammarCompiler(VOCABULARY, on_budget="raise", on_demand=True) as compiler:
        if in_background:
            future = compiler.compile_grammar_async(RECURSIVE)
            error = future.exception(60)
        else:
            with pytest.raises(BudgetExceeded) as caught:
                compiler.compile_grammar(RECURSIVE)
            error = caught.value
    assert isinstance(error, BudgetExceeded) and "cancelled in this phase: the exploration" in str(error)
    assert len(arrays) > 5 and not [one for one in arrays if one() is not None]
    assert compiler.get_cache_size_bytes() == 0


def test_what_stands_in_has_the_memory_to_itself(
    arrays: list[weakref.ref[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[int] = []
    whole = Engines.whole

    def counting(*arguments: Any) -> Any:
        alive.append(sum(one() is not None for one in arrays))
        return whole(*arguments)

    monkeypatch.setattr(Engines, "whole", counting)
    assert compiler_of("auto", "engine").compile_grammar(RECURSIVE).strategy == "engine"
    assert alive == [0]


# --- Once only ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, BudgetExceeded("too much"), UnsupportedGrammar("not known")])
def test_nothing_is_explored_twice(error: Exception | None, monkeypatch: pytest.MonkeyPatch) -> None:
    explored = Mock(wraps=classes.classes_and_network, side_effect=error)
    monkeypatch.setattr("hybrid.compile.engine_strategies.classes_and_network", explored)
    monkeypatch.setattr(Compilation, "_build_classifier", Mock(side_effect=BudgetExceeded("no tables")))
    compiled = compiler_of("auto", "engine").compile_grammar(RECURSIVE)
    assert compiled.strategy in ("representatives", "engine") and explored.call_count == 1


# --- Who wants it ------------------------------------------------------------------------------------------


def test_one_of_two_calls_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    with GrammarCompiler(VOCABULARY, n_jobs=3) as compiler:
        gate = Gate(compiler, monkeypatch)
        first = compiler.compile_regex_async("a+")
        assert gate.reached.wait(30)
        second, third = compiler.compile_regex_async("a+"), compiler.compile_regex_async("a+")
        (under_way,) = compiler._memory._under_way.values()
        wait_for(lambda: under_way.n_callers == 3)
        assert first.running() and first.cancel() and third.cancel() and first.cancelled()
        wait_for(lambda: under_way.n_callers == 1)
        gate.opened.set()
        assert second.result(60).strategy == "classifier" and gate.count == 1
        found = compiler.stats()
        assert (found["compilations"], found["cancelled"], found["overdue"]) == (1, 0, 0)
        assert compiler.compile_regex("a+") is second.result()
        with pytest.raises(CancelledError):
            first.result()


def test_a_computation_that_nobody_wants_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with GrammarCompiler(VOCABULARY, n_jobs=2) as compiler:
        gate = Gate(compiler, monkeypatch)
        futures = [compiler.compile_regex_async("a+") for _ in range(2)]
        assert gate.reached.wait(30)
        (under_way,) = compiler._memory._under_way.values()
        wait_for(lambda: under_way.n_callers == 2)
        assert all(future.cancel() for future in futures)
        wait_for(lambda: under_way.deadline.is_cancelled)
        assert not compiler._memory._under_way, "who comes now begins anew"
        gate.opened.set()
        wait_for(lambda: compiler.stats()["cancelled"] == 1)
        assert compiler.compile_regex("a+").strategy == "classifier"
        found = compiler.stats()
        assert gate.count == 2 and found["compilations"] == 1 and found["errors"] == {"BudgetExceeded": 1}


def test_who_waits_has_a_deadline_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with GrammarCompiler(VOCABULARY) as compiler:
        gate = Gate(compiler, monkeypatch)
        future = compiler.compile_regex_async("a+")
        assert gate.reached.wait(30)
        with pytest.raises(BudgetExceeded, match="reached in this phase: waiting for an equal call"):
            compiler._pipeline.run(RegexRequest("a+", settings=compiler._settings), Deadline(0.01))
        gate.opened.set()
        assert future.result(60).strategy == "classifier"
    assert compiler.stats()["compilations"] == 1 and compiler.stats()["memory"]["misses"] == 1


def test_errors_of_xgrammar_say_why_it_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engines, "whole", Mock(side_effect=BudgetExceeded("raise Budget.seconds")))
    compiler = GrammarCompiler(VOCABULARY, budget=Budget(states=2))
    with pytest.raises(BudgetExceeded, match=r"2 states; raise Budget\.states, or simplify") as error:
        compiler.compile_regex("[a-z]{2,9}(ab|cd)*")
    assert "engine" not in str(error.value)  # it has failed, too


def test_errors_of_xgrammars_parser_say_why_it_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "convert", Mock(side_effect=BudgetExceeded("raise Budget.bytes")))
    compiler = GrammarCompiler(VOCABULARY, budget=Budget(states=20), semantics="json-schema")
    with pytest.raises(BudgetExceeded, match=r"bytes.*20 states; raise Budget\.states, or simplify"):
        compiler.compile_json_schema({"enum": ["a" * 30, "b"]})


@pytest.mark.parametrize("on_budget", ["engine", "raise"])
def test_what_is_overdue_is_counted(on_budget: Any) -> None:
    compiler = GrammarCompiler(VOCABULARY, budget=Budget(seconds=1e-9), on_budget=on_budget)
    with pytest.raises(BudgetExceeded, match="time limit was reached in this phase: waiting to begin"):
        compiler.compile_regex("a")
    found = compiler.stats()
    assert (found["overdue"], found["cancelled"], found["compilations"]) == (1, 0, 0)
    assert found["errors"] == {"BudgetExceeded": 1} and compiler.get_cache_size_bytes() == 0
