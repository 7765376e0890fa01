"""What `python -m bench steps` compares and writes; no speed is asserted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench import steps
from bench.__main__ import app
from tests.benches import vocabulary_with


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[int, Any]]:
    """Run the command over bytes, with few calls; return its exit status and its record."""
    path, target = tmp_path / "bytes.vocab.npz", tmp_path / "out.json"
    vocabulary_with().save(path)
    monkeypatch.setattr(steps, "TURNS", {"warm": (1, 2), "cold": (1, 1), "busy": (1, 1)})
    monkeypatch.setattr(steps, "TOUCHED_BYTES", 1 << 16)

    def asked() -> tuple[int, Any]:
        given = ["--vocabulary", str(path), "--json", str(target), "--schemas", "2"]
        rows = ["--rows", "1", "--rows", "5", "--drafts", "0", "--drafts", "3"]
        done = CliRunner().invoke(app, ["steps", *given, *rows])
        return done.exit_code, json.loads(target.read_text())

    return asked


def test_ways_are_compared_and_timed(run: Callable[[], tuple[int, Any]]) -> None:
    status, record = run()
    assert status == 0 and not record["differences"]
    assert record["rows"] == 1 + 5 + 4 * (1 + 5)
    assert [(row["size"], row["drafts"]) for row in record["steps"]] == [(1, 0), (5, 0), (1, 3), (5, 3)]
    for row in record["steps"]:
        ways = [name for name in row if name not in ("size", "drafts")]
        assert {"ours, one call", "ours, row by row", "XGrammar, row by row"} < {*ways}
        for name in ways:
            assert {regime: one["wall"]["count"] for regime, one in row[name].items()} == {
                "warm": 2, "cold": 1, "busy": 1
            }  # fmt: skip


def test_a_difference_is_told(run: Callable[[], tuple[int, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    by_rows = steps.by_rows

    def wrong(matchers: Any, bitmask: Any, drafts: Any) -> None:
        by_rows(matchers, bitmask, drafts)
        bitmask[-1, 3] ^= 1

    monkeypatch.setattr(steps, "by_rows", wrong)
    status, record = run()
    assert status == 1 and record["differences"] == 4 * 2
