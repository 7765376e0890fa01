"""Instances with their keys in the order in which engines write them.

What: `canonical` orders the keys of all objects of an instance as they are first named in all subschemas that
apply to the same value; other keys follow as they were. `by_alternatives` does the same, but considers only
the alternatives under which the instance is valid. `keywords_at` returns which keywords apply to a part of an
instance.
When: for other ways to write an instance; engines that require an order of keys accept only these.
Limits: references to other documents are ignored. If `hybrid.json_schema` can read the schema, its order is
used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.json_schema.judge import validator_of
from hybrid import json_schema

IN_PLACE = ("allOf", "if", "then", "else", "not")
"""Keywords whose schemas apply to the same instance, as alternatives, references and dependencies do."""


def canonical(schema: Any, instance: Any) -> Any:
    """Return the instance with keys in canonical order; unchanged if the schema does not allow it."""
    try:
        grammar = json_schema.grammar_of_schema(schema, {"strict_mode": False})
    except json_schema.SchemaRefused:  # it refers to documents that were passed only to an engine
        return declared(schema, instance)
    text = grammar.instances.text(instance)
    return instance if text is None else _in_order_of(json.loads(text), instance)


def _in_order_of(like: Any, instance: Any) -> Any:
    """Return an instance with its keys in the order of an equal one; its scalars are unchanged."""
    if isinstance(instance, dict):
        return {name: _in_order_of(inner, instance[name]) for name, inner in like.items()}
    if isinstance(instance, list):
        return [_in_order_of(inner, one) for inner, one in zip(like, instance, strict=True)]
    return instance


def declared(schema: Any, instance: Any) -> Any:
    """Return the same as `canonical`, computed by this module alone."""
    return _Reader(schema).ordered([schema], instance)


def by_alternatives(schema: Any, instance: Any) -> Any:
    """Return the instance with keys in the order of those alternatives of anyOf and oneOf under which it is
    valid."""
    return _Reader(schema, is_choosy=True).ordered([schema], instance)


def keywords_at(schema: Any, path: Sequence[str | int]) -> list[str]:
    """Return the keywords of all subschemas that apply at a path of keys and indices, each once."""
    reader = _Reader(schema)
    here = list(reader.in_place([schema]))
    for step in path:
        below = _items_below(here, step) if isinstance(step, int) else _values_below(here, step)
        here = list(reader.in_place(list(below)))
    return list(dict.fromkeys(keyword for one in here for keyword in one))


class _Reader:
    """The subschemas of one schema. If it is choosy, it skips alternatives under which the instance is not
    valid."""

    def __init__(self, schema: Any, is_choosy: bool = False) -> None:
        from jsonschema_specifications import REGISTRY
        from referencing.jsonschema import DRAFT202012, specification_with

        named = schema.get("$schema") if isinstance(schema, Mapping) else None
        try:
            specification = specification_with(named) if isinstance(named, str) else DRAFT202012
        except Exception:  # noqa: BLE001 - a dialect of somebody's own
            specification = DRAFT202012
        resource = specification.create_resource(schema)
        identity = resource.id() or ""
        registry = REGISTRY.with_resource(identity, resource)
        self._resolver = registry.resolver(identity)
        self._validator: Any = validator_of(schema)(schema, registry=registry) if is_choosy else None

    def _looked_up(self, reference: Any) -> Any:
        """Return the subschema that a reference leads to; True, which allows everything, if it is in another
        document."""
        try:
            return self._resolver.lookup(reference).contents
        except Exception:  # noqa: BLE001 - whatever a reference may be
            return True

    def _taken(self, alternatives: Any, instance: Any) -> list[Any]:
        """Return the alternatives under which an instance is valid; all of them if that is unknown."""
        every = alternatives if isinstance(alternatives, list) else [alternatives]
        if self._validator is None:
            return every
        try:
            return [one for one in every if self._validator.evolve(schema=one).is_valid(instance)] or every
        except Exception:  # noqa: BLE001 - a schema that jsonschema cannot read
            return every

    def in_place(self, schemas: list[Any], instance: Any = None) -> Iterator[Mapping[str, Any]]:
        """Return all subschemas that apply to the same instance, each once, and each before those inside of
        it."""
        visited: set[int] = set()
        waiting: list[Any] = list(reversed(schemas))
        while waiting:
            one = waiting.pop()
            if not isinstance(one, Mapping) or id(one) in visited:
                continue
            visited.add(id(one))
            yield one
            below: list[Any] = []
            for key, value in one.items():
                if key in ("$ref", "$dynamicRef", "$recursiveRef"):
                    below.append(self._looked_up(value))
                elif key in ("dependentSchemas", "dependencies"):
                    below += value.values() if isinstance(value, Mapping) else ()
                elif key in ("anyOf", "oneOf"):
                    below += self._taken(value, instance)
                elif key in IN_PLACE:
                    below += value if isinstance(value, list) else [value]
            waiting += reversed(below)

    def ordered(self, schemas: list[Any], instance: Any) -> Any:
        """Return the instance in the order that these subschemas declare."""
        if isinstance(instance, dict):
            here = list(self.in_place(schemas, instance))
            first = dict.fromkeys(name for one in here for name in _named(one))
            names = [name for name in first if name in instance]
            names += [name for name in instance if name not in first]
            return {name: self.ordered(list(_values_below(here, name)), instance[name]) for name in names}
        if isinstance(instance, list):
            here = list(self.in_place(schemas, instance))
            return [
                self.ordered(list(_items_below(here, place)), item) for place, item in enumerate(instance)
            ]
        return instance


def _part(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    value = schema.get(keyword)
    return value if isinstance(value, Mapping) else {}


def _named(schema: Mapping[str, Any]) -> Iterator[str]:
    """Return the keys that a schema itself names, the declared ones first."""
    yield from _part(schema, "properties")
    required, values = schema.get("required"), schema.get("enum")
    yield from (name for name in (required if isinstance(required, list) else ()) if isinstance(name, str))
    for value in (*(values if isinstance(values, list) else ()), schema.get("const")):
        if isinstance(value, dict):
            yield from value
    for keyword in ("dependentRequired", "dependencies"):
        for name, needed in _part(schema, keyword).items():
            if isinstance(needed, list):
                yield from (name, *(one for one in needed if isinstance(one, str)))


def _values_below(schemas: list[Mapping[str, Any]], name: str) -> Iterator[Any]:
    """Return the subschemas of the value of a key."""
    for one in schemas:
        is_named = False
        if name in _part(one, "properties"):
            is_named = True
            yield one["properties"][name]
        for pattern, value in _part(one, "patternProperties").items():
            try:
                found = re.search(pattern, name)
            except re.error:
                continue
            if found:
                is_named = True
                yield value
        if not is_named:
            yield one.get("additionalProperties")
        yield one.get("unevaluatedProperties")


def _items_below(schemas: list[Mapping[str, Any]], place: int) -> Iterator[Any]:
    """Return the subschemas of the item at an index."""
    for one in schemas:
        tuples = one.get("prefixItems", one.get("items"))
        if isinstance(tuples, list):
            rest = one.get("items" if "prefixItems" in one else "additionalItems")
            yield tuples[place] if place < len(tuples) else rest
        else:
            yield one.get("items")
        yield one.get("contains")
        yield one.get("unevaluatedItems")
