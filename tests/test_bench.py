"""The benchmarks run, compare, count and write their results; no speed is asserted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from bench import report, schemas, workloads
from bench.cases import load_grammars
from bench.request import Request
from bench.schema_rows import Row
from equivalence.vocabulary import Vocabulary
from hybrid.testing.comparison import Comparison, Disagreement
from tests.benches import fixture_vocabulary, fixture_vocabulary_file, recorded, run, write_schemas  # noqa: F401 - fixtures

OBJECT_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a"],
    "additionalProperties": False,
}
REFUSED_SCHEMA = {"type": "no such type"}

GRAMMAR = """root ::= "begin" (ws stmt)* ws "end"
stmt ::= [a-z]+ ws "=" ws [0-9]+ ";"
ws ::= [ \\n]*
"""


@pytest.fixture
def schema_folder(tmp_path: Path) -> Path:
    contents: dict[str, Any] = {
        "object": (OBJECT_SCHEMA, [(True, {"a": "hello world", "b": [1, 22]}), (False, {"a": 3})]),
        "order": (OBJECT_SCHEMA, [(True, {"b": [], "a": "é\ud800"})]),
        "choice": ({"enum": ["x", "yy", 3, None]}, [(True, "yy"), (True, None)]),
        "refused": (REFUSED_SCHEMA, [(True, 1)]),
    }
    return write_schemas(tmp_path / "schemas", contents)


@pytest.fixture
def run_schemas(vocabulary_file: str, schema_folder: Path, tmp_path: Path) -> Callable[..., tuple[str, Any]]:
    """Run `bench schemas` with more arguments to an exit status; return its output and its record."""
    given = ("schemas", "--vocabulary", vocabulary_file, "--schemas", schema_folder)
    return partial(recorded, tmp_path / "records" / "schemas.json", *given)


def differ(*_: object, **__: object) -> Comparison:
    """Stand-in for a comparison: one bit differs."""
    item = Disagreement("mask", 3, 104, b"h", (1, 2, 3), b"\x01\x02\x03", True, False, False)
    return Comparison(masks=4, accepted=3, differences=[item], difference_count=1, different_masks=1)


def test_schemas(run_schemas: Callable[..., tuple[str, Any]]) -> None:
    output, record = run_schemas("--walks", 2, "--walk-steps", 30, "--threads", 1)
    assert record["benchmark"] == "schemas"
    assert record["arguments"]["threads"] == 1
    assert record["machine"]["cores"] >= 1
    assert record["packages"]["xgrammar"] == metadata.version("xgrammar")
    assert os.sep not in record["arguments"]["schemas"]
    rows = {row["name"]: row for row in record["rows"]}
    assert rows["object"]["instances"] == 2
    for name, accepted in (("object", 2), ("order", 0), ("choice", 4)):
        row = rows[name]
        assert (row["outcome"], row["instances_accepted"], row["differences"]) == ("compared", accepted, [])
        assert row["masks"] >= row["equal"] > 60
        assert row["mask"]["count"] == row["plain_mask"]["count"] > 0
        assert row["requests"]["ours"]["first_mask"] >= row["compile"] > 0
        assert row["requests"]["XGrammar"]["first_mask"] >= row["plain_compile"] > 0
        assert row["strategy"] in ("classifier", "representatives", "engine")
    assert rows["refused"]["outcome"] == "both refuse" and len(rows["refused"]["refusals"]) == 2
    summary = record["summary"]
    assert summary["outcomes"] == {"compared": 3, "both refuse": 1}
    assert summary["spreads"]["first mask, ours"]["count"] == 3
    assert summary["masks"] == sum(row["masks"] for row in rows.values())
    assert summary["differences"] == 0
    assert "0 differences" in output
    assert "through one document" in " ".join(output.split())


def test_schemas_on_two_strategies_beside_llguidance(run_schemas: Callable[..., tuple[str, Any]]) -> None:
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
    assert spreads["first mask, llguidance"]["count"] == spreads["first mask, representatives"]["count"] == 3
    assert summary["standings"]["llguidance"]["refused"] == 1
    assert "schemas refused" in output
    cold = summary["cold_caches"]
    assert len(cold) == 16 and all(spread["count"] > 0 for spread in cold.values())
    assert {"mask, llguidance, cold", "token, ours, warm", "row of 64, XGrammar, cold"} < set(cold)


def test_a_difference_is_printed_and_ends_with_status_1(
    run_schemas: Callable[..., tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid.testing.mask_comparison.compare_along", differ)
    output, record = run_schemas("--limit", 4, "--no-warm", status=1)
    assert "DIFFERENCE object: compared: mask at step 3" in output
    assert record["summary"]["not_alike"] == ["choice", "object", "order"]
    assert record["summary"]["spreads"]["first mask, ours"]["count"] == 0


def test_only_one_side_refusing_is_a_difference(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(schema: Any) -> Row:
        row = bench.measure(workloads.SchemaFile("x", schema, ("a",), ()))
        monkeypatch.undo()
        return row

    bench = schemas.SchemaBench(vocabulary, cache=False)
    monkeypatch.setattr(bench, "_compile_plain", Mock(side_effect=RuntimeError("no")))
    row = measured({"type": "string"})
    assert (row.outcome, row.alike) == ("only XGrammar refuses", False)
    crash = Mock(side_effect=IndexError("on purpose"))
    monkeypatch.setattr(bench, "ours", Mock(compile_json_schema=crash))
    row = measured({"type": "string"})
    assert (row.outcome, row.alike, row.refusals) == ("ours crashes", False, ["IndexError: on purpose"])
    row = measured(REFUSED_SCHEMA)
    assert (row.outcome, row.alike) == ("both refuse", True)
    assert all(one.refusal and one.first_mask is None for one in row.requests.values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="slow compiles are stopped in a forked process")
def test_slow_compiles_are_left_out(vocabulary: Vocabulary) -> None:
    bench = schemas.SchemaBench(vocabulary, max_plain_seconds=0.0)
    file = workloads.SchemaFile("x", {"type": "string"}, ("a",), ())
    row = bench.measure(file)
    assert (row.outcome, row.alike) == ("plain too slow", True)
    assert row.requests["XGrammar"] == Request(over=0.0)
    assert row.requests["ours"].first_mask is not None
    bench.max_plain_seconds = 60.0
    assert bench.measure(file).outcome == "compared"


def test_what_is_wrong_with_arguments_is_said_without_a_traceback(
    vocabulary_file: str, schema_folder: Path, tmp_path: Path
) -> None:
    (schema_folder / "list.json").write_text("[1]")
    fine = write_schemas(tmp_path / "fine", {"one": ({}, [])})
    empty = write_schemas(tmp_path / "empty", {})
    lark = tmp_path / "a.lark"
    lark.write_text('start: "a"')
    target = tmp_path / "out.json"
    for command, *arguments in (
        ("schemas", "--vocabulary", "no/such.npz", "--schemas", schema_folder),
        ("schemas", "--schemas", empty),
        ("schemas", "--schemas", schema_folder),
        ("schemas", "--schemas", fine, "--beside", "no such strategy"),
        ("grammar", "--grammar", tmp_path / "none.ebnf"),
        ("lark", "--grammar", f"a={lark}", "--documents", f"a={lark}"),
        ("lark", "--grammar", f"a={lark}", "--documents", f"a={empty}"),
        ("equality",),
    ):
        known = () if "--vocabulary" in arguments else ("--vocabulary", vocabulary_file)
        done = run(command, *known, *arguments, "--json", target)
        assert done.exit_code == 2, done.output
        assert "Traceback" not in done.output
    assert "--grammars" in done.output
    assert not target.exists()


def test_a_refused_grammar_is_reported(vocabulary_file: str, tmp_path: Path) -> None:
    (tmp_path / "bad.ebnf").write_text("root ::= nowhere")
    _, record = recorded(
        tmp_path / "out.json",
        *("grammar", "--vocabulary", vocabulary_file, "--grammar", tmp_path / "bad.ebnf"),
        "--no-warm",
        status=1,
    )
    assert len(record["refusals"]) == 2


def test_spreads_and_units() -> None:
    spread = report.Spread.of([1.0, 2.0, 3.0])
    assert (spread.count, spread.mean, spread.p50, spread.max) == (3, 2.0, 2.0, 3.0)
    assert report.Spread.of([]).count == 0
    shown = [report.readable(value) for value in (0.0, 1.234e-6, 5.55e-4, 0.25, 3.0, 250.0)]
    assert shown == ["0 us", "1.23 us", "555 us", "250 ms", "3 s", "250 s"]
    assert report.readable(12345.0, "") == "12,345"


def test_records_are_whole_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out.json"
    report.write_json(target, {"a": float("nan"), "b": [1.5, float("inf")], "c": b"\xff"})
    with pytest.raises(TypeError):
        report.write_json(target, {"a": object()})
    assert json.loads(target.read_text()) == {"a": None, "b": [1.5, None], "c": "\xff"}
    assert list(target.parent.iterdir()) == [target]


def test_samples_are_repeatable_and_instances_as_models_write_them(schema_folder: Path) -> None:
    everything = [file.name for file in workloads.load_schema_files(schema_folder)]
    assert everything == ["choice", "object", "order", "refused"]
    some, again = ([*workloads.load_schema_files(schema_folder, 2, seed=5)] for _ in range(2))
    assert some == again and len(some) == 2
    assert workloads.render_instance({"a": [1, "é"]}) == '{"a": [1, "é"]}'.encode()
    assert workloads.render_instance("\ud800") == b'"\\ud800"'


# --- Equality ----------------------------------------------------------------------------------------------


CASES = """
[[case]]
name = "pairs"
kind = "ebnf"
grammar = '''root ::= ("a" [0-9]+ ";")*'''
accepts = ["a12;a3;", { hex = "61313b" }]
rejects = ["a;"]
prefixes = [{ before = "a", text = "1", times = 20 }]
features = []

[[case]]
name = "wrong"
kind = "regex"
grammar = "("
accepts = []
rejects = []
prefixes = []
features = []
"""


def test_equality_of_schemas_and_grammars(vocabulary_file: str, schema_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "grammars"
    folder.mkdir()
    (folder / "cases.toml").write_text(CASES)
    (folder / "made.gbnf").write_text(GRAMMAR)
    (folder / "made.1.txt").write_text("begin a = 1; end")
    (folder / "without_text.gbnf").write_text(GRAMMAR)
    (folder / "left_out.gbnf").write_text("nonsense")
    output, record = recorded(
        tmp_path / "out.json",
        *("equality", "--vocabulary", vocabulary_file, "--schemas", schema_folder, "--grammars", folder),
        *("--without", "left_out", "--strategy", "representatives", "--walks", 2, "--walk-steps", 30),
    )
    assert (record["schemas"], record["grammars"], record["difference_count"]) == (4, 4, 0)
    assert "0 differences" in output
    rows = {row["name"]: row for row in record["rows"]}
    assert {name for name, row in rows.items() if "refused" in row} == {"refused", "wrong"}
    assert all(row["alike"] for row in rows.values() if "refused" in row)
    # cut twice each, in one of both ways into single bytes at most, and 2 walks of 30 masks
    assert 60 + 2 * 5 < rows["pairs"]["masks"] <= 60 + 2 * (8 + 4 + 22 + 2)
    assert rows["made"]["masks"] > 60 + 2 * 3
    assert rows["without_text"]["masks"] > 60 + 2 * 4
    kinds = {line["kind"]: line for line in record["summary"]}
    assert {kind: line["grammars"] for kind, line in kinds.items()} == {"schema": 4, "ebnf": 3, "regex": 1}
    assert kinds["ebnf"]["on_classes"] == 3 and kinds["regex"]["refused"] == 1
    assert kinds["ebnf"]["masks"] + kinds["schema"]["masks"] == record["masks"] == record["equal"]


def test_equality_says_where_the_time_ended(vocabulary_file: str, tmp_path: Path) -> None:
    grammar = tmp_path / "made.gbnf"
    grammar.write_text(GRAMMAR)
    _, record = recorded(
        tmp_path / "out.json",
        *("equality", "--vocabulary", vocabulary_file, "--vocabulary", vocabulary_file),
        *("--grammars", grammar, "--seconds", 1e-6, "--walks", 9),
    )
    assert [row["within_seconds"] for row in record["rows"]] == [False, False]
    assert record["masks"] < 10
    assert record["summary"][0]["ended_early"] == 2, "both vocabularies have one name here"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[case]]\nname = 'a'\nkind = 'ebnf'", "not of the form"),
        (CASES.replace("'ebnf'", "'bnf'").replace('"ebnf"', '"bnf"'), "allowed are ebnf"),
        (CASES.replace("features = []", "features = []\nmore = 1"), "unknown keys"),
        ("", "no grammars there"),
    ],
)
def test_equality_refuses_what_is_no_case(
    vocabulary_file: str, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "cases.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_grammars([path])
    done = run("equality", "--vocabulary", vocabulary_file, "--grammars", path, "--json", tmp_path / "o.json")
    assert done.exit_code == 2
