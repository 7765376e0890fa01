"""Small runs of mixed traffic, of killed processes and of budgets, and checks that each detects errors.

What: the functions behind ``python -m tests.robustness.traffic``, ``.killed`` and ``.budgets`` on few
schemas.
When: after a change of caches, threads, deadlines, or of these commands.
Limits: needs fork and SIGKILL; a vocabulary of bytes and some short tokens.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from bench.workloads import SchemaFile
from equivalence.vocabulary import Vocabulary
from hybrid import GrammarCompiler
from tests.robustness import budgets, hostile_schemas, killed, traffic
from tests.robustness.killed import Known, Outcome
from tests.robustness.traffic import Settings, Traffic

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or not hasattr(signal, "SIGKILL"), reason="needs fork and SIGKILL"
)

STOP = 256
FILES = [
    SchemaFile(
        "object", {"type": "object", "properties": {"a": {"type": "string"}}}, ({"a": "hello"}, {}), ()
    ),
    SchemaFile("list", {"type": "array", "items": {"type": "integer"}}, ([1, 22], []), ()),
    SchemaFile("choice", {"enum": ["x", 3]}, (), ()),
    SchemaFile("refused", {"type": "no such type"}, (1,), ()),
]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    tokens = [*(bytes([value]) for value in range(256)), b"", b'": ', b'{"', b"hello"]
    return Vocabulary.from_bytes(tokens, stop_token_ids=[STOP])


# --- Traffic -----------------------------------------------------------------------------------------------


def test_requests_are_repeatable_and_of_all_kinds() -> None:
    some = Traffic(FILES, 4000, malformed=0.1, hostile=0.2)
    assert some.requests == Traffic(FILES, 4000, malformed=0.1, hostile=0.2).requests
    kinds = [request.kind for request in some.requests]
    assert 300 < kinds.count("malformed") < 500 and 650 < kinds.count("hostile") < 950
    asked = [request.which for request in some.requests if request.kind == "schema"]
    counts = sorted((asked.count(which) for which in range(4)), reverse=True)
    # 1, 1/2, 1/3 and 1/4 of 25/12
    assert counts[0] > 1.6 * counts[1] > 0 and counts[0] > 3 * counts[3] > 0
    assert 15 < sum(some.is_sampled(request) for request in some.requests) < 80


def test_traffic(vocabulary: Vocabulary, tmp_path: Path) -> None:
    vocabulary.save(tmp_path / "made.npz")
    some = Traffic(FILES, 120, malformed=0.1, hostile=0.1, sampled=0.3, size="small")
    settings = Settings(str(tmp_path / "made.npz"), some, 3, 2**24, str(tmp_path / "kept"))
    served = traffic.watch(settings, 100.0)
    assert served.failure == "" and len(served.answers) == 120
    assert [one for one in served.answers if not one.expected] == []
    refused = {one.number for one in served.answers if one.error}
    ordinary = [request for request in some.requests if request.kind == "schema"]
    assert {request.number for request in ordinary} & refused == {
        request.number for request in ordinary if FILES[request.which].name == "refused"
    }
    assert 0 < served.cache_most <= 2**24
    found = traffic.compare(some, served.answers, vocabulary, 60)
    assert found.masks > 50 and found.differences == []
    assert found.equal == found.masks or found.contradictions


def test_wrong_masks_in_the_traffic_are_found(vocabulary: Vocabulary) -> None:
    some = Traffic(FILES, 50, malformed=0, hostile=0, sampled=1.0)
    compiler = GrammarCompiler(vocabulary)
    requests = [one for one in some.requests if some.case(one)[0] != "refused"][:8]
    answers = [traffic.answer(some, request, compiler) for request in requests]
    found = traffic.compare(some, answers, vocabulary, 60)
    assert found.masks == found.equal > 8 and found.differences == []
    answers[3].digests[0] = "0" * 16
    found = traffic.compare(some, answers, vocabulary, 60)
    assert found.masks == found.equal + 1
    assert "its masks differ" in found.differences[0]


def _dying(shared: Any, settings: Settings, told: str) -> None:
    Path(told).write_text('["answer", {"number": 3, "error": "GrammarError"}]\n["answer", {"num')
    shared[0], shared[1] = 17, time.time()
    os._exit(9)


def _hanging(shared: Any, settings: Settings, told: str) -> None:
    shared[2], shared[3] = 23, time.time()
    time.sleep(100)


@pytest.mark.parametrize(("serve", "number"), [(_dying, 17), (_hanging, 23)])
def test_a_process_that_dies_or_hangs_is_a_failure_with_names(serve: Any, number: int) -> None:
    served = traffic.watch(Settings("", Traffic(FILES, 1), threads=2), 0.4, serve)
    assert str(number) in served.failure
    assert [one.number for one in served.answers] == ([3] if serve is _dying else [])


# --- Killed processes --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(vocabulary: Vocabulary) -> list[Known]:
    return killed.prepare(vocabulary, FILES)


def test_killed_processes_leave_what_is_right(
    vocabulary: Vocabulary, known: list[Known], tmp_path: Path
) -> None:
    assert [one.name for one in known] == ["object", "list", "choice"]
    found = killed.kill_at_random(vocabulary, known, tmp_path, 3, 5, 0)
    assert found.good and found.kills >= 3
    assert found.loaded == found.entries <= 3


def test_damaged_and_wrong_entries_are_found(
    vocabulary: Vocabulary, known: list[Known], tmp_path: Path
) -> None:
    (one,) = (one for one in known if one.name == "list")
    with GrammarCompiler(vocabulary, cache_dir=tmp_path, on_demand=True) as compiler:
        compiler.compile_json_schema(one.schema)
    (entry,) = tmp_path.iterdir()
    found = Outcome()
    killed.look(vocabulary, [one], tmp_path, found)
    assert (found.entries, found.loaded, found.damaged) == (1, 1, 0) and found.good
    found = Outcome()
    killed.look(vocabulary, [Known("list", one.schema, one.ids, "another digest")], tmp_path, found)
    assert found.wrong == ["list"] and not found.good
    data = bytearray(entry.read_bytes())
    data[-20] ^= 1
    entry.write_bytes(data)
    (tmp_path / "something else").touch()
    found = Outcome()
    killed.look(vocabulary, [one], tmp_path, found)
    assert (found.loaded, found.damaged, found.foreign) == (0, 1, ["something else"]) and not found.good


def test_a_process_that_ends_by_itself_is_a_failure(
    vocabulary: Vocabulary, known: list[Known], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(*_: object) -> int:
        time.sleep(0.3)
        return 0

    monkeypatch.setattr(killed, "work_for_ever", lambda *_: os._exit(3))
    monkeypatch.setattr(killed, "_victim", first)
    found = killed.kill_at_random(vocabulary, known, tmp_path, 2, 0.5, 0)
    assert "a process ended with 3" in found.ended and not found.good


# --- Budgets -----------------------------------------------------------------------------------------------


def test_masks_and_errors_are_told_by_name(vocabulary: Vocabulary) -> None:
    cases = [("an integer", {"type": "integer"}), ("no JSON", "{")]
    found = budgets.run(vocabulary, cases, [30.0], ["auto", "engine"])
    assert [(row.name, row.strategy, row.outcome) for row in found] == [
        ("an integer", "auto", "mask (classifier)"),
        ("an integer", "engine", "mask (engine)"),
        ("no JSON", "auto", "GrammarError"),
        ("no JSON", "engine", "GrammarError"),
    ]
    assert all(row.survived and row.late == 0 for row in found)


def test_what_comes_late_or_does_not_survive_is_noticed(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: GrammarCompiler, schema: Any) -> Any:
        if schema == "crash":
            os._exit(9)
        time.sleep(600 if schema == "hang" else 0.3)
        raise RecursionError("too deep")

    monkeypatch.setattr(GrammarCompiler, "compile_json_schema", fails)
    cases = [("a", "crash"), ("b", "hang"), ("c", "error")]
    found = budgets.run(vocabulary, cases, [0.1], hard_seconds=1.0)
    assert [row.outcome for row in found] == [
        budgets.CRASHED, budgets.CRASHED, "unexpected RecursionError",
    ]  # fmt: skip
    assert not any(row.survived for row in found) and found[2].late > budgets.ALLOWED


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["auto", "engine"])
def test_hostile_schemas_survive_a_short_budget(strategy: str, vocabulary: Vocabulary) -> None:
    cases = list(hostile_schemas.adversarial("large"))
    found = budgets.run(vocabulary, cases, [0.3], [strategy])
    assert [row for row in found if not row.survived] == []
