"""Values that must not repeat, in texts whose layout is fixed, and in texts that are cut in many ways.

What: at each byte of valid texts, the mask is what `accept_token` accepts, and the text goes on.
When: after a change of `hybrid.uniqueness`.
Limits: some texts; `tests.robustness.schema_walks` walks through others.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from hybrid import GrammarCompiler, GrammarMatcher, SchemaRefused
from tests.classifiers import vocabulary_of
from tests.matchers import mask_of, taken_by
from tests.robustness.schema_walks import BYTES
from tests.test_uniqueness import CLOSE, TWO_KEYS, UNIQUE, ends, matcher_of, unique

LAYOUTS: list[dict[str, Any]] = [
    {"any_whitespace": False},
    {"any_whitespace": False, "separators": (",", ":")},
    *({"any_whitespace": False, "indent": indent} for indent in (0, 1, 2)),
    {"any_whitespace": False, "separators": (" , ", ":")},
    {"any_whitespace": False, "indent": 0, "separators": (" ,", ":")},
    {"any_whitespace": False, "indent": 2, "separators": (" ,  ", " : ")},
    {"max_whitespace_cnt": 1},
    {"max_whitespace_cnt": 2},
]
INTEGERS = {"type": "array", "items": {"type": "integer"}}
LAID_OUT: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "arrays": (unique(INTEGERS), [[], [1]], [[1], [1]]),
    "objects": (
        unique({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}),
        [{}, {"a": 1}],
        [{}, {"a": 1}, {}],
    ),
    "several kinds": (unique({"type": "null"}, prefixItems=[{"type": "integer"}]), [1, None], [None]),
    "other letters": (
        unique({"enum": ["a", "\u00e9", "\n", " b"]}),
        ["a", "\u00e9", "\n", " b"],
        ["a", "\n", "\n"],
    ),
    "under conditions": (INTEGERS | {"not": {"uniqueItems": True}}, [0, 1, 0], [0, 1, 2]),
    "strings under conditions": (
        {
            "type": "array",
            "items": {"type": "string", "pattern": "^[ab]+$"},
            "oneOf": [{"uniqueItems": True, "maxItems": 4}, {"minItems": 2, "maxItems": 3}],
        },
        ["b", "a", "b"],
        ["a", "b"],
    ),
    "lists": (
        unique({"type": "array", "items": {"enum": [0, 1, "a"]}, "maxItems": 2}),
        [["a"], ["a", 0], [], [0, "a"]],
        [["a", 0], [], ["a", 0]],
    ),
}


def matcher_over(tokens: list[bytes], schema: Any, **options: Any) -> GrammarMatcher:
    """A matcher over other tokens and a stop token behind them."""
    compiler = GrammarCompiler(vocabulary_of(tokens), semantics="json-schema")
    return GrammarMatcher(compiler.compile_json_schema(schema, strict_mode=False, **options))


def read_bytewise(matcher: GrammarMatcher, text: str) -> None:
    """Read a complete text; before each byte, the mask is what `accept_token` accepts."""
    for byte in text.encode():
        assert mask_of(matcher) == taken_by(matcher) != [], (text, byte)
        assert matcher.accept_string(bytes([byte])), (text, byte)
    assert mask_of(matcher) == taken_by(matcher) != []


def written(value: Any, layout: dict[str, Any]) -> str:
    """A value in the layout that the options of a schema ask for."""
    indent = layout.get("indent")
    separators = layout.get("separators") or ((", ", ": ") if indent is None else (",", ": "))
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=False)
    return text if indent is None else text.replace("[\n" + " " * 2 * indent + "]", "[]")


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", LAID_OUT)
def test_unique_items_in_fixed_layouts(name: str, layout: dict[str, Any]) -> None:
    schema, value, invalid = LAID_OUT[name]
    matcher = matcher_of(schema, **layout)
    read_bytewise(matcher, written(value, layout))
    assert matcher.is_completed() and not ends(matcher, written(invalid, layout))


@pytest.mark.parametrize(
    ("schema", "before", "item"),
    [
        (LAID_OUT["under conditions"][0], [0], "0"),
        (unique({"type": "integer", "minimum": 0, "maximum": 12}, minItems=5), [10, 11, 12], "1"),
    ],
)
def test_separators_may_have_any_amount_of_white_space(
    schema: dict[str, Any], before: list[int], item: str
) -> None:
    comma = " " * 600 + ","
    matcher = matcher_of(schema, any_whitespace=False, separators=(comma, ":"))
    assert matcher.accept_string("[" + "".join(f"{one}{comma}" for one in before))
    for byte in (item + comma).encode():
        assert byte in mask_of(matcher) and matcher.accept_token(byte)
    assert matcher.accept_string("2]") and matcher.is_completed()


@pytest.mark.parametrize("relax", [False, True])
@pytest.mark.parametrize(
    "separators", [(";", ":"), (",", "="), (" ", ":"), ("", ""), (",,", ":"), (",\v", ":")]
)
def test_values_are_remembered_only_in_json(separators: tuple[str, str], relax: bool) -> None:
    layout: dict[str, Any] = {"any_whitespace": False, "separators": separators, "relax": relax}
    for schema in (
        UNIQUE["anything"],
        LAID_OUT["under conditions"][0],
        TWO_KEYS | {"additionalProperties": {"type": "integer"}},
        {"properties": {"a": {"minProperties": 2}}},
    ):
        with pytest.raises(SchemaRefused, match=r"must not be repeated.*; leave out this option$"):
            matcher_of(schema, **layout)
    matcher = matcher_of(unique({"enum": [1, 2]}), **layout)  # states tell items apart
    assert matcher.accept_string(f"[1{separators[0]}") and not matcher.fork().accept_string("1")
    assert matcher.accept_string("2]") and matcher.is_completed()


SPLIT = [b"d8", b"d83", b"d83d", b"\\ud8", b"\\ud83d", b"\\u", b"ud83", b'"\n', b'" ', b'"\n]']
EQUAL = [b"1e0", b"1.0", b",1", b"e0]", b".0"]
ANYTHING = UNIQUE["anything"]


@pytest.mark.parametrize(
    ("schema", "begun", "text"),
    [
        (UNIQUE["strings"], r'["a","\ud83d\ude00","ab\\u12",', r'"\u0061\u0062","\ud83d\ude00'),
        (UNIQUE["short strings"], '["a","ab",', r'"\u0061\u006'),
        (ANYTHING, r'["a","\ud83d\ude00","ab\\u12",', r'"\u0061\u0062","\ud83d\ude01"]'),
        (TWO_KEYS, r'{"a":1,"\ud83d\ude00":2,"\\u12":3,', r'"\u0062":4,"\ud83d\ude00'),
        (ANYTHING, "", r'[{"a":1},{"\ud83d\ude00":1},{"\ud83d\ude01":1}]'),
        (ANYTHING, "", r'[["a"],["\ud83d\ude00"]]'),
        (TWO_KEYS | {"propertyNames": {"pattern": "^[a-z].?$"}}, "", r'{"ab":1,"a\ud83d\ude00":2}'),
        (
            unique({"type": "number", "minimum": -1, "maximum": 3, "multipleOf": 0.5}),
            "",
            "[-1.0,-0.5,0,0.5,1.0,1.5,2.0,3,2.5]",
        ),
        *(
            (ANYTHING, begun, "")
            for begun in ("[0,-0", "[0,-0.0", "[1.0,0,-0", "[100,1", "[[0],[-0", "[1,10e-")
        ),
    ],
)
def test_what_looks_like_an_earlier_item_for_long(schema: dict[str, Any], begun: str, text: str) -> None:
    """Escapes that are read byte by byte, zeros without end, and exponents that make numbers equal."""
    matcher = matcher_over([*BYTES, *SPLIT, *EQUAL], schema)
    assert matcher.accept_string(begun)
    read_bytewise(matcher, text)
    assert matcher.is_completed() == text.endswith(("]", "}"))


ENDED_BY_ZEROS: list[tuple[dict[str, Any], bytes, bytes, bool]] = [
    ({"multipleOf": 10, "minimum": 0, "maximum": 100}, b"[10,10", b".", True),
    ({"multipleOf": 1}, b"[10,10", b".", True),
    ({"multipleOf": 5}, b"[300,300", b".0", True),
    ({"multipleOf": 0.5, "minimum": 0, "maximum": 20}, b"[10.5,10.", b"500", True),
    ({"multipleOf": 0.01, "minimum": 0}, b"[0.25,0.", b"250", True),
    ({"minimum": 0, "maximum": 100}, b"[100,", b"100.", True),
    ({"multipleOf": 0.5}, b"[0.5,0.", b"5" + b"0" * 40, True),
    ({"minimum": 0, "maximum": 100}, b"[99.5,99.", b"50", False),
]
"""Numbers, a text, a token, and whether the token is forbidden: only zeros may follow, and the value came
before."""


@pytest.mark.parametrize(("numbers", "text", "token", "is_forbidden"), ENDED_BY_ZEROS)
def test_zeros_do_not_make_a_number_a_new_one(
    numbers: dict[str, Any], text: bytes, token: bytes, is_forbidden: bool
) -> None:
    tokens = [*BYTES, token, b"00", b"0]"]
    matcher = matcher_over(tokens, unique({"type": "number"} | numbers), **CLOSE)
    assert matcher.accept_string(text)
    assert matcher.fork().accept_token(len(BYTES)) != is_forbidden
    for _ in range(40):  # however it goes on, the mask is what is accepted, and there is a way on
        ids = mask_of(matcher)
        assert ids == taken_by(matcher) != []
        zeros = [one for one in ids if one < len(tokens) and not tokens[one].strip(b"0")]
        if ids == zeros:
            pytest.fail("only zeros may follow, which never make a new number")
        if not zeros:
            break
        assert matcher.accept_token(zeros[-1])


def test_numbers_inside_of_items_are_compared_by_value() -> None:
    """The only items are [10] and [10, 10], in any spelling."""
    numbers = {"type": "number", "multipleOf": 0.5, "minimum": 10, "exclusiveMaximum": 10.5}
    items = {"type": "array", "items": numbers, "minItems": 1, "maxItems": 2}
    matcher = matcher_over([*BYTES, b"00", b".0"], unique(items))
    assert matcher.accept_string(b"[[10, 10], [10.000 ")
    assert not matcher.fork().accept_string(b",") and matcher.fork().accept_string(b"]]")


@pytest.mark.parametrize("value", [0, "b"])
def test_white_space_that_shows_the_end_of_an_equal_object(value: Any) -> None:
    """Behind a repeated key, only another key can make an item a new one: a line break has to wait for it."""
    pair = {"type": "array", "prefixItems": [{"type": "object"}, {"const": 1}], "items": False, "minItems": 2}
    pair["prefixItems"][0]["additionalProperties"] = {"enum": [0, "b"]}
    matcher = matcher_over(BYTES, unique(pair), any_whitespace=False, indent=1)
    begun = json.dumps([[{"a": value}, 1], [{"a": value, "z": 0}]], indent=1).partition('"z"')[0]
    assert matcher.accept_string(f'{begun}"a": {json.dumps(value)}')
    assert [BYTES[token] for token in mask_of(matcher)] == [b","]


def test_white_space_that_shows_the_end_of_an_item_that_sometimes_may_repeat() -> None:
    ones = {"type": "object", "additionalProperties": {"const": 1}}
    schema = {"type": "array", "items": ones, "anyOf": [{"uniqueItems": True}, {"contains": {"const": 1}}]}
    pair = {"type": "array", "prefixItems": [schema, ones], "items": False, "minItems": 2}
    matcher = matcher_over(BYTES, unique(pair), any_whitespace=False, indent=1)
    text = json.dumps([[[{"b": 1}], {}], [[{"a": 1}, {"c": 1}, {"a": 1}]]], indent=1)
    assert matcher.accept_string(text[: text.rindex("1") + 1])
    assert [BYTES[token] for token in mask_of(matcher)] == [b","]
