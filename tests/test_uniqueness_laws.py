"""Laws of values that must not repeat, on random schemas in which this depends on other conditions.

What: an instance is accepted if and only if `jsonschema` finds it valid; walks along masks end in valid texts
and have no dead ends; masks allow what `accept_token` accepts.
Limits: `python -m tests.test_uniqueness_laws N` checks N more schemas.
"""

from __future__ import annotations

import json
import random
import sys

import pytest

from tests.random_schemas import judged_grammar, random_schema
from tests.test_uniqueness import ends, matcher_of, random_value, walk

CONDITIONS = ("not", "oneOf", "anyOf", "if")
ARRAYS = (*["uniqueItems"] * 3, "items", "items", "minItems", "maxItems", "contains", *CONDITIONS)
OBJECTS = (
    *["minProperties"] * 2, "maxProperties", "propertyNames", "additionalProperties", "patternProperties",
    "properties", *CONDITIONS,
)  # fmt: skip


def check(seed: int) -> bool:
    """Check all laws on a random schema. Returns whether the schema could be checked."""
    draw = random.Random(seed)
    kind, keywords = draw.choice([("array", ARRAYS), ("array", ARRAYS), ("object", OBJECTS)])
    schema = {"type": kind, "allOf": [random_schema(draw, 3, keywords)]}
    values = [random_value(draw, 3) for _ in range(60)]
    values = [value for value in values if isinstance(value, list if kind == "array" else dict)]
    found = judged_grammar(schema, values)
    if found is None or found[0].places is None:
        return False
    matcher = matcher_of(schema)
    for value, valid in zip(values, found[1], strict=True):
        written = (found[0].instances.text(value) or json.dumps(value)).encode()
        assert ends(matcher, written) == valid, (seed, schema, written)
    for _ in range(2):
        walk(matcher, schema, draw, 120)
    return True


@pytest.mark.parametrize("block", range(4))
def test_random_conditions_keep_the_laws(block: int) -> None:
    assert sum(check(1000 * block + i) for i in range(25)) >= 3


if __name__ == "__main__":
    print(sum(map(check, range(10**6, 10**6 + int(sys.argv[1])))), "schemas compiled, no difference")
