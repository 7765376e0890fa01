"""The bench of strategies compares, adds up and writes what it says; hostile schemas are what they say."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bench import adversarial, strategies, workloads
from bench.__main__ import app
from bench.forked import in_a_fork
from bench.ways import Costs, Document, KeptAsBefore
from equivalence.vocabulary import Vocabulary
from hybrid import GrammarCompiler

STOP = 256
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a"],
}

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the engine is compiled in a forked process")


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    words = [b'"a"', b'": ', b'{"', b'"}', b", ", b"true", b"12", b"hello", b" world", b"]}"]
    return Vocabulary.from_bytes([*(bytes([v]) for v in range(256)), b"", *words], stop_token_ids=[STOP])


def costs(compile_seconds: float, documents: list[tuple[int, float]]) -> Costs:
    made = Costs("x", compile=[compile_seconds], compile_cpu=[compile_seconds])
    made.documents = [Document(tokens, seconds, seconds, 2 * seconds) for tokens, seconds in documents]
    return made


def test_totals_are_of_what_was_run_and_beyond_it_by_tokens() -> None:
    one = costs(5.0, [(10, 1.0)] * 5 + [(10, 0.5)] * 5)
    lengths = [10] * 10 + [30, 10]
    assert one.total(0, lengths, "wall", "masks") == 5.0
    assert one.total(3, lengths, "wall", "masks") == 8.0
    assert one.total(3, lengths, "wall", "masks and tokens") == 11.0
    # beyond the ten that were run: 0.05 s a token; the eleventh has 30 tokens, those that nobody cut the mean
    assert one.total(11, lengths, "cpu", "masks") == pytest.approx(12.5 + 1.5)
    assert one.total(14, lengths, "cpu", "masks") == pytest.approx(12.5 + 2 + 2 * 0.05 * 140 / 12)


def test_cpu_time_is_shared_as_wall_time_is() -> None:
    document = Document(10, fill=3.0, accept=1.0, cpu=2.0)
    assert document.seconds("wall", "masks") == 3.0
    assert document.seconds("cpu", "masks") == 1.5
    assert document.seconds("cpu", "masks and tokens") == 2.0
    assert Document(0, 0.0, 0.0, 0.0).seconds("cpu", "masks") == 0.0


def test_the_share_that_is_near_counts_what_cannot_be_had() -> None:
    found = strategies.near([1.0, 1.2, 1.3, None])
    assert (found["share"], found["known"], found["max"]) == (0.5, 3, 1.3)
    assert strategies.near([None])["share"] == 0.0


def test_kept_walks_are_put_back(vocabulary: Vocabulary) -> None:
    compiler = GrammarCompiler(vocabulary, cache_enabled=False)
    compiler.compile_json_schema({"type": "boolean"})
    kept = KeptAsBefore(vocabulary)
    before = vocabulary.kept_walks.n_bytes, vocabulary.kept_walks.misses
    found = []
    for _ in range(2):
        kept.restore()
        assert (vocabulary.kept_walks.n_bytes, vocabulary.kept_walks.misses) == before
        compiled = compiler.compile_json_schema(SCHEMA)
        assert compiled.classes is not None
        found.append((vocabulary.kept_walks.n_bytes, vocabulary.kept_walks.misses))
    assert found[0] == found[1] != before


@needs_fork
def test_strategies(vocabulary: Vocabulary, tmp_path: Path) -> None:
    folder, target = tmp_path / "schemas", tmp_path / "out.json"
    folder.mkdir()
    contents: dict[str, Any] = {
        "object": (SCHEMA, [{"a": "hello world", "b": [1, 22]}, {"b": []}]),
        "choice": ({"enum": ["x", 3]}, ["x"]),
        "unused": ({"type": "integer"}, []),
        "refused": ({"type": "no such type"}, [1]),
    }
    for name, (schema, instances) in contents.items():
        tests = [{"valid": True, "data": data} for data in instances]
        (folder / f"{name}.json").write_text(json.dumps({"schema": schema, "tests": tests}))
    vocabulary.save(tmp_path / "made.npz")
    done = CliRunner().invoke(
        app,
        [
            *("strategies", "--vocabulary", str(tmp_path / "made.npz"), "--schemas", str(folder)),
            *("--json", str(target), "--documents", "12"),
        ],
    )
    assert done.exit_code == 0, done.output
    record = json.loads(target.read_text())
    rows = {row["name"]: row for row in record["rows"]}
    assert {name for name, row in rows.items() if row["outcome"] == "measured"} == {
        "object",
        "choice",
        "unused",
    }
    assert rows["refused"]["outcome"] == "refused"
    row = rows["object"]
    assert set(row["ways"]) == {"classifier", "on demand", "representatives", "engine", "auto"}
    assert row["documents"] == 12 and row["tokens"] > 12
    assert rows["unused"]["documents"] == 0
    # both documents of ours among each other, and of each of the four with XGrammar
    assert row["masks"] > 7 * 5 and row["differences"] == []
    for way in row["ways"].values():
        assert way["documents"] == 12
        totals = way["totals"]["cpu"]["masks"]
        assert 0 < totals["0"] < totals["10"] <= totals["1000"]
    assert row["features"]["sizes"]["states"] > 0
    assert row["features"]["strategy"] == "classifier"
    near = record["summary"]["near"]["cpu, masks, 10"]
    assert sum(found["best"] for found in near.values()) == record["summary"]["schemas"] == 3
    assert "0 differences" in done.output


@needs_fork
def test_a_way_with_other_masks_is_a_difference(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = strategies.StrategiesBench(vocabulary, documents=3)
    file = workloads.SchemaFile("x", {"type": "boolean"}, (True,), ())
    other = GrammarCompiler(vocabulary, strategy="representatives", cache_enabled=False)

    class Wrong:
        def compile_json_schema(self, *_: object, **__: object) -> Any:
            return other.compile_grammar('root ::= "true" | "12"')

        def settle(self) -> None:
            """Nothing goes on in the background."""

    monkeypatch.setitem(bench.compilers, "representatives", Wrong())
    row = bench.measure(file)
    assert row.outcome == "differs"
    assert any("the masks of representatives differ" in line for line in row.differences)
    assert any(line.startswith("representatives: mask") for line in row.differences)
    assert strategies.summarise([row])["schemas"] == 0


@needs_fork
def test_an_engine_that_takes_too_long_is_not_the_best(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strategies, "COMPARING_SECONDS", 0.0)
    bench = strategies.StrategiesBench(vocabulary, 3, way_seconds=0.1, max_plain_seconds=0.1)

    class Slow:
        def compile_json_schema(self, *_: object, **__: object) -> Any:
            time.sleep(60)

    bench.compilers["engine"] = Slow()
    row = bench.measure(workloads.SchemaFile("x", {"type": "boolean"}, (True,), ()))
    assert row.outcome == "measured"
    assert "not within" in row.costs["engine"].error
    assert row.ratio("engine", 1, "cpu", "masks") is None
    assert row.ratio("auto", 1, "cpu", "masks") is not None


def test_work_in_a_fork_may_crash() -> None:
    if not hasattr(os, "fork"):
        pytest.skip("no forks here")
    assert in_a_fork(lambda: {"a": list(range(100_000))}, 30)["a"][-1] == 99_999
    assert in_a_fork(lambda: os._exit(3), 30) is None
    assert in_a_fork(lambda: np.zeros(1), 30) is None


# --- Schemas that are meant to hurt -------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["small", "large"])
def test_adversarial_schemas_are_json_and_have_names(size: Any) -> None:
    names = []
    for name, schema in adversarial.adversarial(size):
        names.append(name)
        text = adversarial.as_text(schema)
        assert text.isascii()
        if "nested to depth 10000" not in name and "opening brackets" not in name:
            assert isinstance(json.loads(text), dict)
    assert len(set(names)) == len(adversarial.KINDS)


def test_malformed_schemas_have_names() -> None:
    names = [name for name, _ in adversarial.malformed()]
    assert len(set(names)) == len(names) > 20
