"""Mixed traffic and killed processes: what the benches count, compare and notice."""

from __future__ import annotations

import json
import os
import signal
import time
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench import killed, traffic, traffic_server, workloads
from bench.__main__ import app
from bench.killed import Known, Outcome
from bench.requests import Answer, Histogram, Traffic, Worker, answer
from bench.traffic_server import Mark, Served, Settings
from equivalence.vocabulary import Vocabulary
from hybrid import GrammarCompiler

STOP = 256
SCHEMAS: dict[str, Any] = {
    "object": ({"type": "object", "properties": {"a": {"type": "string"}}}, [{"a": "hello"}, {}]),
    "list": ({"type": "array", "items": {"type": "integer"}}, [[1, 22], []]),
    "choice": ({"enum": ["x", 3]}, []),
    "refused": ({"type": "no such type"}, [1]),
}

needs_fork = pytest.mark.skipif(
    not hasattr(os, "fork") or not hasattr(signal, "SIGKILL"), reason="needs fork and SIGKILL"
)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    tokens = [*(bytes([value]) for value in range(256)), b"", b'": ', b'{"', b"hello"]
    return Vocabulary.from_bytes(tokens, stop_token_ids=[STOP])


@pytest.fixture
def arguments(vocabulary: Vocabulary, tmp_path: Path) -> list[str]:
    folder = tmp_path / "schemas"
    folder.mkdir()
    for name, (schema, instances) in SCHEMAS.items():
        tests = [{"valid": True, "data": data} for data in instances]
        (folder / f"{name}.json").write_text(json.dumps({"schema": schema, "tests": tests}))
    vocabulary.save(tmp_path / "made.npz")
    return ["--vocabulary", str(tmp_path / "made.npz"), "--schemas", str(folder)]


def made(count: int, **options: Any) -> Traffic:
    files = [
        workloads.SchemaFile(name, schema, tuple(instances), ())
        for name, (schema, instances) in SCHEMAS.items()
    ]
    return Traffic(files, count, **options)


# --- Traffic -----------------------------------------------------------------------------------------------


def test_requests_are_repeatable_and_of_all_kinds() -> None:
    some = made(4000, malformed=0.1, hostile=0.2, size="small")
    requests = some.requests()
    assert requests == some.requests() != made(4000, seed=1, malformed=0.1, hostile=0.2).requests()
    kinds = [request.kind for request in requests]
    assert 300 < kinds.count("malformed") < 500 and 650 < kinds.count("adversarial") < 950
    asked = [request.which for request in requests if request.kind == "schema"]
    counts = sorted((asked.count(which) for which in range(4)), reverse=True)
    # 1, 1/2, 1/3 and 1/4 of 25/12
    assert counts[0] > 1.6 * counts[1] > 0 and counts[0] > 3 * counts[3] > 0
    sampled = sum(some.is_sampled(request) for request in requests)
    assert 15 < sampled < 80


def test_histograms_know_percentiles_within_a_hundredth() -> None:
    values = np.random.default_rng(1).lognormal(-12, 2, 5000)
    first, second = Histogram(), Histogram()
    for place, value in enumerate(values):
        (first if place % 2 else second).add(float(value))
    found = Histogram.united([first, second]).spread()
    assert found.count == 5000
    assert found.mean == pytest.approx(values.mean())
    assert found.max == values.max()
    for share, value in ((50, found.p50), (90, found.p90), (99, found.p99)):
        assert value == pytest.approx(np.percentile(values, share), rel=0.02)
    assert Histogram().spread().count == 0
    assert Histogram.united([]).spread().count == 0


def test_slopes_are_of_the_second_half() -> None:
    marks = [Mark(n, 0.0, 10**6 * (10 - n) if n < 5 else 10**9 + 300 * n, 0, 0) for n in range(11)]
    assert traffic.slope(marks) == pytest.approx(300_000)
    assert traffic.slope([]) is None
    assert traffic.slope(marks[:2]) is None


def test_traffic(arguments: list[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    target, picture = tmp_path / "out.json", tmp_path / "run.png"
    done = CliRunner().invoke(
        app,
        [
            *("traffic", *arguments, "--json", str(target), "--picture", str(picture)),
            *("--requests", "120", "--threads", "3", "--cache-dir", str(tmp_path / "kept")),
            *("--malformed-share", "0.1", "--adversarial-share", "0", "--sample", "0.3"),
        ],
    )
    assert done.exit_code == 0, done.output
    record = json.loads(target.read_text())
    summary = record["summary"]
    assert summary["requests"] == 120 == sum(summary["kinds"].values())
    assert (
        sum(summary["sources"].values())
        + sum(count for errors in summary["errors"].values() for count in errors.values())
        == 120
    )
    assert summary["errors"]["schema"].keys() == {"GrammarError"}, "one of the schemas is refused"
    assert summary["sources"]["memory"] > summary["sources"]["made"] > 0
    assert summary["crashes"] == [] and summary["late"] == {} and summary["failure"] == ""
    assert summary["compared"]["masks"] > 50
    assert summary["compared"]["masks"] == summary["compared"]["equal"]
    assert any(name.startswith("malformed: ") for name in summary["others"])
    assert summary["memory"]["cache_after"] > 0
    assert record["stats"]["memory"]["hits"] > 0
    assert len(record["firsts"]) == 120
    assert picture.stat().st_size > 1000
    assert "0 differences" in done.output


@needs_fork
def test_wrong_masks_in_the_traffic_are_found(vocabulary: Vocabulary) -> None:
    some = made(50, malformed=0, hostile=0, sampled=1.0)
    compiler = GrammarCompiler(vocabulary)
    worker = Worker(compiler, {})
    requests = [one for one in some.requests() if some.case(one)[0] != "refused"][:8]
    answers = [answer(some, request, worker) for request in requests]
    console = Console(file=StringIO())
    found = traffic.compare(some, answers, vocabulary, 60, console)
    assert found.masks == found.equal > 8 and found.differences == []
    answers[3].digests[1] = "0" * 16
    found = traffic.compare(some, answers, vocabulary, 60, console)
    assert found.masks == found.equal + 1
    assert "its masks differ" in found.differences[0]


def test_what_a_process_told_is_read_to_where_it_died(tmp_path: Path) -> None:
    told = tmp_path / "told"
    lines = [
        json.dumps({"what": "answer", "number": 3, "error": "GrammarError"}),
        json.dumps({"what": "mark", **vars(Mark(1, 0.5, 2, 3, 4))}),
        '{"what": "answer", "num',
    ]
    told.write_text("\n".join(lines))
    served = traffic_server.read(told)
    assert served.answers == [Answer(3, error="GrammarError")]
    assert served.marks == [Mark(1, 0.5, 2, 3, 4)]
    assert served.seconds == 0.0


def _dying(settings: Settings, told: str) -> None:
    traffic_server._under_way(0, 17)
    os._exit(9)


def _hanging(settings: Settings, told: str) -> None:
    traffic_server._under_way(1, 23)
    time.sleep(100)


@pytest.mark.parametrize(("serve", "number"), [(_dying, 17), (_hanging, 23)])
@needs_fork
def test_a_process_that_dies_or_hangs_is_a_failure_with_names(
    serve: Any, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import multiprocessing

    # what is replaced here is replaced in a forked process too
    monkeypatch.setattr(traffic_server, "serve", serve)
    context = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: context)
    settings = Settings("", Path(), None, 1, 2, 1, None, None, "raise", "auto", 0, "small", 0, 0, 0, 1)
    served = traffic_server.watch(settings, 0.05, Console(file=StringIO()))
    assert str(number) in served.failure
    assert serve is _dying or served.late[number] > 0.4
    assert isinstance(served, Served)


# --- Killed processes --------------------------------------------------------------------------------------


@needs_fork
def test_killed(arguments: list[str], tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    done = CliRunner().invoke(
        app, ["killed", *arguments, "--json", str(target), "--processes", "3", "--seconds", "3"]
    )
    assert done.exit_code == 0, done.output
    record = json.loads(target.read_text())
    assert record["schemas"] == 3
    assert record["kills"] >= 3
    assert set(record["events"]) <= {"found", "made"}
    assert record["loaded"] == record["entries"] <= 3
    assert record["wrong"] == record["foreign"] == record["ended"] == []


def known_of(vocabulary: Vocabulary) -> list[Known]:
    files = [workloads.SchemaFile("list", {"type": "array", "items": {"type": "integer"}}, ([1],), ())]
    return killed.prepare(vocabulary, files, Console(file=StringIO()))


def test_damaged_and_wrong_entries_are_found(vocabulary: Vocabulary, tmp_path: Path) -> None:
    known = known_of(vocabulary)
    console = Console(file=StringIO())
    compiler = GrammarCompiler(vocabulary, cache_dir=tmp_path)
    compiler.compile_json_schema(known[0].schema)
    (entry,) = tmp_path.iterdir()
    found = Outcome()
    killed.look(vocabulary, known, tmp_path, found, console)
    assert (found.entries, found.loaded, found.damaged) == (1, 1, 0) and found.good
    other = Known("list", known[0].schema, known[0].ids, "another digest")
    found = Outcome()
    killed.look(vocabulary, [other], tmp_path, found, console)
    assert found.wrong == ["list"] and not found.good
    data = bytearray(entry.read_bytes())
    data[-20] ^= 1
    entry.write_bytes(data)
    (tmp_path / "something else").touch()
    found = Outcome()
    killed.look(vocabulary, known, tmp_path, found, console)
    assert (found.loaded, found.damaged, found.foreign) == (0, 1, ["something else"]) and not found.good


@needs_fork
def test_a_process_that_ends_by_itself_is_a_failure(
    vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(*_: object) -> int:
        time.sleep(0.3)
        return 0

    monkeypatch.setattr(killed, "work_for_ever", lambda *_: os._exit(3))
    monkeypatch.setattr(killed, "_victim", first)
    found = killed.kill_at_random(
        vocabulary, known_of(vocabulary), tmp_path, 2, 0.5, 0, Console(file=StringIO())
    )
    assert "a process ended with 3" in found.ended and not found.good
