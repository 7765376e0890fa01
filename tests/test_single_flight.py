"""Processes that miss the same grammar at once: one compiles it, and none waits for a process that has died.

What: four processes with one empty folder; lock holders that are killed, that hang or whose grammar is
refused; deadlines; file systems without locks; writes in the background.
When: after any change of `hybrid.compile.single_flight`, or of its callers.
Limits: needs fork. Grammars are small; compilation is slowed down if something has to overlap.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import filelock
import pytest

from equivalence import BudgetExceeded, GrammarError
from equivalence.deadline import Deadline
from hybrid import CompiledGrammar, GrammarCompiler
from hybrid.compile import single_flight
from hybrid.compile.compilation import Compilation
from hybrid.compile.pipeline import OVERDUE
from tests.caches import LARK, REGEX, compiler_in, entries, wait_for
from tests.test_artifact import SCHEMA, VOCABULARY, masks_along
from tests.test_forks import Child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

REQUESTS: list[Callable[[GrammarCompiler], CompiledGrammar]] = [
    lambda compiler: compiler.compile_regex(REGEX),
    lambda compiler: compiler.compile_json_schema(SCHEMA, semantics="json-schema"),
    lambda compiler: compiler.compile_lark(LARK),
]


def slowly(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Make every compilation take at least `seconds`, so that those of several processes overlap."""
    for name in ("decide", "on_lark"):
        method = getattr(Compilation, name)

        def slow(self: Any, *arguments: Any, method: Any = method) -> CompiledGrammar:
            time.sleep(seconds)
            return method(self, *arguments)

        monkeypatch.setattr(Compilation, name, slow)


def on_demand_in(folder: Path) -> GrammarCompiler:
    return compiler_in(folder, strategy="auto", on_demand=True)


def rank(folder: Path, ask: Callable[[GrammarCompiler], CompiledGrammar]) -> GrammarCompiler:
    """Act as one of several ranks, and write a report to a file: counts, the reason, and masks."""
    compiler = on_demand_in(folder / "cache")
    compiled = ask(compiler)
    counted = compiler.stats()
    report = {
        "compilations": counted["compilations"], "disk": counted["disk"], "reason": compiled.reason,
        "masks": [mask.hex() for mask in masks_along(compiled, 1, 40)], "ended": time.monotonic(),
    }  # fmt: skip
    (folder / f"{os.getpid()}.json").write_text(json.dumps(report))
    return compiler


def reports(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


@pytest.mark.parametrize("ask", REQUESTS)
def test_one_of_four_processes_compiles(ask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slowly(monkeypatch, 0.2)
    for child in [Child(lambda: rank(tmp_path, ask), 60) for _ in range(4)]:
        child.wait()
    found = reports(tmp_path)
    assert len(found) == 4
    assert sum(one["compilations"] for one in found) == 1
    assert sum(one["disk"]["writes"] for one in found) == 1
    assert not any(one["disk"]["damaged"] or one["disk"]["failures"] for one in found)
    assert all(one["disk"]["hits"] + one["disk"]["shared"] + one["compilations"] == 1 for one in found)
    alone = [mask.hex() for mask in masks_along(ask(GrammarCompiler(VOCABULARY, on_demand=True)), 1, 40)]
    assert all(one["masks"] == alone for one in found)
    assert entries(tmp_path / "cache") == list((tmp_path / "cache").iterdir()), "no lock is left"


def held_up(folder: Path) -> Child:
    """Start a process that compiles forever, and wait until it has begun."""

    def work() -> None:
        def forever(*_: Any) -> None:
            (folder / "begun").touch()
            time.sleep(600)

        Compilation.decide = forever  # type: ignore[method-assign, assignment]
        rank(folder, REQUESTS[0])

    child = Child(work, 60)
    wait_for((folder / "begun").exists)
    return child


def test_a_process_that_is_killed_blocks_nobody(tmp_path: Path) -> None:
    child = held_up(tmp_path)
    others = [Child(lambda: rank(tmp_path, REQUESTS[0]), 60) for _ in range(3)]
    try:
        time.sleep(0.3)
        assert not reports(tmp_path), "they wait"
    finally:
        child.kill()
    died = time.monotonic()
    for other in others:
        other.wait()
    found = reports(tmp_path)
    assert len(found) == 3 and len({tuple(one["masks"]) for one in found}) == 1
    assert all(one["ended"] - died < single_flight.MOST_SECONDS / 2 for one in found)
    assert not any(OVERDUE in one["reason"] or one["disk"]["overdue"] for one in found)
    assert entries(tmp_path / "cache") == list((tmp_path / "cache").iterdir())


def test_one_that_stands_still_is_waited_for_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_flight, "MOST_SECONDS", 0.5)
    child = held_up(tmp_path)
    try:
        began = time.monotonic()
        compiler = on_demand_in(tmp_path / "cache")
        compiled = compiler.compile_regex(REGEX)
        assert 0.4 < time.monotonic() - began < 5
    finally:
        child.kill()
    found = compiler.stats()
    assert found["compilations"] == found["disk"]["overdue"] == found["disk"]["writes"] == 1
    assert OVERDUE in compiled.reason
    again = on_demand_in(tmp_path / "cache").compile_regex(REGEX)
    assert OVERDUE not in again.reason and masks_along(again, 1, 40) == masks_along(compiled, 1, 40)


def test_a_lock_does_not_live_on_in_forked_processes(tmp_path: Path) -> None:
    """A child must not keep the lock, even if its holder is killed and the child is not."""

    def work() -> None:
        with single_flight.wait_for_other_processes(tmp_path / "entry", Deadline()) as turn:
            assert turn == "ours"
            inner = Child(lambda: time.sleep(600), 700)
            (tmp_path / "inner").write_text(str(inner.process))
            time.sleep(600)

    child = Child(work, 700)
    wait_for(lambda: (tmp_path / "inner").exists() and (tmp_path / "inner").read_text() != "")
    time.sleep(0.3)
    child.kill()
    inner = int((tmp_path / "inner").read_text())
    try:
        os.kill(inner, 0)
        with single_flight.wait_for_other_processes(tmp_path / "entry", Deadline(10)) as turn:
            assert turn == "ours"
    finally:
        os.kill(inner, signal.SIGKILL)


def test_who_waited_for_nothing_does_not_make_others_wait(tmp_path: Path) -> None:
    """If the first process was refused the grammar, for example, the others find that out in parallel."""
    path = tmp_path / "entry"
    context = multiprocessing.get_context("fork")
    begun, together = context.Semaphore(0), context.Barrier(4)

    def wait() -> None:
        begun.release()
        with single_flight.wait_for_other_processes(path, Deadline(40)) as turn:
            assert turn == "after"
            together.wait(30)
            together.wait(30)

    with single_flight.wait_for_other_processes(path, Deadline()):
        children = [Child(wait, 60) for _ in range(3)]
        for _ in children:
            assert begun.acquire(timeout=30)
        time.sleep(0.2)
    together.wait(30)  # all are inside at the same time, and no one holds the lock
    with single_flight.wait_for_other_processes(path, Deadline()) as turn:
        assert turn == "ours"
    together.wait(30)
    for child in children:
        child.wait()


def test_errors_are_those_of_a_compiler_without_a_folder(tmp_path: Path) -> None:
    compiler = on_demand_in(tmp_path)
    for _ in range(2):
        with pytest.raises(GrammarError):
            compiler.compile_regex("(")
    assert compiler.stats()["errors"] == {"GrammarError": 2} and not list(tmp_path.iterdir())


def test_waiting_ends_with_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    deadline = Deadline()
    with single_flight.wait_for_other_processes(path, Deadline()):
        began = time.monotonic()
        with single_flight.wait_for_other_processes(path, Deadline(0.4)) as turn:
            assert turn == "overdue" and time.monotonic() - began < 5
        deadline.cancel()
        waiting = single_flight.wait_for_other_processes(path, deadline)
        with pytest.raises(BudgetExceeded, match="waiting for another process"), waiting:
            pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [OSError(38, "no flock"), NotImplementedError("no flock")])
def test_without_locks_nobody_waits(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filelock, "FileLock", Mock(side_effect=error))
    for writes in (1, 0):
        compiler = on_demand_in(tmp_path)
        assert compiler.compile_regex(REGEX).strategy == "classifier"
        assert compiler.stats()["disk"]["writes"] == writes


def test_a_lock_that_outlives_processes_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filelock, "FileLock", filelock.SoftFileLock)
    path = tmp_path / "entry"
    wait = single_flight.wait_for_other_processes
    with wait(path, Deadline()) as first, wait(path, Deadline()) as second:
        assert first == second == "unlocked"
