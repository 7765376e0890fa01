"""The XGrammar drop-in and plain XGrammar have the same names, take the same arguments and give the same
answers.
"""

import inspect
import json
import random
import weakref
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
import xgrammar

import adapters.xgrammar as xgr
from equivalence import HybridError
from tests.matchers import allowed, ids_of, outcome
from tests.versions import READS_STOPS

STRATEGIES = ("auto", "classifier", "representatives", "engine")

TEXTS = [bytes([byte]) for byte in range(256)] + [
    b"</s>", b"<tool>", b"</tool>", b'{"', b'":', b'", "', b"ab", b"abc", b"12", b"  ", "é".encode(), b"",
    b"true", b'"}', b"<eot>",
]  # fmt: skip
STOP, UNTOOL, AB, EOT = 256, 258, 262, 270
INFO = xgrammar.TokenizerInfo(TEXTS, stop_token_ids=[STOP], vocab_size=288)
REFUSABLE = range(-1, 300)

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["ab", "abc", 12]}},
    },
    "required": ["name"],
}
EBNF = r"""
root ::= item ("," item)*
item ::= "ab"+ | "(" root ")" | [0-9]{2,5} | "é"
"""
TOOL = {"begin": "<tool>", "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": "</tool>"}
TAG = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<tool>"], "tags": [TOOL]}}
BY_TOKENS = [
    {"type": "token", "token": "<tool>"},
    {"type": "any_tokens", "exclude_tokens": ["</tool>", AB]},
    {"type": "token", "token": UNTOOL},
]
TOKEN_TAG = {"type": "structural_tag", "format": {"type": "sequence", "elements": BY_TOKENS}}
LARK = 'start: word ("," word)*\nword[capture]: /[a-c]+/ | NUMBER\nNUMBER: /[0-9]{1,3}/\n'
BUDGET_LARK = 'start: word "," word\nword[capture, max_tokens=3]: /[a-c]+/\n'
HOT = 'start: "a" hot "b"\nhot[temperature=0.5]: /[0-9]+/\n'

LOOSELY = {"strict_mode": False, "any_whitespace": False}

GRAMMARS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "schema": ("compile_json_schema", (SCHEMA,), {}),
    "loose schema": ("compile_json_schema", (json.dumps(SCHEMA),), LOOSELY),
    "schema in any order": ("compile_json_schema", (SCHEMA,), {"any_order": True, "indent": 2}),
    "ebnf": ("compile_grammar", (EBNF,), {}),
    "other root": ("compile_grammar", (EBNF,), {"root_rule_name": "item"}),
    "grammar": ("compile_grammar", (xgrammar.Grammar.from_regex("(ab|12)*c"),), {}),
    "all bytes": ("compile_grammar", (r"root ::= [\x00-\U0010ffff]*",), {}),
    "regex": ("compile_regex", (r"[a-c]{2,7}(\d+|true)?",), {}),
    "tag": ("compile_structural_tag", (TAG,), {}),
    "tag by tokens": ("compile_structural_tag", (json.dumps(TOKEN_TAG),), {}),
    "lark": ("compile_lark", (LARK,), {}),
    "lark with a budget": ("compile_lark", (BUDGET_LARK,), {}),
    "lark with temperatures": ("compile_lark", (HOT,), {}),
    "json": ("compile_builtin_json_grammar", (), {}),
}


@cache
def compiled(name: str, strategy: str) -> xgr.CompiledGrammar:
    method, arguments, options = GRAMMARS[name]
    return getattr(xgr.GrammarCompiler(INFO, strategy=strategy), method)(*arguments, **options)


@cache
def plainly(name: str) -> xgrammar.CompiledGrammar:
    method, arguments, options = GRAMMARS[name]
    compiler = xgrammar.GrammarCompiler(INFO, max_threads=1)
    return getattr(compiler, method)(*arguments, **options)


def filled(matcher: Any) -> tuple[bool, list[int]]:
    """Fill a mask; return whether the matcher says that it must be applied, and the ids that it allows."""
    return allowed(matcher, INFO.vocab_size)


def assert_alike(ours: Any, plain: Any) -> list[int]:
    """Assert that both give the same answers; return the ids that the mask allows."""
    for question in ("is_terminated", "is_completed", "get_captures"):
        assert getattr(ours, question)() == getattr(plain, question)(), question
    assert ours.get_captures(deduplicate=False) == plain.get_captures(deduplicate=False)
    assert ours.temperature == plain.temperature
    assert ours.stop_token_ids == plain.stop_token_ids
    theirs = outcome(filled, plain)
    assert outcome(filled, ours) == theirs
    if theirs is RuntimeError:
        assert plain.is_terminated()
        return []
    return theirs[1]


def walk_alike(ours: Any, plain: Any, draw: random.Random, n: int) -> None:
    """Let both read the same random tokens, and compare their answers before each."""
    for _ in range(n):
        choice = [one for one in assert_alike(ours, plain) if one != STOP]
        if not choice:
            break
        token = draw.choice(choice)
        assert ours.accept_token(token) is plain.accept_token(token) is True


# --- masks and answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", GRAMMARS)
def test_walks_meet_the_same_masks_and_answers(name: str, strategy: str) -> None:
    rng = random.Random(f"{name} {strategy}")
    for _ in range(4):
        ours, plain = xgr.GrammarMatcher(compiled(name, strategy)), xgrammar.GrammarMatcher(plainly(name))
        for _ in range(24):
            choice = assert_alike(ours, plain)
            if not choice or rng.random() < 0.1:
                back, before = rng.choice([-3, -1, 0, 1, 1, 2, 2, 100]), outcome(filled, ours)
                refusal = outcome(plain.rollback, back)
                assert outcome(ours.rollback, back) is refusal
                if refusal:  # only our matcher stays where it is
                    assert outcome(filled, ours) == before
                    break
                continue
            others = [token for token in REFUSABLE if token not in choice]
            refused = rng.choice(others)
            assert ours.accept_token(refused) is plain.accept_token(refused) is False
            token = rng.choice([one for one in choice if one != STOP] or choice)
            assert ours.accept_token(token) is plain.accept_token(token) is True
        assert_alike(ours.fork(), plain.fork())
        ours.reset()
        plain.reset()
        assert_alike(ours, plain)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_other_stop_tokens_and_free_ends(strategy: str) -> None:
    options: list[dict[str, Any]] = [
        {"override_stop_tokens": EOT},
        {"override_stop_tokens": [EOT, ord("!")]},
        *([] if READS_STOPS else [{"terminate_without_stop_token": True}]),
        {"default_temperature": 0.25},
    ]
    for name in ("ebnf", "tag", "lark", "lark with a budget"):
        for given in options:
            ours = xgr.GrammarMatcher(compiled(name, strategy), **given)
            plain = xgrammar.GrammarMatcher(plainly(name), **given)
            for text in ("ab", "a", ",", b"b"):
                assert_alike(ours, plain)
                assert ours.accept_string(text) is plain.accept_string(text)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("grammar", "read", "forced"),
    [
        ('"ababc,1" [0-9]', b"", [b"ab", b"abc", b","]),  # "1" begins "12"
        ('"x</s>y"', b"", [b"x", b"<", b"/", b"s", b">", b"y"]),  # stop tokens spell nothing
        ('"xéab" ","', b"x", ["é".encode(), b"ab", b","]),
        ('"x" ("é" | "è")', b"", [b"x"]),
        ('"x" ("é" | "è")', b"x\xc3", []),
        ('"ab" "c"?', b"ab", []),
        ('"ab" "c"?', b"", []),
    ],
)  # fmt: skip
def test_forced_tokens(grammar: str, read: bytes, forced: list[bytes], strategy: str) -> None:
    text = f"root ::= {grammar}"
    ours = xgr.GrammarMatcher(xgr.GrammarCompiler(INFO, strategy=strategy).compile_grammar(text))
    assert all(ours.accept_token(byte) for byte in read)
    assert [TEXTS[token] for token in ours.find_jump_forward_tokens()] == forced
    if hasattr(xgrammar.GrammarMatcher, "find_jump_forward_tokens"):  # since 0.2.9
        plain: Any = xgrammar.GrammarMatcher(xgrammar.GrammarCompiler(INFO).compile_grammar(text))
        assert all(plain.accept_token(byte) for byte in read)
        assert ours.find_jump_forward_tokens() == plain.find_jump_forward_tokens()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_tokenizer_without_ids_reads_texts(strategy: str) -> None:
    info = xgr.TokenizerInfo([])
    compiler = xgr.GrammarCompiler(info, enable_dynamic_compilation=True, strategy=strategy)
    matcher = xgr.GrammarMatcher(compiler.compile_grammar(EBNF))
    assert not matcher.accept_token(0)
    assert matcher.accept_string("abab,(12") and not matcher.is_completed()
    assert not matcher.accept_string("]") and matcher.accept_string(")") and matcher.is_completed()
    assert not matcher.fill_next_token_bitmask(xgr.allocate_token_bitmask(1, 0))
    with pytest.raises(RuntimeError, match="shape"):
        matcher.fill_next_token_bitmask(xgr.allocate_token_bitmask(1, 5))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_draft_trees(strategy: str) -> None:
    child, sibling = torch.tensor([1, 3, -1, -1]), torch.tensor([-1, 2, -1, -1])
    tokens = torch.tensor([0, ord("a"), ord("1"), ord("b")])
    for name in ("ebnf", "regex", "lark with temperatures"):
        found = []
        for matcher in (xgr.GrammarMatcher(compiled(name, strategy)), xgrammar.GrammarMatcher(plainly(name))):
            bitmask, heat = xgr.allocate_token_bitmask(4, INFO.vocab_size), torch.zeros(4)
            assert matcher.traverse_draft_tree(child, sibling, tokens, bitmask, -1.0, heat)
            found.append((bitmask.tolist(), heat.tolist()))
        assert found[0] == found[1]


def test_bitmasks_of_other_libraries() -> None:
    bitmask = xgr.allocate_token_bitmask(2, INFO.vocab_size)

    class Lent:
        """A tensor that supports only DLPack."""

        __dlpack__, __dlpack_device__ = bitmask.__dlpack__, bitmask.__dlpack_device__

    matchers = [xgr.GrammarMatcher(compiled("ebnf", "auto")) for _ in range(2)]
    assert matchers[0].fill_next_token_bitmask(Lent())
    expected = filled(xgrammar.GrammarMatcher(plainly("ebnf")))[1]
    assert ids_of(bitmask[:1], INFO.vocab_size) == expected
    bitmask.zero_()
    xgr.BatchGrammarMatcher().batch_fill_next_token_bitmask(matchers, Lent())
    assert [ids_of(row[None], INFO.vocab_size) for row in bitmask] == [expected, expected]


# --- batches -------------------------------------------------------------------------------------------


def test_arguments_of_mixed_batches_are_those_of_others() -> None:
    """Arrays, tensors and iterators are allowed, and the same arguments are refused."""
    ours = xgr.GrammarMatcher(compiled("ebnf", "auto"))
    batch: Any = xgr.BatchGrammarMatcher()
    for matchers in ([ours, ours.fork()], [ours, xgrammar.GrammarMatcher(plainly("ebnf"))]):
        bitmask = torch.zeros((2, (INFO.vocab_size + 31) // 32), dtype=torch.int32)
        batch.batch_fill_next_token_bitmask(iter(matchers), bitmask, torch.tensor([1, 0]))
        tokens = torch.tensor([ids_of(bitmask, INFO.vocab_size)[0]] * 2)
        assert batch.batch_accept_token(iter(matchers), tokens) == [True, True]
        batch.batch_rollback(iter(matchers), np.int64(1))
        wrong = (
            lambda: batch.batch_accept_token(matchers, [True, True]),  # noqa: B023
            lambda: batch.batch_accept_string(matchers, "ab"),  # noqa: B023
            lambda: batch.batch_rollback(matchers, -1),  # noqa: B023
            lambda: batch.batch_fill_next_token_bitmask(matchers, bitmask, [1, 1]),  # noqa: B023
        )
        for call in wrong:
            with pytest.raises(HybridError):
                call()


@pytest.mark.parametrize("mixed", [False, True])
def test_batches(mixed: bool) -> None:
    names = ["ebnf", "schema", "lark with temperatures", "tag"]
    plain = [xgrammar.GrammarMatcher(plainly(name), default_temperature=2.0) for name in names]
    ours: list[Any] = [xgr.GrammarMatcher(compiled(name, "auto"), default_temperature=2.0) for name in names]
    if mixed:
        ours[1:3] = [one.fork() for one in plain[1:3]]
    batches = (xgr.BatchGrammarMatcher(max_threads=2), ours), (xgrammar.BatchGrammarMatcher(2), plain)

    def same(method: str, *arguments: Any) -> None:
        mine, theirs = (getattr(batch, method)(matchers, *arguments) for batch, matchers in batches)
        assert mine == theirs

    def masks() -> Any:
        """Both masks and temperatures, which are equal: at rows of our choice, and at the first ones."""
        found = []
        for batch, matchers in batches:
            bitmask, heat = xgr.allocate_token_bitmask(10, INFO.vocab_size), torch.zeros(6)
            batch.batch_fill_next_token_bitmask(matchers, bitmask, [9, 4, 6, 7])
            batch.batch_fill_temperature(matchers, heat, [5, 0, 2, 3])
            batch.batch_fill_next_token_bitmask(matchers, bitmask[:4])
            found.append((bitmask.tolist(), heat.tolist()))
        assert found[0] == found[1]
        return found[0]

    start = masks()
    for tokens in ("a{a<", "b 7t"):
        same("batch_accept_token", [ord(char) for char in tokens])
        masks()
    same("batch_accept_string", [",", '"name', "b!", b"ool>"])
    steps = masks()
    same("batch_rollback", [3, 2, 2, 3])
    assert masks() != steps
    same("batch_rollback", [0, 1, 0, 0])
    assert masks() == start
    for batch, matchers in batches:
        with pytest.raises(RuntimeError):
            batch.batch_accept_token(matchers, [1])
        with pytest.raises(RuntimeError):
            batch.batch_rollback(matchers, [1, 1])


# --- names and arguments -------------------------------------------------------------------------------


def test_every_name_and_module_of_xgrammar_is_there() -> None:
    ours = {"BatchGrammarMatcher", "CompiledGrammar", "GrammarCompiler", "GrammarMatcher", "hf", "testing"}
    assert set(xgrammar.__all__) | {"wrap", "configure", "contrib"} == set(xgr.__all__)
    for name in xgrammar.__all__:
        assert (getattr(xgr, name) is getattr(xgrammar, name)) == (name not in ours), name
    through = import_module("adapters.xgrammar.structural_tag")
    kernel = import_module("adapters.xgrammar.kernels.apply_token_bitmask_inplace_cpu")
    assert kernel is import_module("xgrammar.kernels.apply_token_bitmask_inplace_cpu")
    assert through is xgrammar.structural_tag and through.__spec__.name == "xgrammar.structural_tag"
    assert xgr.testing.GrammarFunctor is xgrammar.testing.GrammarFunctor
    assert xgr.contrib.hf is xgr.hf
    assert import_module("adapters.xgrammar.matcher").BatchGrammarMatcher is xgr.BatchGrammarMatcher
    assert not hasattr(xgr, "nowhere")
    with pytest.raises(ModuleNotFoundError):
        import_module("adapters.xgrammar.nowhere")


@pytest.mark.parametrize("module", [xgr, xgrammar])
def test_compiled_methods_take_the_same_arguments(module: Any) -> None:
    matcher = module.GrammarMatcher(plainly("ebnf"))
    bitmask = xgr.allocate_token_bitmask(2, INFO.vocab_size)
    assert matcher.fill_next_token_bitmask(bitmask=bitmask, index=1, debug_print=False)
    assert bitmask[0].eq(-1).all() and not bitmask[1].eq(-1).any()
    assert matcher.accept_token(token_id=AB, debug_print=False)
    with pytest.raises(TypeError):
        matcher.accept_token(AB, False)
    with pytest.raises(TypeError):
        matcher.fill_next_token_bitmask(bitmask, 0, False)


@pytest.mark.parametrize(
    "name", ["GrammarCompiler", "CompiledGrammar", "GrammarMatcher", "BatchGrammarMatcher"]
)
def test_methods_take_the_same_arguments_with_the_same_defaults(name: str) -> None:
    def parameters(owner: type, method: str) -> list[Any]:
        found = inspect.signature(getattr(owner, method)).parameters.values()
        return [(one.name, one.kind, one.default) for one in found if one.name != "self"]

    ours, theirs = getattr(xgr, name), getattr(xgrammar, name)
    public = [one for one in vars(theirs) if not one.startswith("_")]
    for method in public if name == "CompiledGrammar" else ["__init__", *public]:
        if isinstance(getattr(theirs, method), property):
            assert hasattr(ours, method), method
            continue
        missing = [one for one in parameters(theirs, method) if one not in parameters(ours, method)]
        assert not missing, method


@pytest.mark.parametrize("name", ["compiler", "matcher", "testing"])
def test_our_modules_have_all_public_names_of_theirs(name: str) -> None:
    ours, theirs = import_module(f"adapters.xgrammar.{name}"), import_module(f"xgrammar.{name}")
    public = [one for one in vars(theirs) if one in xgrammar.__all__]
    assert public and all(hasattr(ours, one) for one in public) and not hasattr(ours, "nowhere")


# --- compiled grammars ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["schema", "ebnf", "regex", "tag", "tag by tokens", "lark", "lark with a budget", "json"]
)
def test_compiled_grammars_tell_what_xgrammars_do(name: str) -> None:
    ours, plain = compiled(name, "auto"), plainly(name)
    assert isinstance(ours, xgrammar.CompiledGrammar) and ours.tokenizer_info is INFO
    assert str(ours.grammar) == str(plain.grammar)
    assert ours.memory_size_bytes > 0
    text = ours.serialize_json()
    assert json.loads(text).keys() == json.loads(plain.serialize_json()).keys()
    for back in (
        xgr.CompiledGrammar.deserialize_json(text, INFO),
        xgr.CompiledGrammar.deserialize_json(plain.serialize_json(), INFO),
        *(xgr.wrap(plain, tokenizer_info=INFO, strategy=strategy) for strategy in STRATEGIES),
    ):
        assert type(back) is xgr.CompiledGrammar and back.serialize_json() == back.plain.serialize_json()
        walk_alike(xgr.GrammarMatcher(back), xgrammar.GrammarMatcher(plain), random.Random(name), 30)
    # XGrammar's own classes take ours, by what it compiles for them
    assert filled(xgrammar.GrammarMatcher(ours)) == filled(xgrammar.GrammarMatcher(plain))
    empty = xgr.testing._get_allow_empty_rule_ids
    assert empty(ours) == empty(plain)


def test_handles_of_xgrammar_make_grammars_of_ours() -> None:
    plain = plainly("ebnf")
    made = xgr.CompiledGrammar._create_from_handle(plain._handle)
    assert type(made) is xgr.CompiledGrammar
    walk_alike(xgr.GrammarMatcher(made), xgrammar.GrammarMatcher(plain), random.Random(1), 30)


def test_deserialising_raises_xgrammars_errors() -> None:
    for text, error in (("{", xgr.InvalidJSONError), ("{}", xgr.DeserializeVersionError)):
        with pytest.raises(error):
            xgr.CompiledGrammar.deserialize_json(text, INFO)


def test_equal_calls_give_equal_objects() -> None:
    compiler = xgr.GrammarCompiler(INFO)
    first, again = compiler.compile_grammar(EBNF), compiler.compile_grammar(EBNF)
    assert first == again and hash(first) == hash(again) and first != compiler.compile_regex("a")
    assert compiler.get_cache_size_bytes() > 0 and compiler.cache_limit_bytes == -1
    compiler.clear_cache()
    assert compiler.get_cache_size_bytes() == 0 and first != compiler.compile_grammar(EBNF)


def test_one_vocabulary_for_each_tokenizer() -> None:
    first, second = (xgr.GrammarCompiler(tokenizer_info=INFO).hybrid.vocabulary for _ in range(2))
    assert first is second


# --- what plain XGrammar made --------------------------------------------------------------------------


def test_wrap_takes_what_xgrammar_made() -> None:
    plain = xgrammar.GrammarCompiler(INFO, max_threads=1, cache_limit_bytes=10_000_000)
    ours = xgr.wrap(plain, strategy="representatives")
    assert type(ours) is xgr.GrammarCompiler and ours.cache_limit_bytes == 10_000_000
    made = ours.compile_grammar(EBNF)
    assert made.strategy == "representatives"
    assert filled(xgr.GrammarMatcher(made)) == filled(xgrammar.GrammarMatcher(plainly("ebnf")))
    matcher = xgrammar.GrammarMatcher(plainly("ebnf"))
    for same in (ours, made, matcher, INFO, made.grammar, xgr.GrammarMatcher(made)):
        assert xgr.wrap(same) is same
    with pytest.raises(TypeError, match="str"):
        xgr.wrap("text")


def test_matchers_take_compiled_grammars_of_xgrammar() -> None:
    plain = plainly("ebnf")
    first, second = xgr.GrammarMatcher(plain), xgr.GrammarMatcher(plain)
    assert first.compiled_grammar is second.compiled_grammar, "it was made twice"
    assert_alike(first, xgrammar.GrammarMatcher(plain))
    alone = xgrammar.GrammarCompiler(INFO, max_threads=1, cache_enabled=False).compile_grammar(EBNF)
    assert_alike(xgr.GrammarMatcher(alone), xgrammar.GrammarMatcher(plain))
    gone = weakref.ref(alone)
    del alone
    assert gone() is None, "what was made of it keeps it"
    with pytest.raises(ValueError, match="compile it first"):
        xgr.GrammarMatcher(EBNF)


def test_what_xgrammar_has_optimised_is_not_read_with_its_automata() -> None:
    """It took 24 s and gigabytes for a schema of 90 KB: the text has all automata once for each rule."""
    schema = {"properties": {f"key {number}": {"type": "array"} for number in range(40)}}
    plain = xgrammar.GrammarCompiler(INFO, max_threads=1).compile_json_schema(schema)
    ours = xgr.wrap(plain, tokenizer_info=INFO)
    assert isinstance(ours.hybrid.grammar, xgrammar.Grammar)
    assert 10 * len(ours.hybrid.grammar.serialize_json()) < len(plain.grammar.serialize_json())
    walk_alike(xgr.GrammarMatcher(ours), xgrammar.GrammarMatcher(plain), random.Random(1), 30)
