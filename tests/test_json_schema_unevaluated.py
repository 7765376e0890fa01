"""`unevaluatedProperties` and `unevaluatedItems`, for all small objects and arrays.

What: a slow reference collects annotations, as the specification describes it (JSON Schema 2020-12, core,
sections 10 and 11). Random schemas of the keywords that evaluate keys and items must accept the same values.
Limits: single bytes as vocabulary. The jsonschema package is no reference here: it collects nothing below
`dependentSchemas`.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid.json_schema import SchemaRefused, grammar_of_schema
from tests.test_json_schema_meaning import OPEN, compiled_bytes, written

KEYS, VALUES = ("a", "b", "xc"), (1, "s")
OBJECTS = [
    dict(zip(keys, values, strict=True))
    for n in range(4)
    for keys in itertools.combinations(KEYS, n)
    for values in itertools.product(VALUES, repeat=n)
]
ARRAYS = [list(values) for n in range(4) for values in itertools.product(VALUES, repeat=n)]


def evaluated(schema: Any, value: Any) -> set[Any] | None:
    """Return the keys, or the positions, of a value that a schema evaluates; None: the value is invalid."""
    if isinstance(schema, bool):
        return set() if schema else None
    found: set[Any] = set()
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, (dict, list)):
        pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
    names, prefix = schema.get("properties", {}), schema.get("prefixItems", [])
    kinds = {"integer": int, "string": str, "object": dict, "array": list}
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return None
    if isinstance(value, dict):
        if not set(schema.get("required", ())) <= set(value):
            return None
        for key, inner in pairs:
            asked = [names[key]] if key in names else []
            patterns = schema.get("patternProperties", {})
            asked += [one for name, one in patterns.items() if re.search(name, key)]
            if not asked and "additionalProperties" in schema:
                asked = [schema["additionalProperties"]]
            if any(evaluated(one, inner) is None for one in asked):
                return None
            found |= {key} if asked else set()
    if isinstance(value, list):
        for at, inner in pairs:
            asked = [prefix[at]] if at < len(prefix) else [schema["items"]] if "items" in schema else []
            if any(evaluated(one, inner) is None for one in asked):
                return None
            found |= {at} if asked else set()
        if "contains" in schema:
            matching = {at for at, inner in pairs if evaluated(schema["contains"], inner) is not None}
            if not matching:
                return None
            found |= matching
    for one in schema.get("allOf", ()):
        part = evaluated(one, value)
        if part is None:
            return None
        found |= part
    for keyword, allowed in (("anyOf", range(1, 99)), ("oneOf", range(1, 2))):
        if keyword in schema:
            parts = [part for one in schema[keyword] if (part := evaluated(one, value)) is not None]
            if len(parts) not in allowed:
                return None
            found = found.union(*parts)
    if "if" in schema:
        condition = evaluated(schema["if"], value)
        side = schema.get("else" if condition is None else "then", True)
        part = evaluated(side, value)
        if part is None:
            return None
        found |= part | (condition or set())
    for name, one in schema.get("dependentSchemas", {}).items() if isinstance(value, dict) else ():
        if name in value:
            part = evaluated(one, value)
            if part is None:
                return None
            found |= part
    for keyword, kind in (("unevaluatedProperties", dict), ("unevaluatedItems", list)):
        if keyword in schema and isinstance(value, kind):
            rest = [inner for at, inner in pairs if at not in found]
            if any(evaluated(schema[keyword], inner) is None for inner in rest):
                return None
            found = {at for at, _ in pairs}
    return found


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
def test_what_is_evaluated_is_what_the_specification_says(schema: Any, rest: Any) -> None:
    schema = {**schema, "unevaluatedProperties": rest, "unevaluatedItems": rest}
    instances = grammar_of_schema({"properties": {"v": schema}}, OPEN).instances  # it may allow no value
    accepted = [one for one in (*OBJECTS, *ARRAYS) if instances.text({"v": one}) is not None]
    assert accepted == [one for one in (*OBJECTS, *ARRAYS) if evaluated(schema, one) is not None]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_many_subschemas_evaluate_one_key_each(keyword: str) -> None:
    names = [f"k{i}" for i in range(24)]
    parts = [{"properties": {name: {"type": "integer"}}, "required": [name]} for name in names]
    schema = {keyword: parts, "unevaluatedProperties": {"type": "string"}}
    compiled = compiled_bytes(schema, **OPEN)
    whole = dict.fromkeys(names, 1)
    for value in ({"k3": 1}, {"k3": 1, "k5": 2}, {"k3": 1, "k5": "s"}, {"k3": "s"}, {"z": 1, "k3": 1}, whole,
                  {**whole, "z": "s"}, {**whole, "k7": "s"}):  # fmt: skip
        assert written(compiled, json.dumps(value)) == (evaluated(schema, value) is not None), value


def test_patterns_of_many_subschemas_are_refused_by_name() -> None:
    parts = [{"patternProperties": {f"^{i}": True}, "required": [f"{i}"]} for i in range(9)]
    with pytest.raises(SchemaRefused, match=r"'unevaluatedProperties' at the root depends on more than 8"):
        grammar_of_schema({"anyOf": parts, "unevaluatedProperties": False}, OPEN)
    few = grammar_of_schema({"anyOf": parts[:8], "unevaluatedProperties": False}, OPEN)
    assert few.instances.text({"3": 1, "5": 1}) and few.instances.text({"3": 1, "8": 1}) is None
