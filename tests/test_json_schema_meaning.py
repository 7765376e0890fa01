"""JSON schemas with their own meaning: which texts can be written, keyword by keyword, on every strategy.

What: a table of schemas with valid and invalid instances; the jsonschema package judges each first, so that
no row of the table can be wrong.
Limits: grammars are compiled over single bytes, which accept the same texts as any vocabulary.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from itertools import product
from typing import Any

import jsonschema
import pytest

from equivalence import Vocabulary
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.json_schema import SchemaGrammar, grammar_of_schema
from hybrid.json_schema.dialects import dialect_of

STOP = 256
BYTES = Vocabulary.from_bytes([*(bytes([i]) for i in range(256)), b""], stop_token_ids=[STOP])
OPEN = {"strict_mode": False}
LEGACY = "http://json-schema.org/draft-07/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"

TABLE: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("enum", {"enum": [1, "a", None, [1], {"k": 1}]}, [1, "a", None, [1], {"k": 1}], [2, "b", [], {"k": 2}]),
    ("const in const", {"const": {"a": [1, {"b": None}]}}, [{"a": [1, {"b": None}]}], [{"a": [1, {}]}]),
    ("bounds", {"minimum": -1.5, "exclusiveMaximum": 10}, [-1.5, 0, 9.99, "x"], [-1.51, 10, 11]),
    ("no number is above and below 0",
     {"type": ["number", "null"], "exclusiveMinimum": 0, "exclusiveMaximum": 0}, [None], [0, 1, -1]),
    ("multiple of a half", {"multipleOf": 0.5}, [0, 1.5, -2], [0.25, 1.3]),
    ("multiple of a hundredth", {"type": "number", "multipleOf": 0.01, "minimum": 0}, [0.25, 3, 7.1],
     [0.125]),
    ("divisors between bounds",
     {"type": "number", "minimum": -300, "exclusiveMaximum": 0,
     "anyOf": [{"multipleOf": 33}, {"multipleOf": 101}, {"multipleOf": 103}, {"multipleOf": 107.5}]},
     [-33, -101, -206, -107.5, -264], [-34, 33, 0, -303, -100]),
    ("items that an old draft does not have evaluate nothing",
     {"$schema": "https://json-schema.org/draft/2019-09/schema", "type": "array", "prefixItems": [{}],
     "unevaluatedItems": False}, [[]], [[1]]),
    ("escapes under a length", {"maxLength": 4}, ['a\nb"', "\t\\é\U0001f600", ""], ["abcde"]),
    ("lengths", {"minLength": 2, "maxLength": 40}, ["ab", "é" * 40, "\n\n"], ["a", "x" * 41]),
    ("a pattern with a length", {"pattern": "^[a-z][a-z0-9]*$", "maxLength": 50}, ["a", "z9"],
     ["9", "a" * 51]),
    ("words and characters", {"pattern": "^(?:\\S+\\s+){0,9}\\S+$", "minLength": 3, "maxLength": 90},
     ["abc", "a b c d e f g h i j", "x" * 90, "\u00e9\t" * 9 + "\\", "a" * 88 + " b"],
     ["ab", "a b c d e f g h i j k", "x" * 91, "a" * 89 + " b", "abc "]),
    ("look-ahead", {"pattern": "^(?=.*[0-9])[a-z0-9]{3,}$"}, ["ab1", "1ab"], ["abc", "a1"]),
    ("a format", {"format": "date"}, ["2024-02-29"], ["2023-02-29", "x"]),
    ("a format that nobody knows", {"format": "x-thing"}, ["anything"], []),
    ("oneOf that overlaps", {"oneOf": [{"type": "integer"}, {"minimum": 3}]}, [1, 3.5, "a"], [3, 2.5]),
    ("oneOf of lists",
     {"type": "string", "oneOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}, {"not": {"enum": ["a", "d"]}}]},
     ["a", "e", ""], ["b", "c", "d"]),
    ("oneOf of patterns",
     {"type": "string", "oneOf": [{"pattern": "^a"}, {"pattern": "b$"}, {"maxLength": 1}]},
     ["ax", "xb", "c", ""], ["ab", "a", "b", "cc"]),
    ("oneOf of many patterns",
     {"type": "string", "oneOf": [*({"pattern": letter} for letter in "abcdefghijklmnop"),
     *({"pattern": f"^x{i}[a-z]+$"} for i in range(3000))]},
     ["1a", "cc", "x7z", "x2999xy"], ["", "1", "ab", "x7az", "x2999", "x3000x"]),
    ("oneOf of numbers with a common divisor",
     {"type": "number", "oneOf": [{"multipleOf": 6}, {"multipleOf": 4}, {"const": 5, "multipleOf": 0.5}]},
     [6, 4, -8, 5, 18.0], [12, 24, 0, 3, 5.5]),
    ("a pattern that every text matches", {"type": "string", "pattern": "x*"}, ["", "a\n", "x"], [1]),
    ("not", {"not": {"type": "object", "required": ["a"]}}, [1, {}, {"b": 1}], [{"a": 1}]),
    ("patternProperties", {"patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 5}}},
     [{"x": 1, "zy": 6, "xy": 7}], [{"x": "a"}, {"zy": 4}, {"xy": 4}]),
    ("minProperties of declared keys",
     {"properties": {"a": True, "b": True, "c": True}, "additionalProperties": False, "minProperties": 2},
     [{"a": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}], [{"b": 1}, {}]),
    ("items behind prefixItems", {"prefixItems": [{"type": "integer"}], "items": {"type": "string"}},
     [[], [1], [1, "a", "b"]], [["a"], [1, 2]]),
    ("lists in instances and in unknown keywords do not make the draft an older one",
     {"default": {"items": []}, "examples": [{"items": [{}]}], "x-like": {"items": [{}]},
     "properties": {"items": {"prefixItems": [{"type": "integer"}]}, "c": {"const": {"items": [True]}}}},
     [{"items": [1]}, {"c": {"items": [True]}}], [{"items": ["a"]}, {"c": {"items": [1]}}]),
    ("a dynamic reference beside such an instance",
     {"default": {"items": []}, "$dynamicRef": "#n",
     "$defs": {"n": {"$dynamicAnchor": "n", "type": "integer"}}}, [1], ["a"]),
    ("minItems and maxItems", {"items": {"type": "null"}, "minItems": 2, "maxItems": 9},
     [[None] * 2, [None] * 9], [[None], [None] * 10, [None, 1]]),
    ("contains", {"contains": {"type": "integer"}, "minContains": 2, "maxContains": 3},
     [[1, "a", 2], [1, 2, 3]], [[1], [1, 2, 3, 4]]),
    ("unique booleans", {"items": {"type": "boolean"}, "uniqueItems": True}, [[True, False], []],
     [[True, True]]),
    ("unique choices", {"items": {"enum": ["a", "b", 1]}, "uniqueItems": True}, [["b", 1, "a"]],
     [["a", "a"]]),
    ("listed arrays of unique items",
     {"enum": [[], [{"k": 1}, {"k": 2}], [{"k": 1}, {"k": 1.0}], ["a", "a"]], "uniqueItems": True},
     [[], [{"k": 1}, {"k": 2}]], [[{"k": 1}, {"k": 1}], ["a", "a"], [{"k": 2}]]),
    ("listed arrays with equal items",
     {"enum": [["a", "a"], ["a", "b"], [True, 1], 3], "not": {"type": "array", "uniqueItems": True}},
     [["a", "a"], 3], [["a", "b"], [True, 1], []]),
    ("unevaluatedProperties",
     {"anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": True}}],
     "unevaluatedProperties": False}, [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}], [{"c": 1}, {"a": "x"}]),
    ("recursion",
     {"$ref": "#/$defs/n",
     "$defs": {"n": {"properties": {"k": {"items": {"$ref": "#/$defs/n"}}}, "additionalProperties": False}}},
     [{}, {"k": [{"k": []}, {}]}], [{"k": [{"x": 1}]}]),
    ("draft 7: nothing beside a reference",
     {"$schema": LEGACY, "properties": {"a": {"$ref": "#/definitions/i", "minimum": 5}},
     "definitions": {"i": {"type": "integer"}}}, [{"a": 1}], [{"a": "x"}]),
    ("draft 7: items and additionalItems",
     {"$schema": LEGACY, "items": [{"type": "integer"}], "additionalItems": False}, [[], [1]],
     [["a"], [1, 2]]),
    ("draft 7: dependencies", {"$schema": LEGACY, "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
     [{"a": 1, "b": 1}, {"c": 1, "d": 1}], [{"a": 1}, {"c": 1}]),
    ("draft 4: exclusive bounds", {"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True}, [2], [1]),
    ("keys with quotes and letters beyond ASCII",
     {"properties": {'a"b': {"type": "null"}, "é": {"type": "null"}}, "additionalProperties": False,
     "required": ["é"]}, [{'a"b': None, "é": None}], [{'a"b': None}, {"e": None}]),
]  # fmt: skip


def written(compiled: CompiledGrammar, text: str) -> bool:
    """Whether a text can be written completely."""
    matcher = GrammarMatcher(compiled)
    return matcher.accept_string(text) and matcher.accept_token(STOP)


def is_valid(schema: Any, instance: Any) -> bool:
    judge = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return bool(judge(schema, format_checker=judge.FORMAT_CHECKER).is_valid(instance))


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_the_table_is_right(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    assert [one for one in valid if not is_valid(schema, one)] == []
    assert [one for one in invalid if is_valid(schema, one)] == []
    instances = grammar_of_schema(schema, OPEN).instances  # which judge without texts
    assert [one for one in valid if instances.text(one) is None] == []
    assert [one for one in invalid if instances.text(one) is not None] == []


@pytest.mark.parametrize("strategy", ["auto", "classifier", "representatives", "engine"])
def test_texts_are_those_of_valid_instances(strategy: str) -> None:
    compiler = GrammarCompiler(BYTES, strategy=strategy, semantics="json-schema")
    for name, schema, valid, invalid in TABLE:
        compiled = compiler.compile_json_schema(schema, **OPEN)
        for one, verdict in [*((one, True) for one in valid), *((one, False) for one in invalid)]:
            assert written(compiled, json.dumps(one, ensure_ascii=False)) == verdict, (name, one)


def compiled_bytes(schema: Any, **options: Any) -> CompiledGrammar:
    return GrammarCompiler(BYTES, semantics="json-schema").compile_json_schema(schema, **options)


@pytest.mark.parametrize(
    "text",
    ['"a\tb"', '"\x01"', '"\\ud800"', '"\\x"', '"a', "01", "1.", "[1,]", '{"a":1,}', "tru", '"\\u12"', ""],
)
def test_what_is_no_json_is_never_written(text: str) -> None:
    for schema in ({}, {"maxLength": 20}, {"type": ["string", "number", "array", "object"]}):
        assert not written(compiled_bytes(schema, **OPEN), text)


@pytest.mark.parametrize(
    "text", [r'"\u00e9"', r'"\u00E9"', '"é"', r'"\ud83d\ude00"', '"\U0001f600"', r'"\/"', r'"\b"', r'"\f"']
)
def test_free_strings_have_every_spelling_and_a_pair_of_surrogates_is_one_character(text: str) -> None:
    for schema in ({}, {"maxLength": 1}):
        assert written(compiled_bytes(schema, **OPEN), text)
    assert not written(compiled_bytes({"maxLength": 1}, **OPEN), text[:-1] + 'a"')


BIG, NEXT, BELOW = "9007199254740993", "9007199254740993.5", "9007199254740992"
INTEGER, NULL = {"type": "integer"}, {"type": "null"}
UNITED = {
    "allOf": [{"properties": {"a": INTEGER}}, {"properties": {"b": INTEGER}}],
    "properties": {"o": {"type": "object"}, "t": {"prefixItems": [NULL]}},
}
SPACED = {"type": "object", "properties": {"c": {"type": "string"}, "a": {"type": "array", "items": {
    "type": ["integer", "array", "object"], "items": INTEGER,
    "additionalProperties": {"type": "object", "maxProperties": 0}}}}}  # fmt: skip
VALUE = {"c": "x", "a": [1, [], {"b": {}}]}
DENSE = json.dumps(VALUE, separators=(",", ":"))
NO_SPACE: dict[str, Any] = {"any_whitespace": False}

TEXTS: list[tuple[str, Any, dict[str, Any], list[str], list[str]]] = [
    ("an undeclared key is no declared one in disguise, and stands behind the declared ones",
     {"properties": {"a": INTEGER}}, OPEN, ['{"a":1}'], ['{"a":"x"}', '{"\\u0061":"x"}', '{"b":1,"a":1}']),
    *(("lists are read as in the draft that has them", schema, OPEN, ["[1]"], ['["a"]']) for schema in (
        {"items": [INTEGER]},
        {"items": [], "additionalItems": INTEGER},
        {"$defs": {"a": {"items": [INTEGER]}}, "$ref": "#/$defs/a"},
        {"definitions": {"default": {"items": [INTEGER]}}, "$ref": "#/definitions/default"},
        {"if": {"unevaluatedItems": {"items": [{}]}}, "allOf": [{"items": [INTEGER]}]},
    )),
    ("a bound above is exact", f'{{"maximum": {BIG}.0}}', OPEN, [BIG], [NEXT]),
    ("a bound below is exact", f'{{"minimum": {BIG}.0}}', OPEN, [BIG], [BELOW]),
    ("a constant is exact", f'{{"const": {BIG}.0}}', OPEN, [BIG], [BELOW]),
    ("a listed number is exact", '{"enum": [0.12345678901234567891]}', OPEN, ["0.12345678901234567891"],
     ["0.12345678901234568"]),
    ("numbers in alternatives are exact",
     '{"anyOf": [{"items": {"const": 0.12345678901234567891}}, {"items": {"const": 1e-30, "a": 1}}]}', OPEN,
     ["[0.12345678901234567891]"], ["[0.12345678901234568]"]),
    ("strict mode closes what is united first", UNITED, {}, ['{"a":1,"b":2}', '{"o":{"any":1},"t":[null]}'],
     ['{"z":1}', '{"t":[null,1]}']),
    ("without it, nothing is closed", UNITED, OPEN,
     ['{"a":1,"b":2}', '{"o":{"any":1},"t":[null]}', '{"z":1}', '{"t":[null,1]}'], []),
    ("what a schema says itself", {"properties": {"a": NULL}, "additionalProperties": NULL}, {},
     ['{"z":null}'], ['{"z":1}']),
    ("strict mode ignores keywords of other drafts (keys)",
     {"$schema": LEGACY, "properties": {"a": {}}, "unevaluatedProperties": True}, {}, [], ['{"z":1}']),
    ("strict mode ignores keywords of other drafts (items)",
     {"$schema": LEGACY, "items": [{}], "unevaluatedItems": True}, {}, [], ["[1,1]"]),
    ("draft 7 has no prefixItems", {"$schema": LEGACY, "prefixItems": [{}]}, {}, ["[1,1]"], []),
    ("additionalItems of other drafts", {"prefixItems": [{}], "additionalItems": True}, {}, [], ["[1,1]"]),
    ("white space", SPACED, {}, [json.dumps(VALUE, indent=3), DENSE], []),
    ("bounded white space", SPACED, {"max_whitespace_cnt": 2}, ['{  "a" : [1 ]  }'], ['{   "a":[1]}']),
    ("more of it", SPACED, {"max_whitespace_cnt": 20}, ["{" + " " * 20 + '"a":[1]}'],
     ["{" + " " * 21 + '"a":[1]}']),
    ("no white space", SPACED, NO_SPACE, [json.dumps(VALUE)], [DENSE]),
    ("separators", SPACED, {**NO_SPACE, "separators": (",", ":")}, [DENSE], [json.dumps(VALUE)]),
    ("indentation", SPACED, {**NO_SPACE, "indent": 2}, [json.dumps({"c": "x", "a": [1, [2]]}, indent=2)],
     [json.dumps(VALUE)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "options", "taken", "refused"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS]
)
def test_texts(schema: Any, options: dict[str, Any], taken: list[str], refused: list[str]) -> None:
    compiled = compiled_bytes(schema, **options)
    assert [text for text in (*taken, *refused) if written(compiled, text)] == taken


def test_a_schema_whose_draft_is_guessed_may_be_nested_deeply() -> None:
    schema: dict[str, Any] = {"items": [True]}
    for _ in range(100_000):
        schema = {"not": schema}
    assert dialect_of(schema).name == "2019-09"


def in_properties(one: Any) -> Any:
    return {"properties": {"v": one}}


def in_items(one: Any) -> Any:
    return {"items": one}


def in_contains(one: Any) -> Any:
    return {"contains": {"required": ["b"], **one}}


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        (dict, lambda one: {"allOf": [one]}, "%s"),
        (in_properties, lambda one: {"allOf": [in_properties(one)]}, '{"v":%s}'),
        (in_items, lambda one: {"allOf": [in_items(one)]}, "[%s]"),
        (in_properties, lambda one: {"$ref": "#/$defs/d", "$defs": {"d": in_properties(one)}}, '{"v":%s}'),
        (in_items, lambda one: {"$ref": "#/$defs/d", "$defs": {"d": in_items(one)}}, "[%s]"),
        (lambda one: {"patternProperties": {"^v": one}}, in_properties, '{"v":%s}'),
        (lambda one: {"dependentSchemas": {"v": in_properties(one)}}, in_properties, '{"v":%s}'),
        (in_contains, in_items, "[%s]"),
        (in_contains, lambda one: {"prefixItems": [one]}, "[%s]"),
    ],
)
def test_keys_come_in_the_order_in_which_the_text_of_the_schema_declares_them(
    first: Callable[[Any], Any], second: Callable[[Any], Any], whole: str
) -> None:
    one, other = first({"properties": {"b": {}}}), second({"properties": {"a": {}}})
    value = json.loads(whole % '{"a":1,"b":2}')
    for schema, text in (({**one, **other}, '{"b":2,"a":1}'), ({**other, **one}, '{"a":1,"b":2}')):
        assert grammar_of_schema(schema, OPEN).instances.text(value) == whole % text


def test_few_keys_that_must_not_be_repeated_come_first() -> None:
    """Only six keys match both patterns."""
    schema = {"patternProperties": {"^[a-c]": {"minimum": 0}, "^.[xy]$": True}, "minProperties": 2}
    grammar = grammar_of_schema(schema, OPEN)
    assert grammar.instances.text({"z": 1, "abc": 3, "by": 1, "ax": 1}) == '{"ax":1,"by":1,"z":1,"abc":3}'


def test_equal_subschemas_are_one_location() -> None:
    equal = [
        {"type": "string", "description": "one"}, {"type": "string", "title": "two"},
        {"items": {"const": 1}}, {"items": {"const": 1}, "default": []},
    ]  # fmt: skip
    unlike = [{"items": {"const": True}}, {"items": {"const": 1.0}}, {"items": {"const": 2}}, {"const": True}]
    unlike += [{"const": 1}, {"const": "a"}, {"const": ["a"]}, {"const": {"a": 0}}, {"items": {"const": 3}}]
    grammar = grammar_of_schema({"prefixItems": equal + unlike}, OPEN)
    locations = grammar.whole.nonterminals.assertions.locations.all
    schemas = [json.dumps(one.schema) for one in locations if "prefixItems" not in one.schema]
    assert len(schemas) == len(set(schemas))
    assert set(schemas) >= {json.dumps(one) for one in [{"type": "string"}, {"items": {"const": 1}}, *unlike]}


@pytest.mark.parametrize("draft", [{}, {"$schema": LEGACY}, {"$schema": DRAFT_4}])
def test_flags_of_older_drafts_mean_the_same_in_all_places(draft: dict[str, Any]) -> None:
    part = {"minimum": 1, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False, "required": True}
    instances = grammar_of_schema({**draft, **part, "items": part}, OPEN).instances
    values: list[Any] = [1, 2, 9, [1], [9], {}]
    assert [instances.text(one) is not None for one in values] == [False, True, True, False, True, True]


def test_numbers_are_spelled_as_the_schema_allows() -> None:
    bounded, free = grammar_of_schema({"maximum": 1e22}, OPEN), grammar_of_schema({"type": "number"}, OPEN)
    assert bounded.instances.text(1e21) == "1" + "0" * 21
    assert free.instances.text(1e21) == "1e+21"


def test_half_of_a_surrogate_pair_has_a_text_only_where_it_is_declared() -> None:
    values = ["\ud800", ["\udfffa"], {"\ud83d": 1}]
    for schema, expected in (
        ({"enum": ["\ud800", "x"]}, ['"\\ud800"', None, None]),
        ({"const": ["\udfffa"]}, [None, '["\\udfffa"]', None]),
        ({"properties": {"\ud83d": {}}, "type": "object"}, [None, None, '{"\\ud83d":1}']),
    ):
        instances = grammar_of_schema(schema, OPEN).instances
        assert [instances.text(one) for one in values] == expected
        for strategy, text in product(("auto", "representatives"), filter(None, expected)):
            compiler = GrammarCompiler(BYTES, strategy=strategy, semantics="json-schema")
            matcher = GrammarMatcher(compiler.compile_json_schema(schema, **OPEN))
            as_bytes = text.encode().decode("unicode_escape").encode(errors="surrogatepass")
            assert not matcher.accept_string(as_bytes)  # as XGrammar would write it
            assert matcher.accept_string(text)
    instances = grammar_of_schema({}, OPEN).instances
    assert [instances.text(one) for one in values] == [None] * 3
    assert instances.text(["\U0001f600"]) == '["\U0001f600"]'


def test_what_a_compiled_schema_was_made_of_is_forgotten_and_made_again() -> None:
    pair = {"anyOf": [{"const": 1}, {"pattern": "a"}], "minLength": 2, "$ref": "http://nowhere"}
    schema = {"properties": {"a": pair, "b": {"uniqueItems": True}}, "format": "regex"}
    compiled = compiled_bytes(schema, relax=True, **OPEN)
    made = grammar_of_schema(schema, OPEN, relax=True)
    grammar = compiled.grammar
    assert isinstance(grammar, SchemaGrammar)
    assert grammar.whole is not grammar.whole  # nothing is cached
    assert grammar.left_out == made.left_out != ()
    value = {"b": [1, 2], "a": "ab"}
    assert grammar.instances.text(value) == made.instances.text(value) == '{"a":"ab","b":[1,2]}'


@pytest.mark.parametrize("is_strict", [True, False])
def test_nothing_is_left_for_garbage_collection(is_strict: bool) -> None:
    """A compilation leaves no cycles of references.

    There were 850 objects in cycles for each schema, and collecting them took a sixth of the time of a server
    that compiles schemas. Free-threaded Python stops all threads while it collects garbage.
    """
    texts = [json.dumps(schema) for _, schema, _, _ in TABLE]

    def compile_all() -> None:
        for text in texts:
            grammar = grammar_of_schema(text, {"strict_mode": is_strict})
            assert grammar.read is grammar.read
            grammar.forget()

    compile_all()  # fill the caches of patterns and formats
    gc.collect()
    gc.disable()
    try:
        compile_all()
        assert gc.collect() == 0
    finally:
        gc.enable()
