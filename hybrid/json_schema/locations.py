# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""Subschemas: the place of each, and where `$ref` leads.

What: `Location` is one subschema with the base of its references; `Locations` gives each distinct one a
number, so that equal subschemas are expanded once.
When: while a schema is compiled. `hybrid.json_schema.references` resolves references.
Limits: nothing is fetched: a reference to a document that was not given is refused by name.
"""

from __future__ import annotations

import marshal
from typing import Any

import cython
from cython.cimports.equivalence.source_check import check_source

from hybrid.json_schema.dialects import ALL_KEYWORDS, DEPENDENT_KEYWORDS, Dialect, draft_named
from hybrid.json_schema.errors import MISSING_DOCUMENT, TOO_DEEP, SchemaRefused, shown
from hybrid.json_schema.languages import limits
from hybrid.json_schema.references import Documents, OtherDraft, References

check_source(__name__)

NEGATING = frozenset(("not", "oneOf", "if", "contains", "propertyNames", "dependencies"))
"""Keywords that negate: if a subschema below one accepts more, the whole schema may accept less."""

_OPENING = frozenset(("additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems"))
"""Keywords that say what other keys or items may be. If one is left out, these may be anything: without the
keyword, `strict_mode` or an `unevaluated` keyword might forbid them."""

_REFERRING = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))

Way = Any
"""A JSON pointer, or a location and a tuple of keywords, keys and indices below it. A place in another
document has no pointer; its way leads through the reference."""


@cython.final
@cython.no_gc
@cython.cclass
class Location:
    """A subschema. It refers only to locations above it, never in a cycle (`cython.no_gc`).

    Args:
        way: its place, by the first path that led there: a JSON pointer, or the location above it and the
            keywords, keys and indices that lead on from there.

    Attributes:
        schema: the subschema, without keywords that decide nothing, such as `description`.
        resolver: the resolver of `referencing` for references in it; None: the schema has no references.
        number: its number among all `Locations`.
        is_negated: whether some path to it passes a keyword of `NEGATING`.
    """

    def __init__(self, schema: dict, resolver: Any, way: Way, number: int) -> None:
        self.schema, self.resolver, self.number = schema, resolver, number
        self.is_negated = False
        self._way = way

    @property
    def pointer(self) -> str:
        """Its place as a JSON pointer; only messages need it, so it is made on demand."""
        self._way = pointer_of(self._way)
        return self._way

    def refused(self, keyword: str, why: str, kind: Any = "unsupported") -> SchemaRefused:
        """Return the error for a keyword of this location."""
        return SchemaRefused(kind, keyword, self.pointer, why)


@cython.final
@cython.cclass
class Locations:
    """The subschemas of one schema.

    Args:
        schema: the whole schema.
        dialect: the dialect by which it is read.
        left_out: (pointer, keyword) of each keyword to ignore.
        documents: other documents that references may lead to; None: none.

    Attributes:
        dialect: the argument.
        all: the locations, by number.
        references: the resolver of all references.
        leads: if keywords are left out, pairs of a location and what it leads to (a location, True or False);
            otherwise None.
    """

    def __init__(
        self, schema: Any, dialect: Dialect, left_out: frozenset[tuple[str, str]],
        documents: Documents | None = None,
    ) -> None:  # fmt: skip
        self.dialect = dialect
        self.references = References(schema, dialect, documents)
        self.all = []
        self._left_out = left_out
        self._by_content = {}  # a location, or locations by the texts of their subschemas
        self._by_identity = {}
        self._alive = []  # what the ids in `_by_identity` belong to, so that they stay valid
        self._read = dialect.keywords | DEPENDENT_KEYWORDS
        self._kept = ALL_KEYWORDS - dialect.unread if dialect.unread else ALL_KEYWORDS
        self._schema = schema
        self._above = None  # see `place_of`
        self.leads = [] if left_out else None

    def root(self) -> tuple[Any, Any]:
        """Return the whole schema, and the resolver of its references."""
        return self._schema, self.references.root

    def at(self, schema: Any, resolver: Any, way: Any, is_negated: cython.bint) -> Any:
        """Return the location of a subschema. If it asserts nothing: True (it allows everything) or False
        (nothing)."""
        if schema is True or schema is False:
            return bool(schema)
        if not isinstance(schema, dict):
            why = f"must be an object or a boolean, but is {shown(schema)}"
            raise SchemaRefused("invalid", "", pointer_of(way), why)
        location: Location
        key = id(schema), id(resolver)
        known: object = self._by_identity.get(key, self)
        if known is self:
            known = self._by_identity[key] = self._found(schema, resolver, way)
            self._alive.append(schema)
            self._alive.append(resolver)
        location = known
        if location is None:
            return True
        if is_negated:
            location.is_negated = True
        return location

    def _found(self, schema: dict, resolver: Any, way: Any) -> Location:
        """Return the location of an object; None if it asserts nothing."""
        dialect = self.dialect
        if resolver is not None:
            resolver = self.references.inside(resolver, schema)
        if "$schema" in schema and dialect.id_keyword in schema and schema is not self._schema:
            draft = draft_named(schema["$schema"])
            if draft is not None and draft.uri != dialect.uri:
                why = f"names {draft.name}, but the schema around it names {dialect.name}"
                raise SchemaRefused("needed", "$schema", pointer_of(way), why)
        kept: dict = {}
        is_read: cython.bint = False
        for keyword, value in schema.items():
            if keyword in self._kept:
                kept[keyword] = value
                is_read = is_read or keyword in self._read
        if not is_read:
            return None
        if self._left_out:
            pointer = pointer_of(way)
            removed = {keyword for place, keyword in self._left_out if place == pointer}
            if removed:
                return self._relaxed(kept, removed, resolver, way)
        return self._equal(kept, resolver, way)

    def _relaxed(self, schema: dict, removed: set, resolver: Any, way: Any) -> Location:
        """Return the location of a subschema without some keywords. It is a new one even if there is an equal
        one, because `refuse_forbidding` looks for its place."""
        kept: dict = {}
        if "$ref" not in removed or not self.dialect.ignores_ref_siblings:
            for keyword, value in schema.items():
                if keyword in _OPENING:
                    kept[keyword] = True if keyword in removed else value
                elif keyword not in removed:
                    kept[keyword] = value
        refers: cython.bint = not _REFERRING.isdisjoint(removed)
        if refers or "patternProperties" in removed:  # `strict_mode` must not forbid what they may declare
            kept.setdefault("additionalProperties", True)
        if refers:
            kept.setdefault("additionalItems" if isinstance(kept.get("items"), list) else "items", True)
        return self._new(kept, resolver, way)

    def _new(self, schema: dict, resolver: Any, way: Any) -> Location:
        found = Location(schema, resolver, way, len(self.all))
        self.all.append(found)
        return found

    def _equal(self, schema: dict, resolver: Any, way: Any) -> Location:
        """Return the location of an equal subschema, whose references have the same base; or a new one.

        Subschemas are equal if their keywords come in the same order. Those that contain no others are looked
        up by their whole content. Others are looked up by their keywords and keys, and only if there is
        another one, by their texts: to write the texts of all of them took 6% of a first mask.
        """
        found: Location
        is_flat: cython.bint = True
        key: list = []
        if resolver is not None:
            key.append((resolver._base_uri, self.references.scope(resolver)))
        for keyword, value in schema.items():
            key.append(keyword)
            if isinstance(value, str):
                key.append(value)
            elif isinstance(value, (dict, list)):
                if isinstance(value, list) and are_texts(value):
                    key.append(tuple(value))
                else:
                    is_flat = False
                    key.append(len(value) if isinstance(value, list) else tuple(value))
            else:
                key.append((type(value), value))
        key.append(is_flat)
        shape = tuple(key)
        alike = self._by_content.get(shape)
        if alike is None:
            found = self._by_content[shape] = self._new(schema, resolver, way)
            return found
        if is_flat:
            return alike
        if isinstance(alike, Location):
            first: Location = alike
            alike = self._by_content[shape] = {_text_of(first.schema, first._way): first}
        text = _text_of(schema, way)
        found = alike.get(text)
        if found is None:
            found = alike[text] = self._new(schema, resolver, way)
        return found

    def place_of(self, schema: Any, way: Any) -> Any:
        """Return the JSON pointer of a part of the schema; `way` if it is in another document."""
        if self._above is None:
            self._above = _above(self._schema)
        steps: list = []
        number: object = id(schema)
        while number != id(self._schema):
            if number not in self._above:
                return way
            number, step = self._above[number]
            steps.append(_escaped(step))
        return "".join(reversed(steps))

    def constant(self, value: Any) -> Location | bool:
        """Return the location of a subschema that allows only one value."""
        return self.at({"enum": [value]}, None, "", False)

    def referred(self, location: Location, keyword: str) -> tuple[Any, Any]:
        """Return the subschema that a reference of a location leads to, and its resolver."""
        name = location.schema[keyword]
        if not isinstance(name, str):
            raise location.refused(keyword, f"must be text, but is {shown(name)}", "invalid")
        if keyword == "$recursiveRef" and name != "#":  # the draft defines nothing else
            raise location.refused(keyword, f"must be '#', but is {shown(name)}", "invalid")
        if location.resolver is None:
            raise location.refused(keyword, f"refers to {shown(name)}, which cannot be resolved", "invalid")
        try:
            return self.references.lookup(location.resolver, keyword, name)
        except OtherDraft as error:
            why = f"refers to {shown(name)}, a document of another draft"
            raise location.refused(keyword, why) from error
        except LookupError as error:
            local = name.startswith("#")
            why = "which is not in the schema" if local else MISSING_DOCUMENT
            kind = "invalid" if local else "unsupported"
            raise location.refused(keyword, f"refers to {shown(name)}, {why}", kind) from error


def are_texts(values: list) -> cython.bint:
    """Whether all values are texts."""
    for one in values:  # noqa: SIM110 - C functions have no generators
        if not isinstance(one, str):
            return False
    return True


@cython.cfunc
def _text_of(schema: dict, way: Way) -> bytes:
    """Return a subschema as text, in which types and the order of keys count."""
    try:
        return marshal.dumps(schema, 2)  # 6 times as fast as JSON
    except ValueError:  # nested too deeply, or it has a number that is no float
        pass
    try:
        return repr(schema).encode("utf-8", "surrogatepass")
    except RecursionError as error:
        raise SchemaRefused("limit", "", pointer_of(way), TOO_DEEP) from error


def pointer_of(way: Way) -> str:
    """Return the JSON pointer of a way."""
    if isinstance(way, str):
        return way
    above, path = way
    return above.pointer + "".join(map(_escaped, path))


def _escaped(step: Any) -> str:
    """Return a key or an index as a part of a JSON pointer."""
    return "/" + str(step).replace("~", "~0").replace("/", "~1")


def _above(schema: Any) -> dict:
    """For each object and list in a schema, by its id: the id of what contains it, and its key or index."""
    found: dict = {}
    todo: list = [schema]
    while todo:
        limits.check_deadline()
        one = todo.pop()
        for step, inner in one.items() if isinstance(one, dict) else enumerate(one):
            if isinstance(inner, (dict, list)) and id(inner) not in found:
                found[id(inner)] = id(one), step
                todo.append(inner)
    return found
