"""Mixtures of real schemas under ``semantics="json-schema"``: which instances have a text, and walks.

What: a `Mixer` combines parts of two schemas of the same dialect by keywords such as ``oneOf``, ``not`` and
``if``, adds keywords, and changes instances of both. An instance must have a text if and only if it is valid
by ``jsonschema``; a schema that is refused as unsatisfiable must have no valid instance; and walks along
masks (`tests.robustness.schema_walks`) must end in valid texts.
When: ``python -m tests.robustness.schema_mixtures --schemas FOLDER --minutes N --seed S``;
`tests/robustness/test_schema_walks.py` mixes a little.
Limits: there is no verdict where ``jsonschema`` is known to err: `format: email` (it looks for an @ only) and
empty patterns as keys; whole numbers are written without a point, because Draft 4 calls no other number an
integer.
"""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import workloads
from bench.json_schema.judge import Judge, formats
from bench.workloads import SchemaFile
from hybrid import GrammarCompiler
from hybrid.json_schema import SchemaRefused, grammar_of_schema
from tests.robustness.schema_walks import NOT_ASSERTED, VOCABULARY, Found, Walk, finish

UNJUDGED = NOT_ASSERTED | {"email", "idn-email"}
STAY_AT_THE_ROOT = (
    "$schema", "$id", "id", "$defs", "definitions", "$anchor", "$dynamicAnchor", "$recursiveAnchor",
)  # fmt: skip
REFERENCES = ('"$ref"', '"$id"', '"$dynamicRef"', '"$recursiveRef"')
MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
VALUES: tuple[Any, ...] = (
    0, 1, -1, 2, 10, 0.5, -1.5, 1000, "", "a", "abc", "x y", None, True, [], {}, [1, 1], {"a": 1},
)  # fmt: skip
ADDED: tuple[dict[str, Any], ...] = (
    {"minProperties": 2}, {"maxProperties": 3}, {"additionalProperties": False}, {"unevaluatedItems": False},
    {"unevaluatedProperties": False}, {"uniqueItems": True}, {"minItems": 2}, {"maxItems": 2},
    {"minLength": 4}, {"maxLength": 8}, {"propertyNames": {"pattern": "^[a-z]"}}, {"multipleOf": 2},
    {"propertyNames": {"maxLength": 8}}, {"multipleOf": 0.5}, {"minimum": 1}, {"maximum": 100},
    {"contains": {"type": "string"}}, {"contains": {"minimum": 1}}, {"type": ["array", "null", "integer"]},
    {"patternProperties": {"e$": {"type": "string"}}}, {"patternProperties": {"^[a-m]": False}},
    {"type": ["object", "string"]},
)  # fmt: skip
COMBINATIONS: tuple[Callable[[Any, Any], dict[str, Any]], ...] = (
    lambda one, other: {"allOf": [one, other]},
    lambda one, other: {"anyOf": [one, other]},
    lambda one, other: {"oneOf": [one, other]},
    lambda one, other: {"oneOf": [one, other, {"type": ["null", "string"]}]},
    lambda one, other: {"not": one},
    lambda one, other: {"allOf": [one, {"not": other}]},
    lambda one, other: {"if": one, "then": other, "else": {"maxProperties": 2}},
    lambda one, other: {"if": other, "then": one},
    lambda one, other: {"if": one, "else": other},
)


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and its subschemas that are objects."""
    if not isinstance(schema, dict):
        return
    yield schema
    inner = [schema[name] for name in SINGLE if name in schema]
    for name in MAPS:
        inner += schema[name].values() if isinstance(schema.get(name), dict) else ()
    for name in LISTS:
        inner += schema[name] if isinstance(schema.get(name), list) else ()
    for one in inner:
        yield from parts(one)


def values(instance: Any) -> Iterator[Any]:
    """Yield an instance and all values inside it."""
    yield instance
    inner = instance.values() if isinstance(instance, dict) else instance
    for one in inner if isinstance(instance, (dict, list)) else ():
        yield from values(one)


def whole(instance: Any) -> Any:
    """Return an instance whose whole numbers are integers."""
    if isinstance(instance, dict):
        return {name: whole(one) for name, one in instance.items()}
    if isinstance(instance, list):
        return [whole(one) for one in instance]
    return int(instance) if isinstance(instance, float) and instance.is_integer() else instance


class Mixer:
    """Draws a mixture of two schemas, and instances that nearly satisfy it."""

    def __init__(self, files: Sequence[SchemaFile], chance: random.Random) -> None:
        self._chance = chance
        of = chance.choice(files).schema.get("$schema")
        first, second = chance.choices([file for file in files if file.schema.get("$schema") == of], k=2)
        self.name = f"{first.name} and {second.name}"
        self._real = [*first.valid, *first.invalid, *second.valid, *second.invalid] or [{}]
        self._values = [one for real in self._real for one in values(real)]
        self._names = [name for one in self._values if isinstance(one, dict) for name in one] or ["a"]
        both = [*parts(first.schema), *parts(second.schema)]
        texts = [text for text in map(json.dumps, both) if not any(word in text for word in REFERENCES)]
        self._movable = [json.loads(text) for text in texts] or [{"type": "string"}]
        self.schema = copy.deepcopy(first.schema)
        for _ in range(chance.choice((1, 1, 2, 3))):
            self._change(chance.choice(list(parts(self.schema))) if chance.random() < 0.7 else self.schema)

    def _change(self, part: dict[str, Any]) -> None:
        """Add a keyword to a subschema, or combine it with another."""
        if self._chance.random() < 0.45:
            part |= copy.deepcopy(self._chance.choice(ADDED))
            return
        stays = {name: part.pop(name) for name in STAY_AT_THE_ROOT if name in part}
        one, other = dict(part), copy.deepcopy(self._chance.choice(self._movable))
        part.clear()
        part |= stays | self._chance.choice(COMBINATIONS)(one, other)

    def instances(self) -> list[Any]:
        """Return real instances, parts of them, and changed ones."""
        drawn = [*self._real[:10], *self._chance.choices(self._values, k=6)]
        drawn += [self._changed(self._chance.choice(self._real)) for _ in range(24)]
        return [whole(one) for one in [*drawn, *self._chance.sample(VALUES, 4)]]

    def _changed(self, instance: Any) -> Any:
        found = [copy.deepcopy(instance)]
        for _ in range(self._chance.choice((1, 1, 2, 3))):
            inner = [one for one in values(found) if isinstance(one, (dict, list))]
            places = [
                (one, key) for one in inner for key in (one if isinstance(one, dict) else range(len(one)))
            ]
            place, key = self._chance.choice(places)
            place[key] = self._near(place[key])
        return found[0]

    def _near(self, value: Any) -> Any:
        """Return a value like this one."""
        chance, any_value = self._chance, copy.deepcopy(self._chance.choice([*self._values, *VALUES]))
        if isinstance(value, dict) and value and chance.random() < 0.5:
            left_out = chance.choice(list(value))
            return {name: one for name, one in value.items() if name != left_out}
        if isinstance(value, dict):
            return {**value, chance.choice(self._names): any_value}
        if isinstance(value, list) and value and chance.random() < 0.6:
            return [*value, copy.deepcopy(chance.choice(value))] if chance.random() < 0.5 else value[1:]
        if isinstance(value, str) and chance.random() < 0.6:
            return chance.choice([value + "a", value[:-1], value.upper(), value * 2, value + " ", value[1:]])
        if isinstance(value, (int, float)) and not isinstance(value, bool) and chance.random() < 0.6:
            return chance.choice([value + 1, -value, value * 2, value + 0.5, value / 2])
        return any_value


def check(mixer: Mixer, compiler: GrammarCompiler, chance: random.Random, found: Found, walks: int) -> str:
    """Compare the verdicts about one mixture, and walk. Return what is wrong, or an empty text."""
    schema = mixer.schema
    if UNJUDGED & set(formats(schema)) or '"": ' in json.dumps(schema):
        return ""
    judge, instances = Judge(schema), mixer.instances()
    verdicts = [judge.verdict(one).valid for one in instances]
    found.schemas += 1
    try:
        grammar = grammar_of_schema(schema, {"strict_mode": False})
        compiled = compiler.compile_json_schema(json.dumps(schema), strict_mode=False)
    except SchemaRefused as error:
        found.refused += 1
        is_wrong = error.kind == "unsatisfiable" and any(verdicts)
        return "a schema with valid instances was refused as unsatisfiable" if is_wrong else ""
    for instance, verdict in zip(instances, verdicts, strict=True):
        if verdict is not None:
            found.judged += 1
            if (grammar.instances.text(instance) is not None) != verdict:
                return f"the instance is {'valid' if verdict else 'invalid'}: {json.dumps(instance)}"
    for _ in range(walks):
        found.walks += 1
        walk = Walk(compiled, schema, chance, found)
        if wrong := walk.run():
            return f"{wrong} in {walk.text!r}"
    return ""


def mix(files: Sequence[SchemaFile], seed: int, ends: float, at_least: int, walks: int = 2) -> Found:
    """Check mixtures until a time of `time.monotonic`, and so many at least."""
    found, number = Found(), 0
    files = [file for file in files if isinstance(file.schema, dict)]
    compiler = GrammarCompiler(VOCABULARY, semantics="json-schema", cache_enabled=False)
    while number < at_least or time.monotonic() < ends:
        chance = random.Random(f"{seed} {number}")
        mixer = Mixer(files, chance)
        if wrong := check(mixer, compiler, chance, found, walks):
            found.problems.append(f"{seed} {number}, {mixer.name}: {wrong}; {json.dumps(mixer.schema)}")
        number += 1
    return found


def command(
    schemas: Annotated[Path, typer.Option(help="A folder of schema files.", exists=True, file_okay=False)],
    minutes: Annotated[float, typer.Option(help="How long.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Another seed, other mixtures.")] = 0,
) -> None:
    """Mixtures of real schemas under semantics="json-schema": instances, and walks."""
    finish(mix(workloads.load_schema_files(schemas), seed, time.monotonic() + 60 * minutes, 1))


if __name__ == "__main__":
    typer.run(command)
