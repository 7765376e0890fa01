"""Which keys a location declares, in which order, and whether it says what others hold.

What: `Declarations.of` unites a location with all subschemas in place (`$ref`, `allOf`, `anyOf`, `then` ...). From it
come the canonical order of keys (that of first declaration) and, with `strict_mode`, the closing of objects
and arrays that say nothing of other keys and items.
When: once for each location.
Limits: the union does not ask which branches hold; `unevaluatedProperties` does (`evaluated.py`).
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
        names: declared keys, in the order of first declaration; required ones that nobody declares last.
        patterns: formulas of declared keys.
        declares_keys: whether any subschema has `properties` or `patternProperties`.
        opens_keys: whether any says what other keys hold.
        prefix: items declared one by one.
        opens_items: whether any says what other items are.
    """

    names: tuple[str, ...] = ()
    patterns: tuple[Formula, ...] = ()
    declares_keys: bool = False
    opens_keys: bool = False
    prefix: int = 0
    opens_items: bool = False


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
        """The pointer of the first location of a formula, or in place of one, that has a keyword; or the first."""
        first = ""
        for atom in sorted(formula.atoms, key=lambda one: one.number):
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
        """The declarations of a location and of all in place, in the order of the text."""
        if location.number in met:
            return
        met.add(location.number)
        schema, keywords = location.schema, self._of.locations.dialect.keywords
        alone = "$ref" in schema and self._of.locations.dialect.ref_alone
        yield self._own(location) if not alone else Declared()
        for keyword, value in schema.items():
            if keyword not in keywords or (alone and keyword != "$ref"):
                continue
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
        named, matched = schema.get("properties", {}), schema.get("patternProperties", {})
        required = schema.get("required", ())
        names = dict.fromkeys(named)
        if isinstance(required, list):
            names.update(dict.fromkeys(name for name in required if isinstance(name, str)))
        for value in (*schema.get("enum", ()), schema.get("const")):
            if isinstance(value, dict):
                names.update(dict.fromkeys(value))
        patterns = tuple(self._of.strings.pattern(location, "patternProperties", one) for one in matched)
        items = schema.get("items")
        prefix = schema.get("prefixItems", items if isinstance(items, list) else ())
        return Declared(
            tuple(names), patterns, bool("properties" in schema or "patternProperties" in schema),
            "additionalProperties" in schema or "unevaluatedProperties" in schema, len(prefix),
            isinstance(items, (dict, bool)) or "additionalItems" in schema or "unevaluatedItems" in schema,
        )  # fmt: skip


def _united(all_: Iterator[Declared]) -> Declared:
    names: dict[str, None] = {}
    patterns: dict[Formula, None] = {}
    declares = opens = opens_items = False
    prefix = 0
    for one in all_:
        names.update(dict.fromkeys(one.names))
        patterns.update(dict.fromkeys(one.patterns))
        declares, opens = declares or one.declares_keys, opens or one.opens_keys
        prefix, opens_items = max(prefix, one.prefix), opens_items or one.opens_items
    return Declared(tuple(names), tuple(patterns), declares, opens, prefix, opens_items)
