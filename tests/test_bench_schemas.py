"""`bench schemas`: requests on all engines side by side, bursts and the picture; no speed is asserted."""

from __future__ import annotations

import json
import os
import threading
import time
from array import array
from collections.abc import Callable
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
from bench.schema_rows import JSON_SCHEMA, Row
from equivalence.vocabulary import Vocabulary
from tests import benches
from tests.benches import fixture_schema_folder, fixture_vocabulary, fixture_vocabulary_file  # noqa: F401 - fixtures

Ran = Callable[..., tuple[str, Any]]


@pytest.fixture
def run_schemas(vocabulary_file: str, schema_folder: Path, tmp_path: Path) -> Callable[..., tuple[str, Any]]:
    """Run `bench schemas` with more arguments to an exit status; return its output, with white space in one
    piece, and its record."""
    given = ("schemas", "--vocabulary", vocabulary_file, "--schemas", schema_folder)

    def ran(*arguments: object, **options: int) -> tuple[str, Any]:
        output, record = benches.recorded(
            tmp_path / "records" / "schemas.json", *given, *arguments, **options
        )
        return " ".join(output.split()), record

    return ran


def test_everybody_has_the_defaults_of_its_library(vocabulary: Vocabulary) -> None:
    bench = schemas.SchemaBench(vocabulary)
    assert bench.options == {}
    assert bench.ours.n_jobs == 1
    first = bench.ours.compile_json_schema(benches.OPEN_SCHEMA)
    assert bench.ours.compile_json_schema(benches.OPEN_SCHEMA) is first, "caches are on"
    assert bench.plain.cache_limit_bytes == -1
    assert "strict_mode default, caches on (default)" in bench.settings
    other = schemas.SchemaBench(vocabulary, strict=False, cache=False, threads=2)
    assert other.options == {"strict_mode": False}
    assert other.ours.n_jobs == 2
    assert other.ours.compile_json_schema(benches.OPEN_SCHEMA) is not other.ours.compile_json_schema(
        benches.OPEN_SCHEMA
    )
    assert "strict_mode False, caches off, threads 2" in other.settings
    assert "back to back" in other.settings


def test_rows_and_requests_of_all_engines_are_in_the_record(run_schemas: Ran) -> None:
    output, record = run_schemas("--no-llguidance", "--threads", 1)
    assert record["benchmark"] == "schemas"
    assert record["arguments"]["threads"] == 1
    assert record["machine"]["cores"] >= 1
    assert record["packages"]["xgrammar"] == metadata.version("xgrammar")
    assert os.sep not in record["arguments"]["schemas"]
    rows = {row["name"]: row for row in record["rows"]}
    assert rows["object"]["instances"] == 2
    for name, row in rows.items():
        for one in row["requests"].values():
            if name == "refused":
                assert one["refusal"] and one["first_mask"] is one["document"] is None
            elif name != "order":  # whose instance cannot be written
                assert one["document"] > one["first_mask"] > 0
                assert one["document_cpu"] > one["first_mask_cpu"] > 0
                assert one["mask"]["count"] == one["token"]["count"] > 0
    # of "open", properties that the schema does not name are forbidden
    for name, n_accepted in (("object", 2), ("order", 0), ("open", 2), ("choice", 4)):
        row = rows[name]
        assert (row["outcome"], row["instances_accepted"], row["differences"]) == ("compared", n_accepted, [])
        assert row["masks"] >= row["equal"] > 4
        assert row["mask"]["count"] == row["plain_mask"]["count"] > 0
        assert row["requests"]["ours"]["first_mask"] >= row["compile"] > 0
        assert row["requests"]["XGrammar"]["first_mask"] >= row["plain_compile"] > 0
        assert row["strategy"] in ("classifier", "representatives", "engine")
    assert rows["refused"]["outcome"] == "both refuse" and len(rows["refused"]["refusals"]) == 2
    summary = record["summary"]
    assert summary["outcomes"] == {"compared": 4, "both refuse": 1}
    assert summary["masks"] == sum(row["masks"] for row in rows.values())
    assert summary["differences"] == 0
    assert "strict_mode default" in summary["options"] and "strict_mode default" in output
    assert "0 differences" in output and "through one document" in output
    standings = summary["standings"]
    refused = {name: one["refused"] for name, one in standings.items()}
    assert refused == {"ours": 1, JSON_SCHEMA: 1, "XGrammar": 1}
    assert standings["XGrammar"]["documents"] == standings[JSON_SCHEMA]["documents"] == 3
    times = {"first_mask", "first_mask_cpu", "document", "document_cpu"}
    assert set(standings["XGrammar"]["ours_faster"]) == times
    spreads = summary["spreads"]
    same = spreads[f"first mask, {JSON_SCHEMA} where XGrammar has one"]
    assert same == spreads[f"first mask, {JSON_SCHEMA}"] and same["count"] == 4
    assert spreads["first mask, ours"]["count"] == 4
    assert spreads["first mask and one document, XGrammar, CPU"]["count"] == 3
    assert spreads["mask in the document, ours"]["count"] > 0
    table = new_schemas("made", record)
    words = f"to the first mask: {JSON_SCHEMA} on the same schemas"
    (told,) = ([cell.text for cell in row] for row in table.rows if row[0].text == words)
    assert told[1] == told[2] == "" != told[3]
    assert f" of {JSON_SCHEMA} " in " ".join(table.told)
    assert JSON_SCHEMA not in shared_times(record, "first_mask")
    assert "schemas refused" in output


def test_schemas_on_two_strategies_beside_llguidance(run_schemas: Ran) -> None:
    pytest.importorskip("llguidance")
    given = ("--threads", 1, "--beside", "representatives", "--llguidance", "--cold-caches")
    output, record = run_schemas(*given)
    rows = {row["name"]: row for row in record["rows"]}
    for name in ("object", "choice"):
        beside = rows[name]["beside"]["representatives"]
        assert (rows[name]["strategy"], beside["strategy"]) == ("classifier", "representatives")
        assert beside["masks"] == beside["equal"] == rows[name]["masks"] > 0
        assert rows[name]["peer"]["count"] > 0
        assert rows[name]["requests"]["llguidance"]["first_mask"] > 0
    assert "no such type" in rows["refused"]["requests"]["llguidance"]["refusal"]
    assert rows["refused"]["beside"]["representatives"]["outcome"] == "both refuse"
    summary = record["summary"]
    both = [side for row in rows.values() for side in (row, row["beside"]["representatives"])]
    assert summary["masks"] == sum(side["masks"] for side in both)
    spreads = summary["spreads"]
    assert spreads["first mask, llguidance"]["count"] == spreads["first mask, representatives"]["count"] == 4
    assert summary["standings"]["llguidance"]["refused"] == 1
    assert "schemas refused" in output
    cold = summary["cold_caches"]
    assert len(cold) == 16 and all(spread["count"] > 0 for spread in cold.values())
    assert {"mask, llguidance, cold", "token, ours, warm", "row of 64, XGrammar, cold"} < set(cold)


def test_a_difference_is_printed_and_ends_with_status_1(
    run_schemas: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid.testing.mask_comparison.compare_along", benches.differ)
    output, record = run_schemas("--limit", 4, "--no-warm", status=1)
    assert "DIFFERENCE object: compared: mask at step 3" in output
    assert record["summary"]["not_alike"] == ["choice", "object", "order"]
    assert record["summary"]["spreads"]["first mask, ours"]["count"] == 0


def measured(bench: schemas.SchemaBench, schema: Any) -> tuple[Row, str]:
    """Measure a schema with one instance; return the row, and XGrammar's refusal."""
    row = bench.measure(workloads.SchemaFile("x", schema, ["a"], [True]))
    return row, row.requests["XGrammar"].refusal


def test_only_one_side_refusing_is_a_difference(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure of XGrammar's cache is its refusal, and is none without it."""
    cached, bench = schemas.SchemaBench(vocabulary), schemas.SchemaBench(vocabulary, cache=False)
    with monkeypatch.context() as context:
        for one in (cached, bench):
            context.setattr(one, "_compile_plain", Mock(side_effect=RuntimeError("check failed")))
        row, refusal = measured(cached, {"type": "string"})
        assert row.outcome == "compared without XGrammar's cache" and "check failed" in refusal
        assert row.alike and row.comparison.masks > 0 and row.requests["ours"].first_mask is not None
        row, _ = measured(bench, {"type": "string"})
        assert (row.outcome, row.alike) == ("only XGrammar refuses", False)
    with monkeypatch.context() as context:
        crash = Mock(side_effect=IndexError("on purpose"))
        context.setattr(bench, "ours", Mock(compile_json_schema=crash))
        row, _ = measured(bench, {"type": "string"})
        assert (row.outcome, row.alike, row.refusals) == ("ours crashes", False, ["IndexError: on purpose"])
    row, _ = measured(bench, benches.REFUSED_SCHEMA)
    assert (row.outcome, row.alike) == ("both refuse", True)
    assert all(one.refusal and one.first_mask is None for one in row.requests.values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="slow compiles are stopped in a forked process")
def test_slow_compiles_are_left_out(vocabulary: Vocabulary) -> None:
    bench = schemas.SchemaBench(vocabulary, max_plain_seconds=0.0)
    row, _ = measured(bench, {"type": "string"})
    assert (row.outcome, row.alike) == ("plain too slow", True)
    assert row.requests["XGrammar"] == Request(over=0.0)
    assert row.requests["ours"].first_mask is not None
    bench.max_plain_seconds = 60.0
    assert measured(bench, {"type": "string"})[0].outcome == "compared"


def test_options_are_in_the_record(run_schemas: Ran) -> None:
    _, record = run_schemas("--no-strict", "--in-situ", "--no-json-schema", "--no-llguidance")
    assert [row["instances_accepted"] for row in record["rows"] if row["name"] == "open"] == [4]
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
    row = bench.measure(workloads.SchemaFile("other", {"type": "integer", "title": "own"}, [12], [True]))
    assert set(row.requests) == {"ours", "XGrammar", "XGrammar, warmed", "XGrammar, one thread"}
    assert all(one.document for one in row.requests.values())
    of = {name: {title for one, title in met if one is own} for name, own in bench.states.items()}
    assert {title for one, title in met if one is bench.plain} == {"own"}
    assert of == {"XGrammar, warmed": {"own", "other"}, "XGrammar, one thread": {"own"}}
    assert len([None for one, title in met if one is bench.aside and title == "other"]) == 3


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


def test_bursts_on_several_numbers_of_threads(run_schemas: Ran) -> None:
    threads = ("--burst-threads", 1, "--burst-threads", 3)
    output, record = run_schemas("--burst", 2, *threads, "--no-llguidance")
    summary = record["summary"]
    assert len(record["bursts"]) == 2
    assert (summary["masks"], summary["differences"]) == (6, 0)
    assert summary["engines"] == summary["by_threads"]["1"]
    for engine in ("ours", "XGrammar"):
        assert summary["engines"][engine]["refused"] == 1
        for found in summary["by_threads"].values():
            assert found[engine]["first_mask"]["count"] == 3
    assert "2 bursts of 2 new schemas" in output and "times as fast as on 1 threads" in output


def test_schemas_that_llguidance_refuses_are_in_no_burst(run_schemas: Ran) -> None:
    pytest.importorskip("llguidance")
    _, record = run_schemas("--burst", 4, "--llguidance")
    assert record["summary"]["left_out"] == 1 and len(record["bursts"]) == 1
    assert not any(one["refused"] for one in record["summary"]["engines"].values())


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


def test_the_picture_is_small_and_names_all_engines(run_schemas: Ran, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "pictures" / "out.svg"
    run_schemas("--picture", path, "--no-llguidance")
    text = path.read_text()
    assert "equimask (4 schemas)" in text and "XGrammar (4 schemas)" in text
    assert len(text) < 40_000
    picture.draw(path, {"ours": [0.001, 0.1], "llguidance": []}, "a title")
    assert "a title" in path.read_text() and "llguidance" not in path.read_text()


def test_another_xgrammar_serves_the_same_schemas(run_schemas: Ran, tmp_path: Path) -> None:
    """The same version of XGrammar, installed in another folder, serves them in another process."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "xgrammar").symlink_to(Path(xgrammar.__file__).parent)
    _, record = run_schemas("--no-llguidance", "--xgrammar-elsewhere", other)
    name = f"XGrammar {metadata.version('xgrammar')}"
    rows = {row["name"]: row["requests"] for row in record["rows"]}
    for schema, requests in rows.items():
        there, here = requests[name], requests["XGrammar"]
        assert bool(there["refusal"]) == bool(here["refusal"]) == (schema == "refused")
        for time_of in ("first_mask", "document"):
            assert (there[time_of] is None) == (here[time_of] is None)
        assert there["mask"]["count"] == here["mask"]["count"]
    assert rows["choice"][name]["document"] > rows["choice"][name]["first_mask"] > 0


def test_strategies_beside_each_other(vocabulary_file: str, schema_folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "strategies.json"
    named = ("strategies", "--vocabulary", vocabulary_file, "--schemas", schema_folder)
    _, record = benches.recorded(target, *named, "--most", 3)
    assert record["differences"] == 0
    assert set(record["rows"]) == {"object", "open", "choice"}  # others are refused, or have no document
    for counts in record["rows"].values():
        assert set(counts) == {"auto", "classifier", "representatives", "engine", "XGrammar"}
        assert all(0 < one["1"] < one["3"] for one in counts.values())
    summary = record["summary"]["3"]
    assert summary["auto_to_best"] >= 1 and summary["ratios"]["p50"] >= 1
    total = sum(counts["auto"]["3"] for counts in record["rows"].values())
    assert summary["seconds"]["auto"] == pytest.approx(total)
