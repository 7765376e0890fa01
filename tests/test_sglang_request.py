"""Requests in the SGLang adapter, with a stand-in for SGLang: stop tokens, limits, notices."""

import gc
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
from tests.engine_requests import cut_off
from tests.engines import EBNF, EOT, LOOSE, SCHEMA, SHORTEST, SIZE, STOP, TIGHT, TWO, bits, mask_of
from tests.sglang_backends import fixture_make, fixture_sglang  # noqa: F401
from tests.sglang_stand_in import FINISH_ABORT, MANAGER, SPECULATION, STREAMER, THINK_END, Request, rows_of

TOLD: list[notices.Notice] = []
"""What the operator's hook gets, where there is one."""

TILDE = ord("~")


@pytest.fixture
def serve(make, monkeypatch):
    """Return a function that starts a backend and returns `ask`, which makes requests with grammars."""
    monkeypatch.setattr(notices, "_hooks", [])

    def serving(parser=None, speculates=None, **settings: str):
        for name, value in settings.items():
            monkeypatch.setenv(f"EQUIMASK_SGLANG_{name}", value)
        backend = make(speculates=speculates, reasoning_parser=parser)
        manager = sys.modules[MANAGER].GrammarManager(backend)  # type: ignore[attr-defined]

        def ask(rid, kind, text, **known) -> Request:
            request = Request(rid, kind, text, **known)
            if manager.process_req_with_grammar(request):
                assert request in manager.get_ready_grammar_requests()
            return request

        return ask

    return serving


# --- Stop tokens -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("parser", [None, "bang"])
def test_every_stop_token_of_a_request_is_masked_until_its_text_is_whole(serve, parser):
    ask = serve(parser)
    for number in range(2):  # the second time, the grammar comes from the cache
        request = ask(
            f"{number}", "json", SCHEMA, stop_token_ids={TILDE}, eos_token_ids={STOP, EOT},
            tokenizer=SimpleNamespace(eos_token_id=STOP, additional_stop_token_ids={ord("^")}),
        )  # fmt: skip
        plain = ask("plain", "json", SCHEMA)
        stops = {STOP, EOT, TILDE, ord("^")}
        for token in b'{"a": 1}':
            assert not stops & {*mask_of(request.grammar)}
            for one in (request, plain):
                one.grammar.accept_token(token)
        assert {*mask_of(request.grammar)} == stops | {*mask_of(plain.grammar)}
        assert {*mask_of(plain.grammar)} & stops == {STOP}
        request.grammar.accept_token(TILDE)
        assert request.grammar.is_terminated()
        request.grammar.rollback(2)
        assert not stops & {*mask_of(request.grammar)}


def test_stop_tokens_that_are_text_elsewhere_are_none_in_strings(serve):
    ask = serve()
    first, second = ask("1", "regex", "[~a]+", stop_token_ids={TILDE}), ask("2", "regex", "[~a]+")
    ignoring = ask("3", "regex", "[~a]+", stop_token_ids={TILDE}, ignore_eos=True)
    assert mask_of(first.grammar) == [ord("a")]
    assert mask_of(second.grammar) == mask_of(ignoring.grammar) == [ord("a"), TILDE]


def test_ids_that_a_grammar_names_are_left_to_it(serve):
    ask = serve()
    stops = {EOT, TILDE, 0, SIZE, SIZE + 7, -1}
    request = ask("1", "ebnf", f'root ::= "a" Token({EOT}) "b"', stop_token_ids=stops)
    for token, wanted in ((ord("a"), [EOT]), (EOT, [ord("b")]), (ord("b"), [0, TILDE, STOP])):
        request.grammar.accept_token(token)
        assert mask_of(request.grammar) == wanted


@pytest.mark.parametrize("parser", [None, "bang"])
def test_a_stop_token_that_comes_all_the_same_is_an_error_of_its_request(serve, parser):
    """As in vLLM: if a later step chose the stop token despite the mask, the request must fail."""
    ask = serve(parser)
    request, other = (ask(name, "json", SCHEMA, stop_token_ids={TILDE}) for name in "12")
    for token in b'{"a"':
        request.take(token)
    assert not request.finished_reason
    before = mask_of(request.grammar)
    request.take(TILDE)
    ended = request.finished_reason
    assert isinstance(ended, FINISH_ABORT) and ended.status_code == 500
    assert "Token 126 is not allowed after 4 tokens (the last are: 123, 34, 97, 34)" in ended.message
    assert mask_of(request.grammar) == before
    assert other.finished_reason is None and mask_of(other.grammar)
    other.take(ord("z"))  # this is no stop token
    assert other.finished_reason is None and isinstance(other.to_finish, FINISH_ABORT)


def test_an_error_ends_a_request_as_one(serve, monkeypatch):
    request = serve()("1", "ebnf", EBNF, eos_token_ids={STOP})
    monkeypatch.setattr(type(request.grammar.matcher), "fill_next_token_bitmask", lambda *_: 1 / 0)
    assert mask_of(request.grammar) == [STOP]
    request.take(STOP)
    assert isinstance(request.finished_reason, FINISH_ABORT)
    assert "after an error" in request.finished_reason.message


def test_the_first_error_of_a_request_stays(serve):
    request = serve()("1", "ebnf", EBNF)
    request.finished_reason = first = FINISH_ABORT("the client has gone", 499, "ClientClosedRequest")
    request.grammar.served_request.abort("a token is not allowed")
    assert request.finished_reason is first and request.to_finish is None


def test_a_grammar_may_outlive_its_request(serve):
    ask = serve()
    request = ask("1", "json", LOOSE)
    served = request.grammar.served_request
    del request
    gc.collect()
    assert served._request() is None
    served.abort("a token is not allowed")
    served.report_limit_error("there is no room")


# --- Notices ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parser", [None, "bang"])
def test_a_request_hears_what_is_not_enforced(serve, parser, caplog):
    told: list[notices.Notice] = []
    ask = serve(parser)
    notices.add_hook(told.append)
    with caplog.at_level(logging.INFO, "sglang.equimask"):
        first, second = ask("a", "json", LOOSE), ask("b", "json", LOOSE)
        strict = ask("c", "json", SCHEMA, max_new_tokens=1)
    lines = [record.getMessage() for record in caplog.records if "Request" in record.getMessage()]
    assert lines == [
        f"Request {name}: schema keywords that are not enforced: not at /properties/a/not" for name in "ab"
    ]
    assert [(one.engine, one.request_id) for one in told] == [("sglang", "a"), ("sglang", "b")]
    for request in (first, second):
        (field,) = request.customized_info["equimask"]
        assert field["not_enforced"][0]["pointer"] == "/properties/a/not" and field["n_not_enforced"] == 1
    assert strict.customized_info is None
    asked = strict.grammar.grammar if parser else strict.grammar
    assert asked.matcher.tokens_left is None, "limits are not kept unless the operator says so"
    with caplog.at_level(logging.INFO, "sglang.equimask"):
        tight = ask("d", "json", TIGHT)
    line = "Request d: schema keywords that forbid some valid values: pattern at /properties/a/pattern"
    assert line in caplog.text and told[-1].narrowed[0].keyword == "pattern"
    (field,) = tight.customized_info["equimask"]
    assert field["not_writable"][0]["pointer"] == "/properties/a/pattern" and field["n_not_writable"] == 1
    streamer = sys.modules[STREAMER].SchedulerOutputStreamer()  # type: ignore[attr-defined]
    assert streamer.is_request_level_customized_info_key("equimask")
    for name in ("another", "other"):
        assert not streamer.is_request_level_customized_info_key(name)


def test_the_operators_hook_is_found_when_the_scheduler_starts(serve):
    TOLD.clear()
    serve(NOTICES=f"{__name__}:TOLD.append")("a", "json", LOOSE)
    assert [notice.request_id for notice in TOLD] == ["a"]
    with pytest.raises(ValueError, match=r"EQUIMASK_SGLANG_NOTICES must be .*'nowhere:hook'"):
        serve(NOTICES="nowhere:hook")


def test_what_goes_wrong_there_does_not_end_the_scheduler(serve, monkeypatch, caplog):
    ask = serve()
    monkeypatch.setattr(sys.modules["adapters.sglang.request"], "notice_of", lambda *_: 1 / 0)
    assert mask_of(ask("a", "json", LOOSE).grammar)
    assert "Request a: an error prevented its notices or its token limit" in caplog.text


def test_a_release_without_such_a_manager_is_an_error_at_start(serve):
    serve()
    del sys.modules[MANAGER].GrammarManager  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"no .*GrammarManager with"):
        sys.modules["adapters.sglang.request"].bind()  # type: ignore[attr-defined]


# --- Token limits ----------------------------------------------------------------------------------------


def draw_ids(grammar, draw) -> int:
    (row,) = rows_of([grammar], SIZE)
    return draw.choice(bits(row))


@pytest.mark.parametrize(("parser", "thoughts"), [(None, 0), ("bang", 0), ("bang", 5)])
@pytest.mark.parametrize("more", [1, 2, 9, 40])
def test_texts_end_within_the_tokens_of_a_request(serve, parser, thoughts, more):
    ask = serve(parser, TOKEN_LIMITS="1")
    thinks = parser is not None
    most = SHORTEST + more + (thoughts + 1 if thinks else 0)
    for seed in range(4):
        draw = random.Random(seed)
        request = ask(
            f"{seed}", "json", TWO, max_new_tokens=most, reasoning=thinks, eos_token_ids={STOP},
            stop_token_ids={TILDE} if seed % 2 else None,
        )  # fmt: skip
        for token in [*[ord("h")] * thoughts, THINK_END] if thinks else []:
            request.take(token)
        while request.finished_reason is None:
            request.take(draw_ids(request.grammar, draw))
            if draw.random() < 0.2:  # as if drafts were rejected
                back = min(draw.randint(1, 3), len(request.output_ids) - (thoughts + 1 if thinks else 0))
                request.grammar.rollback(back)
                del request.output_ids[-back:]
                request.finished_reason = None
        assert request.finished_reason == "stop" and len(request.output_ids) <= most


def masks_of_tree(request, child, sibling, tokens, by_sglang=False):
    """Return the masks of a request's tree of drafts, one row per node; by SGLang's own function if asked."""
    generate = sys.modules[SPECULATION].generate_token_bitmask  # type: ignore[attr-defined]
    if by_sglang:
        generate = generate.by_sglang
    trees = [torch.tensor([part]) for part in (child, sibling, tokens)]
    return generate([request], *trees, vocab_size=SIZE)[0]


@pytest.mark.parametrize("by_sglang", [False, True])
def test_trees_of_drafts_leave_room_where_they_stand(serve, by_sglang):
    """One path has two thoughts, the end of thinking and two tokens; on the other, thinking ends at once."""
    ask = serve("bang", speculates="EAGLE", TOKEN_LIMITS="1")
    most = SHORTEST + 6
    request = ask("a", "json", TWO, max_new_tokens=most, reasoning=True)
    tokens = [0, ord("h"), ord("h"), THINK_END, ord("{"), ord('"'), THINK_END, ord("{"), ord('"')]
    child = [1, 2, 3, 4, 5, -1, 7, 8, -1]
    sibling = [-1, 6, -1, -1, -1, -1, -1, -1, -1]
    rows = masks_of_tree(request, child, sibling, tokens, by_sglang)
    for path in ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5], [6], [6, 7], [6, 7, 8]):
        again = ask("b", "json", TWO, max_new_tokens=most, reasoning=True)
        for node in path:
            again.grammar.accept_token(tokens[node])
        assert bits(rows[path[-1]]) == mask_of(again.grammar)
        assert again.grammar.grammar.matcher.tokens_left == most - len(path)
    assert request.grammar.grammar.most_tokens == most and request.grammar.grammar.thoughts == 0
    assert not request.grammar.grammar.in_drafts


def test_drafts_of_thoughts_that_leave_no_room_lose_nothing(serve, caplog):
    ask = serve("bang", speculates="EAGLE", TOKEN_LIMITS="1")
    request = ask("a", "json", TWO, max_new_tokens=SHORTEST + 2, reasoning=True)
    masks_of_tree(request, [1, 2, 3, 4, 5, 6, -1], [-1] * 7, [0, *b"hhhh", THINK_END, ord("{")])
    assert not caplog.records
    request.take(THINK_END)
    draw = random.Random(1)
    while not request.grammar.is_terminated():
        request.take(draw_ids(request.grammar, draw))
    assert len(request.output_ids) <= SHORTEST + 2


def test_grammars_that_are_not_closed_go_on_by_name(serve, caplog):
    ask = serve("bang", TOKEN_LIMITS="1")
    named = ask("named", "ebnf", f'root ::= [a-z]* Token({EOT}) "b"')
    short = ask("short", "json", TWO, max_new_tokens=SHORTEST - 6)
    late = ask("late", "json", TWO, max_new_tokens=SHORTEST + 6, reasoning=True)
    assert cut_off("named", "token limits are not supported for ") in caplog.text
    assert cut_off("short", "no text of the grammar fits into 7 tokens") in caplog.text
    assert "late" not in caplog.text and late.customized_info is None
    for token in [*b"hhhhhhhhh", THINK_END]:
        late.take(token)
    for _ in range(2):
        for request in (named, short, late):
            assert mask_of(request.grammar)
    assert caplog.text.count(cut_off("late")) == 1
    for request in (named, short, late):
        assert request.customized_info["equimask"][0]["limit_error"]


def test_a_request_that_caches_the_prompt_of_several_answers_has_no_limit(serve, caplog):
    request = serve(TOKEN_LIMITS="1")("a", "json", TWO, max_new_tokens=0)
    assert mask_of(request.grammar)
    assert request.customized_info is None and not caplog.records


def test_a_limit_that_takes_too_much_is_told_once(serve, monkeypatch, caplog):
    request = serve(TOKEN_LIMITS="1")("a", "json", TWO, max_new_tokens=SHORTEST + 2)
    exceeded = Mock(side_effect=BudgetExceeded("a token limit needs more than 9 bytes"))
    monkeypatch.setattr(Completion, "restrict", exceeded)
    for _ in range(3):
        assert mask_of(request.grammar)
    assert caplog.text.count(cut_off("a", "a token limit needs more than")) == 1
