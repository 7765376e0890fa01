"""Items that must be unique and have few values, or many keys: how many may come.

The numbers of values in the table were counted by hand. Every walk ends, with as many items as there are
values.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from hybrid.json_schema import SchemaRefused, grammar_of_schema
from tests.test_remembering import STOP, TOKENS, allowed, is_valid, matcher_of

FEW_VALUES: dict[str, tuple[dict[str, Any], int]] = {
    "listed keys": ({"propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"const": 1}}, 4),
    "one key": ({"patternProperties": {"^a$": {"type": "boolean"}}, "additionalProperties": False}, 3),
    "at most two keys": (
        {"propertyNames": {"pattern": "^[a-c]$"}, "additionalProperties": {"const": 1}, "maxProperties": 2},
        7,
    ),
    "a key of many": (
        {
            "propertyNames": {"pattern": "^[a-z]\\d$"}, "additionalProperties": {"const": 1},
            "maxProperties": 1,
        },
        261,
    ),
    "keys below": (
        {"properties": {"b": {"$ref": "#/$defs/inner"}}, "required": ["b"], "additionalProperties": False}, 4,
    ),
    "keys in items": ({"type": "array", "items": {"$ref": "#/$defs/inner"}, "maxItems": 1}, 5),
    "orders": ({"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True}, 16),
    "orders of objects": ({"type": "array", "items": {"enum": [[1], {"a": 1}]}, "uniqueItems": True,
                           "minItems": 2}, 2),
    "several kinds": ({"type": "array", "prefixItems": [{"const": "a"}, {"enum": [1, 2]}], "items": False,
                       "uniqueItems": True}, 4),
    "none of several kinds": (
        {
            "type": ["array", "string"],
            "anyOf": [
                {"type": "array", "uniqueItems": True, "items": {"type": "string"}, "contains": {"const": 1}},
                {"enum": ["a", "b"]},
            ],
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
    kind = {"type": "object"} if "type" not in items else {}
    inner = {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"const": 1}}
    schema = {"$defs": {"inner": inner}, "type": "array", "uniqueItems": True, "items": kind | items}
    with pytest.raises(SchemaRefused, match="no valid instance"):
        grammar_of_schema({**schema, "minItems": n_values + 1})
    if n_values > 20 or name == "a long array":
        grammar_of_schema({**schema, "minItems": n_values})  # it is not refused
        return
    options = {"any_whitespace": False, "separators": (",", ":")}
    matcher = matcher_of({**schema, "minItems": n_values}, **options)
    draw = random.Random(name)
    for _ in range(5):
        matcher.reset()
        text = b""
        while not matcher.is_terminated():
            ids = allowed(matcher)
            assert ids, text
            choice = draw.choice(ids)
            assert matcher.accept_token(choice)
            text += TOKENS[choice] if choice != STOP else b""
        assert len(json.loads(text)) == n_values and is_valid(schema, text)


def test_items_may_have_many_keys() -> None:
    keys = {f"k{i}": {"type": "integer"} for i in range(1200)}
    grammar_of_schema({"type": "array", "uniqueItems": True, "items": {"properties": keys}})


@pytest.mark.parametrize(
    ("items", "begun"),
    [
        ({"type": "array", "if": {"uniqueItems": True}, "then": {"maxItems": 0}}, "[[1,1]"),
        ({"anyOf": [{"const": 1}, {"type": "array", "not": {"uniqueItems": True}}]}, "[1"),
        ({"type": "array", "not": {"uniqueItems": True, "minItems": 1}}, "[[]"),
    ],
)
def test_arrays_that_must_repeat_an_item_are_many(items: dict[str, Any], begun: str) -> None:
    schema = {"type": "array", "uniqueItems": True, "items": items}
    matcher = matcher_of(schema, any_whitespace=False, separators=(",", ":"))
    assert matcher.accept_string(begun)
    assert {b",", b"]"} <= {TOKENS[one] for one in allowed(matcher)}


def test_arrays_that_cannot_be_counted_do_not_matter_beside_many_strings() -> None:
    few = {"type": "array", "prefixItems": [{"enum": ["a", "b"]}, {"enum": ["a", "b", "c"]}]}
    schema = {"type": "array", "items": {"anyOf": [{"type": "string"}, {**few, "uniqueItems": True}]}}
    grammar_of_schema({**schema, "uniqueItems": True})
