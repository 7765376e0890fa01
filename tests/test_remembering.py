"""Values that must not repeat, with every strategy: items under `uniqueItems`, and keys.

The oracle is `jsonschema`: whole texts are accepted if and only if their values are valid. Masks are compared
with `accept_token`, and every walk can be finished.
"""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equivalence import UnsupportedGrammar, Vocabulary
from hybrid import BatchGrammarMatcher, CompiledGrammar, GrammarCompiler, GrammarMatcher, StrategyError
from hybrid import allocate_token_bitmask as allocate
from hybrid.json_schema import SchemaRefused, grammar_of_schema
from hybrid.json_schema.places import places_of
from hybrid.remembering.cursor import number, without_space
from tests import matchers
from tests.matchers import STRATEGIES

BYTES = [bytes([byte]) for byte in range(256)]
LONGER = [
    b'","', b'",', b'"]', b'["', b'"a"', b'a","', b'a","a', b"1,1", b",1", b"[1,1]", b"[[1],[1]]", b"true",
    b'{"a":', b'":1', b'":1,"', b'{"a":1},{"a":1', b'"a":1,"a', b"  ", b", ", b"},{", b"\\u0061", b"1.0",
    b"1e0", b"[]", b"ab", b"abc", b',"a', b',"', b', "a', b",[", b",true", b',{"', b"\\/", b'b"]',
]  # fmt: skip
TOKENS = [*BYTES, *LONGER]
STOP = len(TOKENS)
VOCABULARY = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=STOP)
COMPILERS = {
    name: GrammarCompiler(VOCABULARY, strategy=name, semantics="json-schema")
    for name in ("auto", *STRATEGIES)
}

FREE = {"type": "string"}
UNIQUE: dict[str, dict[str, Any]] = {
    "strings": {"type": "array", "items": FREE, "uniqueItems": True},
    "short strings": {"type": "array", "items": {"type": "string", "maxLength": 2}, "uniqueItems": True},
    "many words": {"type": "array", "items": {"enum": [*"abcdefghijkl", "ab", "abc"]}, "uniqueItems": True},
    "small numbers": {
        "type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 12},
        "uniqueItems": True, "minItems": 2,
    },
    "numbers": {"type": "array", "items": {"type": "number"}, "uniqueItems": True},
    "integers": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "maxItems": 5},
    "anything": {"type": "array", "uniqueItems": True},
    "objects": {
        "type": "array", "uniqueItems": True,
        "items": {
            "type": "object", "additionalProperties": False, "required": ["a"],
            "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 3}, "b": {"type": "boolean"}},
        },
    },
    "pairs": {
        "type": "array", "uniqueItems": True,
        "items": {"type": "array", "items": {"enum": [0, 1]}, "minItems": 2, "maxItems": 2},
    },
    "within": {
        "type": "object", "required": ["a"], "additionalProperties": False,
        "properties": {
            "a": {"type": "array", "items": {"type": "array", "items": FREE, "uniqueItems": True}},
            "b": {"type": "array", "items": FREE},
        },
    },
    "twice": {
        "type": "array", "uniqueItems": True, "maxItems": 3,
        "items": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
    },
    "either": {"anyOf": [{"type": "array", "items": FREE, "uniqueItems": True}, {"type": "integer"}]},
    "kinds": {
        "oneOf": [
            {"type": "array", "uniqueItems": True, "items": {"enum": [*"abcdefghij", True]}},
            {"type": "array", "uniqueItems": True, "items": {"enum": [*"ghijklmnop", 1, 2]}, "maxItems": 3},
        ],
    },
    "a text, then numbers": {
        "type": "array", "prefixItems": [FREE], "items": {"type": "integer"}, "uniqueItems": True,
    },
    "one of another kind": {
        "type": "array", "uniqueItems": True, "minItems": 1,
        "items": {"type": "string"}, "contains": {"minLength": 2},
    },
    "first": {
        "type": "array", "uniqueItems": True, "prefixItems": [{"enum": ["a", "ab"]}],
        "items": {"enum": [*"abcdefghijkl", "ab"]},
    },
    "just enough": {
        "type": "array", "uniqueItems": True, "minItems": 12,
        "prefixItems": [{"enum": ["a", 1]}], "items": {"enum": [*"abcdefghijkl"]},
    },
    "contains one of few": {
        "type": "array", "uniqueItems": True, "items": {"type": ["string", "integer"]},
        "contains": {"enum": [1, "a"]},
    },
    "recursive": {
        "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}, "uniqueItems": True}},
        "$ref": "#/$defs/node",
    },
    "null is always new": {
        "type": "array", "uniqueItems": True, "minItems": 2, "items": False,
        "prefixItems": [{"type": "boolean"}, {"type": "null"}],
    },
    "not unique": {"type": "array", "items": FREE, "not": {"uniqueItems": True}},
    "unique, or short": {
        "anyOf": [
            {"type": "array", "uniqueItems": True, "items": FREE},
            {"type": "array", "items": {"type": ["string", "integer"]}, "maxItems": 3},
        ],
    },
    "one of two": {
        "oneOf": [
            {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
            {"type": "array", "items": {"type": "number"}, "maxItems": 2},
        ],
    },
    "one key of two": {
        "properties": {"a": {"type": "array"}, "b": {"type": "array"}},
        "oneOf": [
            {"properties": {"a": {"items": FREE, "uniqueItems": True}}},
            {"required": ["b"], "properties": {"b": {"items": {"type": "integer"}, "uniqueItems": True}}},
        ],
    },
    "unique inside of what may repeat": {
        "type": "array", "not": {"uniqueItems": True},
        "items": {"type": "array", "items": {"enum": [*"abcdefghijkl", 1]}, "uniqueItems": True},
    },
    "few on conditions": {
        "type": "array", "items": {"enum": [1, 2, "a"]},
        "if": {"minItems": 3}, "then": {"uniqueItems": True}, "else": {"not": {"uniqueItems": True}},
    },
}  # fmt: skip
KEYS: dict[str, dict[str, Any]] = {
    "two keys": {"type": "object", "minProperties": 2},
    "of many": {"type": "object", "properties": {"a": {"type": "integer"}}, "minProperties": 3},
    "one or two": {
        "type": "array", "maxItems": 2,
        "items": {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
    },
    "of four keys": {
        "type": "object", "minProperties": 2, "propertyNames": {"pattern": "^[a-d]$"},
    },
    "keys that begin alike": {
        "type": "object", "minProperties": 2, "maxProperties": 4, "propertyNames": {"pattern": "^[a-d1].?$"},
    },
    "keys with an end": {
        "type": "object", "minProperties": 2, "propertyNames": {"pattern": "^[acd]*b?$"},
    },
    "keys of two kinds": {
        "anyOf": [
            {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
            {"type": "object", "propertyNames": {"enum": ["a", "b", "ab"]}},
        ],
    },
}  # fmt: skip
SCHEMAS = UNIQUE | KEYS

STEPS = 400
"""Maximum tokens of a walk: from the fortieth on, they close what is open."""


def matcher_of(schema: Any, strategy: str = "auto", **options: Any) -> GrammarMatcher:
    compiled = COMPILERS[strategy].compile_json_schema(schema, strict_mode=False, **options)
    return GrammarMatcher(compiled)


def allowed(matcher: GrammarMatcher) -> list[int]:
    needed, ids = matchers.allowed(matcher, VOCABULARY.size)
    assert needed == (len(ids) < VOCABULARY.size)
    return ids


def is_valid(schema: Any, text: bytes) -> bool:
    """Return whether a text is valid; the last of several equal keys counts."""
    return bool(jsonschema.Draft202012Validator(schema).is_valid(json.loads(text)))


LETTERS = [number for number, text in enumerate(TOKENS) if text in (b"a", b"b", b"1", b"0") or text in LONGER]


def walk(matcher: GrammarMatcher, schema: Any, draw: random.Random, place: int, steps: int = STEPS) -> bool:
    """Read random tokens, up to the end of a valid text; compare some masks with what is accepted.

    Args:
        place: which of every seven masks is compared.
        steps: maximum number of tokens.

    Returns:
        Whether the text has ended.
    """
    matcher.reset()
    text = b""
    for step in range(steps):
        ids = allowed(matcher)
        assert ids, (schema, text)
        if step % 7 == place:
            taken = [token for token in range(VOCABULARY.size) if matcher.fork().accept_token(token)]
            unlike = [TOKENS[one] for one in {*ids} ^ {*taken} if one < STOP]
            assert ids == taken, (schema, text, unlike)
        if STOP in ids and (step > 60 or draw.random() < 0.05 or len(ids) == 1):
            assert matcher.accept_token(STOP) and is_valid(schema, text), (schema, text)
            return True
        choice = next_token(ids, step, draw)
        assert matcher.accept_token(choice)
        text += TOKENS[choice]
    return False


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", SCHEMAS)
def test_walks_end_in_valid_texts_and_masks_are_what_is_accepted(name: str, strategy: str) -> None:
    matcher = matcher_of(SCHEMAS[name], strategy)
    draw = random.Random(f"{name} {strategy}")
    for place in range(7):
        assert walk(matcher, SCHEMAS[name], draw, place)


def next_token(ids: list[int], step: int, draw: random.Random) -> int:
    """Draw a token from few letters, so that values repeat; after 40 steps, one that closes something."""
    texts = [one for one in ids if one != STOP]
    readable = [one for one in texts if TOKENS[one].strip()] or texts
    few = [one for one in readable if one in LETTERS or TOKENS[one] in b'[]{},:"12\\u8-.e']
    closing = [one for one in readable if TOKENS[one] in (b"]", b"}", b'"]', b'"')]
    return draw.choice(closing if step > 40 and closing else few or readable)


@pytest.mark.parametrize("name", SCHEMAS)
def test_texts_are_accepted_if_and_only_if_they_are_valid(name: str) -> None:
    schema = SCHEMAS[name]
    matcher, draw = matcher_of(schema), random.Random(name)
    grammar = grammar_of_schema(schema, {"strict_mode": False})
    found = {True: 0, False: 0}
    for _ in range(600):
        value = random_value(draw, 3)
        text = grammar.instances.text(value)
        valid = jsonschema.Draft202012Validator(schema).is_valid(value)
        assert (text is not None) == valid, value
        written = (text or json.dumps(value)).encode()
        matcher.reset()
        accepted = matcher.accept_string(written) and matcher.is_completed()
        assert accepted == valid, (value, written)
        found[valid] += 1
    rare = ("within", "objects", "of many", "one or two", "null is always new", "just enough")
    assert found[False] and (found[True] or name in rare)


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
        ("1", "true"),
        ("0", "false"),
        ("[1]", "1"),
        ('"1"', "1"),
        ("1", "10"),
        ("{}", "[]"),
    ]:
        matcher.reset()
        assert matcher.accept_string(f"[{first},{other}]") and matcher.is_completed()


@pytest.mark.parametrize("name", ["strings", "short strings", "anything", "two keys"])
def test_texts_may_end_within_an_escape(name: str) -> None:
    schema = SCHEMAS[name]
    first, again = r'"a","\ud83d\ude00","ab\\u12"', r'"\u0061\u0062","\ud83d\ude00"'
    if name == "two keys":
        first, again = r'"a":1,"\ud83d\ude00":2,"\\u12":3', r'"\u0062":4,"\ud83d\ude00":5'
    if name == "short strings":
        first, again = '"a","ab"', r'"\u0061\u0062","\u0063"'
    opening = "{" if name == "two keys" else "["
    matcher = matcher_of(schema)
    assert matcher.accept_string(f"{opening}{first},")
    n_accepted = 0
    for letter in again:
        ids = allowed(matcher)
        assert ids == [token for token in range(VOCABULARY.size) if matcher.fork().accept_token(token)]
        if not matcher.accept_string(letter):
            break
        n_accepted += 1
    assert n_accepted >= len(r'"\u0061')


@pytest.mark.parametrize("begun", ["[0,-0", "[0,-0.0", "[1.0,0,-0", "[100,1", "[[0],[-0", "[1,10e-"])
def test_numbers_may_become_equal_by_an_exponent(begun: str) -> None:
    matcher = matcher_of(UNIQUE["anything"])
    assert matcher.accept_string(begun)
    taken = [token for token in range(VOCABULARY.size) if matcher.fork().accept_token(token)]
    assert allowed(matcher) == taken


def test_what_was_taken_back_may_come_again() -> None:
    matcher = matcher_of(UNIQUE["strings"])
    for text in ('["a"', ",", '"b"', ","):
        assert matcher.accept_string(text)
    twin = matcher.fork()
    assert not matcher.accept_string('"b"')
    matcher.rollback(3)
    assert matcher.accept_string(',"b","c"]') and matcher.is_completed()
    assert not twin.accept_string('"b"') and twin.accept_string('"d"]')
    matcher.reset()
    assert matcher.accept_string('["b","a","c"]')


def test_conditions_hold_over_rollback_and_forks() -> None:
    matcher = matcher_of(UNIQUE["unique, or short"])
    for text in ('["a"', ', "a"', ',"b"'):
        assert matcher.accept_string(text)
    assert {TOKENS[one] for one in allowed(matcher)} >= {b"]", b" "}
    assert not matcher.fork().accept_string(',"c"]') and matcher.fork().accept_string(" ]")
    twin = matcher.fork()
    matcher.rollback(2)
    assert matcher.accept_string(',"b","c","d"')
    assert not matcher.fork().accept_string(',"b"') and matcher.accept_string("]")
    assert twin.accept_string("]") and twin.is_completed() and matcher.is_completed()
    matcher.rollback(2)
    assert matcher.accept_string(',"a"]') and matcher.is_completed()
    matcher.reset()
    assert not matcher.accept_string('["a"\x03"b"') and not matcher.accept_string('["a"\x02')


def test_an_end_that_has_text_is_allowed_behind_equal_items() -> None:
    tokens = [*(bytes([byte]) for byte in range(256)), b"<end>"]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=256)
    compiler = GrammarCompiler(vocabulary, semantics="json-schema")
    matcher = GrammarMatcher(compiler.compile_json_schema(UNIQUE["unique, or short"], strict_mode=False))
    assert matcher.accept_string('["a","a"]')
    bitmask = allocate(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask)
    assert int(bitmask[0, 8]) & 1
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
    matcher.reset()
    assert matcher.accept_string('["x","xx"') and matcher.accept_string(',"xxx"]')
    matcher.reset()
    assert not matcher.accept_string('["x","xx"]')  # both conditions hold


@pytest.mark.parametrize("options", [{"any_whitespace": False}, {"any_whitespace": False, "indent": 2}])
def test_conditions_hold_in_every_layout(options: Any) -> None:
    schema = UNIQUE["unique, or short"]
    matcher = matcher_of(schema, **options)
    for value in (["a", "a"], ["a", "a", 1], ["a", "b", "c", "d"], ["a", "a", "b", "c"], []):
        matcher.reset()
        text = json.dumps(value, indent=options.get("indent"))
        valid = jsonschema.Draft202012Validator(schema).is_valid(value)
        assert (matcher.accept_string(text) and matcher.is_completed()) == valid, text


def test_arrays_end_where_values_run_out() -> None:
    matcher = matcher_of(UNIQUE["pairs"])
    assert matcher.accept_string("[[0,0],[0,1],[1,")
    assert matcher.accept_string("0]")
    assert matcher.accept_string(",[")
    ids = {TOKENS[one] for one in allowed(matcher)}
    assert b"1" in ids and b"0" not in ids
    assert matcher.accept_string("1,1]")
    assert b"," not in {TOKENS[one] for one in allowed(matcher)}
    with pytest.raises(SchemaRefused, match="no valid instance"):
        grammar_of_schema({**UNIQUE["pairs"], "minItems": 5})


REFUSED = [
    {
        "type": "array", "uniqueItems": True, "minItems": 2,
        "prefixItems": [{"enum": ["a", 1]}, {"const": 1}], "items": {"enum": [*"abcdefghijkl"]},
    },
    {"type": "array", "items": FREE, "not": {"uniqueItems": True}, "maxItems": 3},
    {"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^[a-z]{2}$"}},
    {"type": "array", "uniqueItems": True, "items": {"type": "object", "maxProperties": 2}},
    {
        "type": "array", "uniqueItems": True,
        "items": {
            "type": "array", "uniqueItems": True, "items": False,
            "prefixItems": [{"enum": [[1], [2]]}, {"enum": [[2], [3]]}],
        },
    },
]  # fmt: skip


@pytest.mark.parametrize("schema", REFUSED)
def test_what_cannot_be_remembered_is_refused_by_name(schema: Any) -> None:
    with pytest.raises(SchemaRefused) as refused:
        grammar_of_schema(schema, {"strict_mode": False})
    assert refused.value.keyword in ("uniqueItems", "minProperties")


def test_other_schemas_remember_nothing() -> None:
    for schema in ({"type": "array", "items": FREE}, {"type": "object"}, True, {"minProperties": 1}):
        grammar = grammar_of_schema(schema, {"strict_mode": False})
        assert grammar.places is None is places_of(grammar.whole.nonterminals, grammar.whole.start, True)


def test_batches_and_jumps_go_on() -> None:
    matchers = [
        matcher_of(UNIQUE["strings"]),
        matcher_of({"type": "object"}),
        matcher_of(UNIQUE["many words"]),
    ]
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
    assert isinstance(matcher.compiled_grammar, CompiledGrammar)
    assert "expected" in str(matcher.explain())


@pytest.mark.parametrize(
    ("texts", "are_equal"),
    [
        (["1", "1.0", "10e-1", "0.1e1", "1E+0"], True), (["0", "-0", "0.000", "0e9"], True),
        (["100", "1e2", "1.00e+2"], True), (["1", "-1", "10", "0.1", "11"], False),
    ],
)  # fmt: skip
def test_equal_numbers_have_equal_keys(texts: list[str], are_equal: bool) -> None:
    assert len({number(text) for text in texts}) == (1 if are_equal else len(texts))


def test_texts_without_white_space() -> None:
    assert without_space(b'{ "a b" : [ 1 , "\\u0061\\n" ] }') == '{"a b":[1,"a\\n"]}'
    assert without_space(b'["\\u00') == '["'
    assert without_space('["\u00e9'.encode()[:-1]) == '["'


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
