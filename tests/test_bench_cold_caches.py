"""What `--cold-caches` counts and times; no speed is asserted."""

from __future__ import annotations

import time
from typing import Any

import pytest

from bench import workloads
from bench.cold_caches import ColdCaches, is_taken
from equivalence import Vocabulary
from hybrid import GrammarCompiler

pytestmark = pytest.mark.kernels

TEXTS = [b"1", b"2", b"12", b"a", b""]
IDS = [0, 2, 0]
ENGINES = ("ours", "XGrammar")
PAUSE = 0.004


def compiled_by(regex: str) -> tuple[Any, Any]:
    vocabulary = Vocabulary.from_bytes(TEXTS, stop_token_ids=[4])
    plain = workloads.plain_compiler(vocabulary, 1)
    return GrammarCompiler(vocabulary).compile_regex(regex), plain.compile_regex(regex)


def test_calls_come_after_other_work_and_are_timed_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cold = ColdCaches(0.0, touched=1 << 20)
    touched: list[int] = []

    def touch() -> None:
        touched.append(1)
        time.sleep(PAUSE)

    monkeypatch.setattr(cold, "_touch", touch)
    cold.add(*compiled_by("[0-9]+"), IDS)
    spreads = cold.spreads()
    assert len(spreads) == 12 and "mask, llguidance, cold" not in spreads
    for engine in ENGINES:
        for what in ("mask", "token"):
            assert spreads[f"{what}, {engine}, warm"].count == 10 * len(IDS)
            assert spreads[f"{what}, {engine}, cold"].count == 2 * len(IDS)
            assert spreads[f"{what}, {engine}, cold"].p50 < PAUSE
    # masks and tokens of two engines in two rounds, and ten batches of each
    assert len(touched) == 2 * 2 * 2 * len(IDS) + 2 * 10


def test_the_memory_between_two_calls_is_changed() -> None:
    cold = ColdCaches(0.0, touched=1 << 20)
    cold._touch()
    assert cold._memory.nbytes == 1 << 20 and (cold._memory == 1).all()


def test_a_document_has_to_be_taken() -> None:
    ours, plain = compiled_by("[2-9]+")
    assert not is_taken(ours, IDS) and not is_taken(ours, []) and is_taken(ours, [1, 1])
    with pytest.raises(AssertionError, match="take the document"):
        ColdCaches(0.0, touched=1 << 10).add(ours, plain, IDS)
