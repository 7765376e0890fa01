"""Laws of values that must not repeat, on random schemas in which this depends on other conditions.

What: an instance is accepted if and only if `jsonschema` finds it valid; walks along masks end in valid texts
and have no dead ends; masks allow what `accept_token` accepts.
Limits: `python -m tests.test_remembering_laws N` checks N more schemas.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.random_schemas import judged_grammar
from tests.test_remembering import ends, matcher_of, random_value, walk

ITEMS: list[Any] = [
    True, {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": ["string", "integer"]},
    {"type": "integer", "minimum": 0, "maximum": 11}, {"enum": ["a", "b", 1]}, {"maxLength": 1},
    {"enum": [*"abcdefghijkl", 1]}, {"type": "array", "uniqueItems": True},
    {"type": "array", "not": {"uniqueItems": True}}, {"type": "object", "minProperties": 1},
]  # fmt: skip
KEYS = ["a", "b", "c", "d"]
NAMES: list[Any] = [
    {"enum": KEYS}, {"pattern": "^[ab]$"}, {"pattern": "^[a-d]1?$"}, {"pattern": "^[^~]b?$"},
    {"maxLength": 1}, {"pattern": "^a|b"}, {"pattern": "^(a|c[^~]*d)$"},
]  # fmt: skip


Keywords = dict[str, tuple[float, Callable[[], Any]]]
"""For each keyword its probability, and how its value is drawn."""


def drawn(draw: random.Random, keywords: Keywords) -> dict[str, Any]:
    return {name: value() for name, (share, value) in keywords.items() if draw.random() < share}


def random_array(draw: random.Random, depth: int) -> Any:
    keywords: Keywords = {
        "uniqueItems": (0.5, lambda: True),
        "items": (0.6, lambda: draw.choice(ITEMS)),
        "minItems": (0.2, lambda: draw.randint(1, 2)),
        "maxItems": (0.25, lambda: draw.randint(1, 4)),
        "contains": (0.15, lambda: draw.choice(ITEMS)),
    }
    return nested(draw, drawn(draw, keywords), depth, random_array)


def random_object(draw: random.Random, depth: int) -> Any:
    keywords: Keywords = {
        "minProperties": (0.5, lambda: draw.randint(1, 3)),
        "maxProperties": (0.3, lambda: draw.randint(1, 3)),
        "propertyNames": (0.5, lambda: draw.choice(NAMES)),
        "additionalProperties": (
            0.4,
            lambda: draw.choice([random_array(draw, 0), {"type": "integer"}, True]),
        ),
        "patternProperties": (0.3, lambda: {draw.choice(["^a", "b$", "[^~]"]): draw.choice(ITEMS)}),
        "properties": (0.3, lambda: {draw.choice(KEYS): random_array(draw, 0)}),
    }
    return nested(draw, drawn(draw, keywords), depth, random_object)


def nested(draw: random.Random, schema: dict[str, Any], depth: int, inner: Any) -> Any:
    """Add subschemas of the same kind to a schema, in place."""
    if depth and draw.random() < 0.7:
        keyword = draw.choice(["not", "oneOf", "anyOf", "if"])
        if keyword == "not":
            schema["not"] = inner(draw, depth - 1)
        elif keyword == "if":
            schema |= {name: inner(draw, depth - 1) for name in ("if", "then", "else")}
        else:
            schema[keyword] = [inner(draw, depth - 1) for _ in range(draw.randint(2, 3))]
    return schema


def check(seed: int) -> bool:
    """Check all laws on a random schema. Returns whether the schema could be checked."""
    draw = random.Random(seed)
    kind, inner = draw.choice([("array", random_array), ("array", random_array), ("object", random_object)])
    schema = {"type": kind, "allOf": [inner(draw, 2)]}
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
    assert sum(check(1000 * block + i) for i in range(15)) >= 2


if __name__ == "__main__":
    print(sum(map(check, range(10**6, 10**6 + int(sys.argv[1])))), "schemas compiled, no difference")
