"""Random JSON schemas over all keywords, and instances that nearly or fully satisfy them.

What: `random_schema` and `random_instance`; `judged_grammar` compares our verdicts with those of
`jsonschema`.
When: in tests that compare with JSON Schema's own meaning.
Limits: few keys, short strings and small numbers, so that instances often satisfy schemas.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import jsonschema

from hybrid.json_schema import SchemaRefused, grammar_of_schema

KEYS = ("a", "b", "ab", "c")
_SIMPLE: tuple[Any, ...] = (
    True, False, {}, {"type": "integer"}, {"type": "string"}, {"const": 1}, {"enum": ["a", 1, None]},
    {"type": "boolean"},
)  # fmt: skip
_TYPES: tuple[Any, ...] = (
    "object", "object", "array", "array", "string", "number", "integer", "null", "boolean",
    ["object", "null"], ["string", "array"],
)  # fmt: skip
_ONE_SCHEMA = (
    "not", "additionalProperties", "propertyNames", "items", "contains", "unevaluatedProperties",
    "unevaluatedItems",
)  # fmt: skip
_COUNTS = ("minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength")
_KEYWORDS = (
    "type", "enum", "const", "allOf", "anyOf", "oneOf", "if", "properties", "patternProperties", "required",
    "dependentRequired", "dependentSchemas", "prefixItems", "uniqueItems", "minimum", "maximum",
    "exclusiveMinimum", "multipleOf", "pattern", "$ref", *_ONE_SCHEMA, *_COUNTS,
)  # fmt: skip


def random_schema(chance: random.Random, depth: int, keywords: tuple[str, ...] = _KEYWORDS) -> dict[str, Any]:
    """Return a schema of some keywords with two definitions, to which it may refer."""
    found, *others = (_schema(chance, depth - less, keywords) for less in (0, 1, 2))
    root = dict(found) if isinstance(found, dict) else {"not": {}} if found is False else {}
    return root | {"$defs": dict(zip("xy", others, strict=True))}


def _schema(chance: random.Random, depth: int, keywords: tuple[str, ...]) -> Any:
    if depth <= 0 or chance.random() < 0.06:
        return chance.choice(_SIMPLE)
    found: dict[str, Any] = {}
    for _ in range(chance.choice((1, 1, 2, 2, 3, 4))):
        found |= _keyword(chance, chance.choice(keywords), partial(_schema, chance, depth - 1, keywords))
    return found


def _keyword(chance: random.Random, keyword: str, inner: Callable[[], Any]) -> dict[str, Any]:
    """Return a keyword with its value, and sometimes with related keywords; `inner` draws subschemas."""
    if keyword in _COUNTS:
        return {keyword: chance.randint(0, 3)}
    if keyword in _ONE_SCHEMA:
        beside = {
            name: chance.randint(0, 2) for name in ("minContains", "maxContains") if chance.random() < 0.3
        }
        return {keyword: inner(), **(beside if keyword == "contains" else {})}
    if keyword in ("allOf", "anyOf", "oneOf", "prefixItems"):
        return {keyword: [inner() for _ in range(chance.randint(1, 3))]}
    if keyword == "if":
        sides = [name for name in ("then", "else") if chance.random() < 0.7]
        return {"if": inner(), **{name: inner() for name in sides}}
    if keyword in ("properties", "dependentSchemas", "patternProperties"):
        names = ("^a", "b$", "c", "^[ab]+$") if keyword == "patternProperties" else KEYS
        chosen = chance.sample(names, chance.randint(1, 3))
        return {keyword: {name: inner() for name in chosen}}
    return {keyword: _value(chance, keyword)}


def _value(chance: random.Random, keyword: str) -> Any:
    if keyword == "type":
        return chance.choice(_TYPES)
    if keyword == "enum":
        return [random_instance(chance, 1) for _ in range(chance.randint(1, 3))]
    if keyword == "const":
        return random_instance(chance, 1)
    if keyword == "required":
        return chance.sample(KEYS, chance.randint(0, 2))
    if keyword == "dependentRequired":
        return {chance.choice(KEYS): chance.sample(KEYS, chance.randint(0, 2))}
    if keyword == "uniqueItems":
        return chance.random() < 0.5
    if keyword == "multipleOf":
        return chance.choice((1, 2, 3, 0.5))
    if keyword == "pattern":
        return chance.choice(("a", "^a", "b$", "^[ab]*$", "^(a|b)c?$"))
    if keyword == "$ref":
        return chance.choice(("#/$defs/x", "#/$defs/y"))
    return chance.choice((0, 1, 2, -1, 1.5))


def random_instance(chance: random.Random, depth: int) -> Any:
    """Return a value that is nested at most this deep."""
    kind = chance.random()
    if depth > 0 and kind < 0.35:
        names = chance.sample((*KEYS, "d", "x1"), chance.randint(0, 3))
        return {name: random_instance(chance, depth - 1) for name in names}
    if depth > 0 and kind < 0.6:
        return [random_instance(chance, depth - 1) for _ in range(chance.randint(0, 3))]
    return chance.choice(
        (None, True, False, 0, 1, 2, 3, -1, 1.5, 0.1, 2.5, 10, "", "a", "b", "ab", "abc", "ac", "x", 6, 4)
    )


def judged_grammar(schema: Any, instances: list[Any]) -> tuple[Any, list[bool]] | None:
    """Return the grammar of a schema and the validator's verdicts on instances, each of which has a text if
    and only if it is valid; None if the validator gives up, or the schema is refused."""
    judge = jsonschema.Draft202012Validator(schema)
    try:
        verdicts = [judge.is_valid(one) for one in instances]
    except RecursionError:
        return None
    try:
        grammar = grammar_of_schema(schema, {"strict_mode": False})
    except SchemaRefused as error:
        if error.kind == "unsatisfiable" and any(verdicts):
            raise
        return None
    for instance, verdict in zip(instances, verdicts, strict=True):
        assert (grammar.instances.text(instance) is not None) == verdict, (schema, instance)
    return grammar, verdicts
