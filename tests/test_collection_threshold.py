"""While a grammar is compiled, Python collects garbage less often; afterwards, as often as before."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from hybrid import GrammarCompiler, GrammarError, Vocabulary
from hybrid.compile.collection_threshold import NEW_OBJECTS, raise_threshold, restore_threshold

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


@pytest.fixture
def compiler() -> GrammarCompiler:
    tokens = [bytes([byte]) for byte in range(256)] + [b""]
    return GrammarCompiler(Vocabulary.from_bytes(tokens, stop_token_ids=[256]), cache_enabled=False)


def test_the_threshold_is_raised_during_a_compilation(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int, int]] = []

    def looked(usual: tuple[int, int, int]) -> None:
        raise_threshold(usual)
        seen.append(gc.get_threshold())

    monkeypatch.setattr("hybrid.compile.pipeline.raise_threshold", looked)
    compiler.compile_json_schema({"type": "string"}, semantics="json-schema")
    with pytest.raises(GrammarError):
        compiler.compile_json_schema({"type": "nothing"}, semantics="json-schema")
    assert seen == [(NEW_OBJECTS, 10, 10)] * 2
    assert gc.get_threshold() == USUAL


def test_a_program_that_chose_otherwise_is_left_alone() -> None:
    for threshold in ((0, 10, 10), (NEW_OBJECTS, 5, 5), (NEW_OBJECTS + 1, 10, 10)):
        gc.set_threshold(*threshold)
        raise_threshold(threshold)
        assert gc.get_threshold() == threshold
        restore_threshold(threshold)
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
    restore_threshold(USUAL)
    assert gc.get_threshold() == USUAL
    restore_threshold(USUAL)
    assert gc.get_threshold() == USUAL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_a_fork_collects_as_usual() -> None:
    raise_threshold(USUAL)
    child = os.fork()
    if not child:
        os._exit(0 if gc.get_threshold() == USUAL else 1)
    restore_threshold(USUAL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.get_threshold() == USUAL
