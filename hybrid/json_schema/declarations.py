# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""The keys that a location declares, their order, and whether other keys and items are restricted.

What: `Declarations.of` merges the declarations of a location and of all subschemas that apply to the same
value (`$ref`, `allOf`, `anyOf`, `then` ...). They give the canonical order of keys (the order of first
declaration), and with `strict_mode` they decide which objects and arrays are closed to other keys and
items.
When: once for each location.
Limits: the declarations of all branches count, whether these hold or not. Only `unevaluatedProperties` asks
which of them hold (`evaluated.py`).
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.assertions import Assertions
from cython.cimports.hybrid.json_schema.formulas import Formula
from cython.cimports.hybrid.json_schema.keyword_values import value_of_kind
from cython.cimports.hybrid.json_schema.locations import Location

from hybrid.json_schema.languages import limits

check_source(__name__)

MOST_NESTED = cython.declare(cython.Py_ssize_t, limits.MOST_NESTED)


@cython.final
@cython.cclass
class Declared:
    """What some locations declare together.

    Attributes:
        names: declared keys, in the order of first declaration.
        mentioned: keys that are only required, by `required` and similar keywords, in the same order.
        patterns: the formulas of `patternProperties`, about keys.
        declares_keys: whether any subschema has `properties` or `patternProperties`.
        opens_keys: whether any subschema says something about other keys.
        prefix: number of items that are declared one by one.
        opens_items: whether any subschema says something about other items.
    """

    def __init__(self) -> None:
        self.names, self.mentioned, self.patterns = {}, {}, {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Declared keys, then keys that are only required: the canonical order."""
        return tuple(self.names) if not self.mentioned else tuple({**self.names, **self.mentioned})

    def add(self, other: Declared) -> object:
        """Add what another declares."""
        self.names.update(other.names)
        self.mentioned.update(other.mentioned)
        self.patterns.update(other.patterns)
        self.declares_keys |= other.declares_keys
        self.opens_keys |= other.opens_keys
        self.prefix = max(self.prefix, other.prefix)
        self.opens_items |= other.opens_items

    def add_keywords(self, schema: dict, strings: Any, location: Location, known: frozenset) -> object:
        """Add what the keywords of a location say about other keys and about items. Keywords that are not
        `known` mean nothing, and neither do values that are refused where they matter."""
        if "patternProperties" in schema:
            self.declares_keys = True
            for one in value_of_kind(schema, "patternProperties", dict):
                self.patterns[strings.pattern(location, "patternProperties", one)] = None
        if "properties" in schema:
            self.declares_keys = True
        if "additionalProperties" in schema or _has("unevaluatedProperties", schema, known):
            self.opens_keys = True
        items = schema.get("items")
        prefix = items if isinstance(items, list) else ()
        if _has("prefixItems", schema, known):
            prefix = value_of_kind(schema, "prefixItems", list)
        self.prefix = max(self.prefix, len(prefix))
        opens = _has("additionalItems", schema, known) or _has("unevaluatedItems", schema, known)
        if isinstance(items, (dict, bool)) or opens:
            self.opens_items = True

    def add_keys(self, keyword: str, value: object) -> object:
        """Add the keys that a keyword names. A key that requires others comes before them."""
        if keyword == "properties":
            if isinstance(value, dict):
                self.names.update(dict.fromkeys(value))
                return
        elif keyword == "enum" or keyword == "const":
            for one in value if keyword == "enum" and isinstance(value, list) else (value,):
                if isinstance(one, dict):
                    self.names.update(dict.fromkeys(one))
            return
        elif keyword == "required" and isinstance(value, list):
            for name in value:
                if isinstance(name, str):
                    self.mentioned[name] = None
            return
        if isinstance(value, dict):
            for name, asked in value.items():
                self.mentioned[name] = None
                if isinstance(asked, list):
                    for other in asked:
                        if isinstance(other, str):
                            self.mentioned[other] = None


@cython.final
@cython.cclass
class Declarations:
    """The declarations of one schema's locations."""

    def __init__(self, assertions: Assertions) -> None:
        self._of, self._locations = assertions, assertions.locations
        self._keywords = self._locations.dialect.keywords
        self._found = {}
        self._depth = 0

    def of(self, formula: Formula) -> Declared:
        """Return what the locations of a formula declare together."""
        if formula.op == "atom":
            return self._location(formula.args[1])
        found = Declared()
        for number in sorted([atom.args[1] for atom in formula.atoms]):
            found.add(self._location(number))
        return found

    def place(self, formula: Formula, keywords: tuple) -> tuple:
        """Return the first of some keywords that applies to the values of a formula, and the pointer of the
        first location that has it. If none has one of them: "" and the pointer of the first location."""
        locations, visited = self._locations.all, set()
        numbers: list = [atom.args[1] for atom in formula.ordered_atoms]
        first = locations[numbers[0]].pointer if numbers else ""
        while numbers:
            for number in numbers:
                self._walk(locations[number], visited, Declared())
            for keyword in keywords:
                for number in sorted(visited):
                    is_read = keyword == "$ref" or not self._of.only_ref(locations[number])
                    if is_read and keyword in locations[number].schema:
                        return keyword, locations[number].pointer
            numbers = [number for number in self._negated(visited) if number not in visited]
        return "", first

    def _negated(self, numbers: set) -> list:
        """Return the locations below `not` of some locations, by number."""
        found: list = []
        for number in sorted(numbers):
            location: Location = self._locations.all[number]
            if "not" in location.schema and "not" in self._keywords and not self._of.only_ref(location):
                formula: Formula = self._of.formula(location, location.schema["not"], ("not",))
                found += [atom.args[1] for atom in formula.ordered_atoms]
        return found

    def _location(self, number: object) -> Declared:
        found: Declared = self._found.get(number)
        if found is None:
            found = self._found[number] = Declared()
            self._walk(self._locations.all[number], set(), found)
        return found

    def _walk(self, location: Location, visited: set, found: Declared) -> object:
        """Add the declarations of a location and of all that apply to the same value, in the order of the
        text. `visited` holds the numbers of those that were added."""
        if location.number in visited:
            return
        visited.add(location.number)
        if self._depth >= MOST_NESTED:
            raise RecursionError("in the declarations of a schema")
        self._depth += 1
        try:
            self._add_all(location, visited, found)
        finally:
            self._depth -= 1

    def _add_all(self, location: Location, visited: set, found: Declared) -> object:
        formula: Formula
        schema, of = location.schema, self._of
        only_ref: cython.bint = self._of.only_ref(location)
        if not only_ref:
            found.add_keywords(schema, of.strings, location, self._keywords)
        for keyword, value in schema.items():
            if keyword not in self._keywords or (only_ref and keyword != "$ref"):
                continue
            if keyword in _WITH_KEYS:
                found.add_keys(keyword, value)
            for _, formula in of.in_place(location, keyword):
                if formula.op == "atom":
                    self._walk(self._locations.all[formula.args[1]], visited, found)


@cython.cfunc
def _has(keyword: str, schema: dict, known: frozenset) -> cython.bint:
    return keyword in schema and keyword in known


_WITH_KEYS = frozenset(
    ("properties", "enum", "const", "required", "dependentRequired", "dependentSchemas", "dependencies")
)
"""Keywords that name keys."""
