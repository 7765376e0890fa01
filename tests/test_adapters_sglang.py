"""The adapter of SGLang, over a stand-in for it: how it is found, what requests get, and what is kept."""

import importlib
import json
import random
import subprocess
import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import adapters
from tests.sglang_stand_in import (
    BASE,
    CHOICES,
    CONTEXT,
    SPECULATION,
    THINK_END,
    InvalidGrammarObject,
    ReasonerGrammarBackend,
    XGrammarGrammar,
    XGrammarGrammarBackend,
    request_of,
    rows_of,
    stand_in,
    traverse_tree,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent

TEXTS = [bytes([byte]) for byte in range(256)] + [b"</s>", b"<tool>", b"</tool>", b'{"', b'":', b"<eot>", b""]
STOP, EOT, SIZE = 256, 261, 288

EBNF = 'root ::= "a" root "b" | [0-9]{1,3}'
SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
TAG = json.dumps({
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags", "triggers": ["<tool>"],
        "tags": [{"begin": "<tool>", "content": {"type": "json_schema", "json_schema": json.loads(SCHEMA)},
                  "end": "</tool>"}],
    },
})  # fmt: skip
DIGITS = [*range(ord("0"), ord("9") + 1)]


def taken_out() -> dict:
    """The modules of SGLang, or of what stands in for it, and of its adapter, which are imported no more."""
    names = [n for n in sys.modules if n == "sglang" or n.startswith(("sglang.", "adapters.sglang"))]
    return {name: sys.modules.pop(name) for name in names}


@pytest.fixture
def sglang(monkeypatch):
    """Puts a stand-in among the modules, and takes away what adapters of another one left there."""

    before = taken_out()

    def put(**serving):
        taken_out()
        modules = stand_in(**serving)
        sys.modules.update(modules)
        return importlib.import_module("adapters.sglang"), modules

    for name in ("", "_COMPILE_SECONDS", "_CACHE_DIR", "_CACHE_MB"):
        monkeypatch.delenv(f"EQUIMASK_SGLANG{name}", raising=False)
    yield put
    taken_out()
    sys.modules.update(before)
    vars(adapters)["sglang"] = before.get("adapters.sglang")


@pytest.fixture
def make(sglang):
    """A backend, as SGLang's registry makes it."""

    def made(texts=TEXTS, override=None, tp_size=1, pp_size=1, speculates=None, **serving):
        adapter, modules = sglang(**serving)
        adapter.register()
        create = modules[BASE].GRAMMAR_BACKEND_REGISTRY["equimask"]
        arguments = SimpleNamespace(tp_size=tp_size, pp_size=pp_size, speculative_algorithm=speculates)
        return create(arguments, SimpleNamespace(texts=texts, override=override), SIZE, {STOP})

    return made


def theirs(override=None, **options):
    """SGLang's own backend, as the stand-in has it."""
    tokenizer = SimpleNamespace(texts=TEXTS, override=override)
    return XGrammarGrammarBackend(tokenizer, SIZE, model_eos_token_ids=[STOP], **options)


def bits(row: torch.Tensor) -> list[int]:
    words = row.numpy().view("uint32")
    return [i for i in range(SIZE) if words[i >> 5] >> (i & 31) & 1]


def mask_of(grammar) -> list[int]:
    """The allowed ids."""
    row = torch.zeros((2, SIZE // 32), dtype=torch.int32)
    grammar.fill_vocab_mask(row, 1)
    return bits(row[1])


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


def test_the_entry_point_names_what_registers(sglang):
    adapter, _ = sglang()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    group = project["entry-points"]["sglang.srt.plugins"]
    assert EntryPoint("equimask", group["equimask"], "sglang.srt.plugins").load() is adapter.register
    assert any(one.startswith("sglang") for one in project["optional-dependencies"]["sglang"])


def in_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_entry_point_imports_nothing_heavy():
    code = (
        "import sys; before = set(sys.modules); import importlib.machinery, types; "
        "sglang = types.ModuleType('sglang'); "
        "sglang.__spec__ = importlib.machinery.ModuleSpec('sglang', None); sys.modules['sglang'] = sglang; "
    )
    code += (
        "import adapters.sglang; print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    found = set(in_new_process(code).split())
    assert "adapters" in found
    assert not found & {"numpy", "torch", "xgrammar", "transformers", "hybrid", "equivalence", "lark"}


def test_without_sglang_the_import_says_how_to_install():
    code = "import sys; sys.modules['sglang'] = None\ntry:\n import adapters.sglang\n"
    code += "except ImportError as error:\n print(error.name, error)"
    assert 'pip install "equimask[sglang]"' in in_new_process(code)


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
    ours, stock = (request_of(one, kind, text) for one in (make(override=override), theirs(override)))
    end = STOP if override is None else EOT
    tokens = [*document, *([end] if kind != "structural_tag" else [])]
    for token in tokens:
        assert mask_of(ours) == mask_of(stock)
        for grammar in (ours, stock):
            grammar.accept_token(token)
        assert ours.is_terminated() == stock.is_terminated() == (token == end)
    for back in (1, 2, len(tokens) - 3):  # over the end
        for grammar in (ours, stock):
            grammar.rollback(back)
        assert mask_of(ours) == mask_of(stock)
        assert ours.accepted_tokens == stock.accepted_tokens
    assert ours.accepted_tokens == []


def test_options_of_the_server_are_the_backends(make):
    options = {"constrained_json_disable_any_whitespace": True, "constrained_json_max_whitespace_cnt": 2}
    ours = request_of(make(**options), "json", SCHEMA)
    stock = request_of(theirs(any_whitespace=False, max_whitespace_cnt=2), "json", SCHEMA)
    for token in b'{"a":':
        assert mask_of(ours) == mask_of(stock)
        for grammar in (ours, stock):
            grammar.accept_token(token)


def test_a_token_that_is_not_allowed_is_a_value_error(make):
    grammar = request_of(make(), "ebnf", EBNF)
    grammar.accept_token(ord("a"))
    with pytest.raises(ValueError, match=r"Token 98 is not allowed after 1 tokens \(the last are: 97\)"):
        grammar.accept_token(ord("b"))
    assert mask_of(grammar) == [*DIGITS, ord("a")] and grammar.accepted_tokens == [97]


def test_what_follows_the_end_is_not_read(make):
    grammar = request_of(make(), "regex", "a")
    for token in (ord("a"), STOP, ord("z")):
        grammar.accept_token(token)
    assert grammar.accepted_tokens == [ord("a"), STOP] and grammar.is_terminated()
    grammar.rollback(1)
    assert mask_of(grammar) == [STOP]


def test_the_first_request_finds_everything_warm(make):
    backend = make()
    assert backend.grammar_compiler.hybrid.stats()["compilations"] > 3
    assert not backend.cache


def test_a_release_that_makes_grammars_in_another_way_is_an_error_at_start(make, monkeypatch):
    stock = XGrammarGrammarBackend._from_context
    monkeypatch.setattr(
        XGrammarGrammarBackend, "_compiled",
        lambda self, kind, text, compile_it: stock(self, compile_it(), text, None),
    )  # fmt: skip
    with pytest.raises(TypeError, match=r"this release of SGLang made a .*XGrammarGrammar where"):
        make()


def test_a_tokenizer_that_xgrammar_refuses(make):
    assert make(texts=None) is None
    overridden = sys.modules[CONTEXT].overridden  # type: ignore[attr-defined]
    assert overridden == [("grammar.import_fallback", {"grammar_backend": "none"})]
    with pytest.raises(ValueError, match="--enable-strict-thinking"):
        make(texts=None, enable_strict_thinking=True)


@pytest.mark.parametrize(("tp_size", "pp_size"), [(1, 1), (2, 1), (1, 2)])
def test_ranks_decide_alike(make, tp_size, pp_size):
    backend = make(tp_size=tp_size, pp_size=pp_size)
    for compiler in (backend.grammar_compiler, backend._framing_compiler):
        assert compiler.hybrid.deterministic == (tp_size * pp_size > 1)
    assert mask_of(request_of(backend, "ebnf", EBNF)) == [*DIGITS, ord("a")]


# --- Settings --------------------------------------------------------------------------------------------


def test_an_environment_variable_makes_it_sglangs_own(make, monkeypatch):
    monkeypatch.setenv("EQUIMASK_SGLANG", "0")
    assert type(make()) is XGrammarGrammarBackend
    assert type(make(reasoning_parser="bang")) is ReasonerGrammarBackend


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("EQUIMASK_SGLANG", "no", "allowed are 1 (the default) and 0"),
        ("EQUIMASK_SGLANG_COMPILE_SECONDS", "two", "allowed is a positive number of seconds"),
        ("EQUIMASK_SGLANG_CACHE_MB", "-1", "allowed is a positive number of mebibytes"),
    ],
)
def test_what_cannot_be_read_is_an_error_at_start(make, monkeypatch, name, value, allowed):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError) as caught:
        make()
    assert str(caught.value).startswith(f"{name} is {value!r}, ") and allowed in str(caught.value)


def test_bounds_of_the_operator_are_the_compilers(make, monkeypatch, tmp_path):
    monkeypatch.setenv("EQUIMASK_SGLANG_COMPILE_SECONDS", "2.5")
    monkeypatch.setenv("EQUIMASK_SGLANG_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setenv("EQUIMASK_SGLANG_CACHE_MB", "7")
    backend = make()
    assert backend.grammar_compiler.hybrid.budget.seconds == 2.5
    assert backend.grammar_compiler.cache_limit_bytes == backend.cache.limit == 7 * 2**20
    backend.grammar_compiler.hybrid.settle()  # files are written in the background
    assert "trie" in {path.name.partition("-")[0] for path in (tmp_path / "kept").iterdir()}


# --- What is kept for the next request -------------------------------------------------------------------


def test_equal_requests_share_a_grammar_and_nothing_else(make):
    backend = make()
    first, second = (request_of(backend, "ebnf", EBNF) for _ in range(2))
    assert first.ctx is second.ctx and second.grammar_stats.is_cache_hit and len(backend.cache) == 1
    first.accept_token(ord("1"))
    assert STOP in mask_of(first) and STOP not in mask_of(second)
    backend.reset()
    assert not backend.cache and not backend.grammar_compiler.get_cache_size_bytes()


@pytest.mark.parametrize("parser", [None, "bang"])
def test_a_grammar_that_is_wrong_stays_wrong(make, parser):
    backend = make(reasoning_parser=parser)
    refused = request_of(backend, "ebnf", "root ::= nowhere")
    assert isinstance(refused, InvalidGrammarObject) and "EBNF" in refused.error_message
    assert request_of(backend, "ebnf", "root ::= nowhere") is refused


@pytest.mark.parametrize("parser", [None, "bang"])
def test_one_that_took_too_long_may_come_again(make, monkeypatch, parser):
    monkeypatch.setenv("EQUIMASK_SGLANG_COMPILE_SECONDS", "1")
    backend = make(reasoning_parser=parser)
    slow = json.dumps({"type": "string", "pattern": "^[a-z]{1,20000}$"})  # a minute, in XGrammar
    began = time.monotonic()
    refused = request_of(backend, "json", slow)
    assert isinstance(refused, InvalidGrammarObject) and "seconds" in refused.error_message
    assert time.monotonic() - began < 20 and not backend.cache
    backend.set_cache(("json", slow), InvalidGrammarObject("SGLang has waited for too long"))
    assert not backend.cache


def test_an_engine_starts_where_nothing_compiles_in_time(make, monkeypatch):
    monkeypatch.setenv("EQUIMASK_SGLANG_COMPILE_SECONDS", "1e-9")
    assert isinstance(request_of(make(), "ebnf", EBNF), InvalidGrammarObject)


def test_the_least_recently_used_goes_first(sglang):
    sglang()
    from adapters.sglang.kept import Kept

    sizes = {"a": 4, "b": 4, "c": 4, "all": 99}
    kept = Kept(10, lambda key, _: sizes[key[1]], lambda value: value != "for now")
    for name in ("a", "b"):
        kept["json", name] = name
    assert kept.get(("json", "a")) == "a" == kept["json", "a"] and ("json", "b") in kept and kept.bytes == 8
    kept["json", "c"] = "c"
    assert [*kept] == [("json", "a"), ("json", "c")] and kept.bytes == 8
    sizes["c"] = 7  # it has grown
    assert kept.get(("json", "c")) == "c" and [*kept] == [("json", "c")] and kept.bytes == 7
    kept["json", "all"] = "all"
    assert [*kept] == [("json", "all")] and kept.bytes == 99
    kept["json", "a"] = "for now"
    kept["json", "all"] = "for now"
    assert not kept and kept.bytes == 0 and kept.pop(("json", "b"), None) is None


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
    thinking, thought, plain = (
        request_of(backend, "ebnf", EBNF, True),
        request_of(backend, "ebnf", EBNF, True),
        request_of(backend, "regex", "[xy]"),
    )
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


def test_batches_are_filled_together(make, monkeypatch):
    from adapters.xgrammar import BatchGrammarMatcher

    counted = []
    together = BatchGrammarMatcher.batch_fill_next_token_bitmask

    def counting(self, matchers, *arguments):
        counted.append(len(matchers))
        return together(self, matchers, *arguments)

    monkeypatch.setattr(BatchGrammarMatcher, "batch_fill_next_token_bitmask", counting)
    backend = make(reasoning_parser="bang")
    counted.clear()
    rows_of([request_of(backend, "ebnf", EBNF, reasoning=i == 2) for i in range(5)], SIZE)
    assert counted == [4]


# --- Trees of drafts -------------------------------------------------------------------------------------


def tree_of(randomness, words: list[bytes], n: int) -> list[torch.Tensor]:
    """A tree whose branches begin as words do, with some tokens that fit nowhere."""
    child, sibling, tokens = [-1] * n, [-1] * n, [0] * n
    depths, last = [0] * n, [-1] * n
    word = [randomness.choice(words) for _ in range(n)]
    for node in range(1, n):
        parent = randomness.randrange(max(0, node - 4), node)
        word[node] = word[parent] if randomness.random() < 0.8 else word[node]
        depths[node] = depths[parent] + 1
        fits = depths[node] <= len(word[node]) and randomness.random() < 0.9
        tokens[node] = word[node][depths[node] - 1] if fits else randomness.choice([STOP, SIZE - 1, SIZE + 9])
        if last[parent] == -1:
            child[parent] = node
        else:
            sibling[last[parent]] = node
        last[parent] = node
    return [torch.tensor(part) for part in (child, sibling, tokens)]


def tree_rows(traverse, tree, grammar) -> torch.Tensor:
    rows = torch.full((len(tree[0]), SIZE // 32), -1, dtype=torch.int32)
    traverse(*tree, grammar, rows, vocab_size=SIZE)
    return rows


@pytest.mark.parametrize("parser", [None, "bang"])
def test_trees_of_drafts_are_read_at_once(make, monkeypatch, parser):
    backend = make(speculates="EAGLE", reasoning_parser=parser)
    traverse = sys.modules[SPECULATION].traverse_tree  # type: ignore[attr-defined]
    assert traverse.by_sglang is traverse_tree
    grammar = request_of(backend, "ebnf", EBNF)
    alone = []

    def counting(self, vocab_mask, idx):
        alone.append(idx)
        XGrammarGrammar.fill_vocab_mask(self, vocab_mask, idx)

    monkeypatch.setattr(type(getattr(grammar, "grammar", grammar)), "fill_vocab_mask", counting)
    randomness = random.Random(1)
    for _ in range(60):
        tree = tree_of(randomness, [b"aa1bb", b"a12b", b"7"], 20)
        rows = tree_rows(traverse, tree, grammar)
        assert not alone
        assert torch.equal(rows, tree_rows(traverse_tree, tree, grammar)) and alone
        alone.clear()
    grammar.accept_token(ord("7"))
    tree = [torch.tensor(part) for part in ([1, -1, -1], [-1, 2, -1], [0, STOP, ord("8")])]
    rows = tree_rows(traverse, tree, grammar)
    assert [len(bits(row)) for row in rows] == [11, SIZE, 11]  # nothing is written where the grammar ends


def test_a_tree_comes_to_where_nothing_is_allowed(make):
    make(speculates="EAGLE")
    backend = make(texts=[b"" if text == b"c" else text for text in TEXTS], speculates="EAGLE")
    grammar = request_of(backend, "ebnf", 'root ::= "ac" | "ab"* "z" | "q" "c"')
    tree = [
        torch.tensor(part) for part in ([1, -1, -1, -1], [-1, 2, 3, -1], [0, ord("q"), ord("x"), ord("a")])
    ]
    traverse = sys.modules[SPECULATION].traverse_tree  # type: ignore[attr-defined]
    rows = tree_rows(traverse, tree, grammar)
    assert torch.equal(rows, tree_rows(traverse_tree, tree, grammar))
    assert [len(bits(row)) for row in rows[1:]] == [0, SIZE, 1]


def test_sglang_walks_trees_of_other_grammars(make, monkeypatch):
    backend = make(speculates="EAGLE", reasoning_parser="bang")
    traverse = sys.modules[SPECULATION].traverse_tree  # type: ignore[attr-defined]
    tree = [torch.tensor(part) for part in ([1, -1], [-1, -1], [0, ord("1")])]
    thinking = request_of(backend, "ebnf", EBNF, True)
    stock, ended, broken = (
        request_of(theirs(), "regex", "1"),
        *(request_of(backend, "regex", "1") for _ in "12"),
    )
    for token in (ord("1"), STOP):
        ended.accept_token(token)
    monkeypatch.setattr(type(broken.grammar.matcher), "traverse_draft_tree", fail)
    for grammar, wanted in (
        (thinking, [SIZE, SIZE]),
        (stock, [1, 1]),
        (ended, [SIZE, SIZE]),
        (broken, [1, 1]),
    ):
        assert [len(bits(row)) for row in tree_rows(traverse, tree, grammar)] == wanted


def test_servers_that_do_not_speculate_or_walk_otherwise_are_left_alone(make, monkeypatch, sglang):
    make()
    assert sys.modules[SPECULATION].traverse_tree is traverse_tree  # type: ignore[attr-defined]
    from adapters.sglang.drafts import read_at_once

    module = sys.modules[SPECULATION]
    for other in (lambda tree, grammar: None, None):
        monkeypatch.setattr(module, "traverse_tree", other)
        read_at_once()
        assert module.traverse_tree is other
    monkeypatch.setattr(module, "traverse_tree", traverse_tree)
    for _ in range(2):
        read_at_once()
        assert module.traverse_tree.by_sglang is traverse_tree
    sys.modules[SPECULATION] = None
    read_at_once()


# --- Errors of one request -------------------------------------------------------------------------------


def fail(*_, **__):
    raise MemoryError("no room")


@pytest.fixture
def pair(make):
    """Two grammars after a token; the first one's matcher can be made to fail."""
    backend = make()
    found = [request_of(backend, "ebnf", EBNF) for _ in range(2)]
    for grammar in found:
        grammar.accept_token(ord("a"))
    kind = type(found[0].matcher)
    found[0].matcher.__class__ = type("Broken", (kind,), {})
    return found


def breaking(monkeypatch, grammar, name: str):
    return monkeypatch.setattr(type(grammar.matcher), name, fail, raising=False)


def test_a_mask_that_fails_ends_its_request_and_no_other(pair, monkeypatch):
    broken, good = pair
    with monkeypatch.context() as context:
        breaking(context, broken, "fill_next_token_bitmask")
        assert mask_of(broken) == [STOP]
    assert mask_of(broken) == [STOP] and not broken.is_terminated()
    for token in (STOP, ord("1")):
        with pytest.raises(ValueError, match="after an error"):
            broken.accept_token(token)
    rows = rows_of([broken, good], SIZE)
    assert bits(rows[0]) == [STOP] and bits(rows[1]) == [*DIGITS, ord("a")]


def test_a_batch_that_fails_is_filled_one_by_one(pair, monkeypatch):
    from adapters.xgrammar import BatchGrammarMatcher

    monkeypatch.setattr(BatchGrammarMatcher, "batch_fill_next_token_bitmask", fail)
    breaking(monkeypatch, pair[0], "fill_next_token_bitmask")
    rows = rows_of(pair, SIZE)
    assert bits(rows[0]) == [STOP] and bits(rows[1]) == [*DIGITS, ord("a")]


def test_a_draft_whose_mask_fails_does_not_harm_the_others(pair, monkeypatch):
    broken, _ = pair
    broken.accept_token(ord("1"))
    with monkeypatch.context() as context:
        breaking(context, broken, "fill_next_token_bitmask")
        assert mask_of(broken) == [STOP]
    broken.rollback(1)
    broken.accept_token(ord("a"))  # the draft beside it
    assert mask_of(broken) == [*DIGITS, ord("a")]


@pytest.mark.parametrize("name", ["accept_token", "rollback", "is_terminated"])
def test_what_else_fails_ends_the_request(pair, monkeypatch, name):
    broken, good = pair
    with monkeypatch.context() as context:
        breaking(context, broken, name)
        if name == "accept_token":
            with pytest.raises(ValueError, match="after an error"):
                broken.accept_token(ord("1"))
        else:
            assert not getattr(broken, name)(*[1] * (name == "rollback"))
    assert mask_of(broken) == [STOP]
    with pytest.raises(ValueError, match="after an error"):
        broken.accept_token(STOP)
    good.accept_token(ord("1"))
