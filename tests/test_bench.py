"""What benchmarks have in common: arguments, reports and samples; and `bench equality`.

Limits: no speed is asserted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import report, workloads
from bench.cases import load_grammars
from tests import benches
from tests.benches import fixture_schema_folder, fixture_vocabulary, fixture_vocabulary_file  # noqa: F401 - fixtures

GRAMMAR = """root ::= "begin" (ws stmt)* ws "end"
stmt ::= [a-z]+ ws "=" ws [0-9]+ ";"
ws ::= [ \\n]*
"""


def test_what_is_wrong_with_arguments_is_said_without_a_traceback(
    vocabulary_file: str, schema_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what would fail only after hours."""
    monkeypatch.setenv("PATH", str(tmp_path))  # which has no peer
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    listed = benches.write_schemas(tmp_path / "listed", {})
    (listed / "list.json").write_text("[1]")
    empty = benches.write_schemas(tmp_path / "empty", {})
    text, target = tmp_path / "a.lark", tmp_path / "out.json"
    text.write_text('start: "a"')
    schemas, lark = ("schemas", "--schemas", schema_folder), ("lark", "--grammar", f"a={text}", "--documents")
    report = ("report", "--out", tmp_path / "report")
    for message, *command in (
        ("no vocabulary file", *schemas, "--vocabulary", "no/such.npz"),
        ("holds no *.json", "schemas", "--schemas", empty),
        ("not a schema file", "schemas", "--schemas", listed),
        ("'no such strategy'", *schemas, "--beside", "no such strategy"),
        ("at least 6", *schemas, "--burst", 6),
        ("leave out", *schemas, "--burst", 2, "--picture", tmp_path / "out.svg"),
        ("pip install", *schemas, "--picture", tmp_path / "out.svg"),
        ("there is no XGrammar in", *schemas, "--xgrammar-elsewhere", tmp_path),
        ("cannot read the grammar", "grammar", "--grammar", tmp_path / "none.ebnf"),
        ("must be in a folder", *lark, f"a={text}"),
        ("Lark parses no file", *lark, f"a={empty}"),
        ("has no documents", *lark, f"b={empty}"),
        ("NAME=PATH", *lark, "nothing"),
        ("--grammars", "equality"),
        ("no program cfgzip", "classes", "--peer", "cfgzip"),
        ("there is no engine", "maskbench", "--data", schema_folder, "--engines", "none"),
        ("no *.json", "maskbench", "--data", empty),
        ("no question", *report, "--only", "x"),
        ("one name", *report, *("--schemas", schema_folder) * 2),
        ("name of a file", *report, "--lark", f"../up={text}", "--documents", f"../up={empty}"),
        ("a path that exists", *report, "--documents", f"json={tmp_path / 'none'}"),
    ):
        known = () if "--vocabulary" in command else ("--vocabulary", vocabulary_file)
        written = () if "report" in command else ("--json", target)
        done = benches.run(*command, *known, *written)
        told = " ".join(done.output.replace("│", " ").split())
        assert done.exit_code == 2 and message in told and "Traceback" not in told, done.output
    assert not target.exists() and not (tmp_path / "report").exists()


def test_a_refused_grammar_is_reported(vocabulary_file: str, tmp_path: Path) -> None:
    (tmp_path / "bad.ebnf").write_text("root ::= nowhere")
    named = ("grammar", "--vocabulary", vocabulary_file, "--grammar", tmp_path / "bad.ebnf", "--no-warm")
    assert len(benches.recorded(tmp_path / "out.json", *named, status=1)[1]["refusals"]) == 2


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
    assert everything == ["choice", "object", "open", "order", "refused"]
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

[[case]]
name = "wrong"
kind = "regex"
grammar = "("
accepts = []
rejects = []
prefixes = []
"""


def test_equality_of_schemas_and_grammars(vocabulary_file: str, schema_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "grammars"
    folder.mkdir()
    (folder / "cases.toml").write_text(CASES)
    (folder / "made.gbnf").write_text(GRAMMAR)
    (folder / "made.1.txt").write_text("begin a = 1; end")
    (folder / "left_out.gbnf").write_text("nonsense")
    output, record = benches.recorded(
        tmp_path / "out.json",
        *("equality", "--vocabulary", vocabulary_file, "--schemas", schema_folder, "--grammars", folder),
        *("--without", "left_out", "--strategy", "representatives", "--walks", 2, "--walk-steps", 30),
    )
    assert (record["schemas"], record["grammars"], record["difference_count"]) == (5, 3, 0)
    assert "0 differences" in output
    rows = {row["name"]: row for row in record["rows"]}
    assert {name for name, row in rows.items() if "refused" in row} == {"refused", "wrong"}
    assert all(row["alike"] for row in rows.values() if "refused" in row)
    # cut twice each, in one of both ways into single bytes at most, and 2 walks of 30 masks
    assert 60 + 2 * 5 < rows["pairs"]["masks"] <= 60 + 2 * (8 + 4 + 22 + 2) and rows["made"]["masks"] > 66
    kinds = {line["kind"]: line for line in record["summary"]}
    counts = {kind: (line["grammars"], line["refused"], line["on_classes"]) for kind, line in kinds.items()}
    assert counts == {"schema": (5, 1, 4), "ebnf": (2, 0, 2), "regex": (1, 1, 0)}
    assert sum(line["masks"] for line in kinds.values()) == record["masks"] == record["equal"]


def test_equality_says_where_the_time_ended(vocabulary_file: str, tmp_path: Path) -> None:
    grammar = tmp_path / "made.gbnf"
    grammar.write_text(GRAMMAR)
    named = ("--vocabulary", vocabulary_file) * 2
    given = ("equality", *named, "--grammars", grammar, "--seconds", 1e-6, "--walks", 9)
    _, record = benches.recorded(tmp_path / "out.json", *given)
    assert [row["within_seconds"] for row in record["rows"]] == [False, False]
    assert record["masks"] < 10 and record["summary"][0]["ended_early"] == 2  # of one name here


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[case]]\nname = 'a'\nkind = 'ebnf'", "not of the form"),
        (CASES.replace("'ebnf'", "'bnf'").replace('"ebnf"', '"bnf"'), "allowed are ebnf"),
        (CASES.replace("rejects = []", "rejects = []\nmore = 1"), "unknown keys"),
        ("", "no grammars there"),
    ],
)
def test_what_is_no_case_is_refused(vocabulary_file: str, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "cases.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_grammars([path])
    named = ("--vocabulary", vocabulary_file, "--grammars", path, "--json", tmp_path / "o.json")
    assert benches.run("equality", *named).exit_code == 2
