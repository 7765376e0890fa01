# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""Sets of JSON values and the automata of their objects and arrays, as data.

What: a `Nonterminal` is a set of values; `ObjectAutomaton` and `ArrayAutomaton` read its objects and arrays,
over edges whose values are nonterminals again.
When: `nonterminals.py` makes the sets, `objects.py` and `arrays.py` the automata; all later steps read them.
Limits: data only; which values there are is decided elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.formulas import Formula

from hybrid.json_schema.languages.automaton import Automaton, is_endless, universal, without

check_source(__name__)

Edge = tuple[Any, int]
"""A nonterminal and the state that one of its values leads to."""


@cython.final
@cython.cclass
class KeyClass:
    """Undeclared keys that match the same patterns.

    Args:
        language: the keys; None: all keys except `others`.

    Attributes:
        truth: for each formula of keys that the object uses, whether these keys satisfy it.
        others: if the class has all keys except some, those exceptions; otherwise None. Most classes are of
            this kind, and most schemas never need their automata, which took a tenth of the time of a first
            mask.
    """

    def __init__(self, language: object, truth: dict, others: frozenset | None = None) -> None:
        self._language, self.truth, self.others = language, truth, others

    @property
    def language(self) -> Automaton:
        """The keys."""
        if self._language is None:
            self._language = without(universal(), sorted(self.others)) if self.others else universal()
        return self._language

    def contains(self, name: str) -> bool:
        """Whether it contains a key."""
        return self._language.contains(name) if self.others is None else name not in self.others

    def words(self, limit: int) -> list | None:
        """Return all keys, if there are at most `limit`; else None."""
        return self._language.words(limit) if self.others is None else None

    def count(self, limit: int) -> int | None:
        """Return the number of keys, if there are at most `limit`; else None."""
        return self._language.count(limit) if self.others is None else None

    @property
    def is_endless(self) -> bool:
        """Whether each beginning of a key can be completed to infinitely many keys."""
        return self.others is not None or is_endless(self._language)


@cython.cclass
class Structure:
    """What the automata of objects and arrays share; state 0 is the start.

    Attributes:
        accepting: for each state, whether the object or array may end.
        edges: for each state, its edges.
        is_growing: whether it is being built.
        is_live: for each state, whether an end can be reached from it; set by `productive.py`.
    """

    def __cinit__(self) -> None:
        self.accepting, self.edges, self.is_live = [], [], []
        self.is_growing = True

    def steps(self, state: cython.Py_ssize_t) -> list:
        """Return pairs (nonterminal, target state) of the edges of a state; None as nonterminal: the edge
        reads nothing."""
        raise NotImplementedError

    @property
    def values(self) -> list[Nonterminal]:
        """The nonterminals of its items or of the values of its keys, some of them several times."""
        raise NotImplementedError

    def live(self, edges: list) -> list:
        """Return those of some edges from which an end can be reached."""
        value: Nonterminal
        found: list = []
        for edge in edges:
            value = edge[0]
            if value.is_productive and self.is_live[edge[1]]:
                found.append(edge)
        return found


@cython.final
@cython.cclass
class ObjectAutomaton(Structure):
    """The automaton of a nonterminal's objects.

    Attributes:
        names: declared keys, in canonical order.
        classes: classes of undeclared keys.
        position: for each state, how many of `names` have passed; undeclared keys come after all of them.
            Declared keys that cannot come, and decide nothing, are passed over without a state.
        skipped: for each state, the state after the next declared key is passed over, or -1. Its other edges
            read the value of this key.
        extra: for each state, pairs (number of a key class, its edges).
        has_unique_keys: whether keys must be remembered, so that none is repeated.
        keys_may_run_out: whether, in that case, an unfinished key may have only repeated keys as completions.
    """

    def __init__(self, names: tuple, classes: list) -> None:
        self.names, self.classes = names, classes
        self.position, self.skipped, self.extra = [], [], []
        self.has_unique_keys = self.keys_may_run_out = False

    def steps(self, state: cython.Py_ssize_t) -> list:
        edges: list = self.edges[state]
        skipped, extra = self.skipped[state], self.extra[state]
        if skipped < 0 and not extra:
            return edges
        found: list = [(None, skipped), *edges] if skipped >= 0 else edges[:]
        for _, others in extra:
            found += others
        return found

    @property
    def values(self) -> list[Nonterminal]:
        of_all = [edges for extra in self.extra for _, edges in extra]
        return [value for edges in self.edges + of_all for value, _ in edges]

    def live_extra(self, state: int) -> list:
        """Return `extra` of a state, with only the edges from which an end can be reached."""
        if not self.is_live[state]:
            return []
        found = [(number, self.live(edges)) for number, edges in self.extra[state]]
        return [one for one in found if one[1]]


class Counted(NamedTuple):
    """From this state on, a number of items of one nonterminal.

    Attributes:
        value: the nonterminal.
        least, most: how many items; most is None if there is no upper bound.
    """

    value: Any
    least: int
    most: int | None


@cython.final
@cython.cclass
class ArrayAutomaton(Structure):
    """The automaton of a nonterminal's arrays.

    Attributes:
        counted: for each state, the count that the rest of the array must satisfy, or None. The edges of a
            counted state lead to a state where enough items have been read.
        is_unique: whether all items must differ; None if the states enforce that.
        is_conditional: whether uniqueness depends on other conditions (`uniqueness/conditional.py`).
        repeats: only in conditional arrays: for each state, the state that replaces it once two items were
            equal, or -1.
        is_marked: whether commas and brackets show that two items were equal (`uniqueness/marks.py`). Then
            the array may stand where other arrays must have unique items.
    """

    def __init__(self) -> None:
        self.counted, self.repeats = [], []
        self.is_unique: bool | None = False
        self.is_conditional = self.is_marked = False

    def steps(self, state: cython.Py_ssize_t) -> list:
        edges: list = self.edges[state]
        if not self.is_conditional or not state:
            return edges
        repeats = self.repeats
        return edges + [(value, repeats[at]) for value, at in edges if repeats[at] not in (-1, at)]

    @property
    def remembers(self) -> bool:
        """Whether items must be remembered: always, or only under conditions."""
        return bool(self.is_unique) or self.is_conditional

    @property
    def values(self) -> list[Nonterminal]:
        found = [value for edges in self.edges for value, _ in edges]
        return found + [counted.value for counted in self.counted if counted is not None]

    def add_state(self) -> None:
        """Add a state without edges."""
        self.accepting.append(False)
        self.edges.append([])
        self.counted.append(None)
        self.repeats.append(-1)

    def again(self, state: int) -> int:
        """In marked arrays, the state that replaces this one once two items were equal; -1 if there is
        none."""
        return self.repeats[state] if self.is_conditional else state


@cython.final
@cython.cclass
class Nonterminal:
    """A set of JSON values.

    Attributes:
        number: its number among all nonterminals.
        null: whether null is in it.
        booleans: the booleans in it.
        numbers, strings, arrays, objects: formulas of its values of these types; false if there are none.
        names: declared keys of its objects, in canonical order.
        formula: the formula of locations by which it was first found.
        object, array: their automata, once they are built; None if it has no such values.
        is_productive: whether it contains any value, once that is known.
        verdict: the result of `Nonterminals.may_hold`; None: unknown.
        is_asked: whether computing that result has begun; it may stay unknown.
    """

    def __init__(
        self, number: int, null: cython.bint, booleans: tuple, numbers: Formula, strings: Formula,
        arrays: Formula, objects: Formula, names: tuple, formula: Formula,
    ) -> None:  # fmt: skip
        self.formula = formula
        self.number, self.null, self.booleans = number, null, booleans
        self.numbers, self.strings, self.arrays, self.objects = numbers, strings, arrays, objects
        self.names = names
        self.object: ObjectAutomaton | None = None
        self.array: ArrayAutomaton | None = None
        self.is_productive = self.is_asked = False
        self.verdict: bool | None = None

    def has_scalar(self) -> cython.bint:
        """Whether it contains null, a boolean, a number or a string."""
        return self.null or bool(self.booleans) or self.numbers.op != "false" or self.strings.op != "false"

    @property
    def listed(self) -> frozenset[tuple[str, Any]] | None:
        """All its values, if they are scalars that formulas list, as pairs of type and exact value, so that
        1, 1.0 and true compare as in JSON; otherwise None."""
        if self.arrays.op != "false" or self.objects.op != "false":
            return None
        found = [("null", None)] if self.null else []
        found += [("boolean", value) for value in self.booleans]
        if self.numbers.op == "atom" and self.numbers.args[0] == "among":
            found += [("number", value) for value in self.numbers.args[1]]
        elif self.numbers.op != "false":
            return None
        if self.strings.op == "atom" and self.strings.args[0] == "language":
            source = self.strings.args[1]
            if source[0] != "words":
                return None
            found += [("string", word) for word in source[1]]
        elif self.strings.op != "false":
            return None
        return frozenset(found)

    @property
    def automata(self) -> list[Structure]:
        """The automata of its objects and arrays, as far as they are built."""
        return [one for one in (self.object, self.array) if one is not None]
