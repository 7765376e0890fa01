"""The bench of budgets tells masks, errors, lateness and what did not survive apart."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from bench import budgets, report
from bench.budgets import Row, run, summarise
from hybrid import GrammarCompiler
from tests.test_artifact import VOCABULARY

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

INTEGER, BROKEN = ("an integer", {"type": "integer"}), ("no JSON", "{")


def rows(cases: list[tuple[str, Any]], seconds: float = 30.0, **options: Any) -> list[Row]:
    given = {"strategies": ["auto"], "on_budget": "engine", "hard_seconds": 60.0, **options}
    return run(VOCABULARY, cases, [seconds], console=report.make_console(), **given)


def test_outcomes_are_told_by_strategy_and_error() -> None:
    found = rows([INTEGER, BROKEN], strategies=["auto", "engine"])
    assert [(row.name, row.strategy, row.outcome) for row in found] == [
        ("an integer", "auto", "mask (classifier)"),
        ("an integer", "engine", "mask (engine)"),
        ("no JSON", "auto", "GrammarError"),
        ("no JSON", "engine", "GrammarError"),
    ]
    assert all(row.survived and row.overrun == 0 and row.took is not None for row in found)
    assert found[2].message
    summary = summarise(found)["30 s, auto"]
    assert summary["cases"] == summary["in_time"] == 2
    assert summary["outcomes"] == {"mask (classifier)": 1, "GrammarError": 1}


def test_what_comes_late_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_it = GrammarCompiler.compile_json_schema

    def late(self: GrammarCompiler, schema: Any) -> Any:
        compiled = compile_it(self, schema)
        time.sleep(1.2)
        return compiled

    monkeypatch.setattr(GrammarCompiler, "compile_json_schema", late)
    (row,) = rows([INTEGER], seconds=1.0)
    assert row.overrun > budgets.ALLOWED and row.outcome == "mask (classifier)"
    assert summarise([row])["1 s, auto"]["in_time"] == 0


def test_what_does_not_survive_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: GrammarCompiler, schema: Any) -> Any:
        if schema == "crash":
            os._exit(9)
        if schema == "hang":
            time.sleep(600)
        raise RecursionError("too deep")

    monkeypatch.setattr(GrammarCompiler, "compile_json_schema", fails)
    found = rows([("a", "crash"), ("b", "hang"), ("c", "error")], seconds=0.1, hard_seconds=1.0)
    assert [row.outcome for row in found] == [
        "crashed or hung", "crashed or hung", "unexpected RecursionError",
    ]  # fmt: skip
    assert not any(row.survived for row in found)
