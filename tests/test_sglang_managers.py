"""The SGLang adapter with SGLang's own manager, batches and draft trees; only if SGLang is importable.

What: every step of a request from the scheduler to the logits, compared with SGLang's own backend "xgrammar".
When: in an SGLang environment; its Python files suffice (docs/sglang.md).
Limits: no model runs here.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

pytest.importorskip("sglang.srt.constrained.grammar_manager")

import numpy as np
import xgrammar
from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES
from sglang.srt.constrained import base_grammar_backend
from sglang.srt.parser.inkling_tokenizer import INKLING_SPECIAL_TOKEN_IDS

import adapters.sglang
from adapters.sglang.grammar import Grammar, ReasoningGrammar
from hybrid.testing.mask_comparison import bits_of
from tests.byte_tokenizer import byte_tokenizer
from tests.engine_requests import LEGACY, SCHEMA, draft_tree, guesses, tags_of
from tests.matchers import ids_of
from tests.sglang_scheduler import Scheduler

TAG = tags_of("<f>", "</f>", "<f")
BY_ID = {"type": "sequence", "elements": [{"type": "token", "token": "<|call|>"}, {"type": "any_text"}]}

KINDS = {
    "json": ("json_schema", json.dumps(SCHEMA)),
    "any": ("json_schema", "$$ANY$$"),
    "regex": ("regex", "[a-z]{2,4}@(com|org)"),
    "ebnf": ("ebnf", 'root ::= "(" root ")" | [0-9]+'),
    "tag": ("structural_tag", json.dumps({"type": "structural_tag", "format": TAG})),
    "legacy": ("structural_tag", json.dumps(LEGACY)),
    "by id": ("structural_tag", json.dumps({"type": "structural_tag", "format": BY_ID})),
}

SIZE = 400
"""Ids of the model: more than the tokenizer has, and not a multiple of 32."""

INKLING = tuple(INKLING_SPECIAL_TOKEN_IDS)
TOKENIZER = byte_tokenizer("<|eos|>", ["<|call|>", "<|end|>", "<think>", "</think>", *INKLING])
STOP, CALL, END, THINK, UNTHINK = TOKENIZER.convert_tokens_to_ids(
    ["<|eos|>", "<|call|>", "<|end|>", "<think>", "</think>"]
)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Register the adapter in an unmodified SGLang, and restore SGLang after the test."""
    for name in ("", "_COMPILE_SECONDS", "_CACHE_MB", "_TOKEN_LIMITS", "_NOTICES"):
        monkeypatch.delenv(f"EQUIMASK_SGLANG{name}", raising=False)
    choices, registry = [*GRAMMAR_BACKEND_CHOICES], dict(base_grammar_backend.GRAMMAR_BACKEND_REGISTRY)
    adapters.sglang.register()
    yield
    GRAMMAR_BACKEND_CHOICES[:] = choices
    base_grammar_backend.GRAMMAR_BACKEND_REGISTRY.clear()
    base_grammar_backend.GRAMMAR_BACKEND_REGISTRY.update(registry)


def two(**options) -> tuple[Scheduler, Scheduler]:
    """Return two schedulers: one with our backend, one with SGLang's."""
    ours, theirs = (Scheduler(name, TOKENIZER, SIZE, {STOP}, **options) for name in ("equimask", "xgrammar"))
    return ours, theirs


def same(ours, theirs) -> np.ndarray:
    """Check that both sides allow the same ids in each row, and return these ids."""
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    for mine, stock in zip(ours, theirs, strict=True):
        assert np.array_equal(bits_of(mine, SIZE), bits_of(stock, SIZE))
    return np.array([bits_of(row, SIZE) for row in theirs])


def same_rows(schedulers, requests) -> np.ndarray:
    """Check that both sides allow the same ids in their requests, and return these ids."""
    return same(*(s.rows([request]) for s, request in zip(schedulers, requests, strict=True)))


def walk(schedulers, requests, randomness, n: int, rollbacks: bool = True) -> None:
    """Let both requests read the same random tokens; compare masks and ends."""
    read = 0
    for _ in range(n):
        choices = np.flatnonzero(same_rows(schedulers, requests)[0])
        token = int(randomness.choice(choices))
        ends = []
        for request in requests:
            request.grammar.accept_token(token)
            ends.append(request.grammar.is_terminated())
        read += 1
        assert ends[0] == ends[1]
        if ends[0] or (rollbacks and randomness.random() < 0.2):
            back = randomness.randint(1, read)
            for request in requests:
                request.grammar.rollback(back)
                assert not request.grammar.is_terminated()
            read -= back


def refused(grammar, token: int) -> str:
    with pytest.raises(ValueError) as caught:
        grammar.accept_token(token)
    return str(caught.value)


# --- Masks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tp_size", [1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_masks_are_those_of_sglangs_own_backend(name, tp_size):
    schedulers = two(tp_size=tp_size)
    requests = [scheduler.request(*KINDS[name]) for scheduler in schedulers]
    assert type(requests[0].grammar) is Grammar and not requests[0].error
    walk(schedulers, requests, random.Random(name), 150)
    before = [*requests[0].grammar.accepted_tokens]
    mask = schedulers[0].rows([requests[0]])
    bad = int(np.flatnonzero(~bits_of(mask[0], SIZE))[0])
    for request in requests:
        assert str(bad) in refused(request.grammar, bad)
    assert requests[0].grammar.accepted_tokens == requests[1].grammar.accepted_tokens == before
    same_rows(schedulers, requests)


@pytest.mark.parametrize("parser", [None, "glm45"])
@pytest.mark.parametrize("name", KINDS)
def test_trees_of_drafts(name, parser):
    schedulers = two(reasoning_parser=parser)
    requests = [s.request(*KINDS[name]) for s in schedulers]
    randomness = random.Random(name)
    for _ in range(12):
        tree = draft_tree(requests[1].grammar, SIZE, 24, randomness)
        theirs = schedulers[1].tree_rows([requests[1]], [tree])
        for by_sglang in (False, True):
            same(schedulers[0].tree_rows([requests[0]], [tree], by_sglang), theirs)
        walk(schedulers, requests, randomness, 3, rollbacks=False)


def test_trees_of_drafts_while_a_model_thinks():
    schedulers = two(reasoning_parser="glm45", enable_strict_thinking=True)
    batches = [[s.request(*KINDS[name], reasoning=name != "regex") for name in ("json", "regex", "ebnf")]
               for s in schedulers]  # fmt: skip
    for batch in batches:
        batch[2].grammar.accept_token(UNTHINK)
    randomness = random.Random(4)
    for _ in range(20):
        trees = [draft_tree(request.grammar, SIZE, 12, randomness) for request in batches[1]]
        trees[0][2][3] = UNTHINK
        same(*(s.tree_rows(batch, trees) for s, batch in zip(schedulers, batches, strict=True)))


def test_what_can_be_jumped_over():
    schedulers = two()
    requests = [s.request("regex", "[ab](xyz|xyw)c") for s in schedulers]
    a, *rest = TOKENIZER.encode("axyz", add_special_tokens=False)
    for request in requests:
        assert request.grammar.try_jump_forward(TOKENIZER) is None
        request.grammar.accept_token(a)
        helper = request.grammar.try_jump_forward(TOKENIZER)
        assert request.grammar.jump_forward_str_state(helper) == ("xy", -1)
        request.grammar.jump_and_retokenize([], rest[:2], -1)
        request.grammar.jump_and_retokenize(rest[:2], rest, -1)
    same_rows(schedulers, requests)


# --- Models that think first -----------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("budget", [None, 2])
@pytest.mark.parametrize("name", ["json", "regex", "tag"])
def test_reasoning(name, strict, budget):
    schedulers = two(reasoning_parser="glm45", enable_strict_thinking=strict)
    custom = None if budget is None else {"thinking_budget": budget}
    requests = [s.request(*KINDS[name], reasoning=True, custom=custom) for s in schedulers]
    assert type(requests[0].grammar) is ReasoningGrammar
    for token in (ord("a"), UNTHINK):
        same_rows(schedulers, requests)
        for request in requests:
            request.grammar.accept_token(token)
    walk(schedulers, requests, random.Random(name), 40, rollbacks=False)
    back = requests[1].grammar.tokens_after_end + 1
    for request in requests:  # back into the thoughts
        request.grammar.rollback(back)
    same_rows(schedulers, requests)
    assert requests[0].grammar._is_thinking() and requests[1].grammar._is_thinking()


def test_batches_of_models_that_think():
    schedulers = two(reasoning_parser="glm45", enable_strict_thinking=True)
    batches = [[s.request(*kind, reasoning=i % 2 == 0) for i, kind in enumerate(KINDS.values())]
               for s in schedulers]  # fmt: skip
    assert {type(request.grammar) for request in batches[0]} == {ReasoningGrammar}
    for batch in batches:
        batch[0].grammar.accept_token(UNTHINK)
        assert len({request.grammar._is_thinking() for request in batch}) == 2
    same(*(s.rows([None, *batch]) for s, batch in zip(schedulers, batches, strict=True)))
    copies = [s.request(*KINDS["regex"], reasoning=False) for s in schedulers]
    assert type(copies[0].grammar) is ReasoningGrammar
    same(*(s.rows([None, *batch]) for s, batch in zip(schedulers, batches, strict=True)))


def test_grammars_framed_by_tokens(monkeypatch):
    """Special tokens frame the messages of this format, and are not text then."""
    for name in INKLING:
        monkeypatch.setitem(INKLING_SPECIAL_TOKEN_IDS, name, TOKENIZER.convert_tokens_to_ids(name))
    schedulers = two(reasoning_parser="inkling")
    for name in ("json", "ebnf", "regex"):
        requests = [s.request(*KINDS[name], reasoning=True) for s in schedulers]
        assert type(requests[0].grammar) is Grammar  # the frame stands for the wrapper
        walk(schedulers, requests, random.Random(name), 100)


def test_no_frame_holds_a_schema_whose_keys_must_not_be_repeated(monkeypatch):
    """The text of a grammar, which SGLang puts into the frame, does not forbid repetitions."""
    for name in INKLING:
        monkeypatch.setitem(INKLING_SPECIAL_TOKEN_IDS, name, TOKENIZER.convert_tokens_to_ids(name))
    monkeypatch.setenv("EQUIMASK_SGLANG_SEMANTICS", "json-schema")
    counted = '{"type": "object", "minProperties": 2, "additionalProperties": true}'
    framed = Scheduler("equimask", TOKENIZER, SIZE, {STOP}, reasoning_parser="inkling")
    assert not framed.request("json_schema", '{"type": "object"}', reasoning=True).error
    assert "must not be repeated" in framed.request("json_schema", counted, reasoning=True).error
    assert not Scheduler("equimask", TOKENIZER, SIZE, {STOP}).request("json_schema", counted).error


def test_a_turn_without_a_grammar_under_strict_thinking():
    schedulers = two(reasoning_parser="glm45", enable_strict_thinking=True)
    objects = [s.backend.init_strict_reasoning_grammar(True) for s in schedulers]
    requests = [s.request(*KINDS["regex"], reasoning=True) for s in schedulers]
    for request, alone in zip(requests, objects, strict=True):
        request.grammar = alone
    # SGLang applies the masks of such turns on devices only
    same(*(s.rows([r], apply=False) for s, r in zip(schedulers, requests, strict=True)))


# --- Refused requests, and the cache ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json_schema", "{"),
        ("json_schema", '{"type": "nothing"}'),
        ("json_schema", '{"type": "array", "uniqueItems": true}'),
        ("json_schema", '{"const": "a\\u0000"}'),
        ("regex", "(a"),
        ("ebnf", "root ::= nowhere"),
        ("structural_tag", "no"),
        ("structural_tag", '{"type": "structural_tag", "format": {"type": "nothing"}}'),
        ("structural_tag", "{}"),
    ],
)
@pytest.mark.parametrize("parser", [None, "glm45"])
def test_what_sglang_refuses_is_refused(kind, text, parser):
    schedulers = two(reasoning_parser=parser)
    requests = [s.request(kind, text) for s in schedulers]
    assert requests[0].error and requests[1].error  # the wording differs: ours says what to do
    again = schedulers[0].request(kind, text)
    assert again.error == requests[0].error


def test_a_request_that_sglang_waited_for_too_long_may_come_again(monkeypatch):
    ours, theirs = two()
    for scheduler in (ours, theirs):
        monkeypatch.setattr(scheduler.manager, "SGLANG_GRAMMAR_MAX_POLL_ITERATIONS", 1)
        blocked = scheduler.backend.executor.submit(time.sleep, 0.3)
        dispatch = scheduler.backend._init_value_dispatch
        monkeypatch.setattr(
            scheduler.backend, "_init_value_dispatch",
            lambda *a, blocked=blocked, dispatch=dispatch: (blocked.result(), dispatch(*a))[1],
        )  # fmt: skip
        assert "timed out" in scheduler.request(*KINDS["regex"]).error
        blocked.result()
        monkeypatch.setattr(scheduler.manager, "SGLANG_GRAMMAR_MAX_POLL_ITERATIONS", 10000)
    assert not ours.request(*KINDS["regex"]).error
    assert theirs.request(*KINDS["regex"]).error  # what this test is about


@pytest.mark.slow
def test_ranks_stay_in_step(tmp_path):
    """Two processes get the same stream of requests and compile at different speeds."""
    bounds = {"EQUIMASK_SGLANG_CACHE_MB": "9", "EQUIMASK_SGLANG_COMPILE_SECONDS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.sglang_rank", str(rank), "2", str(tmp_path / "meeting")],
            stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent, env={**os.environ, **bounds},
        )
        for rank in range(2)
    ]  # fmt: skip
    first, second = (json.loads(rank.communicate(timeout=120)[0].splitlines()[-1]) for rank in ranks)
    assert first == second
    kinds = [entry[1] for entry in first]
    assert kinds.count("found") > 20 and kinds.count("compiled") > 60  # some were kept, some were evicted
    assert any("would take about" in entry[2] for entry in first)  # and some took too long


@pytest.mark.parametrize("stops", [[7], None])
def test_a_tokenizer_that_counts_other_ids_than_the_model(monkeypatch, stops):
    """SGLang's own backend ends the scheduler at the first mask."""
    info = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)])
    monkeypatch.setattr("adapters.sglang.backend_factory.get_context", Mock())
    ours = Scheduler("equimask", SimpleNamespace(init_xgrammar=lambda: (info, stops)), SIZE, {STOP})
    assert ours.backend is None and "not supported" in ours.request(*KINDS["regex"]).error


def test_stop_tokens_that_a_tokenizer_gives():
    """Some of SGLang's tokenizers provide the data for XGrammar themselves."""
    info = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)], vocab_size=SIZE)
    own = SimpleNamespace(init_xgrammar=lambda: (info, [7, 9]))
    schedulers = [Scheduler(name, own, SIZE, {STOP}) for name in ("equimask", "xgrammar")]
    requests = [s.request(*KINDS["ebnf"]) for s in schedulers]
    for request in requests:
        request.grammar.accept_token(ord("5"))
    found = same_rows(schedulers, requests)[0]
    assert found[7] and found[9] and not found[STOP]
    walk(schedulers, requests, random.Random(1), 40)


# --- Token limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("parser", "thoughts"), [(None, 0), ("glm45", 0), ("glm45", 7)])
@pytest.mark.parametrize("n_drafts", [0, 4])
def test_texts_end_within_the_tokens_of_a_request(monkeypatch, parser, thoughts, n_drafts):
    monkeypatch.setenv("EQUIMASK_SGLANG_TOKEN_LIMITS", "1")
    ours = Scheduler("equimask", TOKENIZER, SIZE, {STOP}, reasoning_parser=parser)
    thinks = parser is not None
    for more in (1, 2, 6, 30):
        for seed in range(6):
            draw = random.Random(seed)
            most = len('{"name":""}') + more + (thoughts + 1 if thinks else 0)
            request = ours.request(*KINDS["json"], reasoning=thinks, max_new_tokens=most)
            read = [*[ord("a")] * thoughts, UNTHINK] if thinks else []
            for token in read:
                request.grammar.accept_token(token)
            while not request.grammar.is_terminated():
                inner = request.grammar.grammar if thinks else request.grammar
                # a chain of drafts that the grammar accepts, within the limit or not
                chain = [0, *guesses(inner.matcher, draw, n_drafts, SIZE)]
                links = [*range(1, len(chain)), -1], [-1] * len(chain), chain
                if n_drafts:
                    rows = ours.tree_rows([request], [links], by_sglang=seed % 2 == 1)
                else:
                    rows = ours.rows([request])
                for at, row in enumerate(rows):  # verified one by one
                    token = draw.choice(ids_of(row, SIZE))
                    request.grammar.accept_token(token)
                    read.append(token)
                    if at + 1 == len(chain) or token != chain[at + 1] or request.grammar.is_terminated():
                        break
                assert len(read) <= most
            assert read[-1] == STOP
            text = TOKENIZER.decode(read[thoughts + 1 if thinks else 0 : -1])
            assert set(json.loads(text, strict=False)) <= {"name", "tags"}
