"""Subschemas and references: where everything stands, and what `$ref` leads to.

What: `Location` is one subschema with what its references are resolved against; `Locations` gives every
distinct one a number, so that equal subschemas are expanded once.
When: while a schema is compiled. References are resolved by `referencing`.
Limits: nothing is fetched: a reference to another document than the schema and the drafts' own metaschemas is
refused by name.
"""

from __future__ import annotations

import marshal
from functools import cache, cached_property
from typing import Any

from hybrid.json_schema.dialects import READ_BESIDE, Dialect, objects_in
from hybrid.json_schema.errors import SchemaRefused

NEGATING = frozenset(("not", "oneOf", "if", "contains", "propertyNames", "dependencies"))
"""Keywords below which a subschema that accepts more may make the whole accept less."""


Way = Any
"""A JSON pointer, or a location and a tuple of keywords, keys and indices below it."""


class Location:
    """A subschema.

    Args:
        way: where it stands, by the first way that led there: a JSON pointer, or the location above it and
            the keywords, keys and indices that lead on from there.

    Attributes:
        schema: it.
        resolver: of `referencing`, for references in it; None: the schema has none.
        number: among all `Locations`.
        is_negated: whether some way that led here passes a keyword of `NEGATING`.
    """

    def __init__(self, schema: dict[str, Any], resolver: Any, way: Way, number: int) -> None:
        self.schema, self.resolver, self.number = schema, resolver, number
        self.is_negated = False
        self._way = way

    @cached_property
    def pointer(self) -> str:
        """Where it stands, as a JSON pointer; for messages, so made when it is asked for."""
        return pointer_of(self._way)

    def refused(self, keyword: str, why: str, kind: Any = "unsupported") -> SchemaRefused:
        """The error for a keyword that stands here."""
        return SchemaRefused(kind, keyword, self.pointer, why)


class Locations:
    """The subschemas of one schema.

    Args:
        schema: all of it.
        dialect: that it is read by.
        left_out: (pointer, keyword) of what is not to be read.
    """

    def __init__(self, schema: Any, dialect: Dialect, left_out: frozenset[tuple[str, str]]) -> None:
        self.dialect = dialect
        self.all: list[Location] = []
        self._left_out = left_out
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._by_identity: dict[tuple[int, int], tuple[Any, Any, Location | None]] = {}
        self._read = dialect.keywords | READ_BESIDE
        self._schema = schema
        self._has_references = _mentions_references(schema)
        self._root_resolver: Any = None

    def root(self) -> tuple[Any, Any]:
        """The schema, and the resolver of its references."""
        if self._has_references and self._root_resolver is None:
            self._root_resolver = _resolver_of(self._schema, self.dialect)
        return self._schema, self._root_resolver

    def at(self, schema: Any, resolver: Any, way: Way, is_negated: bool) -> Location | bool:
        """The location of a subschema, or whether one that asserts nothing allows everything."""
        if schema is True or schema is False:
            return bool(schema)
        if not isinstance(schema, dict):
            why = f"is {_shown(schema)}, allowed are objects and booleans"
            raise SchemaRefused("invalid", "", pointer_of(way), why)
        key = id(schema), id(resolver)
        known = self._by_identity.get(key)
        if known is not None:
            location = known[2]
        else:
            location = self._found(schema, resolver, way)
            self._by_identity[key] = schema, resolver, location  # kept alive, so that ids stay theirs
        if location is None:
            return True
        if is_negated:
            location.is_negated = True
        return location

    def _found(self, schema: dict[str, Any], resolver: Any, way: Way) -> Location | None:
        dialect = self.dialect
        if resolver is not None and isinstance(schema.get(dialect.id_keyword), str):
            if not (dialect.ref_alone and "$ref" in schema):
                resolver = resolver.in_subresource(_specification(dialect).create_resource(schema))
        if self._read.isdisjoint(schema):
            return None
        if self._left_out:
            pointer = pointer_of(way)
            gone = {keyword for at, keyword in self._left_out if at == pointer}
            if gone:
                schema = {keyword: value for keyword, value in schema.items() if keyword not in gone}
        base = "" if resolver is None else resolver._base_uri
        try:
            content = marshal.dumps(schema, 2)  # by content and order; a sixth of the time of JSON text
        except ValueError as error:
            raise SchemaRefused("bounds", "", pointer_of(way), "is nested too deeply") from error
        key = base, content
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.all)
            self.all.append(Location(schema, resolver, way, number))
        return self.all[number]

    def constant(self, value: Any) -> Location | bool:
        """The location of a subschema that allows one value alone."""
        return self.at({"enum": [value]}, None, "", False)

    def referred(self, location: Location, keyword: str) -> tuple[Any, Any]:
        """What a reference of a location leads to: a subschema and its resolver."""
        name = location.schema[keyword]
        if not isinstance(name, str):
            raise location.refused(keyword, f"is {_shown(name)}, allowed is text", "invalid")
        if location.resolver is None:
            raise location.refused(keyword, f"refers to {_shown(name)}, which cannot be resolved", "invalid")
        if keyword == "$recursiveRef":
            name = self._recursive(location)
        elif keyword == "$dynamicRef":
            name = self._dynamic(location, name)
        try:
            found = location.resolver.lookup(name)
        except Exception as error:  # `referencing` lets several types through
            local = name.startswith("#")
            why = "which is not in the schema" if local else "another document, which is not fetched"
            kind = "invalid" if local else "unsupported"
            raise location.refused(keyword, f"refers to {_shown(name)}, {why}", kind) from error
        return found.contents, found.resolver

    def _recursive(self, location: Location) -> str:
        is_anchored = any(one.get("$recursiveAnchor") is True for one in objects_in(self._schema))
        named = [one for one in objects_in(self._schema) if isinstance(one.get("$id"), str)]
        if is_anchored and any(one is not self._schema for one in named):
            raise location.refused("$recursiveRef", "depends on the way that leads to it")
        return "#"

    def _dynamic(self, location: Location, name: str) -> str:
        """A dynamic reference as a plain one, where one schema alone bears the anchor."""
        anchor = name.rpartition("#")[2]
        if sum(one.get("$dynamicAnchor") == anchor for one in objects_in(self._schema)) > 1:
            raise location.refused("$dynamicRef", "depends on the way that leads to it")
        return name


def load_referencing() -> None:
    """Import what resolves references, so that the first schema that has some does not wait 40 ms for it."""
    import jsonschema_specifications
    import referencing.jsonschema  # noqa: F401

    assert jsonschema_specifications.REGISTRY


def pointer_of(way: Way) -> str:
    """A way as a JSON pointer."""
    if isinstance(way, str):
        return way
    above, path = way
    steps = "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return f"{above.pointer}/{steps}"


def _mentions_references(schema: Any) -> bool:
    return any("$ref" in one or "$dynamicRef" in one or "$recursiveRef" in one for one in objects_in(schema))


@cache
def _specification(dialect: Dialect) -> Any:
    import referencing.jsonschema

    return referencing.jsonschema.specification_with(dialect.uri)


def _resolver_of(schema: Any, dialect: Dialect) -> Any:
    """What references of a schema are resolved by; the drafts' metaschemas are known."""
    from jsonschema_specifications import REGISTRY

    resource = _specification(dialect).create_resource(schema)
    name = resource.id() or ""
    return REGISTRY.with_resource(name, resource).resolver(name)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
