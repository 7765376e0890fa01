"""Alternatives distinguished by listed values: splitting many at once gives the same language as one by one.

What: objects of random alternatives whose keys list their values, some with overlapping and some with open
lists; each instance has a text if and only if `jsonschema` finds it valid. Also, as many alternatives as
servers send.
Limits: lists of scalars; other conditions are in `tests.test_json_schema_meaning` and the laws.
"""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import jsonschema
import pytest

from bench.tools import tool, tool_choice
from hybrid.json_schema import cases
from tests.test_json_schema_meaning import compiled_bytes, written

VALUES: list[Any] = ["a", "b", "ab", 1, 1.5, 10, True, False, None, "1", "true", 0, "", "c"]


def drawn(rng: random.Random) -> dict[str, Any]:
    """A schema of 8 to 12 alternatives."""

    def value() -> dict[str, Any]:
        kind = rng.random()
        if kind < 0.45:
            return {"const": rng.choice(VALUES)}
        if kind < 0.85:
            return {"enum": rng.sample(VALUES, rng.randint(1, 4))}
        return rng.choice(
            [{"type": "string"}, {"type": "integer"}, {"not": {"const": "a"}}, {"maxLength": 1}]
        )

    alternatives = [
        {
            "type": "object", "properties": {"kind": value(), "of": value()}, "required": ["kind"],
            "additionalProperties": False,
        }
        for _ in range(rng.randint(8, 12))
    ]  # fmt: skip
    return {rng.choice(["anyOf", "anyOf", "oneOf"]): alternatives}


@pytest.mark.parametrize("seed", range(25))
def test_texts_are_those_of_valid_instances(seed: int) -> None:
    rng = random.Random(seed)
    schema = drawn(rng)
    valid = jsonschema.Draft202012Validator(schema)
    grammar = compiled_bytes(schema)
    instances = [{"kind": one} for one in VALUES] + [
        {"kind": one, "of": other} for one, other in rng.sample(list(product(VALUES, VALUES)), 80)
    ]
    for instance in instances:
        assert written(grammar, json.dumps(instance)) == valid.is_valid(instance), (schema, instance)


def test_the_split_at_once_says_what_the_one_by_one_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects have the same texts whether the threshold `MANY_LISTED` is out of reach or exceeded."""
    for seed in range(6):
        rng = random.Random(1000 + seed)
        schema = drawn(rng)
        texts = [json.dumps({"kind": one, "of": other}) for one, other in product(VALUES, VALUES)]
        taken = []
        for most in (8, 1 << 30):
            monkeypatch.setattr(cases, "MANY_LISTED", most)
            grammar = compiled_bytes(schema)
            taken.append([written(grammar, text) for text in texts])
        assert taken[0] == taken[1]


@pytest.mark.parametrize("count", [40, 300])
def test_as_many_tools_as_servers_send(count: int) -> None:
    """More tools than `Bounds.minterms` compile: lists of values are bounded only by the size of the
    schema."""
    grammar = compiled_bytes(tool_choice(count).schema)
    for number in (0, count // 2, count - 1):
        name, _, arguments = tool(number)
        other, _, _ = tool((number + 1) % count)
        text = json.dumps([{"name": name, "parameters": arguments}])
        assert written(grammar, text)
        wrong = json.dumps([{"name": other, "parameters": {**arguments, "unknown": 1}}])
        assert not written(grammar, wrong)
