"""Schemas that an attacker might send to harm a server, and invalid schemas.

What: each function makes one kind of schema in the given size and returns (name, schema); `adversarial`
yields all kinds, `MALFORMED` has schemas that no converter should accept.
When: in the tests of this folder, and in those of the guard.
Limits: a schema is a dict, or JSON text if a dict would be too deep for `json.dumps`. A compiler only has to
end, with a mask or a clear error, in bounded time and memory. Size "large" is what the project promises to
survive; "small" has the same shape in a size that compiles in seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Literal

Case = tuple[str, Any]
Size = Literal["small", "large"]

KINDS: list[tuple[Callable[..., Case], tuple[int, ...], tuple[int, ...]]] = []
"""Every kind with its arguments for the size "small" and for "large"."""


def kind(small: tuple[int, ...], large: tuple[int, ...]) -> Callable[..., Callable[..., Case]]:
    """Make a kind of what returns a schema: it gets an entry in `KINDS`, and returns the name as well."""

    def enter(make: Callable[..., Any]) -> Callable[..., Case]:
        @wraps(make)
        def named(*arguments: int) -> Case:
            return " ".join([make.__name__.replace("_", " "), *map(str, arguments)]), make(*arguments)

        KINDS.append((named, small, large))
        return named

    return enter


@kind((4,), (16,))
def nested_one_of(depth: int) -> Any:
    """Each branch of a choice of two is another such choice, shared by reference: 2**depth in all."""
    defs: dict[str, Any] = {"level0": {"type": "integer"}}
    for level in range(1, depth + 1):
        below = {"$ref": f"#/$defs/level{level - 1}"}
        branches = [{"type": "object", "properties": {a: below}, "required": [a]} for a in "ab"]
        defs[f"level{level}"] = {"oneOf": branches}
    return {"$defs": defs, "$ref": f"#/$defs/level{depth}"}


@kind((4,), (16,))
def nested_one_of_written_out(depth: int) -> Any:
    """Like `nested_one_of`, without references: the text doubles with each level."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"oneOf": [{"type": "array", "items": schema}, {"type": "array", "prefixItems": [schema]}]}
    return schema


@kind((3,), (8,))
def overlapping_any_of(depth: int) -> Any:
    """Choices whose branches begin alike, so that a parser has to follow all of them."""
    schema: dict[str, Any] = {"type": "string"}
    for level in range(depth):
        branches = [
            {"type": "object", "properties": {"x": schema, f"y{level}": {"type": name}}, "required": ["x"]}
            for name in ("string", "integer", "boolean")
        ]
        schema = {"anyOf": branches}
    return schema


@kind((2, 2, 5), (5, 50, 1000))
def bounded_lists(depth: int, low: int, high: int) -> Any:
    """Lists of lists of lists, each with bounds on its length."""
    schema: dict[str, Any] = {"type": "boolean"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema, "minItems": low, "maxItems": high}
    return schema


@kind((100,), (10_000,))
def optional_properties(count: int) -> Any:
    """One object with very many named properties."""
    names = [f"property_{number}" for number in range(count)]
    properties = {name: {"type": ("string", "integer", "boolean")[len(name) % 3]} for name in names}
    return {"type": "object", "properties": properties, "additionalProperties": False}


@kind((100,), (10_000,))
def required_properties(count: int) -> Any:
    """The same, all required."""
    _, schema = optional_properties(count)
    return {**schema, "required": list(schema["properties"])}


@kind((20, 3, 6), (200, 90, 110))
def counted_properties(count: int, low: int, high: int) -> Any:
    """Optional properties, with bounds on the number that must be present."""
    return {**optional_properties(count)[1], "minProperties": low, "maxProperties": high}


@kind((1000,), (100_000,))
def enum_of_strings(count: int) -> Any:
    """An enum with very many values."""
    return {"enum": [f"value {number * 7919:x}" for number in range(count)]}


@kind((1000,), (100_000,))
def enum_of_numbers(count: int) -> Any:
    """An enum with very many values."""
    return {"enum": [number * 7919 for number in range(count)]}


@kind((2, 5), (4, 100))
def nested_repeats(depth: int, times: int) -> Any:
    """A pattern with bounded repeats inside bounded repeats."""
    pattern = "[a-z]"
    for _ in range(depth):
        pattern = f"({pattern}{{1,{times}}}x?)"
    return {"type": "string", "pattern": f"^{pattern}$"}


@kind((2,), (10,))
def ambiguous_pattern(depth: int) -> Any:
    """A pattern that matches each text in very many ways."""
    pattern = "a*"
    for _ in range(depth):
        pattern = f"({pattern}|a|{pattern})*"
    return {"type": "string", "pattern": f"^{pattern}$"}


@kind((4,), (40,))
def distant_letter(distance: int) -> Any:
    """A pattern whose deterministic automaton has 2**distance states."""
    return {"type": "string", "pattern": f"^[ab]*a[ab]{{{distance}}}$"}


@kind((10, 1000), (500_000, 1_000_000))
def long_string(low: int, high: int) -> Any:
    """A string with bounds on its length."""
    return {"type": "string", "minLength": low, "maxLength": high}


@kind((10, 100), (1000, 100_000))
def long_strings(count: int, high: int) -> Any:
    """Strings with different bounds on their lengths, so that none is shared."""
    properties = {f"s{number}": {"type": "string", "maxLength": high + number} for number in range(count)}
    return {"type": "object", "properties": properties}


@kind((2,), (1000,))
def pure_cycle(length: int) -> Any:
    """References that lead only to each other."""
    defs = {f"r{number}": {"$ref": f"#/$defs/r{(number + 1) % length}"} for number in range(length)}
    return {"$defs": defs, "$ref": "#/$defs/r0"}


@kind((2,), (200,))
def cycle_of_choices(length: int) -> Any:
    """References that lead to each other through choices: left recursion."""
    cycle = pure_cycle(length)[1]["$defs"]
    defs = {name: {"anyOf": [reference, {"type": "integer"}]} for name, reference in cycle.items()}
    return {"$defs": defs, "$ref": "#/$defs/r0"}


@kind((4,), (60,))
def woven_references(count: int) -> Any:
    """Each definition refers to all others."""
    properties = {f"p{other}": {"$ref": f"#/$defs/r{other}"} for other in range(count)}
    defs = {f"r{number}": {"type": "object", "properties": properties} for number in range(count)}
    return {"$defs": defs, "$ref": "#/$defs/r0"}


@kind((30,), (10_000,))
def deep_objects(depth: int) -> Any:
    """Objects in objects; JSON text, as it may be too deep for `json.dumps`."""
    begin = '{"type":"object","required":["a"],"properties":{"a":'
    return begin * depth + '{"type":"integer"}' + "}}" * depth


@kind((30,), (10_000,))
def deep_lists(depth: int) -> Any:
    """Lists in lists; JSON text."""
    return '{"type":"array","items":' * depth + '{"type":"integer"}' + "}" * depth


@kind((30,), (10_000,))
def deep_choices(depth: int) -> Any:
    """Choices of one in choices of one; JSON text."""
    return '{"anyOf":[' * depth + '{"type":"integer"}' + "]}" * depth


@kind((30,), (10_000,))
def deep_const(depth: int) -> Any:
    """A constant value that is nested; JSON text."""
    return '{"const":' + "[" * depth + "]" * depth + "}"


@kind((100,), (1_000_000,))
def opening_brackets(depth: int) -> Any:
    """Not JSON at all."""
    return "[" * depth


@kind((50,), (10_000,))
def wide_choice(count: int) -> Any:
    """A choice of very many objects."""
    kinds = {f"kind{number}": {"const": number} for number in range(count)}
    return {"anyOf": [{"type": "object", "properties": {a: of}, "required": [a]} for a, of in kinds.items()]}


@kind((50,), (10_000,))
def long_tuple(count: int) -> Any:
    """A list with a schema for each of very many positions."""
    items = [{"type": "integer", "minimum": number} for number in range(count)]
    return {"type": "array", "prefixItems": items, "items": False}


@kind((1000,), (1_000_000,))
def large_const(size: int) -> Any:
    """A constant text of many characters."""
    return {"const": "abcdefghij" * (size // 10)}


@kind((6,), (18,))
def wide_range(digits: int) -> Any:
    """Integers and numbers within bounds of many digits."""
    low, high = -(10**digits) // 7, 10**digits // 3
    integer = {"type": "integer", "minimum": low, "maximum": high}
    number = {"type": "number", "exclusiveMinimum": low / 1000, "maximum": high / 1000}
    return {"type": "object", "properties": {"i": integer, "n": number}, "required": ["i", "n"]}


@kind((10,), (1000,))
def many_patterns(count: int) -> Any:
    """Very many properties by pattern, with equal beginnings."""
    patterns = [f"^prefix_{number}_[a-z]{{0,{number % 50 + 1}}}$" for number in range(count)]
    return {"type": "object", "patternProperties": {one: {"type": "integer"} for one in patterns}}


@kind((1000,), (10_000_000,))
def long_description(size: int) -> Any:
    """A small schema with a long text that has no meaning for validation."""
    return {"type": "integer", "description": "x" * size}


def adversarial(size: Size) -> Iterator[Case]:
    """Yield a schema of every kind, made one at a time, because the large ones take megabytes."""
    for make, small, large in KINDS:
        yield make(*(small if size == "small" else large))


MALFORMED: tuple[Any, ...] = (
    '{"type": "object", ', "", '{"const": "\ud800"}', '{"type": "integer"} {"type": "integer"}', "17",
    ["type", "object"], {"type": {"object"}}, {"type": "no such type"}, {"type": 12},
    {"type": "object", "properties": ["a", "b"]}, {"type": "object", "properties": {"a": 5}},
    {"type": "object", "properties": {"a": {}}, "required": "a"}, {"type": "array", "items": "integer"},
    {"type": "string", "minLength": -5}, {"type": "string", "maxLength": "ten"},
    {"type": "string", "minLength": 9, "maxLength": 3}, {"type": "integer", "minimum": 9, "maximum": 3},
    {"enum": []}, {"enum": {"a": 1}}, {"anyOf": []}, {"$ref": "#/$defs/nowhere"},
    {"$ref": "https://example.com/schema.json#/a"}, {"$ref": 5}, {"$ref": "#"},
    {"type": "string", "pattern": "^(a$"}, {"type": "string", "pattern": "^[a-$"},
    {"type": "string", "pattern": "^a{5,2}$"}, {"type": "string", "pattern": "^*a$"},
    {"type": "string", "pattern": 5}, {"type": "object", "patternProperties": {"(": {}}},
)  # fmt: skip
"""Invalid schemas, one for each kind of error; some converters accept some of them."""


def as_text(schema: Any) -> str:
    """A schema as JSON text.

    Raises:
        TypeError: the schema is not JSON.
    """
    return schema if isinstance(schema, str) else json.dumps(schema)
