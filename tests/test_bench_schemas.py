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
    given = {"strict": False, "cache": False, "threads": 2}
    for options, strict, n_jobs, is_cached, told in (
        ({}, {}, 1, True, "strict_mode default, caches on (default)"),
        (given, {"strict_mode": False}, 2, False, "strict_mode False, caches off, threads 2"),
    ):
        bench = schemas.SchemaBench(vocabulary, **options)
        assert (bench.options, bench.ours.n_jobs) == (strict, n_jobs) and told in bench.settings
        one, other = (bench.ours.compile_json_schema(benches.OPEN_SCHEMA) for _ in range(2))
        assert (one is other) == is_cached


def test_rows_and_requests_of_all_engines_are_in_the_record(run_schemas: Ran) -> None:
    output, record = run_schemas("--no-llguidance", "--threads", 1)
    assert record["packages"]["xgrammar"] == metadata.version("xgrammar")
    assert os.sep not in record["arguments"]["schemas"]
    rows = {row["name"]: row for row in record["rows"]}
    refused = rows.pop("refused")
    assert refused["outcome"] == "both refuse" and len(refused["refusals"]) == 2
    for one in refused["requests"].values():
        assert one["refusal"] and one["first_mask"] is one["document"] is None
    # of "open", properties that the schema does not name are forbidden; the instance of "order" is refused
    accepted = {name: row["instances_accepted"] for name, row in rows.items()}
    assert accepted == {"object": 2, "order": 0, "open": 2, "choice": 4}
    for name, row in rows.items():
        assert row["outcome"] == "compared" and not row["differences"] and row["masks"] >= row["equal"] > 4
        for one in row["requests"].values() if name != "order" else ():
            assert one["document"] > one["first_mask"] > 0 < one["first_mask_cpu"] < one["document_cpu"]
            assert one["mask"]["count"] == one["token"]["count"] > 0
    summary = record["summary"]
    assert summary["outcomes"] == {"compared": 4, "both refuse": 1}
    assert summary["masks"] == sum(row["masks"] for row in rows.values()) and "0 differences" in output
    standings = summary["standings"]
    counts = {name: (one["refused"], one["documents"]) for name, one in standings.items()}
    assert counts == dict.fromkeys(("ours", JSON_SCHEMA, "XGrammar"), (1, 3))
    times = {"first_mask", "first_mask_cpu", "document", "document_cpu"}
    assert set(standings["XGrammar"]["ours_faster"]) == times
    spreads = summary["spreads"]
    same = spreads[f"first mask, {JSON_SCHEMA} where XGrammar has one"]
    assert same == spreads[f"first mask, {JSON_SCHEMA}"] and same["count"] == 4
    table = new_schemas("made", record)
    words = f"to the first mask: {JSON_SCHEMA} on the same schemas"
    (told,) = ([cell.text for cell in row] for row in table.rows if row[0].text == words)
    assert told[1] == told[2] == "" != told[3] and f" of {JSON_SCHEMA} " in " ".join(table.told)
    assert JSON_SCHEMA not in shared_times(record, "first_mask")


def test_schemas_on_two_strategies_beside_llguidance(run_schemas: Ran) -> None:
    pytest.importorskip("llguidance")
    given = ("--threads", 1, "--beside", "representatives", "--llguidance", "--cold-caches")
    _, record = run_schemas(*given)
    rows = {row["name"]: row for row in record["rows"]}
    for name in ("object", "choice"):
        beside = rows[name]["beside"]["representatives"]
        assert (rows[name]["strategy"], beside["strategy"]) == ("classifier", "representatives")
        assert beside["masks"] == beside["equal"] == rows[name]["masks"] > 0
        assert rows[name]["peer"]["count"] > 0
    assert "no such type" in rows["refused"]["requests"]["llguidance"]["refusal"]
    summary = record["summary"]
    both = [side for row in rows.values() for side in (row, row["beside"]["representatives"])]
    assert summary["masks"] == sum(side["masks"] for side in both)
    for engine in ("llguidance", "representatives"):
        assert summary["spreads"][f"first mask, {engine}"]["count"] == 4
    cold = summary["cold_caches"]
    assert len(cold) == 16 and all(spread["count"] > 0 for spread in cold.values())


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
    for ids, is_complete, is_timed in (([1, 2, 3], True, True), ([1, 9], True, False), ([1], False, False)):
        one, accept = Request(first_mask=10.0, first_mask_cpu=5.0), Mock(side_effect=lambda token: token < 9)
        assert run_document(one, Calls(Mock(), accept, Mock(return_value=is_complete)), ids) == is_timed
        assert accept.mock_calls == [call(token) for token in ids]
        if is_timed:
            assert 10.0 < (one.document or 0.0) < 11.0 and 5.0 < (one.document_cpu or 0.0) < 6.0
            assert len(one.mask) == len(one.token) == 3
        else:
            assert one.document is None


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
    # times of calls are those of whole documents
    requests[0]["ours"].document, requests[0]["ours"].mask = 2.0, array("d", [0.5])
    requests[1]["ours"].mask = array("d", [7.0])
    spreads = schema_rows.spreads(requests)
    counts = {name: (spreads[name].count, spreads[name].max) for name in (
        "first mask, XGrammar", "first mask, ours", "first mask, ours where XGrammar has one",
        "mask in the document, ours",
    )}  # fmt: skip
    assert list(counts.values()) == [(3, 9.0), (4, 5.0), (3, 4.0), (1, 0.5)]


# --- Bursts ------------------------------------------------------------------------------------------------


def test_bursts_on_several_numbers_of_threads(run_schemas: Ran) -> None:
    threads = ("--burst-threads", 1, "--burst-threads", 3)
    output, record = run_schemas("--burst", 2, *threads, "--no-llguidance")
    summary = record["summary"]
    assert (len(record["bursts"]), summary["masks"], summary["differences"]) == (2, 6, 0)
    assert summary["engines"] == summary["by_threads"]["1"]
    for found in summary["by_threads"].values():
        for engine in ("ours", "XGrammar"):
            assert (found[engine]["refused"], found[engine]["first_mask"]["count"]) == (1, 3)
    assert "2 bursts of 2 new schemas" in output


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


def test_the_picture_names_all_engines_that_have_times(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture.draw(tmp_path / "out.svg", {"ours": [0.001, 0.1], "llguidance": []}, "a title")
    text = (tmp_path / "out.svg").read_text()
    assert "a title" in text and "equimask (2 schemas)" in text and "llguidance" not in text


def test_another_xgrammar_serves_the_same_schemas(run_schemas: Ran, tmp_path: Path) -> None:
    """The same version of XGrammar, installed in another folder, serves them in another process; there is a
    picture of all."""
    pytest.importorskip("matplotlib")
    other, path = tmp_path / "elsewhere", tmp_path / "pictures" / "out.svg"
    other.mkdir()
    (other / "xgrammar").symlink_to(Path(xgrammar.__file__).parent)
    _, record = run_schemas("--no-llguidance", "--xgrammar-elsewhere", other, "--picture", path)
    name = f"XGrammar {metadata.version('xgrammar')}"
    for row in record["rows"]:
        there, here = row["requests"][name], row["requests"]["XGrammar"]
        assert bool(there["refusal"]) == bool(here["refusal"]) == (row["name"] == "refused")
        for time_of in ("first_mask", "document"):
            assert (there[time_of] is None) == (here[time_of] is None)
        assert there["mask"]["count"] == here["mask"]["count"]
    assert f"{name} (4 schemas)" in path.read_text() and path.stat().st_size < 50_000


def test_strategies_beside_each_other(vocabulary_file: str, schema_folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "strategies.json"
    named = ("strategies", "--vocabulary", vocabulary_file, "--schemas", schema_folder)
    _, record = benches.recorded(target, *named, "--most", 3)
    assert record["differences"] == 0
    assert set(record["rows"]) == {"object", "open", "choice"}  # others are refused, or have no document
    for counts in record["rows"].values():
        assert set(counts) == {"auto", "classifier", "representatives", "engine", "XGrammar"}
        assert all(0 < one["1"] < one["3"] for one in counts.values())
    total = sum(counts["auto"]["3"] for counts in record["rows"].values())
    assert record["summary"]["3"]["seconds"]["auto"] == pytest.approx(total)
