"""The bench of second sights finds in the folder what it wrote, compares masks and counts what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench import again
from bench.__main__ import app
from equivalence.vocabulary import Vocabulary

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a"],
}


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    folder = tmp_path / "schemas"
    folder.mkdir()
    for name, schema, instances in (
        ("object", SCHEMA, [{"a": "hello", "b": [1, 22]}]),
        ("choice", {"enum": ["x", 3]}, []),
        ("refused", {"type": "no such type"}, [1]),
    ):
        tests = [{"valid": True, "data": data} for data in instances]
        (folder / f"{name}.json").write_text(json.dumps({"schema": schema, "tests": tests}))
    tokens = [*(bytes([value]) for value in range(256)), b"", b'": ', b'{"', b"hello"]
    Vocabulary.from_bytes(tokens, stop_token_ids=[256]).save(tmp_path / "made.npz")
    return ["again", "--vocabulary", str(tmp_path / "made.npz"), "--schemas", str(folder)]


def test_again(arguments: list[str], tmp_path: Path) -> None:
    target, kept = tmp_path / "out.json", tmp_path / "kept"
    done = CliRunner().invoke(app, [*arguments, "--json", str(target), "--cache-dir", str(kept)])
    assert done.exit_code == 0, done.output
    assert len(list(kept.glob("compiled-*.equimask"))) == 3, "two schemas and the throw-away one"
    record = json.loads(target.read_text())
    rows = {row["name"]: row for row in record["rows"]}
    assert rows["refused"]["refusal"] and not rows["refused"]["found"]
    for name in ("object", "choice"):
        row = rows[name]
        assert row["found"] and row["equal"] and row["strategy"] == "classifier"
        assert min(row[part] for part in ("compile", "as_dict", "as_text", "disk", "disk_cpu")) > 0
    assert rows["object"]["masks"] > 4 and rows["choice"]["masks"] == 0
    summary = record["summary"]
    assert (summary["schemas"], summary["refused"], summary["not_on_disk"]) == (3, 1, {})
    assert summary["spreads"]["on disk, new process"]["count"] == 2
    assert "on 0 schemas different" in done.output


def test_other_masks_of_the_new_process_are_a_difference(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(again, "mask_digest", lambda *_: b"of nothing")
    done = CliRunner().invoke(app, [*arguments, "--json", str(tmp_path / "out.json")])
    assert done.exit_code == 1
    assert "DIFFERENCE object: masks of the new process are others" in done.output
