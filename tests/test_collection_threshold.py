"""While a grammar is compiled, Python collects garbage less often; afterwards, as often as before."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from hybrid import GrammarCompiler, GrammarError
from hybrid.compile.collection_threshold import NEW_OBJECTS, raise_threshold, restore_threshold
from tests.test_artifact import VOCABULARY
from tests.test_forks import in_a_child

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_the_threshold_is_raised_during_a_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY, semantics="json-schema")
    seen: list[tuple[int, int, int]] = []

    def looked(usual: tuple[int, int, int]) -> None:
        raise_threshold(usual)
        seen.append(gc.get_threshold())

    monkeypatch.setattr("hybrid.compile.pipeline.raise_threshold", looked)
    compiler.compile_json_schema({"type": "string"})
    with pytest.raises(GrammarError):
        compiler.compile_json_schema({"type": "nothing"})
    assert seen == [(NEW_OBJECTS, 10, 10)] * 2
    assert gc.get_threshold() == USUAL


def test_a_program_that_chose_otherwise_is_left_alone() -> None:
    for threshold in ((0, 10, 10), (NEW_OBJECTS, 5, 5), (NEW_OBJECTS + 1, 10, 10)):
        gc.set_threshold(*threshold)
        for change in (raise_threshold, restore_threshold):
            change(threshold)
            assert gc.get_threshold() == threshold
    gc.set_threshold(*USUAL)
    gc.disable()
    try:
        raise_threshold(USUAL)
        assert gc.get_threshold() == USUAL
    finally:
        gc.enable()
    raise_threshold(USUAL)
    gc.set_threshold(1_000, 3, 3)  # meanwhile
    restore_threshold(USUAL)
    assert gc.get_threshold() == (1_000, 3, 3)


def test_of_overlapping_compilations_the_first_to_end_sets_it_back() -> None:
    raise_threshold(USUAL)
    raised = gc.get_threshold()
    raise_threshold(raised)  # one that begins meanwhile
    restore_threshold(raised)
    assert gc.get_threshold() == raised
    raise_threshold(USUAL)  # one that looked before
    for _ in range(2):
        restore_threshold(USUAL)
        assert gc.get_threshold() == USUAL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_a_fork_collects_as_usual() -> None:
    def work() -> None:
        assert gc.get_threshold() == USUAL

    raise_threshold(USUAL)
    in_a_child(work)
    restore_threshold(USUAL)
    assert gc.get_threshold() == USUAL
