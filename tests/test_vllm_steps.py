"""Which rows of a vLLM step are filled in one call, and which by vLLM's loop, with a stand-in for vLLM.

What: the stand-in's loop marks the rows of its requests, which shows what filled each row.
When: if vLLM is not installed; `tests/test_vllm_managers.py` compares with vLLM's own loop.
Limits: vLLM's loop is not run.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hybrid.api.calls import masks_filled
from tests.engines import EBNF, SIZE, STOP
from tests.test_adapters_vllm import engine, vllm  # noqa: F401

WORDS = SIZE // 32
BY_LOOP = 0x600D


class Grammar:
    """Stand-in for the object that vLLM's backend makes around a matcher."""

    def __init__(self, matcher: Any) -> None:
        self.matcher, self.ended = matcher, False

    def is_terminated(self) -> bool:
        return self.ended


def loop(self: Any, requests: Any, names: list[str], drafts: dict[str, list[int]]) -> Any:
    """Stand-in for vLLM's loop: mark the first row of each of its requests."""
    self.asked.append(names)
    row = 0
    for name in names:
        self._grammar_bitmask[row] = BY_LOOP
        row += self.stride or len(drafts.get(name, ())) + 1
    return self._grammar_bitmask[:row].numpy()


@pytest.fixture
def make(engine):  # noqa: F811
    """Return a function that makes a manager and requests, strided or not; the matchers are the adapter's."""
    backend = engine()

    def made(is_strided: bool, count: int, n_drafts: int) -> tuple[Any, dict[str, Any], Any]:
        model = SimpleNamespace(is_diffusion=False)
        manager = SimpleNamespace(
            _grammar_bitmask=torch.full((count * (n_drafts + 1), WORDS), 7, dtype=torch.int32), asked=[],
            enable_in_reasoning=False, reasoner_cls=None, stride=is_strided * (n_drafts + 1),
            vllm_config=SimpleNamespace(num_speculative_tokens=n_drafts, model_config=model),
        )  # fmt: skip
        requests = {}
        for number in range(count):
            asked = SimpleNamespace(grammar=Grammar(backend.grammar_init("ebnf", EBNF)), reasoning_ended=None)
            requests[f"{number}"] = SimpleNamespace(structured_output_request=asked)
        steps = sys.modules["adapters.vllm.steps"]
        return manager, requests, steps.in_one_call(loop, Grammar, is_strided)  # type: ignore[attr-defined]

    return made


def grammar(requests: dict[str, Any], name: str) -> Grammar:
    return requests[name].structured_output_request.grammar


@pytest.mark.parametrize("is_strided", [True, False])
def test_only_rows_of_others_are_the_loops(make, is_strided):
    manager, requests, ask = make(is_strided, 6, 2)
    drafts = {"0": [ord("a"), ord("1")], "1": [ord("b")], "2": [ord("1"), -1], "4": [ord("a")]}
    grammar(requests, "3").ended = True
    grammar(requests, "4").matcher.has_failed = True
    firsts = [0, 3, 6, 9, 12, 15] if is_strided else [0, 3, 5, 8, 9, 11]
    names = list(requests)
    before = masks_filled()
    found = torch.from_numpy(ask(manager, requests, names, drafts).copy())
    assert masks_filled() - before == 9  # metrics count all rows that we fill
    assert len(found) == (18 if is_strided else 12)
    assert manager.asked == [["3", "4"]]  # one call for adjacent requests
    for name, first in zip(names, firsts, strict=True):
        if name in "34":
            assert bool(found[first].eq(BY_LOOP).all())
            continue
        expected = torch.zeros((1, WORDS), dtype=torch.int32)
        grammar(requests, name).matcher.fill_next_token_bitmask(expected)
        assert found[first].equal(expected[0])
    assert found[firsts[1] + 1].equal(found[firsts[1]])  # a draft that is refused
    assert found[firsts[2] + 2].eq(-1).all()  # padding
    assert manager._grammar_bitmask.shape[0] == 18


def test_who_thinks_is_the_loops(make):
    manager, requests, ask = make(True, 3, 0)
    manager.reasoner_cls = object
    requests["1"].structured_output_request.reasoning_ended = True
    ask(manager, requests, list(requests), {})
    assert manager.asked == [["0"], ["2"]]
    manager.enable_in_reasoning = True
    ask(manager, requests, list(requests), {})
    assert manager.asked == [["0"], ["2"]]


def test_the_whole_step_is_the_loops(make):
    manager, requests, ask = make(True, 2, 1)
    names, whole = list(requests), manager._grammar_bitmask
    manager._grammar_bitmask = None
    with pytest.raises(TypeError):  # the stand-in allocates nothing
        ask(manager, requests, names, {})
    manager._grammar_bitmask = whole
    ask(manager, requests, names, {"0": [STOP, STOP]})  # more drafts than rows
    grammar(requests, "0").matcher.accept_token(ord("1"))
    grammar(requests, "0").matcher.accept_token(STOP)  # the grammar object does not know this
    ask(manager, requests, names, {})
    manager.vllm_config.model_config.is_diffusion = True
    ask(manager, requests, names, {})
    assert manager.asked == [names] * 4


def test_a_loop_that_is_not_known_stays(vllm):  # noqa: F811
    adapter, module, *_ = vllm()
    module.StructuredOutputManager.grammar_bitmask = loop
    adapter.register()
    assert module.StructuredOutputManager.grammar_bitmask.__wrapped__ is loop
