"""Schemas that an attacker might send to harm a server, and invalid schemas.

What: each function makes one kind of schema in the given size and returns (name, schema); `adversarial`
yields all kinds, `malformed` yields schemas that no converter should accept.
When: in the tests of this folder, and in those of the guard.
Limits: a schema is a dict, or JSON text if a dict would be too deep for `json.dumps`. A compiler only has to
end, with a mask or a clear error, in bounded time and memory. Size "large" is what the project promises to
survive; "small" has the same shape in a size that compiles in seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Literal

Case = tuple[str, Any]
Size = Literal["small", "large"]


def nested_one_of(depth: int) -> Case:
    """Each branch of a choice of two is another such choice, shared by reference: 2**depth in all."""
    defs: dict[str, Any] = {"level0": {"type": "integer"}}
    for level in range(1, depth + 1):
        below = {"$ref": f"#/$defs/level{level - 1}"}
        defs[f"level{level}"] = {
            "oneOf": [
                {"type": "object", "properties": {"a": below}, "required": ["a"]},
                {"type": "object", "properties": {"b": below}, "required": ["b"]},
            ]
        }
    return f"oneOf nested to depth {depth}", {"$defs": defs, "$ref": f"#/$defs/level{depth}"}


def nested_one_of_written_out(depth: int) -> Case:
    """Like `nested_one_of`, without references: the text doubles with each level."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"oneOf": [{"type": "array", "items": schema}, {"type": "array", "prefixItems": [schema]}]}
    return f"oneOf nested to depth {depth}, written out", schema


def overlapping_any_of(depth: int) -> Case:
    """Choices whose branches begin alike, so that a parser has to follow all of them."""
    schema: dict[str, Any] = {"type": "string"}
    for level in range(depth):
        schema = {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"x": schema, f"y{level}": {"type": kind}},
                    "required": ["x"],
                }
                for kind in ("string", "integer", "boolean")
            ]
        }
    return f"anyOf with equal beginnings, depth {depth}", schema


def bounded_lists(depth: int, low: int, high: int) -> Case:
    """Lists of lists of lists, each with bounds on its length."""
    schema: dict[str, Any] = {"type": "boolean"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema, "minItems": low, "maxItems": high}
    return f"lists in lists to depth {depth} of {low} to {high} items", schema


def many_properties(count: int, *, required: bool = False) -> Case:
    """One object with very many named properties, all optional or all required."""
    names = [f"property_{number}" for number in range(count)]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: {"type": ("string", "integer", "boolean")[len(name) % 3]} for name in names},
        "additionalProperties": False,
    }
    if required:
        schema["required"] = names
    return f"{count} {'required' if required else 'optional'} properties", schema


def counted_properties(count: int, low: int, high: int) -> Case:
    """Optional properties, with bounds on the number that must be present."""
    name, schema = many_properties(count)
    return f"{low} to {high} of {name}", {**schema, "minProperties": low, "maxProperties": high}


def large_enum(count: int, *, numbers: bool = False) -> Case:
    """An enum with very many values."""
    values: list[Any] = [number * 7919 if numbers else f"value {number * 7919:x}" for number in range(count)]
    return f"enum of {count} {'numbers' if numbers else 'strings'}", {"enum": values}


def nested_repeats(depth: int, times: int) -> Case:
    """A pattern with bounded repeats inside bounded repeats."""
    pattern = "[a-z]"
    for _ in range(depth):
        pattern = f"({pattern}{{1,{times}}}x?)"
    return f"pattern with {depth} repeats nested, each up to {times}", {
        "type": "string",
        "pattern": f"^{pattern}$",
    }


def ambiguous_pattern(depth: int) -> Case:
    """A pattern that matches each text in very many ways."""
    pattern = "a*"
    for _ in range(depth):
        pattern = f"({pattern}|a|{pattern})*"
    return f"ambiguous pattern, depth {depth}", {"type": "string", "pattern": f"^{pattern}$"}


def distant_letter(distance: int) -> Case:
    """A pattern whose deterministic automaton has 2**distance states."""
    return f"pattern with a letter {distance} before the end", {
        "type": "string",
        "pattern": f"^[ab]*a[ab]{{{distance}}}$",
    }


def long_string(low: int, high: int) -> Case:
    """A string with bounds on its length."""
    return f"string of {low} to {high} characters", {"type": "string", "minLength": low, "maxLength": high}


def long_strings(count: int, high: int) -> Case:
    """Strings with different bounds on their lengths, so that none is shared."""
    properties = {f"s{number}": {"type": "string", "maxLength": high + number} for number in range(count)}
    return f"{count} strings of up to {high} characters", {"type": "object", "properties": properties}


def pure_cycle(length: int) -> Case:
    """References that lead only to each other."""
    defs = {f"r{number}": {"$ref": f"#/$defs/r{(number + 1) % length}"} for number in range(length)}
    return f"cycle of {length} references", {"$defs": defs, "$ref": "#/$defs/r0"}


def cycle_of_choices(length: int) -> Case:
    """References that lead to each other through choices: left recursion."""
    defs = {
        f"r{number}": {"anyOf": [{"$ref": f"#/$defs/r{(number + 1) % length}"}, {"type": "integer"}]}
        for number in range(length)
    }
    return f"cycle of {length} choices", {"$defs": defs, "$ref": "#/$defs/r0"}


def woven_references(count: int) -> Case:
    """Each definition refers to all others."""
    defs = {
        f"r{number}": {
            "type": "object",
            "properties": {f"p{other}": {"$ref": f"#/$defs/r{other}"} for other in range(count)},
        }
        for number in range(count)
    }
    return f"{count} definitions that refer to each other", {"$defs": defs, "$ref": "#/$defs/r0"}


def deep_objects(depth: int) -> Case:
    """Objects in objects; JSON text, as it may be too deep for `json.dumps`."""
    text = (
        '{"type":"object","required":["a"],"properties":{"a":' * depth + '{"type":"integer"}' + "}}" * depth
    )
    return f"objects nested to depth {depth}", text


def deep_lists(depth: int) -> Case:
    """Lists in lists; JSON text."""
    return f"lists nested to depth {depth}", (
        '{"type":"array","items":' * depth + '{"type":"integer"}' + "}" * depth
    )


def deep_choices(depth: int) -> Case:
    """Choices of one in choices of one; JSON text."""
    return f"choices of one nested to depth {depth}", (
        '{"anyOf":[' * depth + '{"type":"integer"}' + "]}" * depth
    )


def deep_const(depth: int) -> Case:
    """A constant value that is nested; JSON text."""
    return f"constant nested to depth {depth}", '{"const":' + "[" * depth + "]" * depth + "}"


def deep_nonsense(depth: int) -> Case:
    """Only opening brackets: not JSON at all."""
    return f"{depth} opening brackets", "[" * depth


def wide_choice(count: int) -> Case:
    """A choice of very many objects."""
    branches = [
        {"type": "object", "properties": {f"kind{number}": {"const": number}}, "required": [f"kind{number}"]}
        for number in range(count)
    ]
    return f"anyOf of {count} objects", {"anyOf": branches}


def long_tuple(count: int) -> Case:
    """A list with a schema for each of very many positions."""
    items = [{"type": "integer", "minimum": number} for number in range(count)]
    return f"prefixItems of {count} schemas", {"type": "array", "prefixItems": items, "items": False}


def large_const(size: int) -> Case:
    """A constant text of many characters."""
    return f"constant of {size} characters", {"const": "abcdefghij" * (size // 10)}


def wide_range(digits: int) -> Case:
    """Integers and numbers within bounds of many digits."""
    low, high = -(10**digits) // 7, 10**digits // 3
    return f"numbers within bounds of {digits} digits", {
        "type": "object",
        "properties": {
            "i": {"type": "integer", "minimum": low, "maximum": high},
            "n": {"type": "number", "exclusiveMinimum": low / 1000, "maximum": high / 1000},
        },
        "required": ["i", "n"],
    }


def many_patterns(count: int) -> Case:
    """Very many properties by pattern, with equal beginnings."""
    patterns = {
        f"^prefix_{number}_[a-z]{{0,{number % 50 + 1}}}$": {"type": "integer"} for number in range(count)
    }
    return f"{count} patternProperties", {"type": "object", "patternProperties": patterns}


def long_description(size: int) -> Case:
    """A small schema with a long text that has no meaning for validation."""
    return f"description of {size} characters", {"type": "integer", "description": "x" * size}


KINDS: tuple[tuple[Callable[..., Case], dict[str, Any], dict[str, Any]], ...] = (
    (nested_one_of, {"depth": 4}, {"depth": 16}),
    (nested_one_of_written_out, {"depth": 4}, {"depth": 16}),
    (overlapping_any_of, {"depth": 3}, {"depth": 8}),
    (bounded_lists, {"depth": 2, "low": 2, "high": 5}, {"depth": 5, "low": 50, "high": 1000}),
    (many_properties, {"count": 100}, {"count": 10_000}),
    (many_properties, {"count": 100, "required": True}, {"count": 10_000, "required": True}),
    (counted_properties, {"count": 20, "low": 3, "high": 6}, {"count": 200, "low": 90, "high": 110}),
    (large_enum, {"count": 1000}, {"count": 100_000}),
    (large_enum, {"count": 1000, "numbers": True}, {"count": 100_000, "numbers": True}),
    (nested_repeats, {"depth": 2, "times": 5}, {"depth": 4, "times": 100}),
    (ambiguous_pattern, {"depth": 2}, {"depth": 10}),
    (distant_letter, {"distance": 4}, {"distance": 40}),
    (long_string, {"low": 10, "high": 1000}, {"low": 500_000, "high": 1_000_000}),
    (long_strings, {"count": 10, "high": 100}, {"count": 1000, "high": 100_000}),
    (pure_cycle, {"length": 2}, {"length": 1000}),
    (cycle_of_choices, {"length": 2}, {"length": 200}),
    (woven_references, {"count": 4}, {"count": 60}),
    (deep_objects, {"depth": 30}, {"depth": 10_000}),
    (deep_lists, {"depth": 30}, {"depth": 10_000}),
    (deep_choices, {"depth": 30}, {"depth": 10_000}),
    (deep_const, {"depth": 30}, {"depth": 10_000}),
    (deep_nonsense, {"depth": 100}, {"depth": 1_000_000}),
    (wide_choice, {"count": 50}, {"count": 10_000}),
    (long_tuple, {"count": 50}, {"count": 10_000}),
    (large_const, {"size": 1000}, {"size": 1_000_000}),
    (wide_range, {"digits": 6}, {"digits": 18}),
    (many_patterns, {"count": 10}, {"count": 1000}),
    (long_description, {"size": 1000}, {"size": 10_000_000}),
)
"""Every kind with its arguments for the size "small" and for "large"."""


def adversarial(size: Size) -> Iterator[Case]:
    """Yield a schema of every kind, made one at a time, because the large ones take megabytes."""
    for make, small, large in KINDS:
        yield make(**(small if size == "small" else large))


def malformed() -> Iterator[Case]:
    """Yield invalid schemas, one for each kind of error; some converters accept some of them."""
    yield "not JSON", '{"type": "object", '
    yield "empty text", ""
    yield "not UTF-8 when written", '{"const": "\ud800"}'
    yield "two values", '{"type": "integer"} {"type": "integer"}'
    yield "a number", "17"
    yield "a list", ["type", "object"]
    yield "a set", {"type": {"object"}}
    yield "no such type", {"type": "no such type"}
    yield "a type that is a number", {"type": 12}
    yield "properties that are a list", {"type": "object", "properties": ["a", "b"]}
    yield "a property that is a number", {"type": "object", "properties": {"a": 5}}
    yield "required that is a text", {"type": "object", "properties": {"a": {}}, "required": "a"}
    yield "items that are a text", {"type": "array", "items": "integer"}
    yield "negative length", {"type": "string", "minLength": -5}
    yield "a length that is a text", {"type": "string", "maxLength": "ten"}
    yield "bounds that no length meets", {"type": "string", "minLength": 9, "maxLength": 3}
    yield "bounds that no number meets", {"type": "integer", "minimum": 9, "maximum": 3}
    yield "empty enum", {"enum": []}
    yield "enum that is an object", {"enum": {"a": 1}}
    yield "empty anyOf", {"anyOf": []}
    yield "unknown reference", {"$ref": "#/$defs/nowhere"}
    yield "reference to another document", {"$ref": "https://example.com/schema.json#/a"}
    yield "a reference that is a number", {"$ref": 5}
    yield "a reference to itself", {"$ref": "#"}
    yield "pattern with an open group", {"type": "string", "pattern": "^(a$"}
    yield "pattern with an open set", {"type": "string", "pattern": "^[a-$"}
    yield "pattern with bounds in the wrong order", {"type": "string", "pattern": "^a{5,2}$"}
    yield "pattern with nothing to repeat", {"type": "string", "pattern": "^*a$"}
    yield "pattern that is a number", {"type": "string", "pattern": 5}
    yield "patternProperties with an open group", {"type": "object", "patternProperties": {"(": {}}}


def as_text(schema: Any) -> str:
    """A schema as JSON text.

    Raises:
        TypeError: the schema is not JSON.
    """
    return schema if isinstance(schema, str) else json.dumps(schema)
