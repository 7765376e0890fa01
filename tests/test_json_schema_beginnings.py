"""How many values begin with a text, for items that must be unique: compared with lists of all values."""

from __future__ import annotations

import json
from itertools import permutations, product
from typing import Any

import pytest

from hybrid.json_schema import grammar_of_schema
from hybrid.json_schema.uniqueness.beginnings import Beginnings
from hybrid.json_schema.uniqueness.cardinality import MANY
from hybrid.json_schema.uniqueness.prefix_counts import Unknown
from tests.test_uniqueness import unique


def beginnings_of_items(items: dict[str, Any]) -> Beginnings:
    places = grammar_of_schema(unique(items)).places
    assert places is not None
    found = places.all[places.start].beginnings
    assert found is not None
    return found


def n_values(beginnings: Beginnings, text: str) -> int:
    """How many values of an item begin with a text."""
    [values] = beginnings.values
    return sum(one.n_with_prefix(text) for one in values)


def texts(letters: str, most: int) -> list[str]:
    return ["".join(text) for length in range(most + 1) for text in product(letters, repeat=length)]


LISTED: list[Any] = ["a", "ab", "", "\n", "\u00e9", '"', "\\", 1, 10, 12.5, -3, *"cdefgh"]
PARTS: list[list[Any]] = [["a", "ab"], [1, 2], [True, False], [True, False]]
VALUES: list[tuple[dict[str, Any], list[Any]]] = [
    ({"type": "string", "pattern": '^["\\n\u00e9\U0001f600]{0,3}$'}, texts('"\n\u00e9\U0001f600', 3)),
    ({"type": "string", "pattern": "^a?[bc]*$", "maxLength": 4},
     [text for text in texts("abc", 4) if "a" not in text[1:]]),
    ({"type": "string", "pattern": "^x{1,2}y*$", "minLength": 33, "maxLength": 36},
     [f"{'x' * n}{'y' * (length - n)}" for n in (1, 2) for length in range(33, 37)]),
    ({"type": "string", "pattern": "^(?:a|b{4,45})$"}, ["a", *("b" * n for n in range(4, 46))]),
    ({"type": "string", "pattern": "^a*$", "maxLength": 60}, ["a" * n for n in range(61)]),
    ({"type": "integer", "minimum": -30, "maximum": 120}, [*range(-30, 121)]),
    ({"enum": LISTED}, LISTED),
    ({"type": "array", "items": {"enum": ["a", "b,]", 1, True]}, "minItems": 1, "maxItems": 3},
     [[*items] for n in (1, 2, 3) for items in product(["a", "b,]", 1, True], repeat=n)]),
    (unique({"enum": [*range(9), 10]}, maxItems=3),
     [[*items] for n in range(4) for items in permutations([*range(9), 10], n)]),
    ({"type": "array", "prefixItems": [{"enum": ["a", "ab"]}, {"enum": [1, 2]}], "minItems": 1, "maxItems": 4,
      "items": {"type": "boolean"}},
     [[*items] for n in range(1, 5)
      for items in product(*PARTS[:n])]),
    ({"type": "object", "additionalProperties": False, "required": ["ab"],
      "properties": {"a": {"enum": [1, 11]}, "ab": {"type": ["boolean", "null"]}, "b{": {"const": ["{"]}}},
     [{**a, "ab": value, **b} for a in ({}, {"a": 1}, {"a": 11}) for value in (True, False, None)
      for b in ({}, {"b{": ["{"]})]),
]  # fmt: skip


@pytest.mark.parametrize(("items", "values"), VALUES)
def test_values_that_begin_with_a_text_are_counted(items: dict[str, Any], values: list[Any]) -> None:
    beginnings = beginnings_of_items(items)
    written = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values]
    unfinished = [text.removesuffix('"') if len(text) > 1 else text for text in written]
    for text in unfinished:
        for begun in (text[:end] for end in range(1, len(text) + 1)):
            if begun[-1] != "\\" or begun.endswith("\\\\"):
                assert n_values(beginnings, begun) == sum(one.startswith(begun) for one in written), begun
    assert n_values(beginnings, '"zz' if unfinished[0][0] == '"' else "999") == 0
    assert n_values(beginnings, "") == len(values)


def test_infinitely_many_values_are_counted_as_many() -> None:
    beginnings = beginnings_of_items({"type": ["string", "number"], "pattern": "^a?b*c$"})
    begun = ('"ab', '"abc', "-", "10", "1.0")
    assert [n_values(beginnings, text) for text in begun] == [MANY, 1, MANY, MANY, MANY]
    with pytest.raises(Unknown):
        n_values(beginnings, "1e")  # may become 10


def test_zeros_behind_a_fraction_are_no_other_value() -> None:
    """After `1.0`, the values are 1, with more zeros, and those that begin with `1.0`."""
    beginnings = beginnings_of_items({"type": "number", "minimum": 0, "maximum": 2, "multipleOf": 0.05})
    assert [n_values(beginnings, text) for text in ("1", "1.", "1.0", "1.00", "1.5", "1.50", "1.500")] == [
        20, 20, 2, 1, 2, 1, 1,
    ]  # fmt: skip
    for text, before, is_new in [
        ("1.0", ["1.05"], True), ("1.0", ["1"], True), ("1.0", ["1", "1.05"], False),
        ("1.00", ["1.05"], True), ("1.50", ["1.5"], False), ("1.5", ["1.5", "1"], True), ("1.", ["1"], True),
    ]:  # fmt: skip
        assert beginnings.has_new(text, before) is is_new, text
    listed = beginnings_of_items({"type": "object", "required": ["a"], "additionalProperties": False,
                                  "properties": {"a": {"enum": [1, 1.5, "1."]}}})  # fmt: skip
    assert listed.has_new('{"a":1.', ['{"a":1}']) and not listed.has_new('{"a":1.', ['{"a":1.5}'])
    assert listed.has_new('{"a":"1.', ['{"a":1}']) and not listed.has_new('{"a":"1.', ['{"a":"1."}'])


def test_objects_with_any_other_keys_are_endless() -> None:
    item = {"type": "object", "required": ["a"], "properties": {"a": {"enum": ["x", "xy"]}}}
    item["additionalProperties"] = True
    beginnings = beginnings_of_items(item)
    for text in ('{"a":"x', '{"a":"x","', '{"a":"x","b":1', '{"a":"x","b":1,"c'):
        assert n_values(beginnings, text) == MANY
    assert [n_values(beginnings, text) for text in ('{"a":"x"}', '{"a":"z', '{"b')] == [1, 0, 0]
    inner = beginnings_of_items({"type": "array", "items": item, "maxItems": 1})
    finished = '[{"a":"x","b":{"c":[1]}}'
    assert [n_values(inner, finished + end) for end in ("", "]", ",")] == [1, 1, 0]
    pattern = item | {"propertyNames": {"pattern": "^a"}}
    with pytest.raises(Unknown):
        n_values(beginnings_of_items({"type": "array", "items": pattern, "maxItems": 1}), '[{"a":"x","ab":1}')


def test_values_of_texts_that_are_nested_deeply_are_not_counted() -> None:
    """Each level read all the text within it: a mask within 700 arrays took 1.4 s."""
    beginnings = beginnings_of_items({"type": ["array", "integer"]})
    assert n_values(beginnings, "[" * 60) == MANY
    for text in ("[" * 700, "[" * 700 + "]" * 700):
        assert beginnings.has_new(text, []) is None


def test_items_of_several_schemas_are_compared_in_each_state() -> None:
    texts = [f'"{"a" * n}"' for n in range(1, 21)]
    schema = unique({"type": "string", "pattern": "^a{2,20}$"}, prefixItems=[{"enum": ["a", "b"]}])
    places = grammar_of_schema(schema).places
    assert places is not None
    beginnings = places.all[places.start].beginnings
    assert beginnings is not None and len(beginnings.values) == 2
    assert beginnings.has_new('"aa', texts[:-1]) is True  # "a" is none of these
    assert beginnings.has_new('"aa', texts) is False
    assert beginnings.has_new('"a', texts[1:]) is None  # only the first item can be "a"
