"""`unevaluatedProperties` and `unevaluatedItems`: which keys and items other subschemas have evaluated.

What: `Evaluated` lists the ways in which the subschemas that apply to the same value (`allOf`, `anyOf`,
`$ref`, `then` ...) can hold, each with the keys or items that are evaluated then. The keyword becomes a
disjunction over these ways: one of them holds, and what it has not evaluated satisfies the keyword.
When: for locations that have one of the two keywords.
Limits: at most `MOST_WAYS` ways. Ways that evaluate the same are merged, so branches that name no key cost
nothing.

See JSON Schema 2020-12, core, section 11, and validation of annotations in section 7.7.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from hybrid.json_schema.atoms import PropertySets, items_atom
from hybrid.json_schema.formulas import Formula, Formulas
from hybrid.json_schema.locations import Location, Locations
from hybrid.json_schema.strings import Strings

MOST_WAYS = 256


class Keys(NamedTuple):
    """Which keys of an object were evaluated: names, keys that satisfy formulas, or all."""

    names: tuple[str, ...] = ()
    patterns: tuple[Formula, ...] = ()
    everything: bool = False

    def __or__(self, other: Keys) -> Keys:
        if self.everything or other.everything:
            return Keys(everything=True)
        return Keys(_united(self.names, other.names), _united(self.patterns, other.patterns))


class Items(NamedTuple):
    """Which items of an array were evaluated: the first ones, those that satisfy formulas, or all."""

    prefix: int = 0
    contained: tuple[Formula, ...] = ()
    everything: bool = False

    def __or__(self, other: Items) -> Items:
        if self.everything or other.everything:
            return Items(everything=True)
        return Items(max(self.prefix, other.prefix), _united(self.contained, other.contained))


Ways = dict[Any, Formula]
"""What is evaluated, and the formula under which that is so."""


class Subschemas(Protocol):
    """The subschemas of one schema and their formulas: `hybrid.json_schema.assertions.Assertions`."""

    formulas: Formulas
    locations: Locations
    sets: PropertySets
    strings: Strings

    def formula(self, location: Location, schema: Any, path: tuple[Any, ...]) -> Formula:
        """Return the formula of a subschema."""

    def referred(self, location: Location, keyword: str) -> Formula:
        """Return the formula of the subschema that a reference leads to."""

    def expand(self, formula: Formula, kind: str) -> Formula:
        """Return what a formula requires of values of a type."""


class Evaluated:
    """The ways in which the locations of one schema can hold."""

    def __init__(self, assertions: Subschemas) -> None:
        self._of = assertions
        self._formulas = assertions.formulas
        self._under_way: set[tuple[int, str]] = set()

    def unevaluated_properties(self, location: Location) -> Formula:
        """Return what `unevaluatedProperties` of a location requires of an object that satisfies all other
        keywords."""
        own = location.schema["unevaluatedProperties"]
        asked = self._of.formula(location, own, ("unevaluatedProperties",))
        true = self._formulas.true
        found = []
        for keys, condition in self._ways(location, "object", "unevaluatedProperties").items():
            rest = true
            if not keys.everything:
                patterns = tuple((pattern, true) for pattern in keys.patterns)
                rest = self._of.sets.atom(dict.fromkeys(keys.names, true), patterns, asked)
            found.append(self._formulas.conjunction((condition, rest)))
        return self._formulas.disjunction(found)

    def unevaluated_items(self, location: Location) -> Formula:
        """Return what `unevaluatedItems` of a location requires of an array that satisfies all other
        keywords."""
        asked = self._of.formula(location, location.schema["unevaluatedItems"], ("unevaluatedItems",))
        true = self._formulas.true
        found = []
        for items, condition in self._ways(location, "array", "unevaluatedItems").items():
            rest = true
            if not items.everything:
                others = self._formulas.disjunction((*items.contained, asked))
                rest = items_atom(self._formulas, (true,) * items.prefix, others)
            found.append(self._formulas.conjunction((condition, rest)))
        return self._formulas.disjunction(found)

    def _ways(self, location: Location, kind: str, keyword: str = "") -> Ways:
        """Return the ways in which a location can hold. Their formulas assume that it does hold.

        Args:
            keyword: the keyword that is being read; its own evaluation does not count.
        """
        key = location.number, kind
        if key in self._under_way:
            raise location.refused(keyword or "$ref", "leads back to itself", "invalid")
        self._under_way.add(key)
        try:
            own = self._own_keys(location) if kind == "object" else self._own_items(location)
            nothing: Any = Keys() if kind == "object" else Items()
            swallows = "unevaluatedProperties" if kind == "object" else "unevaluatedItems"
            if keyword != swallows and swallows in location.schema:
                own = own._replace(everything=True)
            ways: Ways = {own: self._formulas.true}
            for others in self._in_place(location, kind, nothing):
                ways = self._product(ways, others, location, keyword)
        finally:
            self._under_way.discard(key)
        return ways

    def _product(self, ways: Ways, others: Ways, location: Location, keyword: str) -> Ways:
        found: dict[Any, list[Formula]] = {}
        for one, condition in ways.items():
            for other, further in others.items():
                both = self._formulas.conjunction((condition, further))
                if both is not self._formulas.false:
                    found.setdefault(one | other, []).append(both)
        if len(found) > MOST_WAYS:
            raise location.refused(
                keyword or "unevaluatedProperties", f"can hold in more than {MOST_WAYS} ways", "bounds"
            )
        return {one: self._formulas.disjunction(parts) for one, parts in found.items()}

    def _in_place(self, location: Location, kind: str, nothing: Any) -> Iterator[Ways]:
        """Yield the ways of each subschema that applies to the same value."""
        schema, of, formulas = location.schema, self._of, self._formulas
        keywords = of.locations.dialect.keywords
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in schema and keyword in keywords:
                yield self._of_formula(of.referred(location, keyword), kind, nothing)
        for i, one in enumerate(schema.get("allOf", ())):
            yield self._of_formula(of.formula(location, one, ("allOf", i)), kind, nothing)
        for keyword in ("anyOf", "oneOf"):
            for i, one in enumerate(schema.get(keyword, ())):
                yield self._perhaps(of.formula(location, one, (keyword, i)), kind, nothing)
        if "if" in schema:
            yield self._condition(location, kind, nothing)
        if kind == "object" and isinstance(schema.get("dependentSchemas"), dict):
            for name, one in schema["dependentSchemas"].items():
                has = formulas.atom("has", name)
                inner = of.formula(location, one, ("dependentSchemas", name))
                yield self._either(has, self._of_formula(inner, kind, nothing), {nothing: formulas.true})

    def _condition(self, location: Location, kind: str, nothing: Any) -> Ways:
        schema, of, true = location.schema, self._of, self._formulas.true
        condition = of.formula(location, schema["if"], ("if",))
        sides = []
        for keyword in ("then", "else"):
            ways = {nothing: true}
            if keyword in schema:
                ways = self._of_formula(of.formula(location, schema[keyword], (keyword,)), kind, nothing)
            sides.append(ways)
        then = self._product(self._of_formula(condition, kind, nothing), sides[0], location, "if")
        return self._either(of.expand(condition, kind), then, sides[1])

    def _perhaps(self, formula: Formula, kind: str, nothing: Any) -> Ways:
        """Return the ways of a subschema that may or may not hold."""
        ways = self._of_formula(formula, kind, nothing)
        if set(ways) == {nothing}:
            return {nothing: self._formulas.true}
        return self._either(self._of.expand(formula, kind), ways, {nothing: self._formulas.true})

    def _either(self, condition: Formula, then: Ways, otherwise: Ways) -> Ways:
        formulas = self._formulas
        found: dict[Any, list[Formula]] = {}
        for side, ways in ((condition, then), (formulas.negation(condition), otherwise)):
            for one, further in ways.items():
                found.setdefault(one, []).append(formulas.conjunction((side, further)))
        return {one: formulas.disjunction(parts) for one, parts in found.items()}

    def _of_formula(self, formula: Formula, kind: str, nothing: Any) -> Ways:
        """Return the ways of a subschema that holds."""
        if formula.op != "atom":
            return {nothing: self._formulas.true}
        return self._ways(self._of.locations.all[formula.args[1]], kind)

    def _own_keys(self, location: Location) -> Keys:
        schema = location.schema
        if "additionalProperties" in schema:
            return Keys(everything=True)
        patterns = tuple(
            self._of.strings.pattern(location, "patternProperties", one)
            for one in schema.get("patternProperties", ())
        )
        return Keys(tuple(schema.get("properties", ())), patterns)

    def _own_items(self, location: Location) -> Items:
        schema, dialect = location.schema, self._of.locations.dialect
        items, prefix = schema.get("items"), schema.get("prefixItems", [])
        if dialect.lists_items and isinstance(items, list):
            items, prefix = schema.get("additionalItems"), items
        if items is not None:
            return Items(everything=True)
        contained: tuple[Formula, ...] = ()
        if "contains" in schema and not dialect.lists_items:  # since 2020-12
            contained = (self._of.formula(location, schema["contains"], ("contains",)),)
        return Items(len(prefix), contained)


def _united(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what is in at least one of the two, in a canonical order."""
    if not other or one == other:
        return one
    if not one:
        return other
    united = {*one, *other}
    return tuple(sorted(united, key=lambda part: part if isinstance(part, str) else part.number))
