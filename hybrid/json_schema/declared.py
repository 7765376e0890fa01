"""The keys that a location declares, their order, and whether other keys and items are restricted.

What: `Declarations.of` merges the declarations of a location and of all subschemas that apply to the same
value (`$ref`, `allOf`, `anyOf`, `then` ...). They give the canonical order of keys (the order of first
declaration), and with `strict_mode` they decide which objects and arrays are closed to other keys and
items.
When: once for each location.
Limits: the union ignores which branches hold; `unevaluatedProperties` does not (`evaluated.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hybrid.json_schema.assertions import Assertions
from hybrid.json_schema.formulas import Formula
from hybrid.json_schema.locations import Location


class Declared(NamedTuple):
    """What some locations declare together.

    Attributes:
        names: declared keys, in the order of first declaration.
        mentioned: keys that are only required, by `required` and similar keywords.
        patterns: the formulas of `patternProperties`, about keys.
        declares_keys: whether any subschema has `properties` or `patternProperties`.
        opens_keys: whether any subschema says something about other keys.
        prefix: number of items that are declared one by one.
        opens_items: whether any subschema says something about other items.
    """

    names: tuple[str, ...] = ()
    mentioned: tuple[str, ...] = ()
    patterns: tuple[Formula, ...] = ()
    declares_keys: bool = False
    opens_keys: bool = False
    prefix: int = 0
    opens_items: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Declared keys, then keys that are only required: the canonical order."""
        return self.names if not self.mentioned else tuple(dict.fromkeys((*self.names, *self.mentioned)))


class Declarations:
    """The declarations of one schema's locations."""

    def __init__(self, assertions: Assertions) -> None:
        self._of = assertions
        self._found: dict[int, Declared] = {}

    def of(self, formula: Formula) -> Declared:
        """What the locations of a formula declare together."""
        numbers = sorted(atom.args[1] for atom in formula.atoms)
        if len(numbers) == 1:
            return self._location(numbers[0])
        return _united(self._location(number) for number in numbers)

    def place(self, formula: Formula, keyword: str) -> str:
        """The pointer of the first location that has a keyword, among those of a formula and those that
        apply to the same value; if none has it, of the first location.
        """
        first = ""
        for atom in formula.ordered_atoms:
            location = self._of.locations.all[atom.args[1]]
            first = first or location.pointer
            met: set[int] = set()
            for _ in self._walk(location, met):
                pass
            for number in sorted(met):
                if keyword in self._of.locations.all[number].schema:
                    return self._of.locations.all[number].pointer
        return first

    def _location(self, number: int) -> Declared:
        found = self._found.get(number)
        if found is None:
            met: set[int] = set()
            found = self._found[number] = _united(self._walk(self._of.locations.all[number], met))
        return found

    def _walk(self, location: Location, met: set[int]) -> Iterator[Declared]:
        """The declarations of a location and of all that apply to the same value, in the order of the
        text."""
        if location.number in met:
            return
        met.add(location.number)
        schema, keywords = location.schema, self._of.locations.dialect.keywords
        alone = "$ref" in schema and self._of.locations.dialect.ref_alone
        yield self._own(location) if not alone else Declared()
        for keyword, value in schema.items():
            if keyword not in keywords or (alone and keyword != "$ref"):
                continue
            if keyword in _WITH_KEYS:
                yield _keys_of(keyword, value)
            for formula in self._in_place(location, keyword, value):
                if formula.op == "atom":
                    yield from self._walk(self._of.locations.all[formula.args[1]], met)

    def _in_place(self, location: Location, keyword: str, value: Any) -> Iterator[Formula]:
        of = self._of
        if keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            yield of.referred(location, keyword)
        elif keyword in ("allOf", "anyOf", "oneOf"):
            for i, one in enumerate(value):
                yield of.formula(location, one, keyword, i)
        elif keyword == "if":
            for name in ("if", "then", "else"):
                if name in location.schema:
                    yield of.formula(location, location.schema[name], name)
        elif keyword in ("dependentSchemas", "dependencies") and isinstance(value, dict):
            for name, one in value.items():
                if isinstance(one, (dict, bool)):
                    yield of.formula(location, one, keyword, name)

    def _own(self, location: Location) -> Declared:
        schema = location.schema
        matched = schema.get("patternProperties", {})
        patterns = tuple(self._of.strings.pattern(location, "patternProperties", one) for one in matched)
        items = schema.get("items")
        prefix = schema.get("prefixItems", items if isinstance(items, list) else ())
        return Declared(
            patterns=patterns,
            declares_keys="properties" in schema or "patternProperties" in schema,
            opens_keys="additionalProperties" in schema or "unevaluatedProperties" in schema,
            prefix=len(prefix),
            opens_items=isinstance(items, (dict, bool))
            or "additionalItems" in schema
            or "unevaluatedItems" in schema,
        )


_WITH_KEYS = frozenset(
    ("properties", "enum", "const", "required", "dependentRequired", "dependentSchemas", "dependencies")
)
"""Keywords that name keys."""


def _keys_of(keyword: str, value: Any) -> Declared:
    """The keys that a keyword names. A key that requires others comes before them."""
    names: dict[str, None] = {}
    if keyword == "properties" and isinstance(value, dict):
        return Declared(names=tuple(value))
    if keyword in ("enum", "const"):
        for one in value if keyword == "enum" and isinstance(value, list) else (value,):
            if isinstance(one, dict):
                names.update(dict.fromkeys(one))
        return Declared(names=tuple(names))
    if keyword == "required" and isinstance(value, list):
        names.update((name, None) for name in value if isinstance(name, str))
    elif isinstance(value, dict):
        for name, asked in value.items():
            names[name] = None
            if isinstance(asked, list):
                names.update((other, None) for other in asked if isinstance(other, str))
    return Declared(mentioned=tuple(names))


def _united(all_: Iterator[Declared]) -> Declared:
    names: dict[str, None] = {}
    mentioned: dict[str, None] = {}
    patterns: dict[Formula, None] = {}
    declares = opens = opens_items = False
    prefix = 0
    for one in all_:
        names.update(dict.fromkeys(one.names))
        mentioned.update(dict.fromkeys(one.mentioned))
        patterns.update(dict.fromkeys(one.patterns))
        declares, opens = declares or one.declares_keys, opens or one.opens_keys
        prefix, opens_items = max(prefix, one.prefix), opens_items or one.opens_items
    return Declared(tuple(names), tuple(mentioned), tuple(patterns), declares, opens, prefix, opens_items)
