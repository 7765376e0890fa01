"""Values that must not repeat, in texts whose layout is fixed, and in texts that are cut in many ways.

What: at each byte of valid texts, the mask is what `accept_token` accepts, and the text goes on.
When: after a change of `hybrid.remembering`.
Limits: some texts; `tests.robustness.schema_walks` walks through others.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from equivalence import Vocabulary
from hybrid import GrammarCompiler, GrammarMatcher, SchemaRefused
from tests.matchers import mask_of
from tests.test_remembering import BYTES, COMPILERS, UNIQUE, VOCABULARY, allowed

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
LAID_OUT: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "arrays": (
        {"type": "array", "uniqueItems": True, "items": {"type": "array", "items": {"type": "integer"}}},
        [[], [1]],
    ),
    "objects": (
        {
            "type": "array", "uniqueItems": True,
            "items": {
                "type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False
            },
        },
        [{}, {"a": 1}],
    ),
    "several kinds": (
        {
            "type": "array", "uniqueItems": True,
            "prefixItems": [{"type": "integer"}], "items": {"type": "null"},
        },
        [1, None],
    ),
    "other letters": (
        {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "\u00e9", "\n", " b"]}},
        ["a", "\u00e9", "\n", " b"],
    ),
    "under conditions": (
        {"not": {"uniqueItems": True}, "type": "array", "items": {"type": "integer"}},
        [0, 1, 0],
    ),
    "strings under conditions": (
        {
            "type": "array", "items": {"type": "string", "pattern": "^[ab]+$"},
            "oneOf": [{"uniqueItems": True, "maxItems": 4}, {"minItems": 2, "maxItems": 3}],
        },
        ["b", "a", "b"],
    ),
    "lists": (
        {
            "type": "array", "uniqueItems": True,
            "items": {"type": "array", "items": {"enum": [0, 1, "a"]}, "maxItems": 2},
        },
        [["a"], ["a", 0], [], [0, "a"]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", LAID_OUT)
def test_unique_items_in_fixed_layouts(name: str, layout: dict[str, Any]) -> None:
    schema, value = LAID_OUT[name]
    compiled = COMPILERS["auto"].compile_json_schema(schema, strict_mode=False, **layout)
    separators = layout.get("separators") or ((", ", ": ") if layout.get("indent") is None else (",", ": "))
    text = json.dumps(value, indent=layout.get("indent"), separators=separators, ensure_ascii=False)
    if layout.get("indent") is not None:
        text = text.replace("[\n" + " " * 2 * layout["indent"] + "]", "[]")
    matcher = GrammarMatcher(compiled)
    for byte in text.encode():
        ids = allowed(matcher)
        assert ids and ids == [
            token for token in range(VOCABULARY.size) if matcher.fork().accept_token(token)
        ], text
        assert matcher.accept_string(bytes([byte])), (text, byte)
    assert matcher.is_completed()


@pytest.mark.parametrize("relax", [False, True])
@pytest.mark.parametrize(
    "separators", [(";", ":"), (",", "="), (" ", ":"), ("", ""), (",,", ":"), (",\v", ":")]
)
@pytest.mark.parametrize(
    "schema",
    [
        UNIQUE["anything"],
        LAID_OUT["under conditions"][0],
        {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
        {"properties": {"a": {"minProperties": 2}}},
    ],
    ids=json.dumps,
)
def test_values_are_remembered_only_in_json(
    schema: dict[str, Any], separators: tuple[str, str], relax: bool
) -> None:
    layout: dict[str, Any] = {"any_whitespace": False, "separators": separators, "strict_mode": False}
    with pytest.raises(SchemaRefused, match=r"must not be repeated.*leave out `separators`"):
        COMPILERS["auto"].compile_json_schema(schema, relax=relax, **layout)
    few = {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}  # states tell items apart
    matcher = GrammarMatcher(COMPILERS["auto"].compile_json_schema(few, relax=relax, **layout))
    assert matcher.accept_string(f"[1{separators[0]}") and not matcher.fork().accept_string("1")
    assert matcher.accept_string("2]") and matcher.is_completed()


SPLIT = [b"d8", b"d83", b"d83d", b"\\ud8", b"\\ud83d", b"\\u", b"ud83", b'"\n', b'" ', b'"\n]']


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (UNIQUE["anything"], '[{"a":1},{"\\ud83d\\ude00":1},{"\\ud83d\\ude01":1}]'),
        (UNIQUE["anything"], '[["a"],["\\ud83d\\ude00"]]'),
        (
            {"propertyNames": {"pattern": "^[a-z].?$"}, "minProperties": 2},
            '{"ab":1,"a\\ud83d\\ude00":2}',
        ),
        (
            {
                "type": "array", "uniqueItems": True,
                "items": {"type": "number", "minimum": -1, "maximum": 3, "multipleOf": 0.5},
            },
            "[-1.0,-0.5,0,0.5,1.0,1.5,2.0,3,2.5]",
        ),
    ],
)  # fmt: skip
def test_what_looks_like_an_earlier_item_for_long(schema: dict[str, Any], text: str) -> None:
    """Escapes that are read byte by byte, and zeros without end."""
    tokens = [*BYTES, *SPLIT]
    vocabulary = Vocabulary.from_bytes([*tokens, b""], stop_token_ids=len(tokens))
    compiler = GrammarCompiler(vocabulary, semantics="json-schema")
    matcher = GrammarMatcher(compiler.compile_json_schema(schema, strict_mode=False))
    for byte in text.encode():
        ids = [token for token in mask_of(matcher) if token < len(tokens)]
        assert ids == [token for token in range(len(tokens)) if matcher.fork().accept_token(token)]
        assert matcher.accept_string(bytes([byte]))
    assert matcher.is_completed()


ENDED_BY_ZEROS: list[tuple[dict[str, Any], bytes, bytes]] = [
    ({"multipleOf": 10, "minimum": 0, "maximum": 100}, b"[10,10", b"."),
    ({"multipleOf": 1}, b"[10,10", b"."),
    ({"multipleOf": 5}, b"[300,300", b".0"),
    ({"multipleOf": 0.5, "minimum": 0, "maximum": 20}, b"[10.5,10.", b"500"),
    ({"multipleOf": 0.01, "minimum": 0}, b"[0.25,0.", b"250"),
    ({"minimum": 0, "maximum": 100}, b"[100,", b"100."),
    ({"multipleOf": 0.5}, b"[0.5,0.", b"5" + b"0" * 40),
    ({"minimum": 0, "maximum": 100}, b"[99.5,99.", b"50"),
]
GOES_ON = [(b"[99.5,99.", b"50")]
"""Numbers, a text, and a token: it is forbidden if only zeros may follow it, and the value came before."""


@pytest.mark.parametrize(("numbers", "text", "token"), ENDED_BY_ZEROS)
def test_zeros_do_not_make_a_number_a_new_one(numbers: dict[str, Any], text: bytes, token: bytes) -> None:
    tokens = [*BYTES, token, b"00", b"0]"]
    vocabulary = Vocabulary.from_bytes([*tokens, b""], stop_token_ids=len(tokens))
    compiler = GrammarCompiler(vocabulary, semantics="json-schema")
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "number", **numbers}}
    matcher = GrammarMatcher(
        compiler.compile_json_schema(schema, any_whitespace=False, separators=(",", ":"))
    )
    assert matcher.accept_string(text)
    ends = not matcher.fork().accept_token(len(BYTES))
    for _ in range(40):  # however it goes on, the mask is what is accepted, and there is a way on
        ids = mask_of(matcher)
        assert ids == [one for one in range(len(tokens) + 1) if matcher.fork().accept_token(one)] != []
        zeros = [one for one in ids if one < len(tokens) and not tokens[one].strip(b"0")]
        if ids == zeros:
            pytest.fail("only zeros may follow, which never make a new number")
        if not zeros:
            break
        assert matcher.accept_token(zeros[-1])
    assert ends == ((text, token) not in GOES_ON)


def test_numbers_inside_of_items_are_compared_by_value() -> None:
    """The only items are [10] and [10, 10], in any spelling."""
    tokens = [*BYTES, b"00", b".0"]
    vocabulary = Vocabulary.from_bytes([*tokens, b""], stop_token_ids=len(tokens))
    numbers = {"type": "number", "multipleOf": 0.5, "minimum": 10, "exclusiveMaximum": 10.5}
    items = {"type": "array", "items": numbers, "minItems": 1, "maxItems": 2}
    compiler = GrammarCompiler(vocabulary, semantics="json-schema")
    schema = {"type": "array", "uniqueItems": True, "items": items}
    matcher = GrammarMatcher(compiler.compile_json_schema(schema))
    assert matcher.accept_string(b"[[10, 10], [10.000 ")
    assert not matcher.fork().accept_string(b",") and matcher.fork().accept_string(b"]]")
