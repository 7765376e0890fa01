"""What the vLLM adapter reports to requests, and how it keeps token limits, with a stand-in for vLLM."""

import json
import logging
import random
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from adapters.engines import notices
from equivalence import BudgetExceeded
from hybrid.completion import Completion
from tests import test_adapters_vllm as shared
from tests.engine_requests import cut_off, guesses
from tests.engines import EBNF, EOT, LOOSE, SHORTEST, SIZE, STOP, TIGHT, TWO, bits, mask_of

vllm, registered = shared.vllm, shared.engine  # fixtures

TOLD: list[notices.Notice] = []
"""What the operator's hook gets, where there is one."""

UNIQUE = json.dumps({"type": "array", "items": {"type": "string"}, "uniqueItems": True})


@pytest.fixture
def engine(registered, monkeypatch):
    """Return a function that makes an engine's manager."""
    monkeypatch.setattr(notices, "_hooks", [])

    def make(**settings: str):
        made = registered(**settings)
        made.vllm_config.model_config.max_model_len = 1000
        return made

    return make


def step(manager, request, drafts=()) -> list[list[int]]:
    name = request.request_id
    rows = manager.grammar_bitmask({name: request}, [name], {name: [*drafts]} if drafts else {})
    return [*map(bits, torch.from_numpy(rows))]


def take(request, token: int) -> None:
    """Read a token, as the scheduler does."""
    request.num_output_tokens += 1
    assert request.structured_output_request.grammar.matcher.accept_token(token)


# --- Notices ---------------------------------------------------------------------------------------------


def test_a_request_hears_what_is_not_enforced(engine, caplog):
    told: list[notices.Notice] = []
    manager = engine()
    notices.add_hook(told.append)
    with caplog.at_level(logging.INFO, "vllm.equimask"):
        for number in range(2):  # the second one finds the grammar compiled
            manager.grammar_init("json", LOOSE, request_id=f"chat-{number}")
        manager.grammar_init("json", TIGHT, request_id="tight")
        strict = manager.grammar_init("json", TWO, request_id="strict", max_tokens=3)
        manager.grammar_init("ebnf", EBNF, request_id="ebnf")
    lines = [record.getMessage() for record in caplog.records if "Request" in record.getMessage()]
    assert lines == [
        f"Request chat-{number}: schema keywords that are not enforced: not at /properties/a/not"
        for number in range(2)
    ] + ["Request tight: schema keywords that forbid some valid values: pattern at /properties/a/pattern"]
    assert [notice.request_id for notice in told] == ["chat-0", "chat-1", "tight"]
    assert told[0].engine == "vllm" and told[0].relaxed[0].keyword == "not"
    left = strict.structured_output_request.grammar.matcher.tokens_left
    assert left is None, "limits are not kept unless the operator says so"


def test_the_operators_hook_is_found_when_the_engine_starts(engine):
    TOLD.clear()
    engine(NOTICES=f"{__name__}:TOLD.append").grammar_init("json", LOOSE, request_id="a")
    assert [notice.request_id for notice in TOLD] == ["a"]
    with pytest.raises(ValueError, match=r"EQUIMASK_VLLM_NOTICES must be .*'nowhere:hook'"):
        engine(NOTICES="nowhere:hook")


def test_what_goes_wrong_there_does_not_end_the_engine(engine, monkeypatch, caplog):
    manager = engine()
    monkeypatch.setattr(sys.modules["adapters.vllm.request"], "notice_of", lambda *_: 1 / 0)
    request = manager.grammar_init("json", LOOSE, request_id="a")
    assert "Request a: an error prevented its notices or its token limit" in caplog.text
    assert step(manager, request)[0]


# --- Token limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [1, 2, 9, 60])
@pytest.mark.parametrize("n_drafts", [0, 3])
def test_texts_end_within_the_tokens_of_a_request(engine, more, n_drafts):
    manager = engine(TOKEN_LIMITS="1")
    most = SHORTEST + more
    for seed in range(4):
        draw = random.Random(seed)
        stops = {STOP, EOT} if seed % 2 else None
        request = manager.grammar_init("json", TWO, stops, request_id="a", max_tokens=most)
        matcher = request.structured_output_request.grammar.matcher
        while not matcher.is_terminated():
            assert request.num_output_tokens < most
            drafts = [token for token in guesses(matcher, draw, n_drafts, SIZE) if token not in (STOP, EOT)]
            rows = step(manager, request, drafts)
            for at in range(len(drafts) + 1):  # verified one by one, as samplers do
                token = draw.choice(rows[at])
                take(request, token)
                if at == len(drafts) or token != drafts[at] or matcher.is_terminated():
                    break
        assert request.num_output_tokens <= most


def test_the_models_length_is_a_limit_too(engine):
    manager = engine(TOKEN_LIMITS="1")
    request = manager.grammar_init("json", TWO, request_id="a", max_tokens=900, num_prompt_tokens=950)
    assert request.structured_output_request.grammar.matcher.tokens_left == 50


def test_tokens_of_thoughts_count(engine):
    """A grammar begins when the model has finished thinking, which may be in the middle of drafts."""
    manager = engine(TOKEN_LIMITS="1")
    manager.reasoner_cls = object
    most = SHORTEST + 30
    request = manager.grammar_init("json", TWO, request_id="a", max_tokens=most)
    matcher = request.structured_output_request.grammar.matcher
    asked = request.structured_output_request
    asked.reasoning_ended = False
    bounds = SimpleNamespace(grammar_start=0)
    manager._get_constraint_bounds = lambda request, drafts: bounds
    assert matcher.tokens_left == most

    request.num_output_tokens, bounds.grammar_start = 9, 4  # still thinking after three drafts
    manager.grammar_bitmask({"a": request}, ["a"], {"a": [1, 1, 1, -1]})
    assert matcher.tokens_left == most
    request.num_output_tokens, bounds.grammar_start = 20, 2  # thinking ends with the second of two drafts
    manager.grammar_bitmask({"a": request}, ["a"], {"a": [1, 1, -1, -1]})
    assert matcher.tokens_left == most - 22
    request.num_output_tokens, asked.reasoning_ended = 25, True  # the drafts were not accepted
    draw = random.Random(3)
    while not matcher.is_terminated():
        assert request.num_output_tokens < most
        take(request, draw.choice(step(manager, request)[0]))
    assert request.num_output_tokens <= most


def test_thoughts_that_leave_too_little_room_are_told(engine, caplog):
    manager = engine(TOKEN_LIMITS="1")
    manager.reasoner_cls = object
    request = manager.grammar_init("json", TWO, request_id="a", max_tokens=60)
    request.structured_output_request.reasoning_ended = True
    request.num_output_tokens = 55
    rows = step(manager, request)
    assert cut_off("a", "no text of the grammar fits into 5 tokens") in caplog.text
    matcher = request.structured_output_request.grammar.matcher
    assert matcher.tokens_left is None and rows[0] == mask_of(matcher)
    caplog.clear()
    step(manager, request)
    assert not caplog.records


def test_grammars_that_are_not_closed_go_on_by_name(engine, caplog):
    told: list[notices.Notice] = []
    manager = engine(TOKEN_LIMITS="1", SEMANTICS="json-schema")
    notices.add_hook(told.append)
    unique = manager.grammar_init("json", UNIQUE, request_id="unique", max_tokens=20)
    short = manager.grammar_init("json", TWO, request_id="short", max_tokens=SHORTEST - 6)
    fits = manager.grammar_init("json", TWO, request_id="fits", max_tokens=SHORTEST)
    assert [(one.request_id, one.relaxed) for one in told] == [("unique", ()), ("short", ())]
    assert "must not be repeated" in str(told[0].limit_error)
    assert "fits into 7 tokens" in str(told[1].limit_error)
    assert cut_off("unique", "token limits are not supported for ") in caplog.text
    for request in (unique, short, fits):
        assert step(manager, request)[0]
    assert fits.structured_output_request.grammar.matcher.tokens_left == SHORTEST


def test_a_limit_that_takes_too_much_is_told_once(engine, monkeypatch, caplog):
    manager = engine(TOKEN_LIMITS="1")
    request = manager.grammar_init("json", TWO, request_id="a", max_tokens=SHORTEST + 2)
    exceeded = Mock(side_effect=BudgetExceeded("a token limit needs more than 9 bytes"))
    monkeypatch.setattr(Completion, "restrict", exceeded)
    for _ in range(3):
        assert step(manager, request)[0]
    assert caplog.text.count(cut_off("a", "a token limit needs more than")) == 1
