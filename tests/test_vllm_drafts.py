"""Drafts that grammars continue, with a stand-in for vLLM; `test_vllm_managers` uses vLLM's own scheduler."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from adapters.engines.continuations import Continuations, encode_of
from equivalence import Vocabulary
from hybrid import GrammarCompiler, GrammarMatcher
from tests.test_adapters_vllm import vllm as stand_in_fixture  # noqa: F401 - a fixture
from tests.vllm_stand_in import MODULES, config

TEXTS = [bytes([byte]) for byte in range(256)] + [b"</s>", b"ab", b"cde"]
STOP, AB, CDE = 256, 257, 258


@pytest.fixture(scope="module")
def compiler():
    return GrammarCompiler(Vocabulary(TEXTS, [STOP], []))


def spelled(tokens) -> bytes:
    return b"".join(TEXTS[token] for token in tokens if token != STOP)


# --- Continuations ---------------------------------------------------------------------------------------


def test_forced_text_is_put_behind_a_draft(compiler):
    matcher = GrammarMatcher(compiler.compile_grammar('root ::= "xabcde!" [0-9]'))
    drafts = Continuations(8)
    assert spelled(drafts.continue_draft(matcher, [])) == b"xabcde!"
    assert drafts.continue_draft(matcher, [ord("x")]) == [ord("x"), AB, CDE, ord("!")]
    assert drafts.continue_draft(matcher, [ord("x"), ord("a")])[:3] == [ord("x"), ord("a"), ord("b")]
    assert matcher.accept_token(ord("x"))  # the matcher has not moved


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_drafts_are_not_longer_than_asked(compiler, most):
    matcher = GrammarMatcher(compiler.compile_grammar('root ::= "abcde" [0-9]'))
    draft = Continuations(most).continue_draft(matcher, [])
    assert draft == [AB, CDE][:most]
    longer = [*b"abcde"]
    assert Continuations(most).continue_draft(matcher, longer) == longer


def test_a_draft_that_ends_the_text_or_leaves_the_grammar_is_left_alone(compiler):
    matcher = GrammarMatcher(compiler.compile_grammar('root ::= "ab"'))
    drafts = Continuations(8)
    assert drafts.continue_draft(matcher, [AB, STOP]) == [AB, STOP]
    assert drafts.continue_draft(matcher, [AB, AB]) == [AB, AB]
    assert drafts.continue_draft(matcher, [AB]) == [AB]
    assert matcher.accept_token(AB) and matcher.accept_token(STOP)


def test_the_tokenizer_cuts_forced_text(compiler):
    def encode(text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [*text.encode()]

    matcher = GrammarMatcher(compiler.compile_grammar('root ::= "abcde" [0-9]'))
    cut = encode_of(SimpleNamespace(encode=encode))
    assert Continuations(9, cut).continue_draft(matcher, []) == [*b"abcde"]
    assert encode_of(object()) is None
    assert encode_of(SimpleNamespace(encode=lambda *_, **__: ["a"])) is None


# --- Binding the plugin ----------------------------------------------------------------------------------

SCHEDULER = """
class Scheduler:
    def __init__(self, requests, manager):
        self.requests, self.structured_output_manager = requests, manager

    def update_draft_token_ids(self, draft_token_ids):
        for name, spec_token_ids in zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids):
            request = self.requests.get(name)
            if request is not None:
                manager = self.structured_output_manager
                request.spec_token_ids = manager.validate_tokens(request, spec_token_ids)
"""

OURS = SimpleNamespace(
    method="custom_class", model="adapters.vllm.drafts.GrammarDrafts", num_speculative_tokens=4
)
NGRAM = SimpleNamespace(method="ngram", model="ngram", num_speculative_tokens=4)


def settings_of(speculation, *, asynchronous=False, executor=None, backend="auto", v2=False):
    made = config(TEXTS, stops=[STOP], special={STOP}, size=288, backend=backend)
    made.speculative_config, made.use_v2_model_runner = speculation, v2
    made.scheduler_config = SimpleNamespace(async_scheduling=asynchronous)
    made.parallel_config = SimpleNamespace(distributed_executor_backend=executor)
    return made


@pytest.fixture
def plugin(stand_in_fixture, monkeypatch):  # noqa: F811
    """Return a function that installs the plugin and a stand-in, with the stand-in's manager and
    scheduler."""
    monkeypatch.delenv("EQUIMASK_VLLM_DRAFTS", raising=False)

    def put(scheduler: str = SCHEDULER):
        adapter, *_ = stand_in_fixture()
        name = "vllm.v1.core.sched.scheduler"
        module = ModuleType(name)
        exec(scheduler, vars(module))
        # the stand-in takes them out again; monkeypatch would do so after the real vLLM is back
        sys.modules.update({inner: ModuleType(inner) for inner in ("vllm.v1.core", "vllm.v1.core.sched")})
        sys.modules[name] = module
        adapter.register()
        manager = sys.modules[MODULES[2]].StructuredOutputManager
        manager.validate_tokens = lambda self, request, tokens: tokens
        manager._get_constraint_bounds = lambda self, request, tokens: SimpleNamespace(
            grammar_start=0 if request.has_thought else 1
        )
        return manager, module, adapter

    return put


def request_of(manager, text: str, **options):
    grammar = SimpleNamespace(
        matcher=manager.grammar_init("ebnf", text), num_processed_tokens=0, is_terminated=lambda: False
    )
    given = {
        "request_id": "a", "use_structured_output": True, "is_prefill_chunk": False, "has_thought": True,
        "is_finished": lambda: False, "spec_token_ids": [],
        "structured_output_request": SimpleNamespace(grammar=grammar),
    }  # fmt: skip
    return SimpleNamespace(**{**given, **options})


@pytest.mark.parametrize("speculation", [OURS, NGRAM])
def test_the_scheduler_continues_drafts(plugin, monkeypatch, speculation):
    monkeypatch.setenv("EQUIMASK_VLLM_DRAFTS", "0" if speculation is OURS else "1")
    kind, module, _ = plugin()
    manager = kind(settings_of(speculation))
    requests = {
        "a": request_of(manager, 'root ::= "xabcde" [0-9]'),
        "thinks": request_of(manager, 'root ::= "xabcde" [0-9]', has_thought=False),
        "prompt": request_of(manager, 'root ::= "xabcde" [0-9]', is_prefill_chunk=True),
        "done": request_of(manager, 'root ::= "xabcde" [0-9]', is_finished=lambda: True),
        "free": SimpleNamespace(use_structured_output=False, is_prefill_chunk=False, spec_token_ids=[]),
    }
    names = ["a", "thinks", "gone", "prompt", "done", "free"]
    drafts = SimpleNamespace(req_ids=names, draft_token_ids=[[120], [], [], [], [], [5]])
    module.Scheduler(requests, manager).update_draft_token_ids(drafts)
    assert requests["a"].spec_token_ids == [120, AB, CDE]
    assert requests["free"].spec_token_ids == [5]
    assert all(requests[name].spec_token_ids == [] for name in ("thinks", "prompt", "done"))


def test_an_error_leaves_the_draft_as_it_was(plugin, monkeypatch, caplog):
    kind, module, _ = plugin()
    manager = kind(settings_of(OURS))
    request = request_of(manager, 'root ::= "xabcde" [0-9]')
    monkeypatch.setattr(Continuations, "continue_draft", lambda *_: 1 / 0)
    drafts = SimpleNamespace(req_ids=["a"], draft_token_ids=[[120]])
    module.Scheduler({"a": request}, manager).update_draft_token_ids(drafts)
    assert request.spec_token_ids == [120] and "Continuing the draft of request" in caplog.text


def test_nothing_is_bound_where_drafts_are_not_wanted(plugin):
    kind, module, _ = plugin()
    before = module.Scheduler.update_draft_token_ids
    kind(settings_of(NGRAM))
    assert module.Scheduler.update_draft_token_ids is before
    kind(settings_of(OURS))
    bound = module.Scheduler.update_draft_token_ids
    kind(settings_of(OURS))
    assert module.Scheduler.update_draft_token_ids is bound is not before


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (settings_of(None), "speculative decoding is not enabled"),
        (
            settings_of(SimpleNamespace(method="eagle", model="x")),
            "method of speculative decoding is 'eagle'",
        ),
        (settings_of(NGRAM, asynchronous=True), "scheduling is asynchronous"),
        (settings_of(NGRAM, v2=True), "model runner V2 keeps drafts in the workers"),
        (settings_of(NGRAM, executor="external_launcher"), "each rank would make its own drafts"),
        (settings_of(NGRAM, backend="guidance"), "backend of structured outputs is 'guidance'"),
    ],
)
def test_an_engine_without_a_place_for_them_does_not_start(plugin, monkeypatch, settings, why):
    monkeypatch.setenv("EQUIMASK_VLLM_DRAFTS", "1")
    kind, _, _ = plugin()
    with pytest.raises(ValueError, match=why):
        kind(settings)


def test_it_is_loud_where_the_scheduler_is_another(plugin):
    kind, _, adapter = plugin(SCHEDULER.replace("spec_token_ids", "drafted"))
    with pytest.raises(adapter.CannotRegister, match="updates drafts in an unknown way"):
        kind(settings_of(OURS))
