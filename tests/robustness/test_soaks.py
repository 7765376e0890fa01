"""Small runs of mixed traffic, of killed processes and of budgets, and checks that each detects errors.

What: the functions behind ``python -m tests.robustness.traffic``, ``.killed`` and ``.budgets`` on few
schemas.
When: after a change of caches, threads, deadlines, or of these commands.
Limits: needs fork and SIGKILL; a vocabulary of bytes and some short tokens.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.workloads import SchemaFile
from equivalence.vocabulary import Vocabulary
from hybrid import GrammarCompiler
from tests.robustness import budgets, killed, traffic
from tests.robustness.killed import Known, Outcome
from tests.robustness.traffic import Traffic

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
FILES = [
    SchemaFile("object", OBJECT, [{"a": "hello"}, {}], [True, True]),
    SchemaFile("list", {"type": "array", "items": {"type": "integer"}}, [[1, 22], []], [True, True]),
    SchemaFile("choice", {"enum": ["x", 3]}, [], []),
    SchemaFile("refused", {"type": "no such type"}, [1], [True]),
]
TOKENS = [*(bytes([value]) for value in range(256)), b"", b'": ', b'{"', b"hello"]
VOCABULARY = Vocabulary.from_bytes(TOKENS, stop_token_ids=[256])


# --- Traffic -----------------------------------------------------------------------------------------------


def test_traffic(tmp_path: Path) -> None:
    VOCABULARY.save(tmp_path / "made.npz")
    serving: dict[str, Any] = {"vocabulary": str(tmp_path / "made.npz"), "cache_dir": str(tmp_path / "kept")}
    shares: dict[str, Any] = {"malformed": 0.1, "hostile": 0.1, "compared_every": 3}
    some = Traffic(FILES, 120, size="small", threads=3, cache_bytes=2**24, **shares, **serving)
    served = traffic.watch(some, 100.0)
    assert served.failure == "" and len(served.answers) == 120
    assert [one for one in served.answers if not one.expected] == []
    asked = [(*some.request(one.number), bool(one.error)) for one in served.answers]
    kinds = Counter(kind for kind, *_ in asked)
    assert kinds["malformed"] > 3 < kinds["hostile"]
    for kind, file, is_refused in asked:
        assert kind != "schema" or is_refused == (file.name == "refused")
    assert 0 < served.cache_most <= 2**24
    found = traffic.compare(some, served.answers, VOCABULARY, 60)
    assert found.masks.masks > 50 and found.differences == []


def test_wrong_masks_in_the_traffic_are_found() -> None:
    some = Traffic(FILES[:3], 8, malformed=0, hostile=0, compared_every=1)
    compiler = GrammarCompiler(VOCABULARY)
    answers = [traffic.answer(some, number, compiler) for number in range(8)]
    assert traffic.compare(some, answers, VOCABULARY, 60).differences == []
    answers[3].digest = "another"
    found = traffic.compare(some, answers, VOCABULARY, 60)
    assert found.masks.masks == found.masks.equal > 8 and len(found.differences) == 1
    assert "its masks differ" in found.differences[0]


@pytest.mark.parametrize("end", [lambda: os._exit(9), lambda: time.sleep(100)], ids=["dies", "hangs"])
def test_a_process_that_dies_or_hangs_is_a_failure_with_numbers(end: Callable[[], None]) -> None:
    def serve(some: Traffic, told: str) -> None:
        Path(told).write_text('17\n3\n[{"number": 3, "error": "GrammarError"}, 1, 2]\n[{"num')
        end()

    served = traffic.watch(Traffic(FILES, 1, threads=2), 0.4, serve)
    assert "{17}" in served.failure and [one.number for one in served.answers] == [3]


# --- Killed processes --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known() -> list[Known]:
    return killed.prepare(VOCABULARY, FILES)


def test_killed_processes_leave_what_is_right(known: list[Known], tmp_path: Path) -> None:
    assert [one.name for one in known] == ["object", "list", "choice"]
    found = killed.kill_at_random(VOCABULARY, known, tmp_path, 3, 3, 0, limit_bytes=8000)
    assert found.good and found.kills >= 3 and found.while_writing > 0
    assert found.loaded == found.entries <= 3
    # the states in which a crash of the machine could leave what they were writing
    for path in tmp_path.glob("*.partial"):
        path.replace(tmp_path / path.name[: path.name.index(".equimask") + len(".equimask")])
    found = Outcome()
    killed.look(VOCABULARY, known, tmp_path, found)
    assert not found.wrong and not found.foreign and found.loaded + found.damaged == found.entries


def test_damaged_and_wrong_entries_are_found(known: list[Known], tmp_path: Path) -> None:
    one = known[1]

    def look(known: Known) -> Outcome:
        found = Outcome()
        killed.look(VOCABULARY, [known], tmp_path, found)
        return found

    with GrammarCompiler(VOCABULARY, cache_dir=tmp_path, on_demand=True) as compiler:
        compiler.compile_json_schema(one.schema)
    (entry,) = tmp_path.iterdir()
    found = look(one)
    assert (found.entries, found.loaded, found.damaged) == (1, 1, 0) and found.good
    found = look(replace(one, digest="another digest"))
    assert found.wrong == ["list"] and not found.good
    data = bytearray(entry.read_bytes())
    data[-20] ^= 1
    entry.write_bytes(data)
    (tmp_path / "something else").touch()
    found = look(one)
    assert (found.loaded, found.damaged, found.foreign) == (0, 1, ["something else"]) and not found.good


def test_a_process_that_ends_by_itself_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed, "work_for_ever", lambda *_: os._exit(3))
    found = killed.kill_at_random(VOCABULARY, [], tmp_path, 2, 0.5, 0)
    assert "a process ended with 3" in found.ended and not found.good


# --- Budgets -----------------------------------------------------------------------------------------------


def test_what_comes_late_or_does_not_survive_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = GrammarCompiler.compile_json_schema

    def compile_it(self: GrammarCompiler, schema: Any) -> Any:
        if schema == "crash":
            os._exit(9)
        if schema in ("hang", "error"):
            time.sleep(600 if schema == "hang" else 0.6)
            raise RecursionError("too deep")
        return whole(self, schema)

    monkeypatch.setattr(GrammarCompiler, "compile_json_schema", compile_it)
    cases = [(name, name) for name in ("crash", "hang", "error", "{", '{"type": "integer"}')]
    found = budgets.run(VOCABULARY, cases, [0.5], hard_seconds=1.0)
    assert [row.outcome for row in found] == [
        budgets.CRASHED, budgets.CRASHED, "unexpected RecursionError", "GrammarError", "mask (classifier)",
    ]  # fmt: skip
    assert [row.survived for row in found] == [False] * 3 + [True] * 2
    assert found[2].late > budgets.ALLOWED > found[4].late == 0
