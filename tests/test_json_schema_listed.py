"""Alternatives distinguished by listed values: splitting many at once gives the same language as one by one.

What: objects of random alternatives whose keys list their values, some with overlapping and some with open
lists, objects with many conditions on a listed value, and objects with many listed conditions on a value of
some types, arrays whose items are listed arrays and objects; each instance has a text if and only if
`jsonschema` finds it valid. Also, as many alternatives as servers send, and as many conditions.
Limits: other conditions are in `tests.test_json_schema_meaning` and the laws.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import product
from typing import Any

import jsonschema
import pytest

from bench.tools import tool, tool_choice
from equivalence.deadline import Deadline
from hybrid.json_schema import grammar_of_schema
from tests.random_schemas import judged_grammar
from tests.test_json_schema_meaning import compiled_bytes, written

VALUES: list[Any] = ["a", "b", "ab", 1, 1.5, 10, True, False, None, "1", "true", 0, "", "c"]

OTHERS: list[dict[str, Any]] = [
    {"type": "string"}, {"type": "integer"}, {"not": {"const": "a"}}, {"maxLength": 1},
]  # fmt: skip


CONDITIONS = [{"pattern": one} for one in ("a", "b", "c", "^a$", "^.$", "1", "^$", "u")]


def value(rng: random.Random) -> dict[str, Any]:
    some = rng.sample(VALUES, rng.randint(1, 4))
    return rng.choices([{"const": some[0]}, {"enum": some}, rng.choice(OTHERS)], (45, 40, 15))[0]


def alternatives(rng: random.Random) -> dict[str, Any]:
    """A schema of 8 to 12 alternatives."""
    found = [
        {
            "type": "object", "properties": {"kind": value(rng), "of": value(rng)}, "required": ["kind"],
            "additionalProperties": False,
        }
        for _ in range(rng.randint(8, 12))
    ]  # fmt: skip
    return {rng.choice(["anyOf", "anyOf", "oneOf"]): found}


def conditions(rng: random.Random) -> dict[str, Any]:
    """A schema whose first key has a listed value, on which eight conditions depend."""
    listed = [one for one in VALUES if not isinstance(one, (int, float)) or isinstance(one, bool)]
    return {
        "type": "object", "properties": {"kind": {"enum": listed}, "of": True}, "required": ["kind"],
        "additionalProperties": False,
        "allOf": [
            {"if": {"properties": {"kind": one}}, "then": {"properties": {"of": value(rng)}}}
            for one in CONDITIONS
        ],
    }  # fmt: skip


def listed_conditions(rng: random.Random) -> dict[str, Any]:
    """A schema whose first key is restricted, but not to a list, and on which 8 to 14 conditions depend."""
    types = rng.sample(["string", "number", "boolean", "null"], 3)
    kind = rng.choice([{"type": types}, {"type": types, "not": {"const": "ab"}}, {"maxLength": 1}])
    return {
        "type": "object", "properties": {"kind": kind, "of": True}, "required": ["kind"],
        "additionalProperties": False,
        "allOf": [
            {"if": {"properties": {"kind": value(rng)}}, "then": {"properties": {"of": value(rng)}}}
            for _ in range(rng.randint(8, 14))
        ],
    }  # fmt: skip


@pytest.mark.parametrize("most", [8, 1 << 30], ids=["many at once", "one by one"])
@pytest.mark.parametrize("drawn", [alternatives, conditions, listed_conditions])
@pytest.mark.parametrize("seed", range(9))
def test_texts_are_those_of_valid_instances(
    seed: int, drawn: Callable[[random.Random], Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid.json_schema.value_cases.MANY_LISTED", most)
    rng = random.Random(seed)
    schema = drawn(rng)
    valid = jsonschema.Draft202012Validator(schema)
    grammar = compiled_bytes(schema)
    pairs = rng.sample(list(product(VALUES, VALUES)), 80)
    for instance in [{"kind": one} for one in VALUES] + [{"kind": one, "of": other} for one, other in pairs]:
        assert written(grammar, json.dumps(instance)) == valid.is_valid(instance), (schema, instance)


class Counted(Deadline):  # type: ignore[misc]
    n_checks = 0

    def check(self, *given: Any) -> None:
        self.n_checks += 1
        super().check(*given)


STRUCTURES: list[Any] = [
    [], {}, [1], [1.0], [True], ["1"], [[1]], [{"a": 1, "b": 2}], [{"b": 2, "a": 1.0}], {"a": [1], "b": 2},
    {"a": []}, {"a": None}, [None], 1, "1",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_arrays_and_objects_may_be_listed(seed: int) -> None:
    rng = random.Random(seed)
    pairs = list(map(list, product(STRUCTURES, STRUCTURES)))
    lists = [{"enum": rng.sample(STRUCTURES[:-2], rng.randint(1, 4))} for _ in range(11)]
    lists.append({"enum": rng.sample(STRUCTURES, 8)})
    branches = [{"prefixItems": [one, rng.choice(lists)], "items": False, "minItems": 2} for one in lists]
    for schema in ({"enum": rng.sample(pairs, 40)}, {"anyOf": branches}, {"oneOf": branches}):
        assert judged_grammar(schema, pairs) is not None


def test_as_many_arrays_as_an_enumeration_may_have() -> None:
    """Split one by one, 200 arrays whose items are arrays took 22 s."""
    deadline = Counted(60)
    grammar_of_schema({"enum": [[[i], [i + 1]] for i in range(200)]}, deadline=deadline)
    assert deadline.n_checks < 4_000


@pytest.mark.parametrize("count", [40, 300])
def test_as_many_tools_as_servers_send(count: int) -> None:
    """More tools than `Bounds.minterms` compile: lists of values are bounded only by the size of the
    schema."""
    grammar = compiled_bytes(tool_choice(count).schema)
    for number in (0, count // 2, count - 1):
        name, _, arguments = tool(number)
        other, _, _ = tool((number + 1) % count)
        assert written(grammar, json.dumps([{"name": name, "parameters": arguments}]))
        assert not written(grammar, json.dumps([{"name": other, "parameters": {**arguments, "unknown": 1}}]))


def test_as_many_conditions_as_servers_send() -> None:
    """320 conditions on the name of a resource are split at once. One by one, they took 8 s and 8,243 checks
    of the deadline."""
    names = [f"resource{number}" for number in range(320)]
    schema = {
        "type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"],
        "allOf": [
            {"if": {"properties": {"kind": {"const": name}}},
             "then": {"properties": {"of": {"properties": {name: {"type": "integer"}}}}}}
            for name in names
        ],
    }  # fmt: skip
    deadline = Counted(60)
    grammar_of_schema(schema, deadline=deadline)
    assert deadline.n_checks < 4_000
    grammar = compiled_bytes(schema)
    assert written(grammar, '{"kind":"resource7","of":{"resource7":1}}')
    assert not written(grammar, '{"kind":"resource7","of":{"resource7":"x"}}')
    assert written(grammar, '{"kind":"resource","of":{"resource7":"x"}}')
