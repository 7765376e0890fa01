# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""The atoms of formulas about one JSON value, for each type.

What: the kinds of atoms, and `PropertySet`: what a schema requires of the values of an object's keys.
When: `hybrid.json_schema.assertions` makes atoms from keywords; `objects.py`, `arrays.py`, `strings.py` and
`numbers.py` turn them into automata.

An atom's content begins with its kind:

- for a value of any type: ``("location", n)``: the value is valid under subschema n;
- for a boolean: ``("true",)``: it is true;
- for a number, the atoms of `hybrid.json_schema.languages.numbers`: ``("integer",)``, ``("ge", x)``,
  ``("gt", x)``, ``("multiple", x)``, ``("among", {x, ...})``;
- for a string: ``("language", source)``: it is in a regular language; ``("longer", n)``: it has at least n
  characters;
- for the rest of an object: ``("has", key)``: it has this key; ``("count", n)``: it has at least n keys;
  ``("names", f)``: all its keys satisfy a formula of strings; ``("properties", s)``: the values of all its
  keys satisfy `PropertySet` s;
- for the rest of an array: ``("items", f, a)``: the first item satisfies f, and atom a holds behind it;
  ``("items", f, None)``: all items satisfy f; ``("contains", f, n)``: at least n items satisfy f;
  ``("count", n)``: it has at least n items; ``("unique",)``: no two items are equal; ``("known", f)``: they
  are the items of the array in `enum` or `const` whose items satisfy f (`build_array` replaces it).

Objects and arrays are read by Brzozowski derivatives of such formulas (Brzozowski: Derivatives of Regular
Expressions, 1964): an atom describes the rest of the value, and a key or an item turns it into an atom
about what is left after that.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.formulas import Formula, Formulas

check_source(__name__)

TYPES = ("null", "boolean", "number", "string", "array", "object")
"""JSON's types; integers are numbers."""


@cython.final
@cython.cclass
class PropertySet:
    """What `properties`, `patternProperties` and `additionalProperties` of one subschema require. Equal
    sets are one object (see `PropertySets`).

    Attributes:
        names: for each declared key that may still come, the formula of its value.
        patterns: for each pattern, (formula of strings, formula of the value).
        rest: the formula of the values of all other keys.
    """

    def __init__(self, names: dict, patterns: tuple, rest: Formula) -> None:
        self.names, self.patterns, self.rest = names, patterns, rest
        self._after = {}


@cython.final
@cython.cclass
class PropertySets:
    """The property sets of a schema. Equal ones are made once.

    Attributes:
        n_left: the number of declared keys in all sets that `after` has made.
    """

    def __init__(self, formulas: Formulas) -> None:
        self._formulas, self.n_left = formulas, 0
        self._made = {}

    def atom(self, names: dict, patterns: tuple, rest: Formula) -> Formula:
        """Return the atom of a property set, or true if the set requires nothing.

        Args:
            names, patterns, rest: as in `PropertySet`.
        """
        value: Formula
        pattern: Formula
        is_true: cython.bint = rest is self._formulas.true
        key = []
        for name, value in names.items():
            is_true = is_true and value is self._formulas.true
            key.append(name)
            key.append(value.number)
        key.append(None)  # no name
        for pattern, value in patterns:
            is_true = is_true and value is self._formulas.true
            key.append(pattern.number)
            key.append(value.number)
        if is_true:
            return self._formulas.true
        key.append(rest.number)
        content = tuple(key)
        found: PropertySet = self._made.get(content)
        if found is None:
            found = self._made[content] = PropertySet(names, patterns, rest)
        return self._formulas.atom(("properties", found))

    def after(self, atom: Formula, name: str) -> Formula:
        """Return the atom after a declared key was read or passed over. The key is forgotten, so that
        alternatives with equal futures become one (62,531 states instead of 88,135 on 322 hard schemas)."""
        found: PropertySet = atom.args[1]
        if name not in found.names:
            return atom
        after: Formula = found._after.get(name)
        if after is None:
            rest = dict(found.names)
            del rest[name]
            self.n_left += len(rest)
            after = found._after[name] = self.atom(rest, found.patterns, found.rest)
        return after


def items_atom(formulas: Formulas, prefix: tuple, rest: Formula) -> Formula:
    """Return the atom for items, or true if it requires nothing.

    Args:
        prefix: formulas of the first items.
        rest: the formula of all others.
    """
    every: Formula = formulas.true if rest is formulas.true else formulas.atom(("items", rest, None))
    found: Formula = every
    for one in reversed(prefix):
        if found is not every or one is not rest:
            found = formulas.atom(("items", one, found))
    return found


def count_atom(formulas: Formulas, least: Any) -> Formula:
    """Return the atom for at least this many more keys or items."""
    return formulas.atom(("count", least)) if least > 0 else formulas.true


MOST_IGNORED = 100
"""Counts of at most this share of the states of an object or array are no cause of too many of them."""


def counting_keyword(formulas: Formulas, start: Formula, what: str, states: int) -> str:
    """Return the keyword with the largest count, if it may be why an automaton has too many states; else "".

    Args:
        start: the formula of the whole objects or arrays.
        what: "Properties" or "Items".
        states: the number of states that are allowed.
    """
    counts = [atom for atom in start.ordered_atoms if atom.args[0] in ("count", "contains")]
    largest = max(counts, key=_count_of, default=None)
    if largest is None or _count_of(largest) * MOST_IGNORED < states:
        return ""
    if largest.args[0] == "contains":
        return "contains"
    parts = start.args if start.op == "and" else (start,)
    return ("max" if formulas.negation(largest) in parts else "min") + what


def _count_of(atom: Formula) -> int:
    return atom.args[-1]
