"""MaskBench and the JSON Schema test suite, on schemas of our own: outcomes, judges, cached results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from bench import workloads
from bench.json_schema import files, measurement, order, runner, summary, texts
from bench.json_schema.engines import make, missing
from bench.json_schema.judge import Judge, judged
from bench.json_schema.worker import JUDGE, every_byte
from bench.testsuite import count, read
from tests import benches
from tests.benches import vocabulary_with, write_schemas

SCHEMAS: dict[str, tuple[Any, list[tuple[bool, Any]]]] = {
    # The converter closes objects that do not say otherwise, and keeps to the order of properties.
    "open": (
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
        [(True, {"a": 1}), (True, {"b": 2, "a": 1}), (True, {"a": 1, "c": 3}), (False, {"a": "x"})],
    ),
    # It does not support `not`; and the last two instances are labelled wrongly.
    "negated": (
        {"type": "integer", "not": {"const": 3}},
        [(True, 4), (False, 3), (False, "x"), (True, 3), (False, 6)],
    ),
    "refused": ({"type": "no such type"}, [(False, 1)]),
}
ENGINE = "equimask:xgrammar"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder laid out like MaskBench's, and a vocabulary beside it."""
    vocabulary_with(b'{"', b'": ', b'"a"', b"12", b"}").save(tmp_path / "made.npz")
    return write_schemas(tmp_path / "data", SCHEMAS)


def ran(folder: Path, *arguments: object) -> tuple[str, Any]:
    """Run the benchmark to its end; return its output and its record."""
    named = ("maskbench", "--data", folder, "--engines", ENGINE)
    return benches.recorded(folder.parent / "out.json", *named, *arguments)


def test_outcomes_labels_and_resuming(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = ("--vocabulary", data.parent / "made.npz")
    output, record = ran(data, *vocabulary)
    told = record["rows"][ENGINE]
    expected = {
        "outcomes": {"done": 2, "refused": 1}, "dead_ends": 0, "unlike": 0, "failed": 0, "right": 0,
        "valid": 5, "valid_refused": 1,  # closed, but for that: 4, 6 and two objects
        "invalid": 4, "invalid_accepted": 2,  # 3, twice
        "schemas_refusing": 1, "schemas_accepting": 1, "schemas_accepting_silently": 0,
        "unwritten": {"properties, type": 1}, "accepted": {"not": 2},
        "spellings": {"as given": 3, "reordered": 1},
    }  # fmt: skip
    assert {name: told[name] for name in expected} == expected
    assert told["spreads"]["first_mask"]["count"] == 2 and told["spreads"]["steps"]["count"] > 20
    wrong = {(one["name"], one["instance"], one["label"]) for one in record["mislabelled"]}
    assert wrong == {("negated", 3, True), ("negated", 4, False)}
    assert "2 labels differ" in output

    never = Mock(side_effect=AssertionError("nothing is left to be asked"))
    monkeypatch.setattr(runner.Process, "begin", never)
    assert ran(data, *vocabulary)[1]["rows"] == record["rows"]
    other = benches.run("maskbench", "--data", data, "--engines", ENGINE, *vocabulary,
                        "--json", data.parent / "out.json", "--restore-unique-items")  # fmt: skip
    assert isinstance(other.exception, AssertionError)
    assert all(f"{name}: begun anew" in other.output for name in (JUDGE, ENGINE))


def test_a_quick_run_has_the_same_verdicts(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "Process", benches.WorkerHere)
    (data / "broken.json").write_text("{")
    output, record = ran(data, "--quick")
    told = record["rows"][ENGINE]
    assert (told["valid_refused"], told["invalid_accepted"], told["outcomes"]["refused"]) == (1, 2, 1)
    assert [one["what"] for one in told["wrong"] if one["name"] == "open"] == [
        'valid, and refused at 10: {"a": 1, " >>> c": 3}'
    ]
    assert list(record["not_read"]) == ["broken"] and "not read: broken.json" in output


def test_workers_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "WORKER", "tests.json_schema_worker")
    rows = {}
    # growing may take a while on a busy machine
    for seconds, some in ((120, ("first", "crashes", "grows", "last")), (2, ("first", "hangs", "last"))):
        lane = runner.Lane(runner.Settings("none", seconds=seconds, gibibytes=0.5))
        try:
            for name in some:
                rows[name] = lane.serve(workloads.SchemaFile(name, {}, [], []), ["xgrammar"])["xgrammar"]
        finally:
            lane.end()
        assert rows["first"]["pid"] != rows["last"]["pid"]
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "first": "done", "hangs": "over time", "crashes": "crashed", "grows": "over memory", "last": "done",
    }  # fmt: skip
    assert rows["hangs"]["first_mask"] == 1.0  # its earlier output
    counted = summary.Standing()
    for name in ("hangs", "crashes", "grows"):
        counted.add(rows[name], [], {"verdicts": [], "why": []})
    assert counted.right == 0 and len(counted.wrong) == 3


def test_results_survive_a_line_that_is_cut(tmp_path: Path) -> None:
    def opened(version: int) -> runner.ResultFile:
        return runner.ResultFile(tmp_path, "a:b", {"version": version})

    for name in ("one", "two"):
        kept = opened(1)
        kept.add({"name": name, "outcome": "done"})
        kept.close()
        with kept.path.open("a") as file:
            file.write('{"name": "tw')
    assert list(opened(1).rows) == ["one", "two"]
    other = opened(2)
    assert other.begun_anew and not other.rows


@pytest.mark.parametrize("name", ["equimask:xgrammar", "xgrammar", "xgrammar:no-strict", "llguidance"])
def test_each_engine_reads_as_it_steps(name: str) -> None:
    if why := missing(name):
        pytest.skip(why)
    vocabulary = every_byte()
    engine = make(name, vocabulary)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    instances = [{"a": 1}, {"a": "x"}, {}, {"a": -20}]
    *_, quick = measurement.check(engine, schema, instances)
    *_, full = measurement.measure(engine, vocabulary, schema, instances)
    for found in (quick, full):
        assert not found.refusal and not any(one.failure for one in found.instances)
    assert [bool(one.how) for one in full.instances] == [True, False, False, True]
    assert [one.how for one in quick.instances] == [one.how for one in full.instances]
    assert full.dead_ends == full.unlike == 0 and len(full.masks) > len(full.tokens) > 20
    *_, refused = measurement.measure(engine, vocabulary, {"type": "no such type"}, [1])
    assert refused.refusal and not refused.instances and refused.first_mask is None


ORDERED = {
    "$defs": {"pair": {"properties": {"y": {}, "x": {"properties": {"q": {}, "p": {}}}}}},
    "allOf": [{"properties": {"c": {"items": {"$ref": "#/$defs/pair"}}}}],
    "properties": {"b": {}, "a": {}},
    "anyOf": [{"properties": {"d": {}}}, {"$ref": "#/$defs/none"}],
    "additionalProperties": {"$ref": "#/$defs/pair"},
}
NEEDED = {"dependentRequired": {"d": ["b"]}, "required": ["c"]}
NAMED = {"required": ["c"], "const": {"d": 1, "b": 2}, "allOf": [{"properties": {"a": {}}}]}
EITHER = {"anyOf": [{"properties": {"a": {"type": "null"}, "b": {}}}, {"properties": {"b": {}, "a": {}}}]}
TYPED = {"properties": {"a": {"type": "integer"}, "b": {"properties": {"d": {"type": "null"}}}}}


@pytest.mark.parametrize(
    ("ordered", "schema", "instance", "text"),
    [
        (
            order.declared, ORDERED,
            {"z": {"x": 1, "y": 2}, "d": 4, "a": 1, "b": 2, "c": [{"x": {"p": 1, "q": 2}, "y": 2}]},
            '{"b": 2, "a": 1, "c": [{"y": 2, "x": {"q": 2, "p": 1}}], "d": 4, "z": {"y": 2, "x": 1}}',
        ),
        (order.declared, {"$ref": "#"}, {"b": 1}, '{"b": 1}'),
        (order.declared, NEEDED, {"a": 1, "b": 2, "c": 3, "d": 4}, '{"c": 3, "d": 4, "b": 2, "a": 1}'),
        (order.declared, NAMED, {"x": 0, "a": 1, "b": 2, "c": 3, "d": 4},
         '{"c": 3, "d": 4, "b": 2, "a": 1, "x": 0}'),
        (order.declared, EITHER, {"b": 1, "a": 2}, '{"a": 2, "b": 1}'),
        (order.by_alternatives, EITHER, {"a": 2, "b": 1}, '{"b": 1, "a": 2}'),
        (order.by_alternatives, EITHER, {"b": 2, "a": None}, '{"a": null, "b": 2}'),
        (order.canonical, TYPED, {"z": 1, "b": {"y": 2, "d": None}, "a": 3},
         '{"a": 3, "b": {"d": null, "y": 2}, "z": 1}'),
        (order.canonical, TYPED, {"b": 1, "a": "x"}, None),  # any order
    ],
)  # fmt: skip
def test_order_of_keys(ordered: Any, schema: Any, instance: Any, text: str | None) -> None:
    found = ordered(schema, instance)
    assert found == instance
    if text is not None:
        assert json.dumps(found) == text


def test_places_of_bytes_and_the_keywords_there() -> None:
    instance = {"a": [1, {"é": "x"}], "b": {}}
    text = texts.written(instance, (", ", ": ")).decode()
    paths = {"{": [], '"a"': [], "1": ["a", 0], ", {": ["a"], '"x': ["a", 1, "é"], "}}": ["b"]}
    for found, path in paths.items():
        assert texts.place_at(instance, len(text[: text.index(found)].encode())) == path
    assert texts.place_at(instance, 99) == [] and texts.place_at("x", 1) == []
    items = {"allOf": [{"$ref": "#/$defs/b"}]}
    schema = {"properties": {"a": {"items": items}}, "$defs": {"b": {"type": "null"}}}
    assert order.keywords_at(schema, ["a", 1]) == ["allOf", "$ref", "type"]
    assert order.keywords_at(schema, ["none"]) == []
    assert summary.what_stands_there(["type", "pattern", "title"]) == "pattern"
    assert summary.what_stands_there(["title"]) == "no keyword"


def test_unique_items_are_restored_where_they_are_a_keyword() -> None:
    schema = {"_uniqueItems": True, "properties": {"_uniqueItems": {"items": {"_uniqueItems": True}}},
              "const": {"_uniqueItems": 1}}  # fmt: skip
    assert files.restored(schema) == {
        "uniqueItems": True, "properties": {"_uniqueItems": {"items": {"uniqueItems": True}}},
        "const": {"_uniqueItems": 1},
    }  # fmt: skip


def test_reasons() -> None:
    for said, counted in (
        ('ValueError: Unimplemented keys: ["uniqueItems"]', "uniqueItems"),
        ("RuntimeError: [04:34:00] /x/y.cc:49: Check failed: (a) is false: `not` is odd", "not"),
        ("UnsupportedGrammar: multipleOf of 3 digits\nmore", "multipleOf"),
        ("ValueError: Unknown format: 'path' 17", "Unknown format: ... ..."),
        ("", "nothing said"),
    ):
        assert summary.reason(said) == counted


def test_spellings() -> None:
    schema: Any = {"properties": {"a": {}, "b": {}}}
    found = {text: how for how, text in texts.spellings(schema, {"b": 1e20, "a": [2.0, 0.5]})}
    assert next(iter(found.items())) == (b'{"b": 1e+20, "a": [2.0, 0.5]}', "as given")
    assert found[b'{"a": [2, 0.5], "b": 1' + b"0" * 20 + b"}"] == "reordered, plain numbers"
    assert found[b'{"b":1e+20,"a":[2.0,0.5]}'] == "compact"
    assert len(found) == 8 and all(json.loads(text) == {"a": [2, 0.5], "b": 1e20} for text in found)
    assert [text for _, text in texts.spellings({}, "a\ud800é")] == ['"a\\ud800é"'.encode()]
    fourth: Any = {"$schema": "http://json-schema.org/draft-04/schema#", "items": {"type": "integer"}}
    found = {text: how for how, text in texts.spellings(fourth, [2.0, 1e20])}
    assert found[b"[2.0, 100000000000000000000.0]"] == "plain numbers" and len(found) == 4
    assert b"[1]" in [text for _, text in texts.spellings({**fourth, "items": {"enum": [1]}}, [1.0])]
    assert texts.plain_number(-0.00025) == "-0.00025" and texts.plain_number(1e-7) == "0.0000001"


def test_verdicts() -> None:
    properties = {"a": {"format": "ipv4"}, "b": {"$ref": "#/$defs/c"}}
    judge = Judge({"properties": properties, "$defs": {"c": {"type": "null"}}})
    assert judge.verdict({"a": "127.0.0.1", "b": None}).valid is True
    assert judge.verdict({"a": "127.0.0"}).why == ("format",)
    assert judge.verdict({"b": 1}).why == ("type",)
    elsewhere = Judge({"$ref": "https://example.com/none.json"}).verdict(1)
    assert elsewhere.valid is None and judged(True, elsewhere.valid) and not judged(False, elsewhere.valid)
    unchecked = Judge({"format": "ipv4", "$schema": "http://json-schema.org/draft-04/schema#"})
    unchecked.unchecked = ["made"]
    assert unchecked.verdict("127.0.0.1").valid is None and unchecked.verdict("x").valid is False
    assert not judged(True, False) and judged(False, True)


def test_the_test_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "Process", benches.WorkerHere)
    folder = tmp_path / "suite" / "tests" / "draft7"
    folder.mkdir(parents=True)
    for part, more, refused in (("not", {"not": {"const": 3}}, 3), ("type", {}, "x")):
        tests = [{"description": "", "data": data, "valid": data == 4} for data in (refused, 4)]
        group = {"description": part, "schema": {"type": "integer", **more}, "tests": tests}
        (folder / f"{part}.json").write_text(json.dumps([group]))
    suite = tmp_path / "suite"
    named = ("testsuite", "--data", suite, "--engines", ENGINE, "--draft", "draft7")
    told = benches.recorded(tmp_path / "out.json", *named)[1]["rows"][ENGINE]
    assert told["parts"]["draft7"]["type"] == {"right": 2, "wrong": 0, "refused": 0, "ended": 0}
    assert told["parts"]["draft7"]["not"]["wrong"] == 1
    assert [one["case"] for one in told["mistakes"]] == ["draft7/not#0"]
    assert count(read(suite, ["draft7"])[-1], {"outcome": "over time"}) == {"ended": 2}
    for draft, message in (("draft4", "no tests/draft4"), ("draft3", "no draft 'draft3'")):
        with pytest.raises(ValueError, match=message):
            read(suite, [draft])
