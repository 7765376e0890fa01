"""`unevaluatedProperties` and `unevaluatedItems`, for all small objects and arrays.

What: random schemas of the keywords that evaluate keys and items must accept the values that the jsonschema
package accepts.
Limits: single bytes as vocabulary. Old versions of jsonschema collect nothing below `dependentSchemas`.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid.json_schema import SchemaRefused, grammar_of_schema
from tests.random_schemas import judged_grammar
from tests.test_json_schema_meaning import OPEN, compiled_bytes, written

KEYS, VALUES = ("a", "b", "xc"), (1, "s")
OBJECTS = [
    dict(zip(keys, values, strict=True))
    for n in range(4)
    for keys in itertools.combinations(KEYS, n)
    for values in itertools.product(VALUES, repeat=n)
]
ARRAYS = [list(values) for n in range(4) for values in itertools.product(VALUES, repeat=n)]


SCALARS = st.sampled_from([True, False, {"type": "integer"}, {"type": "string"}])
NAMES, PATTERNS = st.sampled_from(KEYS), st.sampled_from(["a", "^x", "b$"])
LEAVES = st.one_of(
    st.builds(lambda names: {"properties": names}, st.dictionaries(NAMES, SCALARS, min_size=1, max_size=2)),
    st.builds(lambda name, one: {"patternProperties": {name: one}}, PATTERNS, SCALARS),
    st.builds(lambda one: {"additionalProperties": one}, SCALARS),
    st.builds(lambda names: {"required": names}, st.lists(NAMES, min_size=1, max_size=2, unique=True)),
    st.builds(lambda parts: {"prefixItems": parts}, st.lists(SCALARS, min_size=1, max_size=2)),
    st.builds(lambda one: {"contains": one}, SCALARS),
    st.builds(lambda one: {"items": one}, SCALARS),
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        *(st.builds(lambda parts, name=name: {name: parts}, several) for name in ("allOf", "anyOf", "oneOf")),
        st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, inner, inner, inner),
        st.builds(lambda name, one: {"dependentSchemas": {name: one}}, NAMES, inner),
        st.builds(lambda one, rest: {**one, "unevaluatedProperties": rest}, inner, SCALARS),
        st.builds(lambda one, rest: {**one, "unevaluatedItems": rest}, inner, SCALARS),
        st.builds(lambda one, other: {**one, **other}, inner, inner),
    )


SCHEMAS = st.recursive(LEAVES, nested, max_leaves=7)


@given(SCHEMAS, SCALARS)
@settings(max_examples=150, deadline=None)
def test_what_is_evaluated_is_what_jsonschema_says(schema: Any, rest: Any) -> None:
    schema = {**schema, "unevaluatedProperties": rest, "unevaluatedItems": rest}
    inside = {"properties": {"v": schema}}  # the schema itself may allow no value
    assert judged_grammar(inside, [{"v": one} for one in (*OBJECTS, *ARRAYS)]) is not None


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_many_subschemas_evaluate_one_key_each(keyword: str) -> None:
    names = [f"k{i}" for i in range(24)]
    parts = [{"properties": {name: {"type": "integer"}}, "required": [name]} for name in names]
    schema = {keyword: parts, "unevaluatedProperties": {"type": "string"}}
    compiled, judge = compiled_bytes(schema, **OPEN), jsonschema.Draft202012Validator(schema)
    whole = dict.fromkeys(names, 1)
    for value in ({"k3": 1}, {"k3": 1, "k5": 2}, {"k3": 1, "k5": "s"}, {"k3": "s"}, {"z": 1, "k3": 1}, whole,
                  {**whole, "z": "s"}, {**whole, "k7": "s"}):  # fmt: skip
        assert written(compiled, json.dumps(value)) == judge.is_valid(value), value


def test_patterns_of_many_subschemas_are_refused_by_name() -> None:
    parts = [{"patternProperties": {f"^{i}": True}, "required": [f"{i}"]} for i in range(9)]
    with pytest.raises(SchemaRefused, match=r"'unevaluatedProperties' at the root depends on more than 8"):
        grammar_of_schema({"anyOf": parts, "unevaluatedProperties": False}, OPEN)
    few = grammar_of_schema({"anyOf": parts[:8], "unevaluatedProperties": False}, OPEN)
    assert few.instances.text({"3": 1, "5": 1}) and few.instances.text({"3": 1, "8": 1}) is None
