"""Values that must not repeat, with every strategy: items under `uniqueItems`, and keys.

The oracle is `jsonschema`: whole texts are accepted if and only if their values are valid. Masks are compared
with `accept_token`, and every walk can be finished.
"""

from __future__ import annotations

import json
import random
from itertools import product
from time import perf_counter
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equivalence import BudgetExceeded, UnsupportedGrammar, Vocabulary
from hybrid import BatchGrammarMatcher, Budget, GrammarCompiler, GrammarMatcher, StrategyError
from hybrid import allocate_token_bitmask as allocate
from hybrid.classifier.follower import ClassifierFollower
from hybrid.json_schema import grammar_of_schema
from hybrid.json_schema.equality import key_of
from hybrid.json_schema.uniqueness.cardinality import Counts
from hybrid.json_schema.uniqueness.places import places_of
from hybrid.uniqueness import key_order
from hybrid.uniqueness.cursor import without_space
from hybrid.uniqueness.follower import _read
from hybrid.uniqueness.new_values import goes_on, unchecked
from hybrid.uniqueness.numbers import number
from tests import matchers
from tests.matchers import STRATEGIES
from tests.random_schemas import judged_grammar
from tests.robustness.schema_walks import BYTES, TOKENS, VOCABULARY, Found, Walk

COMPILERS = {
    name: GrammarCompiler(VOCABULARY, strategy=name, semantics="json-schema")
    for name in ("auto", *STRATEGIES)
}


def unique(items: Any = True, **keywords: Any) -> dict[str, Any]:
    """A schema of arrays without equal items."""
    return {"type": "array", "uniqueItems": True, "items": items} | keywords


FREE = {"type": "string"}
INTEGER = {"type": "integer"}
UNIQUE: dict[str, dict[str, Any]] = {
    "strings": unique(FREE),
    "short strings": unique({"type": "string", "maxLength": 2}),
    "many words": unique({"enum": [*"abcdefghijkl", "ab", "abc"]}),
    "small numbers": unique({"type": "integer", "minimum": 0, "maximum": 12}, minItems=2),
    "numbers": unique({"type": "number"}),
    "integers": unique(INTEGER, maxItems=5),
    "anything": {"type": "array", "uniqueItems": True},
    "objects": unique({
        "type": "object", "additionalProperties": False, "required": ["a"],
        "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 3}, "b": {"type": "boolean"}},
    }),
    "pairs": unique({"type": "array", "items": {"enum": [0, 1]}, "minItems": 2, "maxItems": 2}),
    "within": {
        "type": "object", "required": ["a"], "additionalProperties": False,
        "properties": {"a": {"type": "array", "items": unique(FREE)}, "b": {"type": "array", "items": FREE}},
    },
    "twice": unique(unique(INTEGER), maxItems=3),
    "either": {"anyOf": [unique(FREE), INTEGER]},
    "kinds": {
        "oneOf": [
            unique({"enum": [*"abcdefghij", True]}),
            unique({"enum": [*"ghijklmnop", 1, 2]}, maxItems=3),
        ],
    },
    "a text, then numbers": unique(INTEGER, prefixItems=[FREE]),
    "one of another kind": unique(FREE, contains={"minLength": 2}, minItems=1),
    "first": unique({"enum": [*"abcdefghijkl", "ab"]}, prefixItems=[{"enum": ["a", "ab"]}]),
    "just enough": unique({"enum": [*"abcdefghijkl"]}, prefixItems=[{"enum": ["a", 1]}], minItems=12),
    "contains one of few": unique({"type": ["string", "integer"]}, contains={"enum": [1, "a"]}),
    "recursive": {"$defs": {"node": unique({"$ref": "#/$defs/node"})}, "$ref": "#/$defs/node"},
    "null is always new": unique(False, prefixItems=[{"type": "boolean"}, {"type": "null"}], minItems=2),
    "not unique": {"type": "array", "items": FREE, "not": {"uniqueItems": True}},
    "not unique behind any value": {
        "type": "array", "prefixItems": [{}], "items": INTEGER, "not": {"uniqueItems": True},
    },
    "unique, or short": {
        "anyOf": [unique(FREE), {"type": "array", "items": {"type": ["string", "integer"]}, "maxItems": 3}],
    },
    "one of two": {
        "oneOf": [unique(INTEGER), {"type": "array", "items": {"type": "number"}, "maxItems": 2}],
    },
    "one key of two": {
        "properties": {"a": {"type": "array"}, "b": {"type": "array"}},
        "oneOf": [
            {"properties": {"a": {"items": FREE, "uniqueItems": True}}},
            {"required": ["b"], "properties": {"b": {"items": INTEGER, "uniqueItems": True}}},
        ],
    },
    "unique inside of what may repeat": {
        "type": "array", "not": {"uniqueItems": True}, "items": unique({"enum": [*"abcdefghijkl", 1]}),
    },
    "few on conditions": {
        "type": "array", "items": {"enum": [1, 2, "a"]},
        "if": {"minItems": 3}, "then": {"uniqueItems": True}, "else": {"not": {"uniqueItems": True}},
    },
}  # fmt: skip
TWO_KEYS = {"type": "object", "minProperties": 2}
KEYS: dict[str, dict[str, Any]] = {
    "two keys": TWO_KEYS,
    "of many": {"type": "object", "properties": {"a": INTEGER}, "minProperties": 3},
    "one or two": {"type": "array", "maxItems": 2, "items": TWO_KEYS | {"additionalProperties": INTEGER}},
    "of four keys": TWO_KEYS | {"propertyNames": {"pattern": "^[a-d]$"}},
    "keys that begin alike": TWO_KEYS | {"maxProperties": 4, "propertyNames": {"pattern": "^[a-d1].?$"}},
    "keys with an end": TWO_KEYS | {"propertyNames": {"pattern": "^[acd]*b?$"}},
    "keys of two kinds": {
        "anyOf": [
            TWO_KEYS | {"additionalProperties": INTEGER},
            {"type": "object", "propertyNames": {"enum": ["a", "b", "ab"]}},
        ],
    },
}
SCHEMAS = UNIQUE | KEYS

CLOSE: dict[str, Any] = {"any_whitespace": False, "separators": (",", ":")}
"""Options for texts without white space."""


def matcher_of(schema: Any, strategy: str = "auto", **options: Any) -> GrammarMatcher:
    return GrammarMatcher(COMPILERS[strategy].compile_json_schema(schema, strict_mode=False, **options))


def allowed(matcher: GrammarMatcher) -> list[int]:
    needed, ids = matchers.allowed(matcher, VOCABULARY.size)
    assert needed == (len(ids) < VOCABULARY.size)
    return ids


def ends(matcher: GrammarMatcher, text: str | bytes) -> bool:
    """Whether a text is accepted from the beginning, and complete."""
    matcher.reset()
    return matcher.accept_string(text) and matcher.is_completed()


def walk(matcher: GrammarMatcher, schema: Any, draw: random.Random, most_steps: int = 400) -> bytes:
    """Read random tokens up to the end of a valid text; compare some masks with what is accepted. Return the
    text; it is empty if there was no end after many tokens."""
    found = Found()
    random_walk = Walk(matcher.compiled_grammar, schema, draw, found, 1 / 7, most_steps)
    assert random_walk.run() == "", (schema, random_walk.text)
    return random_walk.text if found.ended else b""


@pytest.mark.parametrize("name", SCHEMAS)
def test_walks_end_in_valid_texts_and_masks_are_what_is_accepted(name: str, strategy: str) -> None:
    matcher = matcher_of(SCHEMAS[name], strategy)
    draw = random.Random(f"{name} {strategy}")
    for _ in range(7 if strategy == "classifier" else 2):
        assert walk(matcher, SCHEMAS[name], draw)


@pytest.mark.parametrize("name", SCHEMAS)
def test_texts_are_accepted_if_and_only_if_they_are_valid(name: str) -> None:
    schema, draw = SCHEMAS[name], random.Random(name)
    matcher, values = matcher_of(schema), [random_value(draw, 3) for _ in range(300)]
    grammar, verdicts = judged_grammar(schema, values) or pytest.fail("it is refused")
    for value, valid in zip(values, verdicts, strict=True):
        written = (grammar.instances.text(value) or json.dumps(value)).encode()
        assert ends(matcher, written) == valid, (value, written)
    rare = ("within", "objects", "of many", "one or two", "null is always new", "just enough")
    assert not all(verdicts) and (any(verdicts) or name in rare)


def random_value(draw: random.Random, depth: int) -> Any:
    """Draw a value from few letters; most often an array of similar items."""
    kind = draw.choice("iisSaaao" if depth else "iis")
    if kind == "i":
        return draw.choice([0, 1, 1.0, 2, 3, True, False, None, 1.5])
    if kind in "sS":
        return draw.choice(["", "a", "b", "ab", "abc", "\u00e9"])
    if kind == "a":
        like = random.Random(draw.random())
        choices = [random_value(like, draw.choice([0, depth - 1])) for _ in range(3)]
        return [draw.choice(choices) for _ in range(draw.choice([0, 1, 2, 2, 3, 4]))]
    return {
        name: random_value(draw, depth - 1) for name in draw.sample(["a", "b", "c", "d"], draw.randint(0, 4))
    }


def test_an_item_is_refused_in_whatever_way_it_is_written() -> None:
    matcher = matcher_of(UNIQUE["anything"])
    for first, again in [
        ("1", "1.0"), ("10", "1e1"), ("100", "1.0E+2"), ("0", "-0.0"), ('"a"', '"\\u0061"'),
        ("[1,2]", "[ 1 , 2.0 ]"), ('{"a":1,"b":2}', '{"b":2,"a":1}'), ('"\\u00e9"', '"\u00e9"'),
        ("1e999999999", "10e999999998"), ("[[],{}]", "[[],{}]"), ("true", "true"),
    ]:  # fmt: skip
        matcher.reset()
        assert matcher.accept_string(f"[{first},")
        assert not (matcher.fork().accept_string(again) and matcher.fork().accept_string(f"{again}]")), again
        assert matcher.accept_string('{"other":[]}]') and matcher.is_completed()
    for first, other in [
        ("1", "true"), ("0", "false"), ("[1]", "1"), ('"1"', "1"), ("1", "10"), ("{}", "[]"),
    ]:  # fmt: skip
        assert ends(matcher, f"[{first},{other}]")


def test_a_token_that_takes_too_much_is_not_read() -> None:
    matcher = matcher_of(UNIQUE["anything"])
    deep = "[" * 1_002
    assert matcher.accept_string(deep + "]" * 1_000)
    for _ in range(2):
        with pytest.raises(BudgetExceeded, match="nested too deeply"):
            matcher.accept_string("]")
        bitmask = allocate(1, VOCABULARY.size)
        bitmask.fill_(7)
        with pytest.raises(BudgetExceeded, match="nested too deeply"):
            matcher.fill_next_token_bitmask(bitmask)
        assert bool((bitmask == 7).all())
    matcher.rollback()
    assert ends(matcher, '["a","b"]')


def test_masks_have_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = [json.dumps(one) for n in range(5) for one in product([0, 1], repeat=n)]
    pairs = [f"[{','.join(one)}]" for n in range(3) for one in product(bits, repeat=n)]
    compiler = GrammarCompiler(VOCABULARY, semantics="json-schema", budget=Budget(mask_seconds=60.0))
    inner = {"type": "array", "items": {"enum": [0, 1]}, "maxItems": 4}
    schema = unique({"type": "array", "items": inner, "maxItems": 2})
    matcher = GrammarMatcher(compiler.compile_json_schema(schema))
    assert matcher.accept_string("[" + ",".join(pairs[:-3]) + ",")
    bitmask = allocate(1, VOCABULARY.size)
    bitmask.fill_(7)
    monkeypatch.setattr("hybrid.uniqueness.follower.perf_counter", lambda: perf_counter() - 61.0)
    with pytest.raises(BudgetExceeded, match="mask_seconds") as caught:
        matcher.fill_next_token_bitmask(bitmask)
    assert "_forbidden" in [entry.name for entry in caught.traceback]  # it was stopped while it was computed
    assert bool((bitmask == 7).all())
    for read in (lambda: matcher.accept_string("["), lambda: matcher.accept_token(ord("["))):
        with pytest.raises(BudgetExceeded, match=r"reading a t.*mask_seconds"):
            read()
    monkeypatch.undo()
    assert matcher.accept_string("[")


@pytest.mark.parametrize(
    ("name", "text"), [("many words", '["a","abc","'), ("unique, or short", '["a","b","a"')]
)
def test_forks_that_do_not_fit_into_tables_leave_nothing_forgotten(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ClassifierFollower._answer
    wanted = matcher_of(UNIQUE[name], "engine")

    def full_for_forks(follower: ClassifierFollower, question: Any) -> Any:
        if follower is not own:
            raise BudgetExceeded("the tables are full")
        return answer(follower, question)

    for call in (allowed, lambda one: one.accept_string("b"), lambda one: one.accept_token(ord("a"))):
        matcher = matcher_of(UNIQUE[name], "classifier")
        assert matcher.accept_string(text) and wanted.accept_string(text)
        own = matcher._follower.inner
        monkeypatch.setattr(ClassifierFollower, "_answer", full_for_forks)
        assert call(matcher) == call(wanted)
        monkeypatch.undo()
        assert allowed(matcher) == allowed(wanted)
        wanted.reset()


def test_a_long_text_is_stopped_while_it_is_read() -> None:
    cursor = Mock(read=Mock(side_effect=lambda text: text))
    assert _read(cursor, bytes(range(256)) * 3, unchecked) == bytes(range(256)) * 3
    late = Mock(side_effect=[None, None, BudgetExceeded("no time")])
    with pytest.raises(BudgetExceeded):
        _read(cursor, b"1" * 2000, late)
    assert cursor.read.call_count == 5


def test_tokens_that_end_the_same_item_compare_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them read the whole item: a mask took 47 ms in an item of 5,000 numbers."""
    ends = [b"]", b"],", b"],[", b"]]", b"], [", b"] ]", b"]\n]", b"]  ,"]
    vocabulary = Vocabulary.from_bytes([*BYTES, *ends, b"</s>"], stop_token_ids=[len(BYTES) + len(ends)])
    compiler = GrammarCompiler(vocabulary, semantics="json-schema")
    matcher = GrammarMatcher(compiler.compile_json_schema(unique({"type": "array", "items": INTEGER})))
    assert matcher.accept_string(f"[[5], [{', '.join(map(str, range(300)))}")
    compared = Mock(side_effect=key_of)
    monkeypatch.setattr("hybrid.uniqueness.cursor.key_of", compared)
    allowed = matchers.mask_of(matcher)
    assert set(range(len(BYTES), len(BYTES) + len(ends))) <= set(allowed) and compared.call_count == 1
    assert allowed == matchers.taken_by(matcher)


def test_one_token_of_white_space_is_searched_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under conditions, each of them was: masks of the schema of CVE records took 150 to 340 ms."""
    vocabulary = Vocabulary.from_bytes(
        [*BYTES, *(b" " * n for n in range(2, 102)), b"</s>"], stop_token_ids=[356]
    )
    compiler = GrammarCompiler(vocabulary, semantics="json-schema")
    schema = UNIQUE["unique, or short"]
    matcher = GrammarMatcher(compiler.compile_json_schema(schema, strict_mode=False))
    assert matcher.accept_string('["a"')
    searched = Mock(side_effect=goes_on)
    monkeypatch.setattr("hybrid.uniqueness.follower.goes_on", searched)
    mask = matchers.mask_of(matcher)
    assert set(range(256, 356)) <= set(mask) and searched.call_count < 30
    assert mask == matchers.taken_by(matcher)


def test_tokens_behind_an_object_with_any_keys_bring_earlier_items_into_its_order_once() -> None:
    """Each of them wrote all earlier items: a mask took 5 s behind 400 items."""
    vocabulary = Vocabulary.from_bytes(
        [*BYTES, *(b"%d" % n for n in range(10, 30)), b"</s>"], stop_token_ids=[276]
    )
    compiler = GrammarCompiler(vocabulary, semantics="json-schema")
    pair = {"type": "array", "prefixItems": [{"type": "object"}, INTEGER], "items": False, "minItems": 2}
    matcher = GrammarMatcher(compiler.compile_json_schema(unique(pair)))
    items = [f'[{{"a": 1, "b": 2}}, {n}]' for n in range(10, 30)]
    assert matcher.accept_string(f'[{", ".join(items)}, [{{"b": 2, "a": 1}},')
    n_before = key_order._with_keys_like.cache_info().misses
    mask = matchers.mask_of(matcher)
    assert set(range(256, 276)) <= set(mask) and mask == matchers.taken_by(matcher)
    assert key_order._with_keys_like.cache_info().misses <= n_before + 1


def test_an_end_that_has_text_is_allowed_behind_equal_items() -> None:
    vocabulary = Vocabulary.from_bytes([*BYTES, b"<end>"], stop_token_ids=256)
    compiler = GrammarCompiler(vocabulary, semantics="json-schema")
    matcher = GrammarMatcher(compiler.compile_json_schema(UNIQUE["unique, or short"], strict_mode=False))
    assert matcher.accept_string('["a","a"]') and 256 in matchers.mask_of(matcher)
    assert matcher.accept_token(256) and matcher.is_terminated()


def test_jumps_have_no_marks() -> None:
    schema = {
        "type": "array", "items": {"type": "string", "pattern": "^x+$"},
        "oneOf": [{"uniqueItems": True, "maxItems": 6}, {"minItems": 2, "maxItems": 2}],
    }  # fmt: skip
    matcher = matcher_of(schema)
    assert matcher.accept_string('["x","x"')
    assert matcher.find_jump_forward_string() in ("", "]")
    assert {TOKENS[one] for one in allowed(matcher)} <= {b"]", b" ", b"  ", b"\t", b"\n", b"\r"}
    assert ends(matcher, '["x","xx","xxx"]')
    matcher.reset()
    assert not matcher.accept_string('["x","xx"]')  # both conditions hold
    for mark in ("\x02", "\x03"):
        assert not matcher.accept_string(f'["x"{mark}')


def test_other_schemas_remember_nothing() -> None:
    for schema in ({"type": "array", "items": FREE}, {"type": "object"}, True, {"minProperties": 1}):
        grammar = grammar_of_schema(schema, {"strict_mode": False})
        counts = Counts(grammar.whole.nonterminals)
        assert grammar.places is None is places_of(counts, grammar.whole.start, True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {
                "type": "object", "minProperties": 1, "additionalProperties": False,
                "patternProperties": {"^[0-9]{3}$": FREE},
            },
            '{"200":""}',
        ),
        ({"type": "array", "anyOf": [{"minItems": 4}, {"uniqueItems": True}]}, "[1,2]"),
    ],
    ids=["keys", "items"],
)  # fmt: skip
def test_values_that_no_text_has_are_no_reason_to_refuse(value: Any, text: str) -> None:
    """The negation of these values would be refused. But it is only asked whether a string, which `$ref` has,
    may be something else than an operation."""
    operation = {"type": "object", "properties": {"value": value}, "required": ["value"]}
    reference = {"type": "object", "properties": {"$ref": FREE}, "required": ["$ref"]}
    schema = {"oneOf": [{"type": "object", "additionalProperties": operation}, reference]}
    instances: list[Any] = [
        {"a": {"value": json.loads(text)}},
        {"$ref": "a"},
        {"a": {"value": 1}},
        {"$ref": 1},
    ]
    _, verdicts = judged_grammar(schema, instances)  # type: ignore[misc]
    assert verdicts == [True, True, False, False]


def test_batches_and_jumps_go_on() -> None:
    schemas: list[Any] = [UNIQUE["strings"], {"type": "object"}, UNIQUE["many words"]]
    matchers = [matcher_of(schema) for schema in schemas]
    assert matchers[0].accept_string('["a","a') and matchers[2].accept_string('["ab","a')
    bitmask, single = allocate(3, VOCABULARY.size), allocate(1, VOCABULARY.size)
    BatchGrammarMatcher().batch_fill_next_token_bitmask(matchers, bitmask)
    for row, matcher in enumerate(matchers):
        matcher.fill_next_token_bitmask(single)
        assert bool((bitmask[row] == single[0]).all())
    assert matchers[2].find_jump_forward_string() in ("", "bc", "b")


def test_what_is_not_there_is_said(tmp_path: Any) -> None:
    matcher = matcher_of(UNIQUE["strings"], "classifier")
    with pytest.raises(UnsupportedGrammar, match="must not be repeated"):
        matcher.shortest_completion()
    with pytest.raises(StrategyError, match="files cannot store"):
        matcher.compiled_grammar.save(tmp_path / "one")
    folder = GrammarCompiler(VOCABULARY, semantics="json-schema", cache_dir=tmp_path / "folder")
    for _ in range(2):
        folder.clear_cache()
        again = GrammarMatcher(folder.compile_json_schema(UNIQUE["strings"]))
        assert again.accept_string('["a",') and not again.accept_string('"a"')
    folder.close()
    assert "expected" in str(matcher.explain())


@pytest.mark.parametrize(
    ("texts", "are_equal"),
    [
        (["1", "1.0", "10e-1", "0.1e1", "1E+0"], True), (["0", "-0", "0.000", "0e9"], True),
        (["100", "1e2", "1.00e+2"], True), (["1", "-1", "10", "0.1", "11"], False),
        (["1e5", f"1e{'0' * 2_000}5"], True), ([f"1e{'7' * 5_000}", f"10e{'7' * 4_999}6"], True),
    ],
)  # fmt: skip
def test_equal_numbers_have_equal_keys(texts: list[str], are_equal: bool) -> None:
    assert len({number(text) for text in texts}) == (1 if are_equal else len(texts))


def test_texts_without_white_space() -> None:
    assert without_space(b'{ "a b" : [ 1 , "\\u0061\\n" ] }') == '{"a b":[1,"a\\n"]}'
    assert without_space(b'["\\u00') == '["'
    assert without_space('["\u00e9'.encode()[:-1]) == '["'
    assert without_space(b"[-0.50e2, " + b"-1" + b"1" * 5_000 + b"]") == f"[-50,-1{'1' * 5_000}]"


@given(st.text(st.sampled_from('a"\\/\u00e9\U0001f600\ud83d\ude00'), max_size=6), st.randoms())
def test_all_spellings_of_a_text_are_alike_and_begin_alike(text: str, randomness: random.Random) -> None:
    def spelled(letter: str) -> str:
        units = np.frombuffer(letter.encode("utf-16-le", "surrogatepass"), "<u2").tolist()
        escaped = "".join(f"\\u{unit:04{randomness.choice('xX')}}" for unit in units)
        plain = json.dumps(letter, ensure_ascii=False)[1:-1]
        return escaped if "\ud800" <= letter <= "\udfff" else randomness.choice([escaped, plain])

    written = '"' + "".join(map(spelled, text)) + '"'
    whole = without_space(written.encode())
    assert whole == json.dumps(json.loads(written), ensure_ascii=False)
    for cut in range(len(written) + 1):
        assert whole.startswith(without_space(written[:cut].encode()))
