# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""Nonterminals: sets of JSON values that the grammar of a schema distinguishes.

What: a `Nonterminal` is a canonical Boolean formula of subschemas, expanded for each type.
`Nonterminals.of` finds the nonterminal of a formula, so that recursion through `$ref` ends. Its objects and
arrays are automata over nonterminals, made on demand (`objects.py`, `arrays.py`).
When: one collection for each schema that is compiled.
Limits: `Bounds`. Whether a nonterminal is empty is only certain after all are built (`productive.py`);
before that, `may_hold` returns False only if it is certain.

A schema is an alternating tree automaton: subschemas in conjunction, disjunction and negation. This is its
subset construction, done lazily: equal formulas are one nonterminal, and so are formulas that mean the same
for every type. (Attouche et al.: Witness Generation for JSON Schema, VLDB 2022, bring such formulas to a
normal form, which is exponential more often.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.assertions import Assertions
from cython.cimports.hybrid.json_schema.automata import Nonterminal, Structure
from cython.cimports.hybrid.json_schema.declarations import Declarations, Declared
from cython.cimports.hybrid.json_schema.formulas import Formula
from cython.cimports.hybrid.json_schema.locations import Location

from equivalence.deadline import Deadline
from hybrid.json_schema.atoms import items_atom
from hybrid.json_schema.equality import key_of
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.formulas import decide
from hybrid.json_schema.languages.limits import TooLarge
from hybrid.json_schema.numbers import Numbers
from hybrid.json_schema.productive import parts_of

check_source(__name__)

_DEEPEST = 20
"""At most this many nested verdicts: each takes about 15 frames of Python's stack."""

_CAUSES = {
    "pattern": ("pattern", "format", "minLength", "maxLength"),
    "maxLength": ("maxLength", "minLength", "format"),
    "patternProperties": ("patternProperties", "propertyNames"),
    "minProperties": ("minProperties", "maxProperties"),
    "maxProperties": ("maxProperties", "minProperties"),
    "minItems": ("minItems", "maxItems"),
    "maxItems": ("maxItems", "minItems"),
    "additionalProperties": (
        "additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames",
    ),
}  # fmt: skip
"""For the keyword of an error: all keywords that may be the cause, the most likely one first."""

PHASE = "the schema's grammar"
"""The name of this computation in errors."""


@dataclass(frozen=True)
class Bounds:
    """How large the grammar of a schema may become.

    Attributes:
        nonterminals: of a schema.
        states: of one object or array.
        minterms: cases into which the values of one key or item are split.
        language_states: of the automaton of one language of strings or numbers.
        key_classes: classes of undeclared keys that one object distinguishes.
    """

    nonterminals: int = 20_000
    states: int = 12_000
    minterms: int = 300
    language_states: int = 12_000
    key_classes: int = 300


def _takes(formula: Formula, value: bool) -> bool:
    """Whether a formula of booleans holds for a boolean."""
    return decide(formula, lambda atom: value)


Build = Callable[[Any, Any], object]
"""Makes an automaton of a nonterminal, the second argument, of those of a schema."""


@cython.final
@cython.cclass
class Nonterminals:
    """The nonterminals of one schema.

    Args:
        build_object, build_array: make the automata of a nonterminal (`objects.py`, `arrays.py`).

    Attributes:
        all: the nonterminals made so far.
        used: those that the grammar may contain; set by `build_all` and `leave_out_dead`. Others were only
            asked whether they have a value. Nothing else may depend on them: a schema must not be refused
            because of them.
        assertions, numbers, bounds: the arguments.
        strings: the string languages of the schema.
    """

    def __init__(
        self, assertions: Assertions, numbers: Numbers, bounds: Bounds, deadline: Deadline, is_strict: bool,
        build_object: Build, build_array: Build,
    ) -> None:  # fmt: skip
        self.all, self.used = [], []
        self.assertions, self.numbers, self.bounds = assertions, numbers, bounds
        self.strings = assertions.strings
        self.formulas = assertions.formulas
        self._declarations = Declarations(assertions)
        self._deadline = deadline
        self._is_strict = is_strict
        self._build_object, self._build_array = build_object, build_array
        self._by_formula, self._by_content, self._keys = {}, {}, {}
        self._n_checks = 0
        self._depth = 0  # number of verdicts that wait for others

    def of(self, formula: Formula) -> Nonterminal:
        """Return the nonterminal of a formula of locations."""
        found: Nonterminal = self._by_formula.get(formula)
        if found is None:
            try:
                found = self._by_formula[formula] = self._find(formula)
            except SchemaRefused as error:
                raise self.placed(error, formula) from error.__cause__
        return found

    def build_all(self, start: Nonterminal) -> object:
        """Build the objects and arrays of the start and of all nonterminals that can be reached from it."""
        one: Nonterminal
        value: Nonterminal
        is_used: bytearray = bytearray(len(self.all))  # by number
        is_used[start.number] = True
        self.used = [start]
        todo: list = [start]
        while todo:
            one = todo.pop()
            self._build(one)
            is_used.extend(bytes(len(self.all) - len(is_used)))
            for automaton in one.automata:
                for value in automaton.values:
                    if not is_used[value.number]:
                        is_used[value.number] = True
                        self.used.append(value)
                        todo.append(value)

    def leave_out_dead(self, start: Nonterminal) -> object:
        """Leave out of `used` what no value has: a schema must not be refused because of it."""
        self.used = [start, *[one for one in parts_of(start.automata) if one is not start]]

    def rebuild_object(self, one: Nonterminal) -> object:
        """Make `build_all` build the objects of a nonterminal again, with the keys that it has now."""
        one.object = None

    def release(self) -> object:
        """Break all cycles of references. The nonterminals cannot be used after that."""
        one: Nonterminal
        for one in self.all:
            one.object = one.array = None

    def placed(self, error: SchemaRefused, formula: Formula) -> SchemaRefused:
        """Return the error with a place. If it has none yet, it gets the place of a formula's locations, and
        the keyword that stands there.

        It may be the same one, so it must not be raised "from" itself: only Python's garbage collector could
        free that.
        """
        if error.pointer:
            return error
        keywords = _CAUSES.get(error.keyword, (error.keyword,) if error.keyword else ())
        keyword, pointer = self._declarations.place(formula, keywords)
        return SchemaRefused(error.kind, keyword, pointer, error.why)

    def check(self) -> object:
        """Raise `BudgetExceeded` if the deadline has passed. Only every eighth call checks, because the steps
        in between take a few microseconds each."""
        self._n_checks += 1
        if not self._n_checks & 7:
            self._deadline.check(PHASE)

    def _find(self, formula: Formula) -> Nonterminal:
        boolean: Formula
        number: Formula
        string: Formula
        declared: Declared
        formulas = self.formulas
        null, boolean, number, string, array, object_ = self.assertions.by_type(formula)
        keyword = "multipleOf"
        has_others: cython.bint = False  # texts that are never written, but satisfy the formula
        try:
            if not number.is_constant and self.numbers.texts(number).is_empty:
                number = formulas.false
            keyword = "pattern"
            if not string.is_constant:
                simplest: Formula = self.strings.simplest(string)
                has_others = simplest is formulas.false and self.strings.may_have_others(string)
                string = simplest
        except TooLarge as error:
            raise SchemaRefused("bounds", keyword, "", f"needs {error}") from error
        names: tuple = ()
        if array is not formulas.false or object_ is not formulas.false:
            declared = self._declarations.of(formula)
            if self._is_strict:
                array, object_ = self._closed(array, object_, declared)
            if object_ is not formulas.false:
                names = declared.keys
        key = (null, boolean, number, string, array, object_, names)
        found: Nonterminal = self._by_content.get(key)
        if found is not None:
            if has_others:
                found.verdict = True
            return found
        if not boolean.is_constant:
            booleans = tuple([value for value in (True, False) if _takes(boolean, value)])
        else:
            booleans = (True, False) if boolean is formulas.true else ()
        found = self._by_content[key] = Nonterminal(
            len(self.all), null is formulas.true, booleans, number, string, array, object_, names, formula
        )
        if found.has_scalar() or has_others:
            found.verdict = True
        elif array is formulas.false and object_ is formulas.false:
            found.verdict = False
        self.all.append(found)
        if len(self.all) > self.bounds.nonterminals:
            raise SchemaRefused(
                "bounds", "", "", f"needs a grammar of more than {self.bounds.nonterminals} nonterminals"
            )
        self.check()
        return found

    def _closed(self, array: Formula, object_: Formula, declared: Declared) -> tuple:
        """Return objects and arrays that declare keys or items, closed to others, unless a subschema that
        applies to the same value says something about the others."""
        formulas, true = self.formulas, self.formulas.true
        if declared.declares_keys and not declared.opens_keys and object_ is not formulas.false:
            names = dict.fromkeys(declared.keys, true)
            patterns = tuple([(pattern, true) for pattern in declared.patterns])
            only = self.assertions.sets.atom(names, patterns, formulas.false)
            object_ = formulas.conjunction((object_, only))
        if declared.prefix and not declared.opens_items and array is not formulas.false:
            only = items_atom(formulas, (true,) * declared.prefix, formulas.false)
            array = formulas.conjunction((array, only))
        return array, object_

    def may_hold(self, formula: Formula) -> cython.bint:
        """Whether a formula's nonterminal may contain a value. False only if it certainly contains none."""
        if formula.is_constant:
            return formula is self.formulas.true
        return self._verdict(self.of(formula)) is not False

    def listed(self, formula: Formula) -> object:
        """Return keys of all values of a formula, if they are scalars that formulas list, or the arrays and
        objects of an `enum` alone; otherwise None."""
        location: Location
        if formula.op == "atom" and "enum" in self.assertions.locations.dialect.keywords:
            location = self.assertions.locations.all[formula.args[1]]
            values = location.schema.get("enum") if len(location.schema) == 1 else None
            if values and isinstance(values, list):
                if not [value for value in values if not isinstance(value, (list, dict))]:
                    return frozenset([self._key(value) for value in values])
        return self.of(formula).listed

    @cython.cfunc
    def _key(self, value: object) -> object:
        """Return a key that is the same for equal values of the schema and different for others. Arrays and
        objects have numbers, so that each is looked at once, however deep it lies."""
        is_array: cython.bint = isinstance(value, list)
        if not is_array and not isinstance(value, dict):
            return key_of(value)
        known = self._keys.get(id(value))
        if known is None:
            content: object
            if is_array:
                content = tuple([self._key(one) for one in value])
            else:
                content = frozenset([(name, self._key(one)) for name, one in value.items()])
            kind = "array" if is_array else "object"
            known = self._keys[id(value)] = self._keys.setdefault(content, (kind, len(self._keys)))
        return known

    def satisfying(self, formula: Formula, values: frozenset) -> list:
        """Return those of some values that satisfy a formula: null, booleans and strings, as pairs of type
        and value."""
        parts: dict = {kind: self.assertions.expand(formula, kind) for kind in {kind for kind, _ in values}}
        listed = self.strings.listed(parts["string"]) if "string" in parts else None
        if listed is not None:
            parts["string"] = self.formulas.false
        found = [("string", text) for text in listed or () if ("string", text) in values]
        for kind, value in values:
            part: Formula = parts[kind]
            if part.is_constant:
                holds = part is self.formulas.true
            elif kind == "boolean":
                holds = _takes(part, value)
            else:
                holds = self.strings.holds(part, value)
            if holds:
                found.append((kind, value))
        return found

    def _verdict(self, nonterminal: Nonterminal) -> object:
        """Whether it contains a value; None if that depends on nonterminals under construction."""
        if nonterminal.verdict is not None:
            return nonterminal.verdict
        if nonterminal.is_asked or self._depth >= _DEEPEST:
            return None
        if any(automaton.is_growing for automaton in nonterminal.automata):
            return None
        nonterminal.is_asked = True  # a verdict that depends on itself is left to `productive.py`
        self._depth += 1
        try:
            self._build(nonterminal)
        finally:
            self._depth -= 1
        verdict: object = False
        for automaton in nonterminal.automata:
            reaches = self._reaches_end(automaton)
            if reaches:
                verdict = True
                break
            if reaches is None:
                verdict = None
        nonterminal.verdict = verdict
        return verdict

    def _reaches_end(self, automaton: Structure) -> object:
        visited, todo, is_certain = {0}, [0], True
        while todo:
            state = todo.pop()
            if automaton.accepting[state]:
                return True
            for value, target in automaton.steps(state):
                if target in visited:
                    continue
                holds = True if value is None else self._verdict(value)
                if holds:
                    visited.add(target)
                    todo.append(target)
                elif holds is None:
                    is_certain = False
        return False if is_certain else None

    def _build(self, nonterminal: Nonterminal) -> object:
        false = self.formulas.false
        try:
            if nonterminal.object is None and nonterminal.objects is not false:
                self._build_object(self, nonterminal)
            if nonterminal.array is None and nonterminal.arrays is not false:
                self._build_array(self, nonterminal)
        except SchemaRefused as error:
            raise self.placed(error, nonterminal.formula) from error.__cause__

    def edges(self, pairs: list) -> list:
        """Turn pairs (formula, state) into pairs (nonterminal, state)."""
        return [(self.of(formula), target) for formula, target in pairs]
