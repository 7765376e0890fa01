# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""From keywords to formulas: what a subschema requires of a value of each type.

What: `Assertions.formula` turns a subschema into a formula with one atom for each location. `expand` turns
such a formula into its meaning for one JSON type, in the atoms of `hybrid.json_schema.atoms`. `allOf`,
keywords beside `$ref`, `not`, `if` and `dependentSchemas` become operators of formulas and need no special
handling elsewhere.
When: for each nonterminal and type; results are cached.
Limits: a reference that leads back to itself without passing a key or an item is refused.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.atoms import PropertySets
from cython.cimports.hybrid.json_schema.formulas import Formula, Formulas
from cython.cimports.hybrid.json_schema.keyword_values import (
    count_of,
    decimal,
    decimal_of,
    dict_of,
    flag_of,
    is_number,
    list_of,
    names_of,
)
from cython.cimports.hybrid.json_schema.locations import Location, Locations, are_texts

from hybrid.json_schema.atoms import TYPES, count_atom, items_atom
from hybrid.json_schema.errors import shown
from hybrid.json_schema.evaluated import Evaluated
from hybrid.json_schema.languages import limits
from hybrid.json_schema.locations import NEGATING
from hybrid.json_schema.strings import Strings

NAMES = tuple(sorted((*TYPES, "integer")))
"""What `type` may name."""

check_source(__name__)

_REFERENCES = cython.declare(tuple, ("$ref", "$dynamicRef", "$recursiveRef"))

_IN_PLACE = cython.declare(
    frozenset,
    frozenset((*_REFERENCES, "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies")),
)
"""Keywords with subschemas that apply to the same value."""

_OPERATORS = cython.declare(frozenset, frozenset(("enum", "const", "not", "if", "allOf", "anyOf", "oneOf")))
"""Keywords that apply to values of all types, besides `type` and references."""

_DECLARING = cython.declare(
    frozenset,
    frozenset((
        "properties", "patternProperties", "additionalProperties", "prefixItems", "items", "additionalItems",
        "contains", "dependentSchemas", "dependencies",
    )),
)  # fmt: skip
"""Keywords with subschemas for the values of keys, for items, or for objects with a key."""

MOST_NESTED = cython.declare(cython.Py_ssize_t, limits.MOST_NESTED)


@cython.final
@cython.cclass
class Assertions:
    """The formulas of one schema.

    Attributes:
        formulas, locations, strings: the arguments.
        sets: the property sets of the schema.
        arrays: the arrays in `enum` and `const`, by the formulas of their items.
    """

    def __init__(self, formulas: Formulas, locations: Locations, strings: Strings) -> None:
        self.formulas, self.locations, self.strings = formulas, locations, strings
        self.sets = PropertySets(formulas)
        self._keywords = locations.dialect.keywords
        self._expanded, self._referred, self._under_way = {}, {}, set()
        self._atoms = {}  # of each location
        self.arrays = {}

    def root(self) -> Formula:
        """Return the formula of the whole schema."""
        schema, resolver = self.locations.root()
        return self._of(self.locations.at(schema, resolver, "", False))

    def formula(self, location: Location, schema: object, path: tuple) -> Formula:
        """Return the formula of a subschema. `path` leads to it from the location: keywords, keys and
        indices."""
        is_negated: cython.bint = location.is_negated or path[0] in NEGATING
        found = self.locations.at(schema, location.resolver, (location, path), is_negated)
        if self.locations.leads is not None:
            self.locations.leads.append((location, found))
        return self._of(found)

    def referred(self, location: Location, keyword: str) -> Formula:
        """Return the formula of the subschema that a reference of a location leads to."""
        key = location.number, keyword, location.is_negated
        found: Formula = self._referred.get(key)
        if found is None:
            schema, resolver = self.locations.referred(location, keyword)
            name = location.schema[keyword]
            way: object
            if name.startswith("#/") and self.locations.references.is_at_root(location.resolver):
                way = unquote(name[1:])
            else:
                way = self.locations.place_of(schema, (location, (keyword,)))
            to = self.locations.at(schema, resolver, way, location.is_negated)
            if self.locations.leads is not None:
                self.locations.leads.append((location, to))
            found = self._referred[key] = self._of(to)
        return found

    def constant(self, value: Any) -> Formula:
        """Return the formula that only one value satisfies."""
        return self._of(self.locations.constant(value))

    def in_place(self, location: Location, keyword: str) -> list:
        """Return the subschemas of a keyword that apply to the same value as the location, each with the
        keywords, keys and indices that lead to it. Values that the keyword must not have are passed over,
        because they are refused where they matter."""
        if keyword not in _IN_PLACE or keyword not in self._keywords:
            return []
        schema = location.schema
        value = schema[keyword]
        paths: list = []
        if keyword in _REFERENCES:
            return [((keyword,), self.referred(location, keyword))]
        if keyword == "if":
            paths = [((name,), schema[name]) for name in ("if", "then", "else") if name in schema]
        elif keyword == "dependentSchemas" or keyword == "dependencies":
            if isinstance(value, dict):
                paths = [((keyword, key), one) for key, one in value.items() if isinstance(one, (dict, bool))]
        elif isinstance(value, list):
            paths = [((keyword, i), one) for i, one in enumerate(value)]
        return [(path, self.formula(location, one, path)) for path, one in paths]

    def by_type(self, formula: Formula) -> list:
        """Return the meaning of a formula of locations for each type, in the order of `TYPES`."""
        if formula.op == "atom":
            location: Location = self.locations.all[formula.args[1]]
            named = location.schema.get("type")
            if isinstance(named, str) and not self.only_ref(location):
                found = [self.formulas.false] * len(TYPES)
                kind = "number" if named == "integer" else named
                if kind in TYPES:  # other names are refused below
                    found[TYPES.index(kind)] = self.expand(formula, kind)
                    return found
        return [self.expand(formula, kind) for kind in TYPES]

    def _of(self, location: object) -> Formula:
        """Return the formula of a location, or of True or False."""
        if isinstance(location, bool):
            return self.formulas.constant(location)
        atom: Formula = self._atoms.get(location)
        if atom is None:
            found: Location = location
            atom = self._atoms[location] = self.formulas.atom(("location", found.number))
        return atom

    def expand(self, formula: Formula, kind: str) -> Formula:
        """Return the meaning of a formula of locations for values of one type."""
        if formula.is_constant:
            return formula
        if formula.op == "atom":
            return self._expand(formula.args[1], kind)
        values = {atom: self._expand(atom.args[1], kind) for atom in formula.ordered_atoms}
        return self.formulas.substitute(formula, values)

    def _expand(self, number: object, kind: str) -> Formula:
        key = number, kind
        found: Formula = self._expanded.get(key)
        if found is not None:
            return found
        location: Location = self.locations.all[number]
        named = location.schema.get("type")
        if isinstance(named, str) and named != kind and named in TYPES and not self.only_ref(location):
            return self.formulas.false  # true of most subschemas and most types
        if len(self._under_way) >= MOST_NESTED:
            raise RecursionError("in the subschemas of a schema")
        self._under_way.add(key)
        try:
            found = self.formulas.conjunction(self._clauses(location, kind))
        finally:
            self._under_way.discard(key)
        self._expanded[key] = found
        return found

    def only_ref(self, location: Location) -> cython.bint:
        """Whether the location has a reference, and all other keywords of it are ignored."""
        return "$ref" in location.schema and self.locations.dialect.ignores_ref_siblings

    def _clauses(self, location: Location, kind: str) -> list:
        """Return what the keywords of a location require of values of a type, in the order of the text: keys
        are written in the order of the locations that declare them. After a clause that no value satisfies,
        the other keywords are not read."""
        schema = location.schema
        clauses: list = []
        if self.only_ref(location):
            clauses.append(self._follow(location, "$ref", kind))
            return clauses
        if "type" in schema:
            clauses.append(self._type(location, kind))
        is_read: cython.bint = False
        for keyword in schema:
            if self._is_false(clauses):
                return clauses
            if keyword not in self._keywords:
                continue
            if keyword in _REFERENCES:
                clauses.append(self._follow(location, keyword, kind))
            elif keyword in _OPERATORS:
                clauses += self._operator(location, keyword, kind)
            elif not is_read and keyword in _DECLARING:
                is_read = True
                clauses += self._of_kind(location, kind)
        if not is_read and not self._is_false(clauses):
            clauses += self._of_kind(location, kind)
        return clauses

    def _follow(self, location: Location, keyword: str, kind: str) -> Formula:
        """Return what a reference requires of values of a type."""
        target = self.referred(location, keyword)
        if target.op == "atom" and (target.args[1], kind) in self._under_way:
            why = "leads back to itself without passing a key or an item"
            raise location.refused(keyword, why, "invalid")
        return self.expand(target, kind)

    def _operator(self, location: Location, keyword: str, kind: str) -> list:
        """Return what a keyword that applies to values of all types requires of values of a type."""
        if keyword == "enum":
            return [self._enum(list_of(location, keyword), kind)]
        if keyword == "const":
            return [self._enum([location.schema[keyword]], kind)]
        if keyword == "not":
            return [self.formulas.negation(self._inner(location, kind, location.schema[keyword], ("not",)))]
        return self._if(location, kind) if keyword == "if" else [self._branches(location, keyword, kind)]

    def _of_kind(self, location: Location, kind: str) -> list:
        """Return what the keywords for a type require of its values."""
        if kind == "number":
            return self._number(location)
        if kind == "string":
            return self.strings.clauses(location)
        if kind == "array":
            return self._array(location)
        return self._object(location) if kind == "object" else []

    def _is_false(self, clauses: list) -> cython.bint:
        """Whether no value satisfies the last clause."""
        return len(clauses) > 0 and clauses[len(clauses) - 1] is self.formulas.false

    def _inner(self, location: Location, kind: str, schema: object, path: tuple) -> Formula:
        """Return what a subschema that applies to the same value requires of values of a type."""
        limits.check_deadline()
        return self.expand(self.formula(location, schema, path), kind)

    def _type(self, location: Location, kind: str) -> Formula:
        named = location.schema["type"]
        names = [named] if isinstance(named, str) else named
        if not isinstance(names, list) or [name for name in names if name not in NAMES]:
            raise location.refused(
                "type",
                f"must be one of {', '.join(NAMES)}, or a list of these, but is {shown(named)}",
                "invalid",
            )
        if kind in names:
            return self.formulas.true
        if kind == "number" and "integer" in names:
            return self.formulas.atom(("integer",))
        return self.formulas.false

    def _branches(self, location: Location, keyword: str, kind: str) -> Formula:
        branches = list_of(location, keyword)
        parts = [self._inner(location, kind, one, (keyword, i)) for i, one in enumerate(branches)]
        if keyword == "allOf":
            return self.formulas.conjunction(parts)
        return self.formulas.disjunction(parts) if keyword == "anyOf" else self.formulas.exactly_one(parts)

    def _if(self, location: Location, kind: str) -> list:
        schema, formulas = location.schema, self.formulas
        clauses: list = []
        if "then" not in schema and "else" not in schema:
            return clauses
        condition = self._inner(location, kind, schema["if"], ("if",))
        if "then" in schema:
            then = self._inner(location, kind, schema["then"], ("then",))
            clauses.append(formulas.disjunction((formulas.negation(condition), then)))
        if "else" in schema:
            otherwise = self._inner(location, kind, schema["else"], ("else",))
            clauses.append(formulas.disjunction((condition, otherwise)))
        return clauses

    def _enum(self, values: list, kind: str) -> Formula:
        formulas = self.formulas
        if kind == "null":
            return formulas.constant(None in values)
        if kind == "boolean":
            true = formulas.atom(("true",))
            return formulas.disjunction(
                [true if value else formulas.negation(true) for value in values if isinstance(value, bool)]
            )
        if kind == "number":
            numbers = frozenset([decimal(value) for value in values if is_number(value)])
            return formulas.atom(("among", numbers)) if numbers else formulas.false
        if kind == "string":
            return self.strings.among([value for value in values if isinstance(value, str)])
        if kind == "object":
            return formulas.disjunction([self._object_constant(v) for v in values if isinstance(v, dict)])
        return formulas.disjunction([self._array_constant(v) for v in values if isinstance(v, list)])

    def _object_constant(self, value: dict) -> Formula:
        limits.check_deadline()
        names = {name: self.constant(one) for name, one in value.items()}
        parts = [self.formulas.atom(("has", name)) for name in value]
        return self.formulas.conjunction([self.sets.atom(names, (), self.formulas.false), *parts])

    def _array_constant(self, value: list) -> Formula:
        limits.check_deadline()
        formulas = self.formulas
        items = items_atom(formulas, tuple([self.constant(one) for one in value]), formulas.false)
        self.arrays[items] = value
        known = formulas.atom(("known", items))
        return formulas.conjunction((items, count_atom(formulas, len(value)), known))

    def _number(self, location: Location) -> list:
        schema, formulas = location.schema, self.formulas
        clauses: list = []
        for keyword, opposite, closed, open_ in (
            ("minimum", False, "ge", "gt"), ("maximum", True, "gt", "ge"),
        ):  # fmt: skip
            exclusive = "exclusive" + keyword.capitalize()
            beyond = schema.get(exclusive)
            is_flag = isinstance(beyond, bool)  # of draft 4; some schemas of later drafts have it, too
            if exclusive in schema and self.locations.dialect.boolean_exclusive:
                flag_of(location, exclusive)  # refuses numbers
            if keyword in schema:
                value = decimal_of(location, keyword)
                atom = formulas.atom((open_ if is_flag and beyond else closed, value))
                clauses.append(formulas.negation(atom) if opposite else atom)
            if exclusive in schema and not is_flag:
                atom = formulas.atom((open_, decimal_of(location, exclusive)))
                clauses.append(formulas.negation(atom) if opposite else atom)
        if "multipleOf" in schema:
            divisor = decimal_of(location, "multipleOf")
            if divisor <= 0:
                raise location.refused("multipleOf", f"must be a number above 0, but is {divisor}", "invalid")
            clauses.append(formulas.atom(("multiple", divisor)))
        return clauses

    def _object(self, location: Location) -> list:
        schema, formulas, keywords = location.schema, self.formulas, self._keywords
        clauses: list = []
        are_properties_read: cython.bint = False
        for keyword in schema:  # subschemas get their numbers in the order of the text
            if keyword in ("properties", "patternProperties", "additionalProperties"):
                if not are_properties_read:
                    are_properties_read = True
                    clauses.append(self._properties(location))
            elif keyword in ("dependentRequired", "dependentSchemas", "dependencies") and keyword in keywords:
                clauses += self._dependent(location, keyword)
        if "required" in schema:
            clauses += [formulas.atom(("has", name)) for name in names_of(location, "required")]
        if "minProperties" in schema:
            clauses.append(count_atom(formulas, count_of(location, "minProperties")))
        if "maxProperties" in schema:
            most = count_of(location, "maxProperties")
            clauses.append(formulas.negation(count_atom(formulas, most + 1)))
        if "propertyNames" in schema and "propertyNames" in keywords:
            names = self._inner(location, "string", schema["propertyNames"], ("propertyNames",))
            if names is not formulas.true:
                clauses.append(formulas.atom(("names", names)))
        if schema.get("unevaluatedProperties", True) is not True and "unevaluatedProperties" in keywords:
            clauses.append(Evaluated(self).unevaluated_properties(location))
        return clauses

    def _properties(self, location: Location) -> Formula:
        names: dict = {}
        patterns: list = []
        rest = self.formulas.true
        for keyword in location.schema:
            if keyword == "properties":
                for name, one in dict_of(location, keyword).items():
                    names[name] = self.formula(location, one, (keyword, name))
            elif keyword == "patternProperties":
                for name, one in dict_of(location, keyword).items():
                    value = self.formula(location, one, (keyword, name))
                    patterns.append((self.strings.pattern(location, keyword, name), value))
            elif keyword == "additionalProperties":
                rest = self.formula(location, location.schema[keyword], (keyword,))
        return self.sets.atom(names, tuple(patterns), rest)

    def _dependent(self, location: Location, keyword: str) -> list:
        formulas = self.formulas
        clauses: list = []
        for name, asked in dict_of(location, keyword).items():
            absent = formulas.negation(formulas.atom(("has", name)))
            if isinstance(asked, str) and keyword == "dependencies":
                asked = [asked]
            if isinstance(asked, list) and keyword != "dependentSchemas":
                if not are_texts(asked):
                    raise location.refused(
                        keyword, f"must list keys for {shown(name)}, not {shown(asked)}", "invalid"
                    )
                present = formulas.conjunction([formulas.atom(("has", other)) for other in asked])
            else:
                present = self._inner(location, "object", asked, (keyword, name))
            clauses.append(formulas.disjunction((absent, present)))
        return clauses

    def _array(self, location: Location) -> list:
        schema, formulas, keywords = location.schema, self.formulas, self._keywords
        clauses: list = []
        are_items_read: cython.bint = False
        for keyword in schema:  # subschemas get their numbers in the order of the text
            if keyword in ("prefixItems", "items", "additionalItems"):
                if not are_items_read:
                    are_items_read = True
                    clauses.append(self._items(location))
            elif keyword == "contains" and keyword in keywords:
                clauses += self._contains(location)
        if "minItems" in schema:
            clauses.append(count_atom(formulas, count_of(location, "minItems")))
        if "maxItems" in schema:
            clauses.append(formulas.negation(count_atom(formulas, count_of(location, "maxItems") + 1)))
        if "uniqueItems" in schema and flag_of(location, "uniqueItems"):
            clauses.append(formulas.atom(("unique",)))
        if schema.get("unevaluatedItems", True) is not True and "unevaluatedItems" in keywords:
            clauses.append(Evaluated(self).unevaluated_items(location))
        return clauses

    def _items(self, location: Location) -> Formula:
        schema, lists = location.schema, self.locations.dialect.lists_items
        items = schema.get("items", True)
        if lists and isinstance(items, list):
            prefix, behind, keyword = items, schema.get("additionalItems", True), "additionalItems"
            first = "items"
        else:
            first, keyword, behind = "prefixItems", "items", items
            prefix = [] if lists else schema.get("prefixItems", [])
        if not isinstance(prefix, list):
            raise location.refused(first, "is not a list of schemas", "invalid")
        parts = [self.formula(location, one, (first, i)) for i, one in enumerate(prefix)]
        rest = self.formulas.true if behind is True else self.formula(location, behind, (keyword,))
        return items_atom(self.formulas, tuple(parts), rest)

    def _contains(self, location: Location) -> list:
        formulas, inner = self.formulas, self.formula(location, location.schema["contains"], ("contains",))
        clauses: list = []
        least, most = 1, None
        if self.locations.dialect.counts_contains:
            if "minContains" in location.schema:
                least = count_of(location, "minContains")
            if "maxContains" in location.schema:
                most = count_of(location, "maxContains")
        if least > 0:
            clauses.append(formulas.atom(("contains", inner, least)))
        if most is not None:
            clauses.append(formulas.negation(formulas.atom(("contains", inner, most + 1))))
        return clauses
