"""What `python -m bench steps` compares and writes, and what `--cold-caches` counts; no speed is asserted."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from bench import steps, workloads
from bench.cold_caches import ColdCaches, is_taken
from equivalence import Vocabulary
from hybrid import GrammarCompiler
from tests.benches import recorded, vocabulary_with


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Any]:
    """Run the command over bytes, with few calls, to an exit status; return its record."""
    vocabulary_with().save(tmp_path / "bytes.npz")
    monkeypatch.setattr(steps, "TURNS", {"warm": (1, 2), "cold": (1, 1), "busy": (1, 1)})
    monkeypatch.setattr(steps, "TOUCHED_BYTES", 1 << 16)
    given = ["steps", "--vocabulary", tmp_path / "bytes.npz", "--schemas", 2]
    given += ["--rows", 1, "--rows", 5, "--drafts", 0, "--drafts", 3]
    return lambda status: recorded(tmp_path / "out.json", *given, status=status)[1]


def test_ways_are_compared_and_timed(run: Callable[[int], Any]) -> None:
    record = run(0)
    assert not record["differences"] and record["rows"] == 1 + 5 + 4 * (1 + 5)
    assert [(row.pop("size"), row.pop("drafts")) for row in record["steps"]] == [
        (1, 0),
        (5, 0),
        (1, 3),
        (5, 3),
    ]
    for ways in record["steps"]:
        assert {"ours, one call", "ours, row by row", "XGrammar, row by row"} < {*ways}
        for way in ways.values():
            counts = {regime: one["wall"]["count"] for regime, one in way.items()}
            assert counts == {"warm": 2, "cold": 1, "busy": 1}


def test_a_difference_is_told(run: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    by_rows = steps.by_rows

    def wrong(matchers: Any, bitmask: Any, drafts: Any) -> None:
        by_rows(matchers, bitmask, drafts)
        bitmask[-1, 3] ^= 1

    monkeypatch.setattr(steps, "by_rows", wrong)
    assert run(1)["differences"] == 4 * 2


# --- Cold caches -------------------------------------------------------------------------------------------

TEXTS = [b"1", b"2", b"12", b"a", b""]
IDS = [0, 2, 0]
PAUSE = 0.004


def compiled_by(regex: str) -> tuple[Any, Any]:
    vocabulary = Vocabulary.from_bytes(TEXTS, stop_token_ids=[4])
    plain = workloads.plain_compiler(vocabulary, 1)
    return GrammarCompiler(vocabulary).compile_regex(regex), plain.compile_regex(regex)


@pytest.mark.kernels
def test_calls_come_after_other_work_and_are_timed_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cold = ColdCaches(0.0, touched=1 << 20)
    touch = Mock(side_effect=lambda: time.sleep(PAUSE))
    monkeypatch.setattr(cold, "_touch", touch)
    cold.add(*compiled_by("[0-9]+"), IDS)
    spreads = cold.spreads()
    assert len(spreads) == 12 and "mask, llguidance, cold" not in spreads
    for what, engine in product(("mask", "token"), ("ours", "XGrammar")):
        assert spreads[f"{what}, {engine}, warm"].count == 10 * len(IDS)
        assert spreads[f"{what}, {engine}, cold"].count == 2 * len(IDS)
        assert spreads[f"{what}, {engine}, cold"].p50 < PAUSE
    # masks and tokens of two engines in two rounds, and ten batches of each
    assert touch.call_count == 2 * 2 * 2 * len(IDS) + 2 * 10


@pytest.mark.kernels
def test_the_memory_between_two_calls_is_changed() -> None:
    cold = ColdCaches(0.0, touched=1 << 20)
    cold._touch()
    assert cold._memory.nbytes == 1 << 20 and (cold._memory == 1).all()


@pytest.mark.kernels
def test_a_document_has_to_be_taken() -> None:
    ours, plain = compiled_by("[2-9]+")
    assert not is_taken(ours, IDS) and not is_taken(ours, []) and is_taken(ours, [1, 1])
    with pytest.raises(AssertionError, match="take the document"):
        ColdCaches(0.0, touched=1 << 10).add(ours, plain, IDS)
