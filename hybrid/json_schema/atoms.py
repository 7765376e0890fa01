"""What formulas about one JSON value are made of, type by type.

What: the kinds of atoms, and `PropertySet`, what a schema says of the values of an object's keys.
When: `hybrid.json_schema.assertions` makes atoms of keywords; `objects.py`, `arrays.py`, `strings.py` and
`numbers.py` read values against them.

An atom's content begins with its kind:

- of a value of any type: ``("location", n)``: it is valid under subschema n;
- of a boolean: ``("true",)``: it is true;
- of a number: as `hybrid.json_schema.languages.numbers` has them: ``("integer",)``, ``("ge", x)``,
  ``("gt", x)``, ``("multiple", x)``, ``("among", {x, ...})``;
- of a string: ``("language", source)``: it is in a regular language; ``("longer", n)``: it has at least n
  characters;
- of an object, of what is still to come of it: ``("has", key)``: this key comes; ``("count", n)``: at least
  n keys come; ``("names", f)``: all keys that come satisfy a formula of strings; ``("properties", s)``: the
  values of all keys that come are as `PropertySet` s asks;
- of an array, of what is still to come of it: ``("items", (f, ...), g)``: the first items satisfy these
  formulas, the others g; ``("contains", f, n)``: at least n items satisfy f; ``("count", n)``: at least n
  items come; ``("unique",)``: no two items are equal.

Objects and arrays are read by Brzozowski derivatives of such formulas (Brzozowski: Derivatives of Regular
Expressions, 1964): an atom says what is still to come, and a key or an item turns it into what is to come
after it.
"""

from __future__ import annotations

from collections.abc import Mapping

from hybrid.json_schema.formulas import Formula, Formulas

TYPES = ("null", "boolean", "number", "string", "array", "object")
"""JSON's types; integers are numbers."""


class PropertySet:
    """What `properties`, `patternProperties` and `additionalProperties` of one subschema say; one object for
    each content (see `PropertySets`).

    Attributes:
        names: formula of the value of each declared key that has not gone by.
        patterns: (formula of strings, formula of the value) of each pattern.
        rest: formula of the value of keys that none of these names.
        number: among all.
    """

    __slots__ = ("_after", "names", "number", "patterns", "rest")

    def __init__(
        self, names: Mapping[str, Formula], patterns: tuple[tuple[Formula, Formula], ...], rest: Formula,
        number: int,
    ) -> None:  # fmt: skip
        self.names, self.patterns, self.rest, self.number = names, patterns, rest, number
        self._after: dict[str, Formula] = {}


class PropertySets:
    """All property sets of a schema, equal ones once."""

    def __init__(self, formulas: Formulas) -> None:
        self._formulas = formulas
        self._made: dict[object, PropertySet] = {}

    def atom(
        self, names: Mapping[str, Formula], patterns: tuple[tuple[Formula, Formula], ...], rest: Formula
    ) -> Formula:
        """The atom of a property set; true where it says nothing."""
        true = self._formulas.true
        if rest is true and all(f is true for f in names.values()) and all(f is true for _, f in patterns):
            return true
        key = (
            tuple((name, f.number) for name, f in names.items()),
            tuple((pattern.number, f.number) for pattern, f in patterns),
            rest.number,
        )
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = PropertySet(names, patterns, rest, len(self._made))
        return self._formulas.atom("properties", found)

    def after(self, atom: Formula, name: str) -> Formula:
        """The atom once a declared key has gone by or was passed over: it is forgotten, so that alternatives
        with equal futures meet (62,531 states against 88,135 on 322 hard schemas)."""
        found: PropertySet = atom.args[1]
        if name not in found.names:
            return atom
        after = found._after.get(name)
        if after is None:
            rest = {other: formula for other, formula in found.names.items() if other != name}
            after = found._after[name] = self.atom(rest, found.patterns, found.rest)
        return after


def items_atom(formulas: Formulas, prefix: tuple[Formula, ...], rest: Formula) -> Formula:
    """The atom of items: true where it says nothing."""
    end = len(prefix)
    while end and prefix[end - 1] is rest:
        end -= 1
    if not end and rest is formulas.true:
        return formulas.true
    return formulas.atom("items", prefix[:end], rest)


def count_atom(formulas: Formulas, least: int) -> Formula:
    """At least so many keys or items come."""
    return formulas.atom("count", least) if least > 0 else formulas.true
