# cython: language_level=3, wraparound=True
"""Objects: an automaton over keys in canonical order.

What: `build_object` makes the automaton of a nonterminal's objects. Declared keys come in the order of first
declaration, then others; a state is how many declared keys have gone by and a formula of what is still to
come. A declared key is passed over, or its value leads to the next state. Keys that are not declared are told
apart by the patterns that they match.
When: once for each nonterminal that has objects.
Limits: `Bounds.states` and `Bounds.key_classes`. Where an undeclared key that comes twice could make an
invalid object pass (`repeats_matter`), few keys are declared, and others are remembered (`places.py`);
refused by name where these may run out.

All constraints run side by side in one formula, so `oneOf` of n branches costs states, not the product of its
branches. A key that has gone by is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from cython.cimports.equivalence.built import EQUIMASK_SOURCE

from equivalence import built
from hybrid.json_schema.arrays import Edge
from hybrid.json_schema.atoms import PropertySet, count_atom
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.formulas import Formula
from hybrid.json_schema.languages.automaton import Automaton, is_endless, universal
from hybrid.json_schema.languages.until import TooLarge
from hybrid.json_schema.splitting import Condition, split

built.check(__name__, EQUIMASK_SOURCE)

if TYPE_CHECKING:
    from hybrid.json_schema.nonterminals import Nonterminal, Nonterminals


MOST_DECLARED = 64
"""Undeclared keys of a class, up to which they are declared where it matters that none comes twice."""


MOST_KEYS = 10_000
"""Keys of a class from which on there are more than anybody writes."""


class KeyClass(NamedTuple):
    """Undeclared keys that no pattern tells apart.

    Attributes:
        language: the keys.
        truth: of each formula of keys that the object asks about.
    """

    language: Automaton
    truth: dict[Formula, bool]


class ObjectAutomaton:
    """The automaton of objects; state 0 is where they begin.

    Attributes:
        names: declared keys, in canonical order.
        classes: classes of undeclared keys.
        position: for each state, how many of `names` have gone by; undeclared keys come once all have.
        accepting: for each state, whether the object may end.
        skipped: for each state, the state once the next declared key is passed over, or -1.
        edges: for each state, its edges by the next declared key.
        extra: for each state, (number of a key class, its edges).
        has_unique_keys: whether keys have to be remembered, so that none comes twice.
        keys_may_run_out: whether a key that is begun may have to become one that came before then.
        is_growing: whether it is being built.
        is_live: for each state, whether an end can be reached; set by `productive.py`.
    """

    def __init__(self, names: tuple[str, ...], classes: list[KeyClass]) -> None:
        self.names, self.classes = names, classes
        self.position: list[int] = []
        self.accepting: list[bool] = []
        self.skipped: list[int] = []
        self.edges: list[list[Edge]] = []
        self.extra: list[list[tuple[int, list[Edge]]]] = []
        self.has_unique_keys = False
        self.keys_may_run_out = False
        self.is_growing = True
        self.is_live: list[bool] = []

    def steps(self, state: int) -> Iterator[tuple[Any, int]]:
        """Pairs (nonterminal, state) that lead on from a state; None: nothing is read."""
        if self.skipped[state] >= 0:
            yield None, self.skipped[state]
        yield from self.edges[state]
        for _, edges in self.extra[state]:
            yield from edges


def build_object(nonterminals: Nonterminals, of: Nonterminal) -> None:
    """Make the automaton of a nonterminal's objects.

    Raises:
        SchemaRefused: it exceeds a bound.
    """
    _Builder(nonterminals, of).build()


class _Builder:
    """One call of `build_object`."""

    def __init__(self, nonterminals: Nonterminals, of: Nonterminal) -> None:
        self._nonterminals, self._formulas = nonterminals, nonterminals.formulas
        self._sets = nonterminals.assertions.sets
        self._start = of.objects
        names = dict.fromkeys(of.names)
        for atom in sorted(self._start.atoms, key=_number):
            if atom.args[0] == "properties":
                names.update(dict.fromkeys(atom.args[1].names))
        for atom in sorted(self._start.atoms, key=_number):
            if atom.args[0] == "has":
                names.setdefault(atom.args[1])
        self._names = tuple(names)
        self._texts = nonterminals.strings
        classes = self._key_classes()
        self._automaton = of.object = ObjectAutomaton(self._names, classes)
        self._numbers: dict[tuple[int, Formula], int] = {}
        self._todo: list[tuple[int, Formula]] = []

    def build(self) -> None:
        required = self._keys_of_conjunction()
        if required is not None:
            self._chain(*required)
            return
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

    def _keys_of_conjunction(self) -> tuple[set[str], set[str]] | None:
        """Required and forbidden keys, if all that is asked is in a conjunction with the like and with what
        values and keys have to satisfy; None where it is not.
        """
        required: set[str] = set()
        forbidden: set[str] = set()
        start = self._start
        for part in start.args if start.op == "and" else (start,) if start.atoms else ():
            atom = part.args[0] if part.op == "not" else part
            if atom.op != "atom":
                return None
            kind = atom.args[0]
            if kind == "has":
                (required if part is atom else forbidden).add(atom.args[1])
            elif part is not atom or kind == "count":
                return None
        return required, forbidden

    def _chain(self, required: set[str], forbidden: set[str]) -> None:
        """The automaton of a conjunction: each declared key leads to the next, whether it comes or not.

        Nine of ten objects of real schemas are such, and need no state but how many keys have gone by.
        """
        automaton, names = self._automaton, self._names
        n = len(names)
        if n >= self._nonterminals.bounds.states:
            raise SchemaRefused("bounds", "", "", f"has an object of more than {n} states")
        self._nonterminals.check()
        sets = [atom.args[1] for atom in self._start.atoms if atom.args[0] == "properties"]
        asked = [atom.args[1] for atom in self._start.atoms if atom.args[0] == "names"]
        automaton.position = list(range(n + 1))
        automaton.accepting = [False] * n + [True]
        automaton.skipped = [-1 if name in required else i + 1 for i, name in enumerate(names)]
        automaton.skipped.append(-1)
        automaton.extra = [[] for _ in range(n + 1)]
        automaton.edges = [[] for _ in range(n + 1)]
        for i, name in enumerate(names):
            if name in forbidden or not all(self._satisfies(one, name, None) for one in asked):
                continue
            automaton.edges[i] = self._edges(sets, name, None, i + 1)
        for number, known in enumerate(automaton.classes):
            if all(known.truth[one] for one in asked):
                edges = self._edges(sets, "", known.truth, n)
                if edges:
                    automaton.extra[n].append((number, edges))
        automaton.is_growing = False

    def _edges(
        self, sets: list[PropertySet], name: str, truth: dict[Formula, bool] | None, target: int
    ) -> list[Edge]:
        """The edges of a key whose value is as all property sets ask, in a conjunction."""
        if len(sets) == 1:
            value = self._value(sets[0], name, truth)
        else:
            value = self._formulas.conjunction([self._value(one, name, truth) for one in sets])
        if value is self._formulas.false:
            return []
        return [(self._nonterminals.of(value), target)]

    def _state(self, position: int, formula: Formula) -> int:
        key = position, formula
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            automaton = self._automaton
            automaton.position.append(position)
            automaton.accepting.append(False)
            automaton.skipped.append(-1)
            automaton.edges.append([])
            automaton.extra.append([])
            self._todo.append(key)
            if number >= self._nonterminals.bounds.states:
                raise SchemaRefused("bounds", "", "", f"has an object of more than {number} states")
        return number

    def _declared(self, number: int, position: int, formula: Formula) -> None:
        """The next declared key comes, or is passed over."""
        formulas, name = self._formulas, self._names[position]
        gone: dict[Formula, Formula] = {formulas.atom("has", name): formulas.false}
        for atom in formula.atoms:
            if atom.args[0] == "properties":
                gone[atom] = self._sets.after(atom, name)
        without = formulas.substitute(formula, gone)
        if without is not formulas.false:
            self._automaton.skipped[number] = self._state(position + 1, without)
        cases = split(self._nonterminals, formula, *self._conditions(formula, name, None))
        pairs = [(value, self._state(position + 1, after)) for value, after in cases]
        self._automaton.edges[number] = self._nonterminals.edges(pairs)

    def _undeclared(self, number: int, formula: Formula) -> None:
        """All declared keys have gone by: the object ends, or another key comes."""
        formulas, automaton = self._formulas, self._automaton
        values = {a: formulas.constant(a.args[0] in ("properties", "names")) for a in formula.atoms}
        automaton.accepting[number] = formulas.substitute(formula, values) is formulas.true
        position = len(self._names)
        for i, known in enumerate(automaton.classes):
            cases = split(self._nonterminals, formula, *self._conditions(formula, "", known.truth))
            pairs = [(value, self._state(position, after)) for value, after in cases]
            if pairs:
                automaton.extra[number].append((i, self._nonterminals.edges(pairs)))

    def _conditions(
        self, formula: Formula, name: str, truth: dict[Formula, bool] | None
    ) -> tuple[dict[Formula, Formula], list[Condition]]:
        """What a key makes of each atom: a declared one, or an undeclared one of a class."""
        formulas = self._formulas
        decided: dict[Formula, Formula] = {}
        conditions: list[Condition] = []
        for atom in formula.atoms:
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
        conditions.sort(key=lambda one: one[0].number)
        return decided, conditions

    def _value(self, properties: PropertySet, name: str, truth: dict[Formula, bool] | None) -> Formula:
        """What a property set asks of a key's value."""
        asked = [properties.names[name]] if truth is None and name in properties.names else []
        asked += [value for pattern, value in properties.patterns if self._satisfies(pattern, name, truth)]
        return self._formulas.conjunction(asked) if asked else properties.rest

    def _satisfies(self, formula: Formula, name: str, truth: dict[Formula, bool] | None) -> bool:
        return self._texts.holds(formula, name) if truth is None else truth[formula]

    def _key_classes(self) -> list[KeyClass]:
        formulas = self._formulas
        asked: dict[Formula, None] = {}
        for atom in sorted(self._start.atoms, key=_number):
            if atom.args[0] == "properties":
                asked.update((pattern, None) for pattern, _ in atom.args[1].patterns)
            elif atom.args[0] == "names":
                asked[atom.args[1]] = None
        fixed = {formulas.true: True, formulas.false: False}
        languages = [one for one in asked if one.atoms]
        if self._closed_to_others(languages):
            return []
        if not languages and not self._names:
            return [KeyClass(universal(), fixed)]
        try:
            cells = self._texts.cells(languages, self._names)
        except TooLarge as error:
            raise SchemaRefused("bounds", "patternProperties", "", f"needs {error}") from error
        if len(cells) > self._nonterminals.bounds.key_classes:
            raise SchemaRefused(
                "bounds", "patternProperties", "", f"tells {len(cells)} classes of keys apart"
            )
        return [
            KeyClass(language, {**fixed, **dict(zip(languages, signs, strict=True))})
            for signs, language in cells
        ]

    def _closed_to_others(self, languages: list[Formula]) -> bool:
        """Whether it is plain that no undeclared key can come."""
        if languages:
            return False
        closed = {
            atom: self._formulas.false
            for atom in self._start.atoms
            if atom.args[0] == "properties" and not atom.args[1].patterns
            and atom.args[1].rest is self._formulas.false
        }  # fmt: skip
        return bool(closed) and self._formulas.substitute(self._start, closed) is self._formulas.false


def declare_few_keys(nonterminals: Nonterminals) -> bool:
    """Declare undeclared keys of which there are few, where it matters that none comes twice: they come in
    an order then, and states tell which have gone by. Objects that get such keys have to be built again.

    Returns:
        Whether there are any.
    """
    found = False
    for one in nonterminals.all:
        if one.object is None or not one.is_productive or not repeats_matter(one.object):
            continue
        few = [one.object.classes[number].language.words(MOST_DECLARED) for number in _used(one.object)]
        texts = sorted({text for some in few for text in some or ()})
        if texts:
            one.names = (*one.object.names, *texts)
            nonterminals.rebuild_object(one)
            found = True
    return found


def remember_repeats(nonterminals: Nonterminals) -> None:
    """Let keys be remembered where an undeclared one that comes twice may make an invalid object pass.

    Raises:
        SchemaRefused: such keys may run out; the keyword is the one that most likely asks for them.
    """
    for one in nonterminals.all:
        if one.object is None or not one.is_productive or not repeats_matter(one.object):
            continue
        languages = [one.object.classes[number].language for number in _used(one.object)]
        if not all(map(_has_many, languages)):
            counts = any(atom.args[0] == "count" for atom in one.objects.atoms)
            keyword = "minProperties" if counts else "additionalProperties"
            error = SchemaRefused(
                "unsupported", keyword, "",
                "asks how often undeclared keys come that may run out, and a text may repeat them",
            )  # fmt: skip
            raise nonterminals.placed(error, one.formula)
        one.object.has_unique_keys = True
    if not any(one.object is not None and one.object.has_unique_keys for one in nonterminals.all):
        return
    for one in nonterminals.all:  # others may stand at the same places
        if one.object is not None and one.is_productive:
            used = _used(one.object)
            one.object.keys_may_run_out = not all(is_endless(one.object.classes[n].language) for n in used)


def _has_many(language: Automaton) -> bool:
    """Whether a class has more keys than anybody asks for."""
    if language.longest is None:
        return True
    counts: dict[int, int] = {}
    todo = [0]
    while todo:
        state = todo[-1]
        missing = [target for _, _, target in language.rows[state] if target not in counts]
        if missing:
            todo += missing
            continue
        todo.pop()
        counts[state] = language.accepting[state] + sum(
            (high - low + 1) * counts[target] for low, high, target in language.rows[state]
        )
    return counts[0] > MOST_KEYS


def _used(automaton: ObjectAutomaton) -> list[int]:
    """The classes of undeclared keys that may come."""
    found = {number for state in range(len(automaton.extra)) for number, _ in _live_extras(automaton, state)}
    return sorted(found)


def _live_extras(automaton: ObjectAutomaton, state: int) -> list[tuple[int, list[Edge]]]:
    """The undeclared keys that may come in a state, with the edges that lead on to an end."""
    if not automaton.is_live[state]:
        return []
    live = [
        (
            number,
            [(value, target) for value, target in edges if value.is_productive and automaton.is_live[target]],
        )
        for number, edges in automaton.extra[state]
    ]
    return [(number, edges) for number, edges in live if edges]


def repeats_matter(automaton: ObjectAutomaton) -> bool:
    """Whether an undeclared key that comes twice may make an invalid object pass: readers keep the last
    value.

    It does not where leaving out the first of two keys of one class is always allowed: from the state behind
    it, whatever is accepted with a key of that class is accepted from the state before it, too.
    """
    for state in range(len(automaton.extra)):
        for number, edges in _live_extras(automaton, state):
            for _, target in edges:
                if target != state and not _included(automaton, target, state, number):
                    return True
    return False


def _included(automaton: ObjectAutomaton, one: int, other: int, number: int) -> bool:
    """Whether all that is accepted from `one` with a key of a class is accepted from `other`, too.

    A simulation of pairs of states: an edge is matched by one with the same class and nonterminal.
    """
    met = {(one, other, False)}
    todo = [(one, other, False)]
    while todo:
        left, right, has_come = todo.pop()
        if has_come and automaton.accepting[left] and not automaton.accepting[right]:
            return False
        follows = dict(_live_extras(automaton, right))
        for key_class, edges in _live_extras(automaton, left):
            targets = dict(follows.get(key_class, ()))
            for value, target in edges:
                if value not in targets:
                    return False
                pair = target, targets[value], has_come or key_class == number
                if pair[0] != pair[1] and pair not in met:
                    met.add(pair)
                    todo.append(pair)
    return True


def _number(formula: Formula) -> int:
    return formula.number
