"""`unevaluatedProperties` and `unevaluatedItems`, for all small objects and arrays.

What: random schemas of the keywords that evaluate keys and items must accept the values that the jsonschema
package accepts.
Limits: single bytes as vocabulary. Old versions of jsonschema collect nothing below `dependentSchemas`.
"""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid.json_schema import SchemaRefused, grammar_of_schema
from tests.random_schemas import KEYS, judged_grammar, random_schema
from tests.test_json_schema_meaning import OPEN, compiled_bytes, written

VALUES = (1, "s")
OBJECTS = [
    dict(zip(keys, values, strict=True))
    for n in range(4)
    for keys in itertools.combinations(KEYS[:3], n)
    for values in itertools.product(VALUES, repeat=n)
]
ARRAYS = [list(values) for n in range(4) for values in itertools.product(VALUES, repeat=n)]


KEYWORDS = (
    "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "properties", "patternProperties", "required",
    "additionalProperties", "prefixItems", "items", "contains", "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip


@given(st.integers(0, 1 << 32), st.sampled_from([True, False, {"type": "integer"}, {"type": "string"}]))
@settings(max_examples=150, deadline=None)
def test_what_is_evaluated_is_what_jsonschema_says(seed: int, rest: Any) -> None:
    schema = random_schema(random.Random(seed), 4, KEYWORDS)
    schema |= {"unevaluatedProperties": rest, "unevaluatedItems": rest}
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
