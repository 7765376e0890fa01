"""Requests on all engines side by side, bursts and the picture; no speed is asserted."""

from __future__ import annotations

import json
import sys
import threading
import time
from array import array
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest
import xgrammar

from bench import burst, picture, schema_rows, schemas, workloads
from bench.reporting.requests import new_schemas
from bench.reporting.standings import shared_times
from bench.request import Calls, Request, run_document, start
from bench.schema_rows import JSON_SCHEMA
from equivalence.vocabulary import Vocabulary
from tests import benches
from tests.benches import vocabulary_with, write_schemas

OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}}
"""An object that may have other properties, unless strict_mode forbids them."""

REFUSED = {"type": "no such type"}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return vocabulary_with(b'{"', b'": ', b'"a"', b"12", b"}")


@pytest.fixture
def folder(vocabulary: Vocabulary, tmp_path: Path) -> Path:
    vocabulary.save(tmp_path / "made.npz")
    contents: dict[str, tuple[Any, list[Any]]] = {
        "open": (OPEN, [{"a": 12, "b": 1}, {"a": 1}]),
        "number": ({"type": "integer"}, [12]),
        "choice": ({"enum": ["x", "y"]}, ["x"]),
        "refused": (REFUSED, [1]),
    }
    labelled = {name: (schema, [(True, data) for data in all_]) for name, (schema, all_) in contents.items()}
    return write_schemas(tmp_path / "schemas", labelled)


def run(folder: Path, *arguments: object) -> tuple[Any, Any]:
    target = folder.parent / "out.json"
    named = ("schemas", "--vocabulary", folder.parent / "made.npz", "--schemas", folder, "--json", target)
    done = benches.run(*named, *arguments)
    return done, json.loads(target.read_text()) if target.exists() else None


def ran(folder: Path, *arguments: object) -> tuple[str, Any]:
    """Run the benchmark to its end; return its output, white space in one piece, and its record."""
    done, record = run(folder, *arguments)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split()), record


def test_everybody_has_the_defaults_of_its_library(vocabulary: Vocabulary) -> None:
    bench = schemas.SchemaBench(vocabulary)
    assert bench.options == {}
    assert bench.ours.n_jobs == 1
    first = bench.ours.compile_json_schema(OPEN)
    assert bench.ours.compile_json_schema(OPEN) is first, "caches are on"
    assert bench.plain.cache_limit_bytes == -1
    assert "strict_mode default, caches on (default)" in bench.settings
    other = schemas.SchemaBench(vocabulary, strict=False, cache=False, threads=2)
    assert other.options == {"strict_mode": False}
    assert other.ours.n_jobs == 2
    assert other.ours.compile_json_schema(OPEN) is not other.ours.compile_json_schema(OPEN)
    assert "strict_mode False, caches off, threads 2" in other.settings
    assert "back to back" in other.settings


def test_requests_of_all_engines_are_in_the_record(folder: Path) -> None:
    output, record = ran(folder, "--no-llguidance", "--walks", 1, "--walk-steps", 10)
    for row in record["rows"]:
        for one in row["requests"].values():
            if row["name"] == "refused":
                assert one["refusal"] and one["first_mask"] is one["document"] is None
            else:
                assert one["document"] > one["first_mask"] > 0
                assert one["document_cpu"] > one["first_mask_cpu"] > 0
                assert one["mask"]["count"] == one["token"]["count"] > 0
    assert accepted(record) == 2, "properties that the schema does not name are forbidden"
    assert "strict_mode default" in record["summary"]["options"] and "strict_mode default" in output
    standings = record["summary"]["standings"]
    refused = {name: one["refused"] for name, one in standings.items()}
    assert refused == {"ours": 1, JSON_SCHEMA: 1, "XGrammar": 1}
    assert standings["XGrammar"]["documents"] == standings[JSON_SCHEMA]["documents"] == 3
    times = {"first_mask", "first_mask_cpu", "document", "document_cpu"}
    assert set(standings["XGrammar"]["ours_faster"]) == times
    spreads = record["summary"]["spreads"]
    same = spreads[f"first mask, {JSON_SCHEMA} where XGrammar has one"]
    assert same == spreads[f"first mask, {JSON_SCHEMA}"] and same["count"] == 3
    assert spreads["first mask and one document, XGrammar, CPU"]["count"] == 3
    assert spreads["mask in the document, ours"]["count"] > 0
    table = new_schemas("made", record)
    words = f"to the first mask: {JSON_SCHEMA} on the same schemas"
    (told,) = ([cell.text for cell in row] for row in table.rows if row[0].text == words)
    assert told[1] == told[2] == "" != told[3]
    assert f" of {JSON_SCHEMA} " in " ".join(table.told)
    assert JSON_SCHEMA not in shared_times(record, "first_mask")
    assert "schemas refused" in output


def accepted(record: Any) -> int:
    """How often an instance of the open schema was accepted, of twice two."""
    (found,) = (row["instances_accepted"] for row in record["rows"] if row["name"] == "open")
    return int(found)


def test_options_are_in_the_record(folder: Path) -> None:
    _, record = ran(folder, "--no-strict", "--in-situ", "--no-json-schema", "--no-llguidance")
    assert accepted(record) == 4
    assert "strict_mode False" in record["summary"]["options"]
    assert "64 MiB changed before each request" in record["summary"]["options"]
    assert set(record["summary"]["standings"]) == {"ours", "XGrammar"}


def test_xgrammar_meets_nothing_but_the_schemas_in_its_best_state(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[tuple[Any, str]] = []
    compile_it = xgrammar.GrammarCompiler.compile_json_schema

    def noted(compiler: Any, schema: Any, **options: Any) -> Any:
        met.append((compiler, json.loads(schema)["title"]))
        return compile_it(compiler, schema, **options)

    monkeypatch.setattr(xgrammar.GrammarCompiler, "compile_json_schema", noted)
    bench = schemas.SchemaBench(vocabulary, xgrammar_states=True)
    row = bench.measure(workloads.SchemaFile("other", {"type": "integer", "title": "own"}, (12,), ()))
    assert set(row.requests) == {"ours", "XGrammar", "XGrammar, warmed", "XGrammar, one thread"}
    assert all(one.document for one in row.requests.values())
    of = {name: {title for one, title in met if one is own} for name, own in bench.states.items()}
    assert {title for one, title in met if one is bench.plain} == {"own"}
    assert of == {"XGrammar, warmed": {"own", "other"}, "XGrammar, one thread": {"own"}}
    assert len([None for one, title in met if one is bench.aside and title == "other"]) == 3


def test_a_failure_of_xgrammars_cache_is_its_refusal(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = schemas.SchemaBench(vocabulary)
    monkeypatch.setattr(bench, "_compile_plain", Mock(side_effect=RuntimeError("check failed")))
    row = bench.measure(workloads.SchemaFile("x", {"type": "integer"}, (12,), ()))
    assert row.outcome == "compared without XGrammar's cache"
    assert row.alike and row.comparison.masks > 0
    assert "check failed" in row.requests["XGrammar"].refusal
    assert row.requests["ours"].first_mask is not None


def test_a_document_is_timed_to_its_end_or_not_at_all() -> None:
    accept = Mock(side_effect=lambda token: token < 9)
    one = Request(first_mask=10.0, first_mask_cpu=5.0)
    assert run_document(one, Calls(lambda: None, accept, lambda: True), [1, 2, 3])
    assert accept.mock_calls == [call(1), call(2), call(3)]
    assert 10.0 < (one.document or 0.0) < 11.0 and 5.0 < (one.document_cpu or 0.0) < 6.0
    assert len(one.mask) == len(one.token) == 3
    for complete, ids in ((lambda: True, [1, 9, 2]), (lambda: False, [1])):
        other = Request(first_mask=10.0, first_mask_cpu=5.0)
        assert not run_document(other, Calls(lambda: None, accept, complete), ids)
        assert other.document is None


def test_an_engine_that_fails_without_raising_is_refused() -> None:
    def calls(compiled: str) -> Calls:
        return Calls(lambda: None, bool, bool, error=lambda: compiled)

    assert start(lambda: "too large", calls, (ValueError,), False).error == "ValueError: too large"
    fine = start(str, calls, (ValueError,), False)
    assert fine.calls is not None and 0 < fine.compile_seconds < fine.seconds
    assert start(lambda: 1 // 0, calls, (ValueError,), False).crashed


def test_shares_compare_schema_by_schema() -> None:
    requests = [
        {"ours": Request(first_mask=1.0), "XGrammar": Request(first_mask=2.0)},
        {"ours": Request(first_mask=3.0), "XGrammar": Request(first_mask=2.0)},
        {"ours": Request(first_mask=4.0), "XGrammar": Request(over=9.0)},
        {"ours": Request(first_mask=5.0), "XGrammar": Request(refusal="no")},
        {"ours": Request(refusal="no"), "XGrammar": Request(refusal="no")},
    ]
    standing = schema_rows.standings(requests)
    assert standing["ours"] == {"schemas": 5, "refused": 1, "given_up": 0, "documents": 0}
    assert (standing["XGrammar"]["refused"], standing["XGrammar"]["given_up"]) == (2, 1)
    assert standing["XGrammar"]["ours_faster"]["first_mask"] == pytest.approx(2 / 3)
    assert standing["XGrammar"]["ours_faster"]["first_mask_cpu"] is None
    spreads = schema_rows.spreads(requests)
    assert (spreads["first mask, XGrammar"].count, spreads["first mask, XGrammar"].max) == (3, 9.0)
    assert spreads["first mask, ours"].max == 5.0
    assert spreads["first mask, ours where XGrammar has one"].max == 4.0


def test_times_of_calls_are_those_of_whole_documents() -> None:
    whole = Request(first_mask=1.0, document=2.0, mask=array("d", [0.5]), token=array("d", [0.25]))
    part = Request(first_mask=1.0, mask=array("d", [7.0]), token=array("d", [7.0]))
    spreads = schema_rows.spreads([{"ours": whole}, {"ours": part}])
    found = spreads["mask in the document, ours"]
    assert (found.count, found.max) == (1, 0.5)


# --- Bursts ------------------------------------------------------------------------------------------------


def test_bursts_on_several_numbers_of_threads_meet_no_cache(folder: Path) -> None:
    threads = ("--burst-threads", 1, "--burst-threads", 3)
    output, record = ran(folder, "--burst", 2, *threads, "--no-llguidance")
    summary = record["summary"]
    assert len(record["bursts"]) == 2
    assert (summary["masks"], summary["differences"]) == (6, 0)
    assert summary["engines"] == summary["by_threads"]["1"]
    for engine in ("ours", "XGrammar"):
        assert summary["engines"][engine]["refused"] == 1
        for found in summary["by_threads"].values():
            assert found[engine]["first_mask"]["count"] == 3
    assert "2 bursts of 2 new schemas" in output and "times as fast as on 1 threads" in output
    assert burst.renamed([True, {"type": "null"}], "b") == [True, {"type": "null", "title": "b"}]


def test_a_burst_is_served_by_two_threads_and_timed_from_its_beginning() -> None:
    threads = set()

    def serve(schema: int) -> int | None:
        threads.add(threading.get_ident())
        time.sleep(0.02)
        return None if schema == 3 else schema

    found = burst.run("ours", serve, [1, 2, 3, 4])
    assert len(threads) == 2
    assert (found.refused, found.compiled) == (1, {0: 1, 1: 2, 3: 4})
    assert min(found.first_masks) >= 0.02 and 0.04 <= max(found.first_masks) <= found.total


def test_a_burst_passes_errors_on() -> None:
    with pytest.raises(KeyError):
        burst.run("ours", Mock(side_effect=KeyError), [1, 2, 3])


def test_each_schema_is_in_one_burst_and_comes_to_all_engines() -> None:
    seen: dict[str, list[int]] = {"ours": [], "XGrammar": []}
    engines = {name: seen[name].append for name in seen}
    found = burst.run_all(engines, range(7), 3, seed=1)
    assert [set(one) for one in found] == [{"ours", "XGrammar"}] * 2
    assert len(set(seen["ours"])) == len(seen["ours"]) == 6
    assert sorted(seen["ours"]) == sorted(seen["XGrammar"])


def test_a_first_mask_that_differs_is_counted(vocabulary: Vocabulary) -> None:
    bench = schemas.SchemaBench(vocabulary)
    one, other = {"type": "integer"}, {"enum": ["x"]}
    bursts = {
        "ours": burst.Burst("ours", compiled={0: bench.ours.compile_json_schema(one)}),
        "XGrammar": burst.Burst("XGrammar", compiled={0: bench.plain.compile_json_schema(other)}),
    }
    assert burst.compare(bursts) == (1, 1)
    bursts["XGrammar"].compiled = {0: bench.plain.compile_json_schema(one), 5: None}
    assert burst.compare(bursts) == (1, 0)


# --- The picture -------------------------------------------------------------------------------------------


def test_what_would_fail_at_the_end_is_refused_at_the_beginning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder.parent / "out.svg"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for arguments, message in (
        (("--burst", 5), "at least 5"),
        (("--burst", 2, "--picture", path), "leave out"),
        (("--picture", path), "pip install"),
        (("--xgrammar-elsewhere", folder.parent), "there is no XGrammar in"),
    ):
        done, record = run(folder, *arguments)
        assert done.exit_code == 2 and record is None
        assert message in " ".join(done.output.replace("│", " ").split())


def test_the_picture_is_small_and_names_all_engines(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    path = folder.parent / "pictures" / "out.svg"
    ran(folder, "--picture", path, "--no-llguidance")
    text = path.read_text()
    assert "equimask (3 schemas)" in text and "XGrammar (3 schemas)" in text
    assert len(text) < 40_000
    picture.draw(path, {"ours": [0.001, 0.1], "llguidance": []}, "a title")
    assert "a title" in path.read_text() and "llguidance" not in path.read_text()


def test_another_xgrammar_serves_the_same_schemas(folder: Path, tmp_path: Path) -> None:
    """The same version of XGrammar, installed in another folder, serves them in another process."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "xgrammar").symlink_to(Path(xgrammar.__file__).parent)
    _, record = ran(folder, "--no-llguidance", "--xgrammar-elsewhere", other)
    name = f"XGrammar {metadata.version('xgrammar')}"
    rows = {row["name"]: row["requests"] for row in record["rows"]}
    for schema, requests in rows.items():
        there, here = requests[name], requests["XGrammar"]
        assert bool(there["refusal"]) == bool(here["refusal"]) == (schema == "refused")
        for time_of in ("first_mask", "document"):
            assert (there[time_of] is None) == (here[time_of] is None)
        assert there["mask"]["count"] == here["mask"]["count"]
    assert rows["number"][name]["document"] > rows["number"][name]["first_mask"] > 0


def test_strategies_beside_each_other(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "strategies.json"
    named = ("strategies", "--vocabulary", folder.parent / "made.npz", "--schemas", folder)
    _, record = benches.recorded(target, *named, "--most", 3)
    assert record["differences"] == 0
    assert set(record["rows"]) == {"open", "number", "choice"}  # the fourth is refused
    for counts in record["rows"].values():
        assert set(counts) == {"auto", "classifier", "representatives", "engine", "XGrammar"}
        assert all(0 < one["1"] < one["3"] for one in counts.values())
    summary = record["summary"]["3"]
    assert summary["auto_to_best"] >= 1 and summary["ratios"]["p50"] >= 1
    total = sum(counts["auto"]["3"] for counts in record["rows"].values())
    assert summary["seconds"]["auto"] == pytest.approx(total)
