"""The benchmarks run, compare, count and write their results; no speed is asserted."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from bench import report, schemas, workloads
from bench.cases import load_grammars
from bench.request import Request
from equivalence.vocabulary import Vocabulary
from hybrid.testing.comparison import Comparison, Disagreement
from tests.benches import (  # noqa: F401 - some are fixtures
    fixture_vocabulary,
    fixture_vocabulary_file,
    recorded,
    run,
    write_schemas,
)

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


def differ(*_: object, **__: object) -> Comparison:
    """Stand-in for a comparison: one bit differs."""
    item = Disagreement("mask", 3, 104, b"h", (1, 2, 3), b"\x01\x02\x03", True, False, False)
    return Comparison(masks=4, accepted=3, differences=[item], difference_count=1, different_masks=1)


def test_schemas(vocabulary_file: str, schema_folder: Path, tmp_path: Path) -> None:
    output, record = recorded(
        tmp_path / "records" / "schemas.json",
        *("schemas", "--vocabulary", vocabulary_file, "--schemas", schema_folder),
        *("--walks", 2, "--walk-steps", 30, "--threads", 1),
    )
    assert record["benchmark"] == "schemas"
    assert record["arguments"]["threads"] == 1
    assert record["machine"]["cores"] >= 1
    assert record["packages"]["xgrammar"] == metadata.version("xgrammar")
    assert os.sep not in record["arguments"]["schemas"]
    rows = {row["name"]: row for row in record["rows"]}
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "choice": "compared",
        "object": "compared",
        "order": "compared",
        "refused": "both refuse",
    }
    assert len(rows["refused"]["refusals"]) == 2
    assert rows["object"]["instances"] == rows["object"]["instances_accepted"] == 2
    assert rows["order"]["instances_accepted"] == 0
    assert rows["choice"]["instances_accepted"] == 4
    for name in ("object", "order", "choice"):
        row = rows[name]
        assert row["differences"] == []
        assert row["masks"] >= row["equal"] > 60
        assert row["mask"]["count"] == row["plain_mask"]["count"] > 0
        assert row["requests"]["ours"]["first_mask"] >= row["compile"] > 0
        assert row["requests"]["XGrammar"]["first_mask"] >= row["plain_compile"] > 0
        assert row["strategy"] in ("classifier", "representatives", "engine")
    summary = record["summary"]
    assert summary["outcomes"] == {"compared": 3, "both refuse": 1}
    assert summary["spreads"]["first mask, ours"]["count"] == 3
    assert summary["masks"] == sum(row["masks"] for row in rows.values())
    assert summary["differences"] == 0
    assert "0 differences" in output
    assert "through one document" in " ".join(output.split())


def test_schemas_on_two_strategies_beside_llguidance(
    vocabulary_file: str, schema_folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("llguidance")
    output, record = recorded(
        tmp_path / "out.json",
        *("schemas", "--vocabulary", vocabulary_file, "--schemas", schema_folder),
        *("--threads", 1, "--beside", "representatives", "--llguidance", "--cold-caches"),
    )
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
    assert summary["masks"] == sum(
        row["masks"] + row["beside"]["representatives"]["masks"] for row in rows.values()
    )
    spreads = summary["spreads"]
    assert spreads["first mask, llguidance"]["count"] == spreads["first mask, representatives"]["count"] == 3
    assert summary["standings"]["llguidance"]["refused"] == 1
    assert "schemas refused" in output
    cold = summary["cold_caches"]
    assert len(cold) == 16 and all(spread["count"] > 0 for spread in cold.values())
    assert {"mask, llguidance, cold", "token, ours, warm", "row of 64, XGrammar, cold"} < set(cold)


def test_a_difference_is_printed_and_ends_with_status_1(
    vocabulary_file: str, schema_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid.testing.mask_comparison.compare_along", differ)
    target = tmp_path / "out.json"
    done = run(
        *("schemas", "--vocabulary", vocabulary_file, "--schemas", schema_folder, "--json", target),
        *("--limit", 4, "--no-warm"),
    )
    assert done.exit_code == 1
    assert "DIFFERENCE object: compared: mask at step 3" in done.output
    summary = json.loads(target.read_text())["summary"]
    assert summary["not_alike"] == ["choice", "object", "order"]
    assert summary["spreads"]["first mask, ours"]["count"] == 0


def test_only_one_side_refusing_is_a_difference(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = schemas.SchemaBench(vocabulary, cache=False)
    file = workloads.SchemaFile("x", {"type": "string"}, ("a",), ())
    monkeypatch.setattr(bench, "_compile_plain", lambda schema: (_ for _ in ()).throw(RuntimeError("no")))
    row = bench.measure(file)
    assert row.outcome == "only XGrammar refuses"
    assert not row.alike
    monkeypatch.undo()

    class Crashing:
        def compile_json_schema(self, *_: object, **__: object) -> None:
            raise IndexError("on purpose")

    monkeypatch.setattr(bench, "ours", Crashing())
    row = bench.measure(file)
    assert (row.outcome, row.refusals) == ("ours crashes", ["IndexError: on purpose"])
    assert not row.alike
    monkeypatch.undo()
    row = bench.measure(workloads.SchemaFile("y", REFUSED_SCHEMA, (), ()))
    assert row.outcome == "both refuse"
    assert row.alike
    assert all(one.refusal and one.first_mask is None for one in row.requests.values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="slow compiles are stopped in a forked process")
def test_slow_compiles_are_left_out(vocabulary: Vocabulary) -> None:
    bench = schemas.SchemaBench(vocabulary, max_plain_seconds=0.0)
    row = bench.measure(workloads.SchemaFile("x", {"type": "string"}, ("a",), ()))
    assert row.outcome == "plain too slow"
    assert row.alike
    assert row.requests["XGrammar"] == Request(over=0.0)
    assert row.requests["ours"].first_mask is not None
    bench.max_plain_seconds = 60.0
    row = bench.measure(workloads.SchemaFile("x", {"type": "string"}, ("a",), ()))
    assert row.outcome == "compared"


@pytest.mark.parametrize("grammar", ["file", "builtin:json"])
def test_grammar(grammar: str, vocabulary_file: str, tmp_path: Path) -> None:
    target, ebnf, sample = tmp_path / "out.json", tmp_path / "made.ebnf", tmp_path / "sample.txt"
    ebnf.write_text(GRAMMAR)
    other = tmp_path / "other.txt"
    text = "begin foo = 12; bar=3;\nend" if grammar == "file" else '{"a": [true, 12], "hello": " world"}'
    sample.write_text(text)
    other.write_text(text + "?")
    _, record = recorded(
        target,
        *("grammar", "--grammar", ebnf if grammar == "file" else grammar, "--vocabulary", vocabulary_file),
        *("--sample", sample, "--sample", other, "--walks", 2, "--walk-steps", 40),
        *("--rounds", 2, "--builds", 0, "--batch", 8),
    )
    assert [row["complete"] for row in record["rows"]] == [True, True, False, False]
    for row in record["rows"]:
        assert row["accepted"] == row["tokens"] - (not row["complete"])
        assert row["mask"]["count"] == row["plain_mask"]["count"] == row["masks"]
    assert record["differences"] == []
    assert record["summary"]["masks"] == sum(row["masks"] for row in record["rows"]) + 80
    assert record["summary"]["compile"] > 0


def test_what_is_wrong_with_arguments_is_said_without_a_traceback(
    vocabulary_file: str, schema_folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out.json"
    empty = tmp_path / "empty"
    empty.mkdir()
    (schema_folder / "list.json").write_text("[1]")
    fine = tmp_path / "fine"
    fine.mkdir()
    (fine / "one.json").write_text('{"schema": {}, "tests": []}')
    lark = tmp_path / "a.lark"
    lark.write_text('start: "a"')
    for arguments in (
        ("schemas", "--vocabulary", "no/such.npz", "--schemas", schema_folder),
        ("schemas", "--vocabulary", vocabulary_file, "--schemas", empty),
        ("schemas", "--vocabulary", vocabulary_file, "--schemas", schema_folder),
        ("schemas", "--vocabulary", vocabulary_file, "--schemas", fine, "--beside", "no such strategy"),
        ("grammar", "--vocabulary", vocabulary_file, "--grammar", tmp_path / "none.ebnf"),
        ("lark", "--vocabulary", vocabulary_file, "--grammar", f"a={lark}", "--documents", f"a={lark}"),
        ("lark", "--vocabulary", vocabulary_file, "--grammar", f"a={lark}", "--documents", f"a={empty}"),
    ):
        done = run(*arguments, "--json", target)
        assert done.exit_code == 2, done.output
        assert "Traceback" not in done.output
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
    assert json.loads(target.read_text()) == {"a": None, "b": [1.5, None], "c": "\xff"}
    with pytest.raises(TypeError):
        report.write_json(target, {"a": object()})
    assert json.loads(target.read_text())["b"] == [1.5, None]
    assert list(target.parent.iterdir()) == [target]


def test_samples_of_schema_files_are_repeatable(schema_folder: Path) -> None:
    everything = [file.name for file in workloads.load_schema_files(schema_folder)]
    assert everything == ["choice", "object", "order", "refused"]
    some = [file.name for file in workloads.load_schema_files(schema_folder, 2, seed=5)]
    assert some == [file.name for file in workloads.load_schema_files(schema_folder, 2, seed=5)]
    assert len(some) == 2


def test_instances_are_written_as_models_write_them() -> None:
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
    target = tmp_path / "out.json"
    output, record = recorded(
        target,
        *("equality", "--vocabulary", vocabulary_file, "--schemas", schema_folder, "--grammars", folder),
        *("--without", "left_out", "--strategy", "representatives", "--walks", 2, "--walk-steps", 30),
        *("--json", target),
    )
    assert (record["schemas"], record["grammars"], record["difference_count"]) == (4, 4, 0)
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
    assert "0 differences" in output


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


def test_equality_wants_something_to_compare(vocabulary_file: str, tmp_path: Path) -> None:
    done = run("equality", "--vocabulary", vocabulary_file, "--json", tmp_path / "o.json")
    assert done.exit_code == 2
    assert "--grammars" in done.output
