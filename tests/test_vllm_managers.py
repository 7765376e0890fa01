"""The vLLM adapter with vLLM's own manager, backend and tokenizers; only if vLLM is installed.

What: `StructuredOutputManager` as the engine makes it, from `grammar_init` to the logits, compared with the
same manager without us. vLLM's modules suffice, without its kernels (docs/vllm.md).
When: in a vLLM environment.
Limits: no model runs here.
"""

import json
import os
import random
import time
from types import SimpleNamespace

import pytest
import torch

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
pytest.importorskip("vllm.v1.structured_output")

from vllm import SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1 import structured_output
from vllm.v1.request import Request
from vllm.v1.structured_output import backend_xgrammar

import adapters.vllm
from adapters.vllm import steps
from tests import matchers
from tests.byte_tokenizer import byte_tokenizer
from tests.engine_requests import LEGACY, SCHEMA, guesses, tags_of

TAG = tags_of("<|call|>", "<|end|>", "<|call|>")

SPECIAL = ("<|eos|>", "<|call|>", "<|end|>")
SIZE = 300
"""Number of the model's ids: more than the tokenizer has."""

TEXTS = {
    "json": ({"json": json.dumps(SCHEMA)}, '{"name": "ab", "tags": ["ab", 1]}'),
    "json_object": ({"json_object": True}, '{"x": [1, {"y": null}]}'),
    "regex": ({"regex": "[a-z]{2,4}@(com|org)"}, "abc@org"),
    "ebnf": ({"grammar": 'root ::= "(" root ")" | [0-9]+'}, "((12))"),
    "lark": ({"grammar": 'start: "(" start ")" | /[0-9]+/'}, "((12))"),
    "choice": ({"choice": ["yes", "yesterday"]}, "yesterday"),
    "tag": ({"structural_tag": json.dumps({"type": "structural_tag", "format": TAG})}, 'so {"name": "x"}'),
    "legacy": ({"structural_tag": json.dumps(LEGACY)}, 'so <f>{"name": "x"}</f> and <f'),
}


TOKENIZER = byte_tokenizer("<|eos|>", SPECIAL[1:])
STOP, CALL, END = (TOKENIZER.convert_tokens_to_ids(text) for text in SPECIAL)


def ids_of(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


def manager_of(n_spec: int = 0, rows: int = 8, **speculation):
    """Make a manager as an engine does."""
    settings = SimpleNamespace(
        parallel_config=SimpleNamespace(distributed_executor_backend=None),
        scheduler_config=SimpleNamespace(max_num_seqs=rows, async_scheduling=False),
        structured_outputs_config=SimpleNamespace(
            backend="xgrammar", reasoning_parser="", reasoning_parser_plugin="", enable_in_reasoning=False,
            disable_any_whitespace=False,
        ),
        model_config=SimpleNamespace(
            skip_tokenizer_init=False, get_vocab_size=lambda: SIZE, is_diffusion=False,
            hf_config=SimpleNamespace(model_type="llama"),
        ),
        speculative_config=SimpleNamespace(num_speculative_tokens=n_spec, **speculation) if n_spec else None,
        num_speculative_tokens=n_spec,
    )  # fmt: skip
    return structured_output.StructuredOutputManager(settings)


def our_manager(*arguments, **options):
    """Register the adapter, and make a manager."""
    adapters.vllm.register()
    return manager_of(*arguments, **options)


@pytest.fixture(autouse=True)
def vllm(monkeypatch):
    """Start each test with an unmodified vLLM that uses our tokenizer, and restore it afterwards."""
    monkeypatch.setattr(structured_output, "cached_tokenizer_from_config", lambda **_: TOKENIZER)
    monkeypatch.setattr(backend_xgrammar, "xgr", backend_xgrammar.xgr)
    for name in ("XgrammarBackend", "multiprocessing"):
        monkeypatch.setattr(structured_output, name, getattr(structured_output, name))
    kind = structured_output.StructuredOutputManager
    for name in ("__init__", "_create_grammar", "grammar_bitmask"):
        monkeypatch.setattr(kind, name, getattr(kind, name))
    assert not adapters.vllm.is_registered()


def request_of(manager, name: str, kind: dict, stops=(), max_tokens: int = 99) -> Request:
    """Make a request and wait until its grammar, or its error, is ready."""
    params = SamplingParams(
        structured_outputs=StructuredOutputsParams(**kind), stop_token_ids=[*stops], max_tokens=max_tokens
    )
    if "choice" in kind:  # as vLLM's front end converts it
        params.structured_outputs.grammar = backend_xgrammar.choice_as_grammar(kind["choice"])
        params.structured_outputs.choice = None
    params.structured_outputs._backend = "xgrammar"
    request = Request(name, [1, 1, 1], params, None)
    made = request.structured_output_request
    made.reasoning_ended = True
    manager.grammar_init(request)
    end = time.monotonic() + 60
    while not made.is_grammar_ready and time.monotonic() < end:
        time.sleep(0.001)
    return request


def rows_of(manager, requests: list, drafts: dict | None = None) -> torch.Tensor:
    """Return the bitmask that workers receive."""
    found = manager.grammar_bitmask(
        {r.request_id: r for r in requests}, [r.request_id for r in requests], drafts or {}
    )
    return torch.from_numpy(found.copy())


def allowed(row: torch.Tensor) -> set[int]:
    """Return the allowed ids of a row; the bits after the last id, up to a whole word, mean nothing."""
    return set(matchers.ids_of(row, SIZE))


def journey(name: str, stops=()) -> tuple[list[torch.Tensor], str]:
    """Return all masks along a text, and the module of the matcher; check that the manager accepts the
    tokens."""
    manager = manager_of()
    kind, text = TEXTS[name]
    request = request_of(manager, name, kind, stops)
    found = [rows_of(manager, [request])]
    tokens = [*ids_of("so "), CALL, *ids_of(text[3:]), END] if name == "tag" else ids_of(text)
    for token in tokens:
        assert manager.accept_tokens(request, [token])
        found.append(rows_of(manager, [request]))
    grammar = request.structured_output_request.grammar
    assert not grammar.is_terminated()
    return found, type(grammar.matcher).__module__


@pytest.mark.parametrize(("name", "stops"), [*((name, []) for name in TEXTS), ("ebnf", ids_of("~"))])
def test_masks_are_those_without_us(name, stops):
    theirs, _ = journey(name, stops)
    adapters.vllm.register()
    ours, module = journey(name, stops)
    assert module == "adapters.vllm.compiler"
    assert structured_output.XgrammarBackend.warm is None  # the warm backend is in use
    assert len(ours) == len(theirs) > 5
    for mine, stock in zip(ours, theirs, strict=True):
        assert mine.shape == (1, (SIZE + 31) // 32) and mine.dtype == torch.int32
        assert allowed(mine[0]) == allowed(stock[0])
    assert {*stops} <= allowed(ours[-1][0]) and not {*stops} & allowed(ours[0][0])


def test_rows_of_a_step_are_one_call(monkeypatch):
    manager = our_manager(rows=200)
    requests = [request_of(manager, f"{i}", {"regex": f"[a-c]{{1,9}}{i}"}) for i in range(150)]
    for i, request in enumerate(requests):
        assert manager.accept_tokens(request, ids_of("abc"[: 1 + i % 3]))
    wanted = [{*ids_of(f"abc{i}"[:4])} for i in range(150)]
    # by vLLM's loop, in several threads
    assert [allowed(row) for row in rows_of(manager, requests)] == wanted
    monkeypatch.setattr(backend_xgrammar.XgrammarGrammar, "fill_bitmask", None)
    assert [allowed(row) for row in rows_of(manager, requests)] == wanted


def test_pools_are_as_large_as_there_are_cores(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 5)
    theirs, ours = manager_of(rows=200), our_manager(rows=200)
    assert (ours.executor._max_workers, ours.executor_for_fillmask._max_workers) == (3, 2)
    cores = os.cpu_count() or 1
    assert theirs.executor._max_workers == (cores + 1) // 2


def test_the_loop_is_one_that_is_known():
    kind = structured_output.StructuredOutputManager
    assert steps.digest(kind, backend_xgrammar.XgrammarGrammar) in steps.KNOWN
    adapters.vllm.register()
    assert kind.grammar_bitmask.__wrapped__
    assert steps.digest(kind, backend_xgrammar.XgrammarGrammar) not in steps.KNOWN  # replaced once, not twice


class Thinks:
    """A reasoner whose thoughts end with the token `CALL`."""

    def __init__(self, tokenizer, **options):
        pass

    def is_reasoning_end(self, ids):
        return CALL in ids

    def is_reasoning_end_streaming(self, ids, delta):
        return CALL in delta


@pytest.mark.parametrize("parser", ["", "deepseek_r1"])
@pytest.mark.parametrize("n_spec", [0, 4])
def test_steps_are_those_of_vllms_own_loop(n_spec, parser, monkeypatch):
    """Every row of random steps must agree, with our matchers on both sides.

    The steps have drafts that are accepted, refused, or padding, grammars that end, requests that think, and
    one that fails."""
    manager, randomness = our_manager(n_spec, rows=32), random.Random(n_spec)
    manager.reasoner_cls = Thinks if parser else None
    ours = structured_output.StructuredOutputManager.grammar_bitmask
    requests = [
        request_of(manager, f"{name} {i}", TEXTS[name][0], [STOP])
        for i in range(4) for name in ("json", "ebnf", "regex", "choice")
    ]  # fmt: skip
    if parser:
        for request in requests[::3]:
            request.structured_output_request.reasoning_ended = False
    grammars = [request.structured_output_request.grammar for request in requests]
    left = {request.request_id: ids_of(TEXTS[request.request_id.split()[0]][1]) for request in requests}
    loops = []
    monkeypatch.setattr(steps.logger, "exception", lambda *_: loops.append("failed"))
    for round_ in range(12):
        drafts = {}
        for request in requests:
            text = [*left[request.request_id], STOP, STOP][: randomness.randrange(n_spec + 1)]
            others = STOP, 7, SIZE - 1
            ids = [one if randomness.random() < 0.9 else randomness.choice(others) for one in text]
            padding = [-1] * randomness.randrange(n_spec + 1 - len(ids)) if n_spec else []
            if ids or padding:
                drafts[request.request_id] = [*ids, *padding]
        if round_ == 6:
            grammars[1].matcher.has_failed = True
        chosen = randomness.sample(requests, randomness.randrange(1, len(requests) + 1))
        names = [request.request_id for request in chosen]
        asked = {request.request_id: request for request in requests}, names, drafts
        rows = {}
        for way, call in (("loop", ours.__wrapped__), ("one call", ours)):
            manager.grammar_bitmask(*asked)  # which allocates
            manager._grammar_bitmask.fill_(0x5A5A5A5A)
            states = [(g.num_processed_tokens, g.is_terminated()) for g in grammars]
            rows[way] = call(manager, *asked).copy(), manager._grammar_bitmask.clone()
            assert states == [(g.num_processed_tokens, g.is_terminated()) for g in grammars]
        assert (rows["loop"][0] == rows["one call"][0]).all() and len(rows["loop"][0]) >= len(names)
        assert torch.equal(rows["loop"][1], rows["one call"][1])
        for request in requests:
            n = randomness.randrange(3)
            taken, left[request.request_id] = left[request.request_id][:n], left[request.request_id][n:]
            if n and not taken and randomness.random() < 0.3:
                taken = [STOP]
            if taken and request.structured_output_request.reasoning_ended:
                manager.accept_tokens(request, taken)
    assert not loops and any(g.is_terminated() for g in grammars)


def test_a_step_that_fails_is_made_row_by_row(monkeypatch, caplog):
    manager = our_manager(2)
    requests = [request_of(manager, name, TEXTS["ebnf"][0]) for name in "abc"]
    drafts = {"a": ids_of("(1"), "b": [*ids_of(")"), -1]}
    wanted = rows_of(manager, requests, drafts)
    assert torch.equal(wanted, rows_of(manager, requests, drafts))
    monkeypatch.setattr(steps, "_asked", lambda: 1 / 0)
    with caplog.at_level("ERROR", "vllm.equimask"):
        assert torch.equal(wanted, rows_of(manager, requests, drafts))


# --- Token limits ----------------------------------------------------------------------------------------


def generate(manager, request, draw, n_spec: int, thoughts: int = 0) -> None:
    """Do what the scheduler and a sampler do, step by step, until the request ends."""
    grammar = request.structured_output_request.grammar
    for _ in range(request.max_tokens):
        thinks = not request.structured_output_request.reasoning_ended and manager.reasoner_cls is not None
        rest = [ord("a")] * max(0, thoughts - request.num_output_tokens) + [CALL] if thinks else []
        drafts = [*rest, *guesses(grammar.matcher, draw, n_spec, SIZE)][:n_spec]
        drafts = manager.validate_tokens(request, drafts)
        padded = {request.request_id: [*drafts, *[-1] * (n_spec - len(drafts))]} if n_spec else {}
        rows = rows_of(manager, [request], padded)
        taken: list[int] = []
        for at in range(len(drafts) + 1):
            if thinks and CALL not in taken:  # masks do not apply to thoughts
                done = request.num_output_tokens + len(taken) >= thoughts
                taken.append(CALL if done else ord("a"))
            else:
                taken.append(draw.choice(sorted(allowed(rows[at]))))
            if at == len(drafts) or taken[-1] != drafts[at] or STOP in taken:
                break
        taken = taken[: request.max_tokens - request.num_output_tokens]
        request.append_output_token_ids(taken)
        assert manager.accept_tokens(request, taken)
        if STOP in taken or request.num_output_tokens >= request.max_tokens:
            return


@pytest.mark.parametrize("n_spec", [0, 1, 4])
@pytest.mark.parametrize("thoughts", [None, 0, 6, 11])
def test_texts_end_within_the_tokens_of_a_request(monkeypatch, n_spec, thoughts):
    monkeypatch.setenv("EQUIMASK_VLLM_TOKEN_LIMITS", "1")
    manager = our_manager(n_spec)
    manager.reasoner_cls = None if thoughts is None else Thinks
    shortest = len('{"name":""}')  # and a stop token
    for more in (1, 2, 5, 30):
        for seed in range(6):
            most = shortest + more + (0 if thoughts is None else thoughts + 1)
            is_models = seed % 2  # the limit is the length of the model, with the prompt of three tokens
            manager.vllm_config.model_config.max_model_len = 3 + most if is_models else 999
            request = request_of(manager, "a", TEXTS["json"][0], max_tokens=most + 50 if is_models else most)
            request.structured_output_request.reasoning_ended = thoughts is None
            generate(manager, request, random.Random(seed), n_spec, thoughts or 0)
            ids = [*request.output_token_ids]
            assert ids[-1] == STOP and len(ids) <= most
            text = TOKENIZER.decode(ids[ids.index(CALL) + 1 if thoughts is not None else 0 : -1])
            assert set(json.loads(text, strict=False)) <= {"name", "tags"}
