"""`unevaluatedProperties` and `unevaluatedItems`: which keys and items other subschemas have evaluated.

What: `Evaluated` lists the subschemas that apply to the same value (`allOf`, `anyOf`, `$ref`, `then` ...),
each with the keys or items that it evaluates and the condition under which it holds. A value must satisfy
the keyword unless a subschema that holds evaluates it. That is one clause for the keys that the same
subschemas evaluate: one of these holds, or the values satisfy the keyword.
When: for locations that have one of the two keywords.
Limits: patterns, or `contains`, of at most `MOST_CONDITIONAL` subschemas that may or may not hold. There is a
clause for each set of these: one of the set holds, or all keys that no other one matches satisfy the
keyword.

See JSON Schema 2020-12, core, section 11, and validation of annotations in section 7.7.1.

Rejected: a clause for each way in which all subschemas can hold together. There is one for each set of
branches, so nine branches would be too many.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from hybrid.json_schema.atoms import items_atom
from hybrid.json_schema.formulas import Formula
from hybrid.json_schema.keyword_values import value_of_kind
from hybrid.json_schema.languages.limits import check_deadline
from hybrid.json_schema.locations import Location

MOST_CONDITIONAL = 8
"""Subschemas that evaluate keys by patterns, or items by `contains`, under different conditions."""


class Keys(NamedTuple):
    """Which keys of an object a subschema evaluates: names, keys that satisfy formulas, or all."""

    names: tuple[str, ...] = ()
    patterns: tuple[Formula, ...] = ()
    everything: bool = False


class Items(NamedTuple):
    """Which items of an array a subschema evaluates: the first ones, those that satisfy a formula, or all."""

    prefix: int = 0
    contained: Formula | None = None
    everything: bool = False


class Evaluated:
    """What other subschemas evaluate for a keyword of a location.

    Args:
        assertions: the formulas of the schema's subschemas (`hybrid.json_schema.assertions.Assertions`). They
            refuse subschemas that lead back to themselves.
    """

    def __init__(self, assertions: Any) -> None:
        self._of = assertions
        self._formulas = assertions.formulas

    def unevaluated_properties(self, location: Location) -> Formula:
        """Return what `unevaluatedProperties` of a location requires of an object that satisfies all other
        keywords."""
        formulas, sets, strings = self._formulas, self._of.sets, self._of.strings
        true, keyword = formulas.true, "unevaluatedProperties"
        asked = self._of.formula(location, location.schema[keyword], (keyword,))
        of_all: list[Formula] = []
        of_name: dict[str, list[Formula]] = {}
        of_patterns: dict[tuple[Formula, ...], list[Formula]] = {}
        for keys, holds in self._subschemas(location, "object", true, set(), keyword):
            if keys.everything:
                of_all.append(holds)
                continue
            for name in keys.names:
                of_name.setdefault(name, []).append(holds)
            if keys.patterns:
                of_patterns.setdefault(keys.patterns, []).append(holds)
        together: dict[Formula, list[str]] = {}  # names that are evaluated under the same condition
        for name, conditions in of_name.items():
            check_deadline()
            for patterns, others in of_patterns.items():
                if any(strings.holds(pattern, name) for pattern in patterns):
                    conditions += others
            together.setdefault(formulas.disjunction((*of_all, *conditions)), []).append(name)
        clauses = [
            formulas.disjunction((holds, sets.atom(dict.fromkeys(names, asked), (), true)))
            for holds, names in together.items()
        ]
        named = dict.fromkeys(of_name, true)
        for holds, matched in self._sets_of(location, keyword, of_all, of_patterns):
            free = tuple((pattern, true) for patterns in matched for pattern in patterns)
            clauses.append(formulas.disjunction((holds, sets.atom(named, free, asked))))
        return formulas.conjunction(clauses)

    def unevaluated_items(self, location: Location) -> Formula:
        """Return what `unevaluatedItems` of a location requires of an array that satisfies all other
        keywords."""
        formulas, true, keyword = self._formulas, self._formulas.true, "unevaluatedItems"
        asked = self._of.formula(location, location.schema[keyword], (keyword,))
        of_all: list[Formula] = []
        of_prefix: dict[int, list[Formula]] = {}
        of_contained: dict[Formula, list[Formula]] = {}
        for items, holds in self._subschemas(location, "array", true, set(), keyword):
            if items.everything:
                of_all.append(holds)
                continue
            of_prefix.setdefault(items.prefix, []).append(holds)
            if items.contained is not None:
                of_contained.setdefault(items.contained, []).append(holds)
        clauses = []
        ends = sorted({0, *of_prefix})
        for begin, end in zip(ends, [*ends[1:], None], strict=True):
            longer = [one for prefix, conditions in of_prefix.items() if prefix > begin for one in conditions]
            for holds, contained in self._sets_of(location, keyword, of_all + longer, of_contained):
                value = formulas.disjunction((*contained, asked))
                prefix, rest = (true,) * begin, value
                if end is not None:
                    prefix, rest = (*prefix, *(value,) * (end - begin)), true
                clauses.append(formulas.disjunction((holds, items_atom(formulas, prefix, rest))))
        return formulas.conjunction(clauses)

    def _sets_of(
        self, location: Location, keyword: str, of_all: list[Formula], some: dict[Any, list[Formula]]
    ) -> Iterator[tuple[Formula, list[Any]]]:
        """Yield clauses for values that some subschemas evaluate if they match. For each set of these
        subschemas, the clause is that one of the set, or of those that evaluate all values, holds. It comes
        with what the other subschemas match.

        Args:
            of_all: the conditions of subschemas that evaluate all values.
            some: for what subschemas match, the conditions under which they hold.
        """
        formulas = self._formulas
        holds = {one: formulas.disjunction(conditions) for one, conditions in some.items()}
        perhaps = [one for one, condition in holds.items() if condition is not formulas.true]
        if len(perhaps) > MOST_CONDITIONAL:
            why = f"depends on more than {MOST_CONDITIONAL} subschemas with patterns or `contains`"
            raise location.refused(keyword, why, "unsupported")
        for n in range(len(perhaps) + 1):
            for chosen in itertools.combinations(perhaps, n):
                condition = formulas.disjunction((*of_all, *(holds[one] for one in chosen)))
                if condition is not formulas.true:
                    yield condition, [one for one in holds if one not in chosen]

    def _subschemas(
        self, location: Location, kind: str, holds: Formula, visited: set[tuple[int, Formula]],
        keyword: str = "",
    ) -> Iterator[tuple[Any, Formula]]:  # fmt: skip
        """Yield what a location and the subschemas that apply to the same value evaluate, each with the
        condition under which it holds. The formulas assume that the location holds if `holds` does.

        Args:
            visited: the locations, with conditions, that were yielded before; it is updated. A chain of 30
                subschemas that each refer twice to the next has a billion paths.
            keyword: the keyword that is being read; its own evaluation does not count.
        """
        if (location.number, holds) in visited:
            return
        visited.add((location.number, holds))
        own: Any = self._own_keys(location) if kind == "object" else self._own_items(location)
        swallows = "unevaluatedProperties" if kind == "object" else "unevaluatedItems"
        if keyword != swallows and swallows in location.schema:
            own = own._replace(everything=True)
        yield own, holds
        if not own.everything:
            for formula, condition in self._in_place(location, kind, holds):
                if formula.op == "atom" and condition is not self._formulas.false:
                    inner = self._of.locations.all[formula.args[1]]
                    yield from self._subschemas(inner, kind, condition, visited)

    def _in_place(self, location: Location, kind: str, holds: Formula) -> Iterator[tuple[Formula, Formula]]:
        """Yield each subschema that applies to the same value, and the condition under which it holds."""
        of, formulas = self._of, self._formulas
        asked = formulas.true  # what `if` asks for; it comes before `then` and `else`
        for keyword in location.schema:
            for path, formula in of.in_place(location, keyword):
                condition = formulas.true
                if keyword in ("anyOf", "oneOf"):
                    condition = of.expand(formula, kind)
                elif keyword == "dependentSchemas":
                    condition = formulas.atom(("has", path[1])) if kind == "object" else formulas.false
                elif path[0] == "if":
                    condition = asked = of.expand(formula, kind)
                elif path[0] == "then":
                    condition = asked
                elif path[0] == "else":
                    condition = formulas.negation(asked)
                yield formula, formulas.conjunction((holds, condition))

    def _own_keys(self, location: Location) -> Keys:
        schema = location.schema
        if "additionalProperties" in schema:
            return Keys(everything=True)
        patterns = tuple(
            self._of.strings.pattern(location, "patternProperties", one)
            for one in value_of_kind(schema, "patternProperties", dict)
        )
        return Keys(tuple(value_of_kind(schema, "properties", dict)), patterns)

    def _own_items(self, location: Location) -> Items:
        schema, dialect = location.schema, self._of.locations.dialect
        items = schema.get("items")
        prefix = [] if dialect.lists_items else value_of_kind(schema, "prefixItems", list)
        if dialect.lists_items and isinstance(items, list):
            items, prefix = schema.get("additionalItems"), items
        if items is not None:
            return Items(everything=True)
        contained = None
        if "contains" in schema and not dialect.lists_items:  # since 2020-12
            contained = self._of.formula(location, schema["contains"], ("contains",))
        return Items(len(prefix), contained)
