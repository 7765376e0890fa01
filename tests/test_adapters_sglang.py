"""The adapter of SGLang, over a stand-in: how SGLang finds it, what requests get, and what is cached."""

import json
import sys
import time
from unittest.mock import patch

import pytest

from adapters.xgrammar import BatchGrammarMatcher
from hybrid import Budget
from tests import sglang_stand_in as stand_in
from tests.engine_requests import WRONG_SETTINGS, check_refusal, fail
from tests.engines import DIGITS, EBNF, EOT, SCHEMA, SIZE, STOP, TAG, bits, mask_of
from tests.sglang_backends import fixture_make, fixture_sglang, stock  # noqa: F401
from tests.sglang_stand_in import BASE, CHOICES, CONTEXT, THINK_END, request_of, rows_of

# --- How it is found -------------------------------------------------------------------------------------


def test_it_becomes_a_choice_once(sglang):
    adapter, modules = sglang()
    assert not adapter.is_registered()
    for _ in range(2):
        adapter.register()
        assert adapter.is_registered()
        assert modules[CHOICES].GRAMMAR_BACKEND_CHOICES == ["xgrammar", "none", "equimask"]
        assert [*modules[BASE].GRAMMAR_BACKEND_REGISTRY] == ["equimask"]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (CHOICES, "GRAMMAR_BACKEND_CHOICES"), (CHOICES, "add_grammar_backend_choices"),
        (BASE, "GRAMMAR_BACKEND_REGISTRY"), (BASE, "register_grammar_backend"),
    ],
)  # fmt: skip
def test_it_is_loud_where_sglang_is_another(sglang, module, name):
    adapter, modules = sglang()
    delattr(modules[module], name)
    with pytest.raises(adapter.CannotRegister, match=f"SGLang 0.99: {module} has no {name}"):
        adapter.register()
    del sys.modules[module]
    with pytest.raises(adapter.CannotRegister, match=f"there is no module {module}"):
        adapter.register()


def test_it_is_loud_where_the_name_is_taken(sglang):
    adapter, modules = sglang()
    modules[BASE].GRAMMAR_BACKEND_REGISTRY["equimask"] = print
    with pytest.raises(adapter.CannotRegister, match="another plugin"):
        adapter.register()
    assert modules[CHOICES].GRAMMAR_BACKEND_CHOICES == ["xgrammar", "none"]


@pytest.mark.parametrize("parser", [None, "bang"])
def test_its_pool_is_as_large_as_there_are_cores(make, monkeypatch, parser):
    monkeypatch.setattr("joblib.cpu_count", lambda: 3)
    assert make(reasoning_parser=parser).executor._max_workers == 7


# --- What it makes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "document"),
    [
        ("ebnf", EBNF, b"aa12bb"),
        ("json", SCHEMA, b'{"a": -12 }'),
        ("regex", "[ab]{2,3}", b"aba"),
        ("structural_tag", TAG, b'so <tool>{"a":1}</tool> and <tool'),
    ],
)
@pytest.mark.parametrize("override", [None, [EOT]])
def test_masks_are_those_of_sglangs_own_backend(make, kind, text, document, override):
    ours, theirs = (request_of(one, kind, text) for one in (make(override=override), stock(override)))
    end = STOP if override is None else EOT
    tokens = [*document, *([end] if kind != "structural_tag" else [])]
    for token in tokens:
        assert mask_of(ours) == mask_of(theirs)
        for grammar in (ours, theirs):
            grammar.accept_token(token)
        assert ours.is_terminated() == theirs.is_terminated() == (token == end)
    if token == end:
        ours.accept_token(ord("z"))  # what follows the end is not read
    for back in (1, 2, len(tokens) - 3):  # over the end
        for grammar in (ours, theirs):
            grammar.rollback(back)
        assert mask_of(ours) == mask_of(theirs)
        assert ours.accepted_tokens == theirs.accepted_tokens
    assert ours.accepted_tokens == []


def test_options_of_the_server_are_the_backends(make):
    options = {"constrained_json_disable_any_whitespace": True, "constrained_json_max_whitespace_cnt": 2}
    ours = request_of(make(**options), "json", SCHEMA)
    theirs = request_of(stock(any_whitespace=False, max_whitespace_cnt=2), "json", SCHEMA)
    for token in b'{"a":':
        assert mask_of(ours) == mask_of(theirs)
        for grammar in (ours, theirs):
            grammar.accept_token(token)


def test_a_release_that_makes_grammars_in_another_way_is_an_error_at_start(make, monkeypatch):
    own = stand_in.XGrammarGrammarBackend._from_context
    monkeypatch.setattr(
        stand_in.XGrammarGrammarBackend, "_compiled",
        lambda self, kind, text, compile_it: own(self, compile_it(), text, None),
    )  # fmt: skip
    with pytest.raises(TypeError, match=r"this release of SGLang made a .*XGrammarGrammar where"):
        make()


def test_a_release_that_wraps_grammars_in_another_way_is_an_error_at_start(make, monkeypatch):
    def wrapped(self, key, reasoning):
        found = self.grammar_backend._init_value_dispatch(key, reasoning)
        return stand_in.ReasonerGrammarObject(found, THINK_END, 0)

    monkeypatch.setattr(stand_in.ReasonerGrammarBackend, "_init_value_dispatch", wrapped)
    make()
    with pytest.raises(TypeError, match=r"made a .*ReasonerGrammarObject where"):
        make(reasoning_parser="bang")


def test_a_tokenizer_that_xgrammar_refuses(make):
    assert make(texts=None) is None
    overridden = sys.modules[CONTEXT].overridden  # type: ignore[attr-defined]
    assert overridden == [("grammar.import_fallback", {"grammar_backend": "none"})]
    with pytest.raises(ValueError, match="--enable-strict-thinking"):
        make(texts=None, enable_strict_thinking=True)


@pytest.mark.parametrize(("tp_size", "pp_size"), [(1, 1), (2, 1), (1, 2)])
def test_ranks_decide_alike(make, tp_size, pp_size):
    backend = make(tp_size=tp_size, pp_size=pp_size)
    assert backend.grammar_compiler.hybrid.stats()["compilations"] > 3 and not backend.cache  # it is warm
    for compiler in (backend.grammar_compiler, backend._framing_compiler):
        several = tp_size * pp_size > 1
        assert compiler.hybrid.deterministic == several
        assert compiler.hybrid.budget.mask_seconds == (None if several else 2.0)
    assert mask_of(request_of(backend, "ebnf", EBNF)) == [*DIGITS, ord("a")]


# --- Settings --------------------------------------------------------------------------------------------


def test_an_environment_variable_makes_it_sglangs_own(make, monkeypatch):
    monkeypatch.setenv("EQUIMASK_SGLANG", "0")
    assert type(make()) is stand_in.XGrammarGrammarBackend
    assert type(make(reasoning_parser="bang")) is stand_in.ReasonerGrammarBackend


@pytest.mark.parametrize(
    "wrong", [*WRONG_SETTINGS, ("_CACHE_MB", "-1", "must be a positive number of mebibytes")]
)
def test_what_cannot_be_read_is_an_error_at_start(make, monkeypatch, wrong):
    check_refusal(monkeypatch, "EQUIMASK_SGLANG", wrong, make)


def test_bounds_of_the_operator_are_the_compilers(make, monkeypatch):
    for name, value in (("COMPILE_SECONDS", "2.5"), ("MASK_SECONDS", "0.5"), ("CACHE_MB", "7")):
        monkeypatch.setenv(f"EQUIMASK_SGLANG_{name}", value)
    backend = make()
    assert backend.grammar_compiler.hybrid.budget == Budget(seconds=2.5, mask_seconds=0.5)
    assert backend.grammar_compiler.cache_limit_bytes == backend.cache.limit == 7 * 2**20
    monkeypatch.setenv("EQUIMASK_SGLANG_CACHE_MB", "1e308")  # more bytes than a float can count
    assert make().cache.limit > 2**50


# --- What is kept for the next request -------------------------------------------------------------------


@pytest.mark.parametrize("parser", [None, "bang"])
def test_equal_requests_share_a_grammar_and_nothing_else(make, parser):
    backend = make(reasoning_parser=parser)
    first, second = (request_of(backend, "ebnf", EBNF) for _ in range(2))
    ours = [one.grammar if parser else one for one in (first, second)]
    assert ours[0].ctx is ours[1].ctx and ours[1].grammar_stats.is_cache_hit and len(backend.cache) == 1
    first.accept_token(ord("1"))
    assert STOP in mask_of(first) and STOP not in mask_of(second)
    backend.reset()
    inner = backend.grammar_backend if parser else backend
    assert not backend.cache and not inner.grammar_compiler.get_cache_size_bytes()


@pytest.mark.parametrize("parser", [None, "bang"])
def test_a_grammar_that_is_wrong_stays_wrong(make, parser):
    backend = make(reasoning_parser=parser)
    refused = request_of(backend, "ebnf", "root ::= nowhere")
    assert isinstance(refused, stand_in.InvalidGrammarObject) and "EBNF" in refused.error_message
    assert request_of(backend, "ebnf", "root ::= nowhere") is refused


@pytest.mark.parametrize("parser", [None, "bang"])
def test_one_that_took_too_long_may_come_again(make, monkeypatch, caplog, parser):
    monkeypatch.setenv("EQUIMASK_SGLANG_COMPILE_SECONDS", "0.3")
    backend = make(reasoning_parser=parser)
    slow = json.dumps({"type": "string", "pattern": "^[a-z]{1,20000}$"})  # a minute, in XGrammar
    began = time.monotonic()
    refused = request_of(backend, "json", slow)
    assert isinstance(refused, stand_in.InvalidGrammarObject) and "seconds" in refused.error_message
    assert time.monotonic() - began < 20 and not backend.cache
    assert "Compiling a grammar (json) exceeded a limit" in caplog.text  # without the schema
    backend.set_cache(("json", slow), stand_in.InvalidGrammarObject("SGLang has waited for too long"))
    assert not backend.cache


def test_an_engine_starts_where_nothing_compiles_in_time(make, monkeypatch):
    monkeypatch.setenv("EQUIMASK_SGLANG_COMPILE_SECONDS", "1e-9")
    assert isinstance(request_of(make(), "ebnf", EBNF), stand_in.InvalidGrammarObject)


def test_the_least_recently_used_goes_first(sglang):
    sglang()
    from adapters.sglang.grammar_cache import GrammarCache

    sizes = {"a": 4, "b": 4, "c": 4, "all": 99}
    cache = GrammarCache(10, lambda key, _: sizes[key[1]], lambda value: value != "for now")
    for name in ("a", "b"):
        cache["json", name] = name
    assert cache.get(("json", "a")) == "a" == cache["json", "a"]
    assert ("json", "b") in cache and cache.bytes == 8
    assert cache.get(("json", "c"), "nothing") == "nothing" and cache.get(("json", "c")) is None
    cache["json", "c"] = "c"
    assert [*cache] == [("json", "a"), ("json", "c")] and cache.bytes == 8
    sizes["c"] = 7  # it has grown
    assert cache.get(("json", "c")) == "c" and [*cache] == [("json", "c")] and cache.bytes == 7
    cache["json", "all"] = "all"
    assert [*cache] == [("json", "all")] and cache.bytes == 99
    cache["json", "a"] = "for now"
    cache["json", "all"] = "for now"
    assert not cache and cache.bytes == 0 and cache.pop(("json", "b"), None) is None


def test_real_sizes_are_counted_unless_ranks_have_to_agree(make, monkeypatch):
    monkeypatch.setenv("EQUIMASK_SGLANG_CACHE_MB", "9")
    alone, ranks = make(), make(tp_size=2)
    for backend in (alone, ranks):
        for number in range(6):
            request_of(backend, "regex", f"{number}[a-z]+")
    assert len(ranks.cache) == 4 and ranks.cache.bytes == 4 * (2 * 2**20 + 2**10 + 2 * len("0[a-z]+"))
    real = sum(grammar.ctx.memory_size_bytes for grammar in alone.cache.values())
    assert real <= alone.cache.bytes <= real + len(alone.cache) * 2**11


# --- Batches, and models that think ----------------------------------------------------------------------


def test_a_batch_of_all_kinds(make):
    backend = make(reasoning_parser="bang")
    thinking, thought = (request_of(backend, "ebnf", EBNF, True) for _ in range(2))
    plain = request_of(backend, "regex", "[xy]")
    bare = request_of(backend.grammar_backend, "regex", "[pq]")
    ended = request_of(backend, "regex", "z")
    thought.accept_token(THINK_END)
    for token in (ord("z"), STOP):
        ended.accept_token(token)
    grammars = [thinking, plain, bare, ended, thought]
    free = [*range(SIZE)]
    wanted = [free, [ord("x"), ord("y")], [ord("p"), ord("q")], free, [*DIGITS, ord("a")]]
    for first in range(len(grammars)):  # it is asked for the masks of all
        order = [*range(first, len(grammars)), *range(first)]
        rows = rows_of([grammars[i] for i in order], SIZE)
        assert [bits(row) for row in rows] == [wanted[i] for i in order]


def test_batches_are_filled_together(make):
    name, together = "batch_fill_next_token_bitmask", BatchGrammarMatcher.batch_fill_next_token_bitmask
    backend = make(reasoning_parser="bang")
    grammars = [request_of(backend, "ebnf", EBNF, reasoning=i == 2) for i in range(5)]
    with patch.object(BatchGrammarMatcher, name, autospec=True, side_effect=together) as filled:
        rows_of(grammars, SIZE)
    assert [len(call.args[1]) for call in filled.call_args_list] == [4]


# --- Errors of one request -------------------------------------------------------------------------------


@pytest.fixture
def pair(make):
    """Two grammars that have read one token; the first one's matcher can be made to fail."""
    backend = make()
    found = [request_of(backend, "ebnf", EBNF) for _ in range(2)]
    for grammar in found:
        grammar.accept_token(ord("a"))
    kind = type(found[0].matcher)
    found[0].matcher.__class__ = type("Broken", (kind,), {})
    return found


def breaking(monkeypatch, grammar, name: str):
    return monkeypatch.setattr(type(grammar.matcher), name, fail, raising=False)


@pytest.mark.parametrize("name", ["fill_next_token_bitmask", "accept_token", "rollback", "is_terminated"])
def test_what_fails_ends_its_request_and_no_other(pair, monkeypatch, name):
    broken, good = pair
    with monkeypatch.context() as context:
        breaking(context, broken, name)
        if name == "fill_next_token_bitmask":
            assert mask_of(broken) == [STOP]
        elif name == "accept_token":
            with pytest.raises(ValueError, match="after an error"):
                broken.accept_token(ord("1"))
        else:
            assert not getattr(broken, name)(*[1] * (name == "rollback"))
    assert mask_of(broken) == [STOP] and not broken.is_terminated()
    for token in (STOP, ord("1")):
        with pytest.raises(ValueError, match="after an error"):
            broken.accept_token(token)
    rows = rows_of([broken, good], SIZE)
    assert bits(rows[0]) == [STOP] and bits(rows[1]) == [*DIGITS, ord("a")]


def test_a_batch_that_fails_is_filled_one_by_one(pair, monkeypatch):
    monkeypatch.setattr(BatchGrammarMatcher, "batch_fill_next_token_bitmask", fail)
    breaking(monkeypatch, pair[0], "fill_next_token_bitmask")
    rows = rows_of(pair, SIZE)
    assert bits(rows[0]) == [STOP] and bits(rows[1]) == [*DIGITS, ord("a")]


@pytest.mark.parametrize("number", [0, 1])
def test_a_grammar_without_a_next_token_ends_its_request_and_no_other(make, number):
    """SGLang's sampler would make NaN of its row, and end the scheduler."""
    backend = make()
    dead = request_of(backend, "ebnf", 'root ::= "a" never\nnever ::= never')
    dead.accept_token(ord("a"))
    good = [request_of(backend, "ebnf", EBNF) for _ in range(number)]
    rows = rows_of([dead, *good], SIZE)
    assert bits(rows[0]) == [STOP] and all(bits(row) == [*DIGITS, ord("a")] for row in rows[1:])
    with pytest.raises(ValueError, match="is not allowed"):
        dead.accept_token(STOP)
    dead.rollback(1)
    assert mask_of(dead) == [ord("a")]


def test_a_draft_whose_mask_fails_does_not_harm_the_others(pair, monkeypatch):
    broken, _ = pair
    broken.accept_token(ord("1"))
    with monkeypatch.context() as context:
        breaking(context, broken, "fill_next_token_bitmask")
        assert mask_of(broken) == [STOP]
    broken.rollback(0)
    assert mask_of(broken) == [STOP]
    broken.rollback(1)
    broken.accept_token(ord("a"))  # the draft beside it
    assert mask_of(broken) == [*DIGITS, ord("a")]
