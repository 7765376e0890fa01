"""While a grammar is compiled, Python collects garbage less often; afterwards, as often as before."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest

from hybrid import GrammarCompiler, GrammarError, Vocabulary
from hybrid.compile import collection_threshold
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

    def looked() -> bool:
        is_raised = raise_threshold()
        seen.append(gc.get_threshold())
        return is_raised

    monkeypatch.setattr("hybrid.compile.pipeline.raise_threshold", looked)
    compiler.compile_json_schema({"type": "string"}, semantics="json-schema")
    with pytest.raises(GrammarError):
        compiler.compile_json_schema({"type": "nothing"}, semantics="json-schema")
    assert seen == [(NEW_OBJECTS, 10, 10)] * 2
    assert gc.get_threshold() == USUAL


def test_a_program_that_chose_otherwise_is_left_alone() -> None:
    for threshold in ((0, 10, 10), (NEW_OBJECTS, 5, 5), (NEW_OBJECTS + 1, 10, 10)):
        gc.set_threshold(*threshold)
        assert not raise_threshold()
        assert gc.get_threshold() == threshold
    gc.set_threshold(*USUAL)
    gc.disable()
    try:
        assert not raise_threshold()
    finally:
        gc.enable()
    assert raise_threshold()
    gc.set_threshold(1_000, 3, 3)  # meanwhile
    restore_threshold()
    assert gc.get_threshold() == (1_000, 3, 3)


def test_of_overlapping_compilations_the_first_sets_it_back() -> None:
    assert raise_threshold()
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(raise_threshold()))
    thread.start()
    thread.join()
    assert answers == [False]
    restore_threshold()
    assert gc.get_threshold() == USUAL
    assert raise_threshold()
    restore_threshold()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_a_fork_collects_as_usual() -> None:
    raised, over = threading.Event(), threading.Event()

    def compiles() -> None:
        raise_threshold()
        raised.set()
        over.wait(60)
        restore_threshold()

    thread = threading.Thread(target=compiles)
    thread.start()
    raised.wait(60)
    child = os.fork()
    if not child:
        is_usual = gc.get_threshold() == USUAL and not collection_threshold._raised.locked()
        os._exit(0 if is_usual else 1)
    over.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.get_threshold() == USUAL
