"""The adapter of vLLM, over a stand-in: what is patched, what is refused, and what requests get."""

import json
import logging
import os
import time
from types import ModuleType, SimpleNamespace

import pytest
import torch
import xgrammar

from equivalence import BudgetExceeded
from tests.engine_requests import WRONG_SETTINGS, check_refusal, fail
from tests.engines import DIGITS, EBNF, EOT, SCHEMA, SIZE, STOP, TAG, TEXTS, TOOL, UNTOOL, mask_of
from tests.vllm_stand_in import BACKEND, FRONT_MODULES, MANAGER, MODULES, config, installed


@pytest.fixture
def vllm(monkeypatch):
    """A function that installs a stand-in for vLLM, and returns the adapter and three modules of vLLM: of the
    manager, of the backend, and of the front end."""
    for name in ("EQUIMASK_VLLM", "EQUIMASK_VLLM_COMPILE_SECONDS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EQUIMASK_VLLM_METRICS", "0")
    with installed() as put:

        def four(**sources: str) -> tuple[ModuleType, ...]:
            adapter, modules = put(**sources)
            return adapter, *(modules[name] for name in (*MODULES[2:], FRONT_MODULES[0]))

        yield four


@pytest.fixture
def manager(vllm):
    """The stand-in's module of managers, with the adapter registered."""
    adapter, module, *_ = vllm()
    adapter.register()
    return module


@pytest.fixture
def engine(vllm, monkeypatch):
    """A function that registers the adapter with settings, and makes an engine's manager."""

    def make(**settings: str):
        for name, value in settings.items():
            monkeypatch.setenv(f"EQUIMASK_VLLM_{name}", value)
        adapter, module, *_ = vllm()
        adapter.register()
        return module.StructuredOutputManager(small())

    return make


def small(backend: str = "auto"):
    return config(TEXTS, stops=[STOP], special={STOP, TOOL, UNTOOL, EOT}, size=SIZE, backend=backend)


# --- What is bound ---------------------------------------------------------------------------------------


def test_backends_of_an_engine_run_over_our_names(vllm):
    adapter, manager, backend, _ = vllm()
    assert not adapter.is_registered()
    adapter.register()
    bound = backend.xgr, manager.XgrammarBackend, manager.StructuredOutputManager.__init__
    adapter.register()  # which changes nothing
    assert bound == (backend.xgr, manager.XgrammarBackend, manager.StructuredOutputManager.__init__)
    assert adapter.is_registered()
    from adapters.vllm import compiler

    made = manager.StructuredOutputManager(small())
    matcher = made.grammar_init("ebnf", EBNF)
    assert type(matcher) is compiler.GrammarMatcher
    assert type(made.backend.compiler) is type(made.backend.full_vocab_compiler) is compiler.GrammarCompiler
    assert made.backend.allocate_token_bitmask(3).shape == (3, SIZE // 32)
    assert backend.xgr.TokenizerInfo is xgrammar.TokenizerInfo


@pytest.mark.parametrize(
    ("kind", "text", "document"),
    [
        ("ebnf", EBNF, b"aa12bb"),
        ("json", SCHEMA, b'{"a": -12 }'),
        ("tag", TAG, b'so <tool>{"a":1}</tool> and <tool'),
    ],
)
def test_masks_are_those_of_the_same_backend_without_us(vllm, kind, text, document):
    adapter, manager, *_ = vllm()
    backend = manager.XgrammarBackend(small(), small().model_config.tokenizer, SIZE)
    theirs = backend.compile_grammar(kind, text)
    assert type(theirs) is xgrammar.GrammarMatcher
    adapter.register()
    ours = manager.StructuredOutputManager(small()).grammar_init(kind, text)
    for byte in document:
        assert mask_of(ours) == mask_of(theirs)
        assert ours.accept_token(byte) and theirs.accept_token(byte)
    assert mask_of(ours) == mask_of(theirs)
    assert STOP in mask_of(ours) and (EOT in mask_of(ours)) == (kind == "tag")  # which knows special tokens


@pytest.mark.parametrize("executor", ["mp", "uni", "external_launcher"])
def test_ranks_that_schedule_for_themselves_decide_alike(manager, executor):
    engine = small()
    engine.parallel_config = SimpleNamespace(distributed_executor_backend=executor)
    made = manager.StructuredOutputManager(engine)
    made.grammar_init("ebnf", EBNF)
    found = [one.hybrid.deterministic for one in (made.backend.compiler, made.backend.full_vocab_compiler)]
    assert found == 2 * [executor == "external_launcher"]


def test_pools_of_the_manager_are_as_large_as_there_are_cores(vllm, monkeypatch):
    adapter, manager, *_ = vllm()
    adapter.register()
    monkeypatch.setattr("joblib.cpu_count", lambda: 5)
    assert manager.StructuredOutputManager(small()).workers == 3
    adapter, manager, *_ = vllm(manager=MANAGER.replace("multiprocessing", "os"))
    adapter.register()  # which finds no name to bind
    assert manager.StructuredOutputManager(small()).workers == ((os.cpu_count() or 1) + 1) // 2


# --- What is warm ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts_ids_itself", [False, True])  # as for Mistral's tokenizers
def test_the_first_request_finds_the_backend_that_is_warm(vllm, counts_ids_itself):
    own = "len(tokenizer.texts)" if counts_ids_itself else "vocab_size"
    adapter, manager, *_ = vllm(backend=BACKEND.replace("tokenizer, vocab_size\n", f"tokenizer, {own}\n"))
    adapter.register()
    settings = small()
    made = manager.StructuredOutputManager(settings)
    warm = manager.XgrammarBackend.warm
    assert warm.compiler.hybrid.stats()["compilations"] > 3
    assert warm.full_vocab_compiler.hybrid.stats()["compilations"] > 3
    made.grammar_init("ebnf", EBNF)
    assert made.backend is warm and manager.XgrammarBackend.warm is None


def test_another_engine_gets_a_backend_of_its_own(manager):
    first, second = (manager.StructuredOutputManager(small()) for _ in range(2))
    for made in (first, second):
        made.grammar_init("ebnf", EBNF)
        assert made.backend.vllm_config is made.vllm_config and made.backend.tokenizer is made.tokenizer
    assert first.backend is not second.backend


@pytest.mark.parametrize("backend", ["guidance", "outlines", "auto"])
def test_nothing_is_made_for_other_backends_or_without_a_tokenizer(manager, backend):
    settings = small(backend)
    settings.model_config.skip_tokenizer_init = backend == "auto"
    manager.StructuredOutputManager(settings)
    assert manager.XgrammarBackend.warm is None


def test_an_engine_starts_with_a_vocabulary_that_cannot_spell_json(manager):
    manager.StructuredOutputManager(config([b"a", b"b", b""], stops=[2], special={2}, size=3))
    assert manager.XgrammarBackend.warm.compiler.hybrid.stats()["compilations"] > 1


def test_an_engine_starts_with_a_tokenizer_that_xgrammar_refuses(manager, caplog):
    settings = small()
    settings.model_config.tokenizer.texts = None
    with caplog.at_level(logging.ERROR, "vllm.equimask"):
        made = manager.StructuredOutputManager(settings)
    assert "cannot be created for this tokenizer" in caplog.text
    with pytest.raises(TypeError):  # XGrammar's, for the request
        made.grammar_init("ebnf", EBNF)


def test_a_backend_with_compilers_of_its_own_is_an_error_at_start(vllm):
    adapter, manager, backend, _ = vllm()
    adapter.register()
    backend.XgrammarBackend._create_compiler = staticmethod(xgrammar.GrammarCompiler)
    with pytest.raises(TypeError, match="did not replace all compilers"):
        manager.StructuredOutputManager(small())


# --- What it refuses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backend", "manager", "why"),
    [
        (BACKEND + "\ndel xgr", MANAGER, "backend_xgrammar has no xgr"),
        (BACKEND.replace("class Xgrammar", "class Other"), MANAGER, "has no XgrammarBackend"),
        (BACKEND.replace("xgr.GrammarMatcher", "matcher_of"), MANAGER, "does not read GrammarMatcher"),
        (BACKEND.replace("xgr.GrammarCompiler", "xgr.Compiler"), MANAGER, "does not read GrammarCompiler"),
        (BACKEND, MANAGER.replace("Manager", "Managers"), "has no StructuredOutputManager"),
        (BACKEND, MANAGER.replace("XgrammarBackend", "backend_of"), "does not read XgrammarBackend"),
    ],
)  # fmt: skip
def test_it_is_loud_where_vllm_is_another(vllm, backend, manager, why):
    adapter, first, second, _ = vllm(backend=backend, manager=manager)
    before = dict(vars(first)), dict(vars(second))
    with pytest.raises(adapter.CannotRegister, match=why) as caught:
        adapter.register()
    assert "vLLM 0.99" in str(caught.value) and "EQUIMASK_VLLM=0" in str(caught.value)
    assert before == (vars(first), vars(second))


def test_an_environment_variable_turns_it_off(vllm, monkeypatch):
    adapter, manager, backend, _ = vllm()
    monkeypatch.setenv("EQUIMASK_VLLM", "0")
    adapter.register()
    assert not adapter.is_registered()
    assert backend.xgr is xgrammar and isinstance(manager.XgrammarBackend, type)


@pytest.mark.parametrize(
    "wrong", [*WRONG_SETTINGS, ("_CHECK_SECONDS", "soon", "must be a positive number of seconds")]
)
def test_what_cannot_be_read_is_an_error_at_start(vllm, monkeypatch, wrong):
    adapter, *_ = vllm()
    check_refusal(monkeypatch, "EQUIMASK_VLLM", wrong, adapter.register)
    assert not adapter.is_registered()


def test_a_token_that_takes_too_long_ends_its_request(engine, caplog):
    """Each "a" may be read in more ways than the one before it: the 200th takes a second."""
    made = engine(MASK_SECONDS="0.02")
    slow = made.grammar_init("ebnf", 'root ::= (("a"{0,500} "b"?){0,500} "c"?){0,500}')
    began = time.monotonic()
    while slow.accept_token(ord("a")):
        assert time.monotonic() - began < 20
    assert slow.has_failed and mask_of(slow) == [STOP]
    assert "Budget.mask_seconds" in caplog.text
    assert mask_of(made.grammar_init("ebnf", EBNF)) == [*DIGITS, ord("a")]


def test_a_grammar_that_takes_too_long_fails_alone(engine):
    made = engine(COMPILE_SECONDS="0.3")
    slow = json.dumps({"type": "string", "pattern": "^[a-z]{1,20000}$"})  # a minute, in XGrammar
    began = time.monotonic()
    with pytest.raises(BudgetExceeded) as caught:
        made.grammar_init("json", slow)
    assert isinstance(caught.value, RuntimeError) and time.monotonic() - began < 20
    assert mask_of(made.grammar_init("ebnf", EBNF)) == [*DIGITS, ord("a")]


def test_an_engine_starts_where_nothing_compiles_in_time(engine, caplog):
    with caplog.at_level(logging.WARNING, "vllm.equimask"):
        made = engine(COMPILE_SECONDS="1e-9")
    assert "time limit was reached" in caplog.text
    with pytest.raises(BudgetExceeded):
        made.grammar_init("ebnf", EBNF)
    assert made.backend is not None


# --- Errors of one request -------------------------------------------------------------------------------


@pytest.fixture
def two(engine):
    """Two matchers of one grammar that have read one token."""
    made = engine()
    matchers = [made.grammar_init("ebnf", EBNF, stops) for stops in ({STOP, EOT}, None)]
    for matcher in matchers:
        assert matcher.accept_token(ord("a"))
    return matchers


@pytest.mark.parametrize("name", ["fill_next_token_bitmask", "accept_token", "rollback", "is_terminated"])
def test_what_fails_ends_its_request_and_no_other(two, monkeypatch, caplog, name):
    from adapters.xgrammar import GrammarMatcher

    broken, other = two
    rows = torch.full((3, SIZE // 32), 5, dtype=torch.int32)
    arguments = {"accept_token": (97,), "fill_next_token_bitmask": (rows, 1)}
    with monkeypatch.context() as context, caplog.at_level(logging.ERROR, "vllm.equimask"):
        context.setattr(GrammarMatcher, name, fail, raising=False)
        getattr(broken, name)(*arguments.get(name, ()))
    assert "no room" in caplog.text and "its request is ended\n" in caplog.text
    assert mask_of(broken) == [STOP, EOT] and (rows[[0, 2]] == 5).all()  # it writes its own row only
    assert not broken.accept_token(STOP) and not broken.accept_token(ord("1"))
    assert not broken.is_terminated()
    broken.rollback()
    assert ord("1") in mask_of(other) and other.accept_token(ord("1"))
    broken.reset()
    assert ord("1") in mask_of(broken) and broken.accept_token(ord("1"))


# --- Errors in drafts ------------------------------------------------------------------------------------

DRAFTING = """
class XgrammarGrammar:
    def __init__(self, matcher):
        self.matcher = matcher

    def validate_tokens(self, tokens):
        accepted = []
        for token in tokens:
            if not self.matcher.accept_token(token):
                break
            accepted.append(token)
        if accepted:
            self.matcher.rollback(len(accepted))
        return accepted
"""


def fails_at(monkeypatch, name: str, calls: int) -> None:
    """Make a method of matchers fail in the call after this number of calls."""
    from adapters.xgrammar import GrammarMatcher

    real = getattr(GrammarMatcher, name)
    made: list[None] = []

    def failing(self, *arguments, **options):
        made.append(None)
        return fail() if len(made) == calls + 1 else real(self, *arguments, **options)

    monkeypatch.setattr(GrammarMatcher, name, failing, raising=False)


@pytest.mark.parametrize("calls", [0, 1])
def test_a_draft_token_that_fails_is_refused_and_ends_no_request(vllm, monkeypatch, caplog, calls):
    adapter, module, backend, _ = vllm(backend=BACKEND + DRAFTING)
    adapter.register()
    matcher = module.StructuredOutputManager(small()).grammar_init("ebnf", EBNF)
    expected, drafts = mask_of(matcher), [ord("a"), ord("a"), ord("1")]
    with monkeypatch.context() as context:
        fails_at(context, "accept_token", calls)
        assert backend.XgrammarGrammar(matcher).validate_tokens(drafts) == drafts[:calls]
    assert "it is refused" in caplog.text
    assert not matcher.has_failed and mask_of(matcher) == expected
    assert backend.XgrammarGrammar(matcher).validate_tokens(drafts) == drafts


@pytest.mark.parametrize("name", ["fill_next_token_bitmask", "accept_token"])
@pytest.mark.parametrize("calls", [0, 1, 2])
def test_what_fails_in_the_rows_of_drafts_ends_no_request(engine, monkeypatch, caplog, name, calls):
    made = engine()
    request = made.grammar_init("ebnf", EBNF, request_id="one")
    matcher = request.structured_output_request.grammar.matcher
    expected, drafts = mask_of(matcher), {"one": [ord("a"), ord("a"), ord("1")]}
    with monkeypatch.context() as context:
        fails_at(context, name, calls)
        made.grammar_bitmask({"one": request}, ["one"], drafts)
    assert ("refused" if name == "accept_token" else "ended, unless this was in drafts") in caplog.text
    is_real = name == "fill_next_token_bitmask" and calls == 0  # the mask of the next token
    assert matcher.has_failed == is_real and mask_of(matcher) == ([STOP] if is_real else expected)
