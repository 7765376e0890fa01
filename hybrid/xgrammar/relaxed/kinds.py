"""Upper bounds of the values that a JSON schema allows: kinds, finite sets, options that exclude each other.

What: `Kinds.written` bounds the kinds of values (`ALL`) that XGrammar's grammar of a schema writes,
`Kinds.allowed` those that the schema allows. `Kinds.exclusive` says whether no value satisfies two options.
When: by `hybrid.xgrammar.relaxed`, for keywords that concern only some kinds, and for ``oneOf``.
Limits: these are upper bounds. In doubt, and if a schema needs more than `STEPS` steps, the answers are "all
kinds" and "not exclusive". Nothing here is recursive, because schemas may be deep and cyclic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

ALL = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
STEPS_EACH = 256
STEPS = 200_000
COPIED_AT_ONCE = 16
DISCRIMINATORS = 32
LARGEST = 2**64

SIGNS = {
    "properties": "object", "additionalProperties": "object", "unevaluatedProperties": "object",
    "items": "array", "prefixItems": "array", "unevaluatedItems": "array",
}  # fmt: skip
"""The types that XGrammar infers from keywords if a schema has no ``type``: the first that it has decides."""


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value; 1.0 is an integer."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def parts_of(values: Iterable[Any]) -> Iterator[Any]:
    """Yield JSON values and all values in them, at any depth, in no particular order."""
    waiting = list(values)
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


def sign_of(node: dict[str, Any]) -> str | None:
    """Return the keyword from which XGrammar infers the type of a schema without ``type``; None if it allows
    any value."""
    return next((sign for sign in SIGNS if sign in node), None)


def covers(types: Iterable[str], kinds: Iterable[str]) -> bool:
    """Whether values of all these kinds have one of these types."""
    known = set(types)
    if "number" in known:
        known.add("integer")
    return known.issuperset(kinds)


def types_of(node: dict[str, Any]) -> list[str]:
    """Return the types that ``type`` names; empty if it is missing or malformed."""
    named = node.get("type")
    if isinstance(named, str):
        return [named]
    return [one for one in named if isinstance(one, str)] if isinstance(named, list) else []


def local_targets(root: Any, reference: Any) -> list[tuple[list[str], Any]]:
    """Return the nodes of this document to which XGrammar may follow a reference, each with the names that
    lead to it; none if it allows any value there.

    Before 0.2.9, XGrammar decodes nothing, skips empty names, and refuses references that then lead nowhere.
    If there are two nodes, that version takes the first, and 0.2.9 the second.
    """
    if reference == "#":
        return [([], root)]
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return []
    readings = [list(filter(None, reference[2:].split("/")))]
    decoded = decoded_names(reference)
    if decoded != readings[0]:
        readings.append(decoded)
    found = [(names, _node_at(root, names)) for names in readings]
    return [(names, node) for names, node in found if node is not None]


def decoded_names(reference: str) -> list[str]:
    """Return the names in a reference that begins with ``#/``, as RFC 6901 and 3986 decode them."""
    names = unquote(reference[2:]).split("/")
    return [name.replace("~1", "/").replace("~0", "~") for name in names]


def _node_at(node: Any, names: list[str]) -> Any:
    for name in names:
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isdecimal() and len(name) < 10 and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return node


class Kinds:
    """Bounds of the values of schemas in one document.

    Args:
        root: the document.
        alone: whether keywords beside ``$ref`` have no meaning, as in drafts before 2019-09.
        has_const: whether ``const`` has a meaning, as in drafts from 6 on.
    """

    def __init__(self, root: Any, alone: bool, has_const: bool) -> None:
        self._root = root
        self._alone = alone
        self._has_const = has_const
        self._steps = STEPS
        self._of_values: dict[int, frozenset[str]] = {}
        self._keys_of: dict[int, frozenset[Any]] = {}
        self._targets: dict[str, Any] = {}

    def of_values(self, values: list[Any]) -> frozenset[str]:
        """Return the kinds of the values of a list in the document, or of a list of one value."""
        if len(values) == 1:
            return frozenset({kind_of(values[0])})
        known = self._of_values.get(id(values))
        if known is None:
            known = self._of_values[id(values)] = frozenset(map(kind_of, values))
        return known

    def written(self, schema: Any, default: str = "") -> frozenset[str]:
        """Return the kinds that the grammar of this schema may write. `default` is the type if none is
        named."""
        return self._reach(schema, default, self._written)

    def allowed(self, schema: Any) -> frozenset[str]:
        """Return the kinds that the schema may allow."""
        return self._reach(schema, "", self._allowed)

    def exclusive(self, options: list[Any]) -> bool:
        """Whether no value satisfies two of the options.

        This is decided by their kinds, their constants, or one property that has different constants in each
        option.
        """
        values: set[Any] = set()
        of_values: set[str] = set()
        others: set[str] = set()
        objects = []
        for option in options:
            node = self._followed(option)
            constants = self._finite(node)
            if constants is not None:
                keys = self._keys(constants)
                self._steps -= len(keys) // COPIED_AT_ONCE
                if not keys.isdisjoint(values) or self._steps < 0:
                    return False
                values |= keys
                of_values |= self.of_values(constants)
                continue
            kinds = self.allowed(node)
            if kinds == {"object"}:
                objects.append(node)
                continue
            if "number" in kinds:
                kinds |= {"integer"}
            if kinds & others:
                return False
            others |= kinds
        if objects:
            if "object" in others or (len(objects) > 1 and not self._told_apart(objects)):
                return False
            others.add("object")
        return not of_values & others

    def _told_apart(self, objects: list[dict[str, Any]]) -> bool:
        first = objects[0].get("properties")
        names = (
            [name for name in first if self._constants(objects[0], name)] if isinstance(first, dict) else []
        )
        return any(self._told_apart_by(objects, name) for name in names[:DISCRIMINATORS])

    def _told_apart_by(self, objects: list[dict[str, Any]], name: str) -> bool:
        seen: set[Any] = set()
        optional = 0
        for node in objects:
            constants = self._constants(node, name)
            keys = self._keys(constants or [])
            self._steps -= len(keys) // COPIED_AT_ONCE
            if not keys or not keys.isdisjoint(seen):
                return False
            seen |= keys
            required = node.get("required")
            optional += not (isinstance(required, list) and name in required)
        return optional <= 1

    def _constants(self, node: dict[str, Any], name: str) -> list[Any] | None:
        properties = node.get("properties")
        return self._finite(self._followed(properties.get(name))) if isinstance(properties, dict) else None

    def _finite(self, schema: Any) -> list[Any] | None:
        return finite(schema, self._has_const)

    def _keys(self, values: list[Any]) -> frozenset[Any]:
        """Return the keys of the values of a list in the document, or of a list of one value; none if no
        steps are left."""
        if len(values) == 1:
            return frozenset({key_of(values[0])})
        known = self._keys_of.get(id(values))
        if known is None:
            self._steps -= len(values)
            if self._steps < 0:
                return frozenset()
            known = self._keys_of[id(values)] = frozenset(map(key_of, values))
        return known

    def _target(self, reference: Any) -> Any:
        """Return the schema to which a reference leads; True if it allows any value."""
        if not isinstance(reference, str):
            return True
        if reference not in self._targets:
            found = local_targets(self._root, reference)
            self._targets[reference] = found[0][1] if found else True
        return self._targets[reference]

    def _followed(self, schema: Any) -> Any:
        """Return the schema to which a chain of references leads; True if it leads elsewhere."""
        for _ in range(STEPS_EACH):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            if not self._alone and (self._finite(schema) is not None or "type" in schema):
                return schema
            self._steps -= 1
            if self._steps < 0:
                return True
            schema = self._target(schema["$ref"])
        return True

    def _reach(self, schema: Any, default: str, look: Any) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        seen: set[int] = set()
        waiting = [schema]
        while waiting:
            node = waiting.pop()
            if not isinstance(node, dict):
                found = found if node is False else ALL
            elif id(node) not in seen:
                seen.add(id(node))
                self._steps -= 1
                if self._steps < 0 or len(seen) > STEPS_EACH:
                    return ALL
                found |= look(node, waiting, default if node is schema else "")
            if found == ALL:
                return ALL
        return found

    def _written(self, node: dict[str, Any], waiting: list[Any], default: str) -> frozenset[str]:
        if "$ref" in node:
            waiting.append(self._target(node["$ref"]))
            return frozenset()
        if "const" in node:
            return frozenset({kind_of(node["const"])})
        if "enum" in node:
            return self.of_values(node["enum"])
        for keyword in ("anyOf", "oneOf"):
            if keyword in node:
                self._steps -= len(node[keyword])
                waiting.extend(node[keyword])
                return frozenset()
        if "allOf" in node:
            waiting.append(node["allOf"][0] if len(node["allOf"]) == 1 else True)
            return frozenset()
        if node.get("type"):
            return frozenset(types_of(node))
        if default:
            return frozenset({default})
        sign = sign_of(node)
        return ALL if sign is None else frozenset({SIGNS[sign]})

    def _allowed(self, node: dict[str, Any], waiting: list[Any], default: str) -> frozenset[str]:
        del default
        if "$ref" in node and (self._alone or "type" not in node):
            waiting.append(self._target(node["$ref"]))
            return frozenset()
        if types_of(node):
            return frozenset(types_of(node))
        constants = self._finite(node)
        if constants is not None:
            return self.of_values(constants)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(node.get(keyword), list):
                self._steps -= len(node[keyword])
                waiting.extend(node[keyword])
                return frozenset()
        members = node.get("allOf")
        if isinstance(members, list) and members:
            telling = [one for one in members if isinstance(one, dict) and ("type" in one or "$ref" in one)]
            self._steps -= len(members)
            waiting.append(telling[0] if telling else members[0])
            return frozenset()
        return ALL


def finite(schema: Any, has_const: bool = True) -> list[Any] | None:
    """Return the values that a schema lists one by one; None if it does not."""
    if not isinstance(schema, dict):
        return None
    if has_const and "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def key_of(value: Any) -> Any:
    """Return a key that is equal for equal values. All objects have the same key, and so have all arrays, and
    all numbers beyond 64 bits, many of which may have the same hash."""
    kind = kind_of(value)
    if kind in ("object", "array"):
        return kind
    if kind in ("integer", "number"):
        return ("number", value) if abs(value) < LARGEST else "number"
    return kind, value
