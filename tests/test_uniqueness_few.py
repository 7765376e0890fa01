"""Items that must be unique and have few values, or many keys: how many may come.

The numbers of values in the table were counted by hand. Every walk ends, with as many items as there are
values.
"""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import pytest

from hybrid import GrammarMatcher
from hybrid.json_schema import SchemaRefused, grammar_of_schema
from hybrid.uniqueness import new_values
from tests.matchers import mask_of
from tests.robustness.schema_walks import TOKENS
from tests.test_uniqueness import CLOSE, allowed, matcher_of, unique, walk
from tests.test_uniqueness_values import closed


def keys(pattern: str, **keywords: Any) -> dict[str, Any]:
    """A schema of objects in which only the keys differ."""
    names = {"propertyNames": {"pattern": pattern}, "additionalProperties": {"const": 1}}
    return {"type": "object"} | names | keywords


def reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


DEFINITIONS: dict[str, Any] = {
    "inner": keys("^[ab]$") | {"propertyNames": {"enum": ["a", "b"]}},
    "endless": {"type": "array", "minItems": 1, "items": reference("endless")},
    "nine": unique({"enum": [*range(9)]}, minItems=10),
    "few": {
        "anyOf": [
            {"type": "array", "minItems": 1, "items": reference("few")},
            {"type": "object", "required": ["nine"], "properties": {"nine": reference("nine")}},
        ]
    },
}
FEW_VALUES: dict[str, tuple[dict[str, Any], int]] = {
    "listed keys": (reference("inner"), 4),
    "one key": (
        {"type": "object", "patternProperties": {"^a$": {"type": "boolean"}}, "additionalProperties": False},
        3,
    ),
    "at most two keys": (keys("^[a-c]$", maxProperties=2), 7),
    "a key of many": (keys("^[a-z]\\d$", maxProperties=1), 261),
    "a key of very many": (keys("^[a-e]{6}$", maxProperties=1), 15_626),
    "keys below": (
        {
            "type": "object", "properties": {"b": reference("inner")}, "required": ["b"],
            "additionalProperties": False,
        },
        4,
    ),
    "keys in items": ({"type": "array", "items": reference("inner"), "maxItems": 1}, 5),
    "orders": (unique({"enum": [1, 2, 3]}), 16),
    "orders of objects": (unique({"enum": [[1], {"a": 1}]}, minItems=2), 2),
    "nothing within itself": (
        {"type": ["string", "integer", "array"], "anyOf": [{"enum": ["a", 1]}, reference("endless")]}, 2,
    ),
    "nothing around too few": (
        {"type": ["string", "integer", "array", "object"], "anyOf": [{"enum": ["a", 1]}, reference("few")]},
        2,
    ),
    "more than ten thousand numbers": ({"type": "integer", "minimum": 0, "maximum": 20_000}, 20_001),
    "a character or none": ({"type": "string", "maxLength": 1}, 0x110000 - 0x800 + 1),
    "two characters around surrogates": ({"type": "string", "pattern": "^[\ud7ff-\ue000]$"}, 2),
    "none of several kinds": (
        {
            "type": ["array", "string"],
            "anyOf": [unique({"type": "string"}, contains={"const": 1}), {"enum": ["a", "b"]}],
        },
        2,
    ),
    "lengths": ({"type": "string", "pattern": "^a*$", "maxLength": 40}, 41),
    "a long array": ({"type": "array", "items": {"const": 1}, "minItems": 10**9, "maxItems": 10**9}, 1),
}  # fmt: skip
"""Schemas of items, and how many values they have."""


@pytest.mark.parametrize("name", FEW_VALUES)
def test_as_many_items_may_come_as_there_are_values(name: str) -> None:
    items, n_values = FEW_VALUES[name]
    schema = unique(items) | {"$defs": DEFINITIONS}
    with pytest.raises(SchemaRefused, match="no valid instance"):
        grammar_of_schema({**schema, "minItems": n_values + 1})
    if n_values > 20 or name == "a long array":
        grammar_of_schema({**schema, "minItems": n_values})  # it is not refused
        return
    matcher = matcher_of({**schema, "minItems": n_values}, **CLOSE)
    draw = random.Random(name)
    for _ in range(5):
        assert len(json.loads(walk(matcher, schema, draw))) == n_values


def test_items_may_have_many_keys() -> None:
    grammar_of_schema(unique({"properties": {f"k{i}": {"type": "integer"} for i in range(1200)}}))


@pytest.mark.parametrize(
    ("items", "begun"),
    [
        ({"type": "array", "if": {"uniqueItems": True}, "then": {"maxItems": 0}}, "[[1,1]"),
        ({"anyOf": [{"const": 1}, {"type": "array", "not": {"uniqueItems": True}}]}, "[1"),
        ({"type": "array", "not": {"uniqueItems": True, "minItems": 1}}, "[[]"),
    ],
)
def test_arrays_that_must_repeat_an_item_are_many(items: dict[str, Any], begun: str) -> None:
    matcher = matcher_of(unique(items), **CLOSE)
    assert matcher.accept_string(begun)
    assert {b",", b"]"} <= {TOKENS[one] for one in allowed(matcher)}


def test_arrays_that_cannot_be_counted_do_not_matter_beside_many_strings() -> None:
    few = unique(prefixItems=[{"enum": ["a", "b"]}, {"enum": ["a", "b", "c"]}])
    grammar_of_schema(unique({"anyOf": [{"type": "string"}, few]}))


NODE = reference("node")
NONE_OR_UNIQUE = {"uniqueItems": False, "anyOf": [{"maxItems": 0}, {"uniqueItems": True, "minItems": 3}]}
"""Arrays that must be unique only under a condition."""


@pytest.mark.parametrize(
    ("inner", "is_refused"),
    [
        ({"items": NODE}, False),
        ({"items": NODE, "minItems": 2}, True),
        ({"items": {"anyOf": [NODE, {"type": "boolean"}]}, "minItems": 2}, False),
        ({"prefixItems": [NODE, {"type": "boolean"}], "minItems": 2}, True),  # though there are many
        ({"prefixItems": [NODE, {"const": {}}], "minItems": 2}, True),
        ({"items": NODE, **NONE_OR_UNIQUE}, True),
        ({"items": {"anyOf": [NODE, {"type": "string"}]}, **NONE_OR_UNIQUE}, False),
    ],
)
def test_recursive_items_are_infinitely_many_or_refused(inner: dict[str, Any], is_refused: bool) -> None:
    """With two different nodes in each array of nodes, there is only one node; with none or three, two."""
    node = {
        "type": "object", "additionalProperties": False,
        "properties": {"children": {"type": "array", "uniqueItems": True, **inner}},
    }  # fmt: skip
    schema = unique(NODE) | {"$defs": {"node": node}}
    if is_refused:
        with pytest.raises(SchemaRefused, match="uniqueItems"):
            grammar_of_schema(schema, {"strict_mode": False})
        return
    matcher = matcher_of(schema, **CLOSE)
    draw = random.Random(0)
    for _ in range(7):
        assert walk(matcher, schema, draw, 2000)


MAY_NOT_END = [
    {"prefixItems": [{"enum": ["a", "b"]}, {"const": "a"}], "minItems": 2},
    {"prefixItems": [{"enum": ["a", 1]}, {"const": 1}], "minItems": 2, "items": {"enum": [*"abcdefghijkl"]}},
    {"contains": {"const": 1}, "items": {"enum": [1, 2]}, "prefixItems": [{"enum": [1, 3]}, {"const": 1}],
     "minItems": 2},
    {"prefixItems": [{"enum": [*range(30)]}, {"enum": [*range(31)]}, {"const": 30}], "minItems": 3},
]  # fmt: skip
END = [
    {"prefixItems": [{"enum": ["a", "b"]}, {"enum": ["a", "b"]}], "minItems": 2},
    {"prefixItems": [{"enum": [1, 2]}, {"enum": [1, 3]}, {"enum": [1, 2, 3]}], "minItems": 3},
    {"contains": {"enum": [1, 2]}, "minContains": 2},
    {"contains": {"multipleOf": 2}, "minContains": 3,
     "items": {"type": "integer", "minimum": 0, "maximum": 65_535}},
    {"prefixItems": [{"enum": [*range(30)]}, {"enum": [*range(31)]}], "minItems": 40,
     "items": {"enum": [*range(40)]}},
]  # fmt: skip


@pytest.mark.parametrize("beside", MAY_NOT_END)
def test_arrays_whose_first_items_may_use_up_a_later_one_are_refused(beside: dict[str, Any]) -> None:
    with pytest.raises(SchemaRefused, match="no unused value left"):
        grammar_of_schema(unique(**beside), {"strict_mode": False})


@pytest.mark.parametrize("beside", END)
def test_arrays_of_several_kinds_can_always_be_ended(beside: dict[str, Any]) -> None:
    schema = unique(**beside)
    matcher = matcher_of(schema, **CLOSE)
    draw = random.Random(0)
    for _ in range(3):
        walk(matcher, schema, draw)  # meets no dead end


def test_an_inner_array_that_needs_more_items_than_there_are_values_counts_as_none() -> None:
    """Counting its arrays item by item would never end."""
    few = {"type": "integer", "minimum": 1, "maximum": 10**8}
    schema = unique({"anyOf": [{"type": "boolean"}, unique(few, minItems=10**8 + 1)]})
    assert not grammar_of_schema(schema | {"minItems": 2}).left_out
    with pytest.raises(SchemaRefused):
        grammar_of_schema(schema | {"minItems": 3})


@pytest.mark.parametrize(
    "items",
    [
        {"prefixItems": [{"const": "a"}, {"enum": [1, 2]}], "items": False},
        {"prefixItems": [{"const": 1}], "items": {"enum": [1, 2]}},
        {"prefixItems": [{"const": 1}, {"const": 2}, {"enum": [1, 2]}], "items": {"type": "string"}},
    ],
)
def test_inner_arrays_of_several_kinds_of_few_values_are_not_counted(items: dict[str, Any]) -> None:
    with pytest.raises(SchemaRefused, match="several schemas with a few values"):
        grammar_of_schema(unique(unique(**items)))


BIT = {"enum": [0, 1]}


def test_values_of_items_with_arrays_that_are_not_counted_are_not_many() -> None:
    """Items beside them are not counted either: `{"b":0,"a":` had no way on."""
    inner = unique(prefixItems=[BIT, BIT], items=False, minItems=2)
    schema = unique(closed(b=BIT, a=inner), prefixItems=[{"const": "x"}])
    matcher = matcher_of(schema, **CLOSE)
    assert matcher.accept_string('["x",{"b":0,"a":[0,1]},{"b":0,"a":[1,0]},{"b":')
    assert mask_of(matcher) == [ord("1")]


def test_values_that_contain_themselves_behind_keys_that_cannot_come_are_few() -> None:
    """`e` has no value, so `b` cannot come either."""
    definitions = {
        "endless": {"type": "array", "minItems": 1, "items": reference("endless")},
        "few": {
            "type": "object", "properties": {"a": BIT, "b": reference("around"), "e": reference("endless")},
            "required": ["a"], "dependentRequired": {"b": ["e"]}, "additionalProperties": False,
        },
        "around": closed(a=reference("few")),
    }  # fmt: skip
    schema = unique(closed(a=reference("few"), t=reference("around"))) | {"$defs": definitions}
    matcher = matcher_of(schema, **CLOSE)
    items = [f'{{"a":{{"a":{i}}},"t":{{"a":{{"a":{j}}}}}}}' for i, j in product((0, 1), repeat=2)]
    assert matcher.accept_string(f"[{','.join(items)}")
    assert mask_of(matcher) == [ord("]")]


@pytest.mark.parametrize(
    ("item", "begun"),
    [
        ({"type": "array", "items": BIT, "maxItems": 2}, "[\n  0"),
        ({"type": "object", "additionalProperties": BIT}, '{\n  "a": 0'),
        (closed(a=BIT) | {"properties": {"a": BIT, "b": BIT}}, '{\n  "a": 0'),
    ],
)
def test_white_space_that_only_closes_an_item_does_not_come_if_that_repeats_it(
    item: dict[str, Any], begun: str, strategy: str
) -> None:
    matcher = matcher_of(unique(item), strategy, any_whitespace=False, indent=1)
    close = "\n ]" if begun[0] == "[" else "\n }"
    assert matcher.accept_string(f"[\n {begun}{close},\n {begun}")
    mask = mask_of(matcher)
    assert ord(",") in mask and ord("\n") not in mask


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts may still be tried, before each text that is tried."""
    found: list[int] = []
    take = new_values.Tries.take

    def counting(tries: new_values.Tries) -> bool:
        found.append(tries.left)
        return take(tries)

    monkeypatch.setattr(new_values.Tries, "take", counting)
    return found


def test_a_search_for_a_new_value_is_bounded(monkeypatch: pytest.MonkeyPatch, tried: list[int]) -> None:
    """One level of texts was tried to its end, however many there were. Behind a key, its whole value was
    searched, because items of arrays at the same place may run out: one mask took 40 s."""
    matcher = matcher_of({"oneOf": [{"uniqueItems": True}, {"maxProperties": 3, "not": {"enum": [1]}}]})
    assert matcher.accept_string('{"}": ') and allowed(matcher) and not tried
    monkeypatch.setattr(new_values, "MOST_AHEAD", 1)
    pair = [{"type": "object", "propertyNames": {"pattern": "^a"}}, {"enum": [*range(13)]}]
    matcher = matcher_of(unique({"type": "array", "prefixItems": pair, "items": False, "minItems": 2}))
    begun = "".join(f'[{{"a":1}},{number}],' for number in (1, 10, 11, 12))
    assert matcher.accept_string(f'[{begun}[{{"a":1}},') and mask_of(matcher)
    assert tried and min(tried) == 0


@pytest.mark.parametrize("begun", ["[[0],[-0", "[[0],[-0.00", '[{"a":0},{"a":0', '[{"a":0},{"a":0.0'])
def test_all_exponents_of_zero_are_one_number(begun: str, tried: list[int]) -> None:
    """Each was taken for a new number, or tried: one mask took 3 s."""
    number = {"type": "number"}
    matcher = matcher_of(
        unique(closed(a=number) if "a" in begun else {"type": "array", "items": number, "maxItems": 1})
    )
    assert matcher.accept_string(begun)
    mask = mask_of(matcher)
    assert ord("1" if "." in begun else ".") in mask and not {*mask} & {*b"eE"}
    assert len(tried) < 500


def assert_written(matcher: GrammarMatcher, begun: str, rest: str) -> None:
    """Assert that behind the beginning of a text, masks allow each byte of the rest, and that it may end."""
    assert matcher.accept_string(begun)
    for byte in rest.encode():
        assert byte in mask_of(matcher) and matcher.accept_token(byte)
    assert matcher.is_completed()


@pytest.mark.parametrize("end", ["ab", f".{13 * '0'}"])
@pytest.mark.parametrize("is_inside", [False, True])
def test_the_last_of_long_listed_texts_can_be_written(is_inside: bool, end: str, strategy: str) -> None:
    """The search for a new value read the listed texts letter by letter, and gave up. It also took zeros at
    the end of a text for those of a fraction. Then nothing could follow the comma."""
    texts = [f"{number} and a long text that is the same, {number}" for number in range(10, 70)]
    texts += [f"{texts[0]}{end[:-1]}", f"{texts[0]}{end}"]
    item: dict[str, Any] = {"enum": texts}
    if is_inside:
        item = {
            "type": "object", "properties": {"name": item}, "required": ["name"],
            "additionalProperties": False,
        }  # fmt: skip
    items = [json.dumps({"name": text} if is_inside else text) for text in texts]
    matcher = matcher_of(unique(item, minItems=len(texts)), strategy)
    assert_written(matcher, f"[{', '.join(items[:-1])}, ", f"{items[-1]}]")


@pytest.mark.parametrize(
    "spelled", ["\\u00e9", "\\u00E9", "\u00e9", "\\/", "/", "\\ud83d\\ude00", "\\n", "\\u000a"]
)
def test_a_character_may_be_escaped_that_earlier_items_begin_with(spelled: str, strategy: str) -> None:
    """The search for a new value left out escapes of characters that need none, even if one had begun."""
    letter = json.loads(f'"{spelled}"')
    texts = [f"{letter}{other}" for other in "abcdefghij"]
    matcher = matcher_of(unique({"enum": texts}, minItems=len(texts)), strategy)
    assert_written(matcher, f"[{', '.join(map(json.dumps, texts[1:]))}, ", f'"{spelled}a"]')


WORDS = ["".join(letters) for letters in product("ab", repeat=11)]
OF_BOTH = [*map(str, range(1_000)), *(number + 0.5 for number in range(2_000))]
BITS = {"type": "array", "items": {"enum": [0, 1]}, "minItems": 12, "maxItems": 12}
BIT_LISTS = [[*bits] for bits in product([0, 1], repeat=12)]
MANY_VALUES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "words": ({"type": "string", "pattern": "^[ab]{11}$"}, WORDS),
    "numbers": ({"type": "integer", "minimum": -1_500, "maximum": 1_500}, [*range(-1_500, 1_501)]),
    "of both": ({"enum": OF_BOTH}, OF_BOTH),
    "arrays": (BITS, BIT_LISTS),
    "objects": (
        {
            "type": "object",
            "properties": {"a": BITS, "b": {"const": 1}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        [{"a": bits, "b": 1} for bits in BIT_LISTS],
    ),
    "of two kinds": (
        {"anyOf": [{"type": "string", "pattern": "^[ab]{11}$"}, BITS]},
        [*WORDS, *BIT_LISTS],
    ),
}
"""Schemas of items, and all their values."""


@pytest.mark.parametrize("name", MANY_VALUES)
def test_the_last_of_very_many_values_can_be_written(name: str) -> None:
    """The search for a new value gave up, so nothing could follow the comma."""
    items, values = MANY_VALUES[name]
    last = len(values) * 97 // 100
    written = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values]
    others = ",".join(text for number, text in enumerate(written) if number != last)
    matcher = matcher_of(unique(items, minItems=2), **CLOSE)
    assert_written(matcher, f"[{others},", f"{written[last]}]")
    matcher.rollback(1)
    assert not matcher.accept_string(",")


def test_the_last_of_very_many_values_can_be_written_behind_an_item_of_another_schema() -> None:
    """As above, if items have several schemas."""
    schema = unique({"type": "string", "pattern": "^[ab]{11}$"}, prefixItems=[{"enum": [*WORDS[:2], "c"]}])
    matcher = matcher_of(schema | {"minItems": 2}, **CLOSE)
    texts = [json.dumps(text) for text in ("c", *WORDS[:-1])]
    assert_written(matcher, f"[{','.join(texts)},", f'"{WORDS[-1]}"]')
    matcher.rollback(1)
    assert not matcher.accept_string(",")


@pytest.mark.parametrize(("enum", "new"), [([1, 1.5, 2.5], "1.5"), ([1, 1.5, 15], "15")])
def test_zeros_behind_a_fraction_are_another_value_only_where_they_may_come(
    enum: list[float], new: str
) -> None:
    """Listed numbers are written without them."""
    items = {"type": "array", "items": {"enum": [*enum, *"abcdef"]}, "minItems": 1, "maxItems": 1}
    matcher = matcher_of(unique(items), **CLOSE)
    used = [[value] for value in (*enum, *"abcdef") if str(value) != new]
    assert_written(matcher, f"{json.dumps(used, separators=(',', ':'))[:-1]},", f"[{new}]]")


def test_listed_texts_may_have_half_of_a_surrogate_pair() -> None:
    """They were not counted, so the last one could not be written."""
    texts = [*"abcdefghi", "\ud800a"]
    matcher = matcher_of(unique({"enum": texts}, minItems=10), **CLOSE)
    assert_written(matcher, "", json.dumps(texts, separators=(",", ":")))


SOMETIMES_UNIQUE = {
    "type": "array",
    "items": {"enum": [*range(20)]},
    "anyOf": [{"uniqueItems": True}, {"contains": {"const": 1}}],
    "minItems": 3,
}
REFUSED_ALONE: dict[str, dict[str, Any]] = {
    "unique under conditions": SOMETIMES_UNIQUE,
    "unique keys": keys("^[a-z]{2}$", minProperties=2),
    "keys in any order": unique({"type": "object", "maxProperties": 3}),
}


@pytest.mark.parametrize("name", REFUSED_ALONE)
def test_what_no_text_contains_is_not_refused(name: str) -> None:
    refused = REFUSED_ALONE[name]
    for empty in (reference("endless"), unique(closed(a={"type": "boolean"}), minItems=3)):
        parts = {"prefixItems": [refused, empty], "minItems": 2}
        for schema in (
            {"anyOf": [{"type": "integer"}, {"type": "array", **parts}]},
            {"type": "array", "prefixItems": [empty, refused]},
            {"type": "object", "properties": {"a": refused, "b": empty}, "dependentRequired": {"a": ["b"]}},
        ):
            assert grammar_of_schema({**schema, "$defs": DEFINITIONS}, {"strict_mode": False}).places is None
    with pytest.raises(SchemaRefused):
        grammar_of_schema(refused, {"strict_mode": False})
