# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""Objects: an automaton over keys in canonical order.

What: `build_object` makes the automaton of a nonterminal's objects. Declared keys come in the order of first
declaration, then others. A state is the number of declared keys that have passed, and a formula about the
rest of the object. At a declared key, one edge passes it over, and others read its value. Undeclared keys
are distinguished by the patterns that they match.
When: once for each nonterminal that contains objects.
Limits: `Bounds.states` and `Bounds.key_classes`. Undeclared keys may be repeated
(`uniqueness/repeated_keys.py`).

One formula holds all constraints, so a `oneOf` of n branches needs no product of its branches. The formula
does not mention keys that have passed.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.atoms import PropertySet, PropertySets
from cython.cimports.hybrid.json_schema.automata import Nonterminal, ObjectAutomaton
from cython.cimports.hybrid.json_schema.formulas import Formula, Formulas
from cython.cimports.hybrid.json_schema.nonterminals import Nonterminals

from hybrid.json_schema.atoms import count_atom, counting_keyword
from hybrid.json_schema.automata import KeyClass
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.languages.limits import TooLarge
from hybrid.json_schema.value_cases import split

check_source(__name__)

KEYS_LEFT = cython.declare(cython.Py_ssize_t, 500)
"""This many times as many keys as states may be left in all property sets, which take 60 bytes for each:
one for each of 10,000 keys took 2 GiB."""

NO_EDGES = cython.declare(list, [])
"""The edges of all states that have none. Nothing is added to it."""


def build_object(nonterminals: Nonterminals, of: Nonterminal) -> object:
    """Make the automaton of a nonterminal's objects.

    Raises:
        SchemaRefused: it exceeds a bound.
    """
    builder: _Builder = _Builder(nonterminals, of)
    builder.build()


@cython.final
@cython.cclass
class _Builder:
    """One call of `build_object`."""

    _nonterminals: Nonterminals
    _formulas: Formulas
    _sets: PropertySets
    _texts: object
    _start: Formula
    _names: tuple
    _properties: list  # the property sets of the start
    _asked: list  # what the start requires of all keys
    _automaton: ObjectAutomaton
    _numbers: dict  # of each pair of the number of passed keys and a formula
    _todo: list
    _first: dict  # for each formula, `_find_first`
    _firsts: dict  # for each property set, `_first_of`
    _position_of: dict  # of each declared key

    def __init__(self, nonterminals: Nonterminals, of: Nonterminal) -> None:
        self._nonterminals, self._formulas = nonterminals, nonterminals.formulas
        self._sets = nonterminals.assertions.sets
        self._start = of.objects
        atom: Formula
        properties: PropertySet
        names: dict = dict.fromkeys(of.names)
        mentioned: list = []
        self._properties, self._asked = [], []
        for atom in self._start.ordered_atoms:
            kind = atom.args[0]
            if kind == "properties":
                properties = atom.args[1]
                names.update(dict.fromkeys(properties.names))
                self._properties.append(properties)
            elif kind == "names":
                self._asked.append(atom.args[1])
            elif kind == "has":
                mentioned.append(atom.args[1])
        names.update(dict.fromkeys(mentioned))
        self._names = tuple(names)
        self._texts = nonterminals.strings
        classes = self._key_classes()
        self._automaton = of.object = ObjectAutomaton(self._names, classes)
        self._numbers, self._todo = {}, []

    @cython.cfunc
    def build(self) -> object:
        """Make the automaton."""
        required = self._keys_of_conjunction()
        if required is not None:
            self._chain(required[0], required[1])
            return
        self._first, self._firsts = {}, {}
        self._position_of = {name: i for i, name in enumerate(self._names)}
        self._state(0, self._start)
        automaton = self._automaton
        while self._todo:
            position, formula = self._todo.pop()
            self._nonterminals.check()
            number = self._numbers[position, formula]
            if position < len(self._names):
                self._declared(number, position, formula)
            else:
                self._undeclared(number, formula)
        automaton.is_growing = False

    @cython.cfunc
    def _keys_of_conjunction(self) -> tuple:
        """Required and forbidden keys, if the formula is a conjunction of these and of requirements for
        values and keys; otherwise None.
        """
        required: set = set()
        forbidden: set = set()
        start = self._start
        part: Formula
        atom: Formula
        for part in start.args if start.op == "and" else () if start.is_constant else (start,):
            atom = part.args[0] if part.op == "not" else part
            if atom.op != "atom":
                return None
            kind = atom.args[0]
            if kind == "has":
                (required if part is atom else forbidden).add(atom.args[1])
            elif part is not atom or kind == "count":
                return None
        return required, forbidden

    @cython.cfunc
    def _chain(self, required: set, forbidden: set) -> object:
        """Make the automaton of a conjunction: each declared key leads to the next, whether it is there or
        not.

        Nine of ten objects of real schemas are of this kind. Their state is only the number of keys that have
        passed.
        """
        automaton, names = self._automaton, self._names
        n = len(names)
        if n >= self._nonterminals.bounds.states:
            raise self._too_large(n)
        self._nonterminals.check()
        automaton.position = list(range(n + 1))
        automaton.accepting = [False] * n + [True]
        automaton.skipped = [-1 if name in required else i + 1 for i, name in enumerate(names)]
        automaton.skipped.append(-1)
        automaton.extra = [*[NO_EDGES] * n, []]
        automaton.edges = [NO_EDGES] * (n + 1)
        everywhere, having = self._by_name()
        for i, name in enumerate(names):
            self._nonterminals.check()
            if name not in forbidden:
                automaton.edges[i] = self._edges(everywhere + having.get(name, []), name, None, i + 1)
        for number, known in enumerate(automaton.classes):
            edges = self._edges(everywhere, "", known.truth, n)
            if edges:
                automaton.extra[n].append((number, edges))
        automaton.is_growing = False

    @cython.cfunc
    def _by_name(self) -> tuple:
        """Return the property sets that may require something of any key, and for each declared key the
        others that name it. With all sets for each key, 10,000 of them took 20 s."""
        everywhere: list = []
        having: dict = {}
        properties: PropertySet
        for properties in self._properties:
            if properties.patterns or properties.rest is not self._formulas.true:
                everywhere.append(properties)
                continue
            for name in properties.names:
                having.setdefault(name, []).append(properties)
        return everywhere, having

    @cython.cfunc
    def _edges(self, properties: list, name: str, truth: dict | None, target: object) -> list:
        """Return the edges of a key of a conjunction.

        Args:
            properties: the property sets that may require something of this key.
            name, truth: see `_value`.
            target: the state after the key.
        """
        for one in self._asked:
            if not self._satisfies(one, name, truth):
                return NO_EDGES
        values: list = [self._value(one, name, truth) for one in properties]
        value: Formula = values[0] if len(values) == 1 else self._formulas.conjunction(values)
        if value is self._formulas.false:
            return NO_EDGES
        return [(self._nonterminals.of(value), target)]

    @cython.cfunc
    def _state(self, position: cython.Py_ssize_t, formula: Formula) -> object:
        first = self._first.get(formula)
        if first is None:
            first = self._first[formula] = self._find_first(formula)
        position = max(position, first)
        key = position, formula
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            automaton = self._automaton
            automaton.position.append(position)
            automaton.accepting.append(False)
            automaton.skipped.append(-1)
            automaton.edges.append(NO_EDGES)
            automaton.extra.append(NO_EDGES)
            self._todo.append(key)
            if number >= self._nonterminals.bounds.states:
                raise self._too_large(number)
        return number

    @cython.cfunc
    def _too_large(self, n_states: cython.Py_ssize_t) -> object:
        keyword = counting_keyword(self._formulas, self._start, "Properties", n_states)
        return SchemaRefused("bounds", keyword, "", f"needs an object of more than {n_states} states")

    @cython.cfunc
    def _find_first(self, formula: Formula) -> cython.Py_ssize_t:
        """Return the position of the first declared key that may still come or that a formula names, or the
        position after all keys. Keys before it are passed over without a state.

        With a state for each, a union of 128 closed objects with their own keys had 16,512 states instead of
        256, more than allowed.
        """
        if not self._is_closed(formula):
            return 0
        atom: Formula
        first: cython.Py_ssize_t = len(self._names)
        for atom in formula.atoms:
            if atom.args[0] == "has":
                first = min(first, self._position_of.get(atom.args[1], first))
            elif atom.args[0] == "properties":
                first = min(first, self._first_of(atom.args[1]))
        return first

    @cython.cfunc
    def _first_of(self, properties: PropertySet) -> cython.Py_ssize_t:
        """Return the position of the first declared key in a property set."""
        known = self._firsts.get(properties)
        if known is not None:
            return known
        first: cython.Py_ssize_t = len(self._names)
        for name in properties.names:
            first = min(first, self._position_of.get(name, first))
        self._firsts[properties] = first
        return first

    @cython.cfunc
    def _declared(self, number: cython.Py_ssize_t, position: cython.Py_ssize_t, formula: Formula) -> object:
        """Add the edges for the next declared key: it is read or passed over."""
        formulas, name = self._formulas, self._names[position]
        atom: Formula
        gone: dict = {formulas.atom(("has", name)): formulas.false}
        for atom in formula.ordered_atoms:
            if atom.args[0] == "properties":
                gone[atom] = self._sets.after(atom, name)
        if self._sets.n_left > KEYS_LEFT * self._nonterminals.bounds.states:
            why = "has objects of too many declared keys that are counted, or depend on each other"
            raise SchemaRefused("bounds", "", "", why)
        without = formulas.substitute(formula, gone)
        if without is not formulas.false:
            self._automaton.skipped[number] = self._state(position + 1, without)
        cases = split(self._nonterminals, formula, *self._conditions(formula, name, None))
        pairs = [(value, self._state(position + 1, after)) for value, after in cases]
        self._automaton.edges[number] = self._nonterminals.edges(pairs)

    @cython.cfunc
    def _undeclared(self, number: cython.Py_ssize_t, formula: Formula) -> object:
        """Add the edges after all declared keys: the object ends, or an undeclared key comes."""
        formulas, automaton = self._formulas, self._automaton
        values = {a: formulas.constant(a.args[0] in ("properties", "names")) for a in formula.atoms}
        automaton.accepting[number] = formulas.substitute(formula, values) is formulas.true
        position = len(self._names)
        extra: list = []
        for i, known in enumerate(automaton.classes):
            cases = split(self._nonterminals, formula, *self._conditions(formula, "", known.truth))
            pairs = [(value, self._state(position, after)) for value, after in cases]
            if pairs:
                extra.append((i, self._nonterminals.edges(pairs)))
        if extra:
            automaton.extra[number] = extra

    @cython.cfunc
    def _conditions(self, formula: Formula, name: str, truth: dict | None) -> tuple:
        """Return what each atom becomes after a key: a declared key, or an undeclared key of a class, with
        the truth of its formulas. Pairs of atoms and formulas that are decided, and conditions of `split`."""
        atom: Formula
        formulas = self._formulas
        decided: dict = {}
        conditions: list = []
        for atom in formula.ordered_atoms:
            kind = atom.args[0]
            if kind == "has":
                if truth is None and atom.args[1] == name:
                    decided[atom] = formulas.true
            elif kind == "count":
                decided[atom] = count_atom(formulas, atom.args[1] - 1)
            elif kind == "names":
                if not self._satisfies(atom.args[1], name, truth):
                    decided[atom] = formulas.false
            elif kind == "properties":
                value = self._value(atom.args[1], name, truth)
                after = atom if truth is not None else self._sets.after(atom, name)
                conditions.append((atom, value, after, formulas.false))
        conditions.sort(key=_number_of_atom)
        return decided, conditions

    @cython.cfunc
    def _value(self, properties: PropertySet, name: str, truth: dict | None) -> Formula:
        """Return what a property set requires of the value of a key.

        Args:
            properties: the property set.
            name: the key, if it is declared.
            truth: of an undeclared key, the truth of the formulas of keys; None: the key is declared.
        """
        asked: list = [properties.names[name]] if truth is None and name in properties.names else []
        for pattern, value in properties.patterns:
            if self._satisfies(pattern, name, truth):
                asked.append(value)
        if len(asked) == 1:
            return asked[0]
        return self._formulas.conjunction(asked) if asked else properties.rest

    @cython.cfunc
    def _satisfies(self, formula: Formula, name: str, truth: dict | None) -> cython.bint:
        return self._texts.holds(formula, name) if truth is None else truth[formula]

    @cython.cfunc
    def _key_classes(self) -> list:
        """Return the classes of undeclared keys that may come."""
        formulas = self._formulas
        asked: list = [pattern for one in self._properties for pattern, _ in one.patterns]
        asked += self._asked
        languages = [one for one in dict.fromkeys(asked) if not one.is_constant] if asked else asked
        if not languages and self._is_closed(self._start):
            return []
        fixed = {formulas.true: True, formulas.false: False}
        if not languages:
            return [KeyClass(None, fixed, frozenset(self._names))]
        try:
            cells = self._texts.cells(languages, self._names)
        except TooLarge as error:
            raise SchemaRefused("bounds", "patternProperties", "", f"needs {error}") from error
        if len(cells) > self._nonterminals.bounds.key_classes:
            raise SchemaRefused(
                "bounds", "patternProperties", "", f"distinguishes too many classes of keys ({len(cells)})"
            )
        return [
            KeyClass(language, {**fixed, **dict(zip(languages, signs, strict=True))})
            for signs, language in cells
        ]

    @cython.cfunc
    def _is_closed(self, formula: Formula) -> cython.bint:
        """Whether it is obvious that no undeclared key can come."""
        atom: Formula
        properties: PropertySet
        closed: dict = {}
        for atom in formula.atoms:
            if atom.args[0] == "properties":
                properties = atom.args[1]
                if not properties.patterns and properties.rest is self._formulas.false:
                    closed[atom] = self._formulas.false
        if not closed:
            return False
        return (
            _needs_any(formula, closed) or self._formulas.substitute(formula, closed) is self._formulas.false
        )


@cython.cfunc
def _needs_any(formula: Formula, atoms: dict, depth: cython.Py_ssize_t = 2) -> cython.bint:
    """Whether a formula is obviously false if some atoms are. It makes no formulas, as substituting does, but
    only looks two levels deep: formulas share parts, so a walk through all levels takes exponential time."""
    part: Formula
    op = formula.op
    if op == "atom":
        return formula in atoms
    if not depth or op not in ("and", "or", "one"):
        return False
    for part in formula.args:
        if _needs_any(part, atoms, depth - 1) == (op == "and"):
            return op == "and"
    return op != "and"


def _number_of_atom(condition: tuple) -> object:
    atom: Formula = condition[0]
    return atom.number
