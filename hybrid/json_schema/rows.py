# cython: language_level=3
# mypy: ignore-errors
"""The rules of a grammar as rows: states and edges.

What: `Rows` collects the automata of all rules of a grammar. Their edges read nothing, bytes or characters,
or call a rule; a rule may also be a repetition of another. `reading` gives them to `equivalence.network`,
which determinises and minimises them; `hybrid.json_schema.ebnf` writes them as text.
When: filled by `hybrid.json_schema.structure_writers`.
Limits: each state belongs to one rule. Characters are code points; surrogates are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cython
import numpy as np
from cython.cimports.equivalence.network.edges import Edges
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.dynamic_arrays import filled
from equivalence.network import dialect, edge_types, serial
from equivalence.network.characters import CHARACTERS
from equivalence.network.counted_automata import MARK, CountedAutomaton
from equivalence.network.grammar_reader import ParsedGrammar, PlainRules

check_source(__name__)

EMPTY, BYTES, CALL = edge_types.EMPTY, edge_types.BYTES, edge_types.CALL

FIRST_ROOM = cython.declare(cython.Py_ssize_t, 1024)
"""Initial room for edges. The median schema has 800."""

REPEATS, NO_TYPES = frozenset((serial.REPEAT,)), frozenset()
"""The types of expressions in grammars with repeats, and without."""

C_EMPTY = cython.declare(cython.Py_ssize_t, edge_types.EMPTY)
C_BYTES = cython.declare(cython.Py_ssize_t, edge_types.BYTES)
C_CALL = cython.declare(cython.Py_ssize_t, edge_types.CALL)
C_CHARACTERS = cython.declare(cython.Py_ssize_t, CHARACTERS)


class Repeat(NamedTuple):
    """A rule that repeats another.

    Attributes:
        unit: number of the repeated rule.
        least, most: how often; most is None if there is no upper bound.
    """

    unit: int
    least: int
    most: int | None


@cython.final
@cython.cclass
class Rows:
    """The rules of one grammar.

    Inner states are numbered from 0 across all rules; rule r begins at state -1 - 2 r and ends at -2 - 2 r.

    Attributes:
        names: the names of the rules.
        repeats: the rules that repeat others, by number.
        automata: the counted automata.
        edges_of_automata: the rules that are edges of counted automata, by number: (unit, automaton, edge).
    """

    def __init__(self) -> None:
        self.names = []
        self.repeats, self.edges_of_automata = {}, {}
        self.automata = []
        self._edges = Edges(0, FIRST_ROOM)

    def rule(self, name: str) -> cython.Py_ssize_t:
        """Add a rule, and return its number."""
        self.names.append(name)
        return len(self.names) - 1

    def repeat(self, unit: cython.Py_ssize_t, least: cython.Py_ssize_t, most: Any) -> cython.Py_ssize_t:
        """Add a rule that repeats another; `most` may be None."""
        number = self.rule(f"{self.names[unit]}_{least}_{'' if most is None else most}")
        self.repeats[number] = Repeat(unit, least, most)
        return number

    def counted(self, automaton: CountedAutomaton, units: Sequence[int]) -> cython.Py_ssize_t:
        """Add a rule that reads a counted automaton.

        Args:
            automaton: the automaton.
            units: the rule of the unit of each of its edges.

        Returns:
            The number of the rule. It calls all edges; the network keeps the calls of those that come first.
        """
        number = self.rule(f"counted_{len(self.automata)}")
        begin: cython.Py_ssize_t = -1 - 2 * number
        for edge, unit in enumerate(units):
            rule = self.rule(f"counted_{len(self.automata)}_{edge}")
            self.edges_of_automata[rule] = unit, len(self.automata), edge
            self.call(begin, rule, begin - 1)
        if automaton.accepting[0] and not automaton.least:
            self.empty(begin, begin - 1)
        self.automata.append(automaton)
        return number

    def state(self) -> cython.Py_ssize_t:
        """Add a state, and return its number."""
        return self._edges.state()

    def states(self, n: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Add n states with consecutive numbers, and return the first."""
        first = self._edges.n_states
        self._edges.n_states = first + n
        return first

    def empty(self, source, target) -> cython.int:
        """Add an edge that reads nothing."""
        return self._edges.add(source, C_EMPTY, 0, 0, target)

    def letter(self, source, letter, target) -> cython.int:
        """Add an edge that reads one character."""
        kind = C_BYTES if letter < 0x80 else C_CHARACTERS
        return self._edges.add(source, kind, letter, letter, target)

    def characters(self, source, low, high, target) -> cython.int:
        """Add an edge that reads one character of a range."""
        return self._edges.add(source, C_CHARACTERS, low, high, target)

    def call(self, source, rule, target) -> cython.int:
        """Add an edge that calls a rule."""
        return self._edges.add(source, C_CALL, rule, 0, target)

    def call_shared(self, calling, source, rule, target) -> cython.int:
        """Add an edge that calls a rule. All calls with the same rule and target share one state that calls.

        The network copies small rules into each call. With a call for each source, 997 states instead of 297
        were made deterministic, and then merged again (medians of 150 schemas that allow undeclared keys).

        Args:
            calling: maps (rule, target) to the state that calls; it is updated.
            source, rule, target: as for `call`.
        """
        key: tuple = (rule, target)
        known = calling.get(key)
        state: cython.Py_ssize_t
        if known is not None:
            state = known
        else:
            state = self.state()
            calling[key] = state
            self.call(state, rule, target)
        return self.empty(source, state)

    def run(self, text: str, begin: cython.Py_ssize_t, target: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Add states that read the characters of a text from index `begin` on, and lead to a target state.
        There must be at least one character. Return the first state."""
        length: cython.Py_ssize_t = len(text)
        if begin >= length:
            raise ValueError(f"{text!r} has no character {begin}")
        first = self.states(length - begin)
        for i in range(begin, length):
            at: cython.Py_ssize_t = first + i - begin
            self.letter(at, text[i], at + 1 if i + 1 < length else target)
        return first

    def text(self, source: cython.Py_ssize_t, text: str, target: cython.Py_ssize_t) -> cython.int:
        """Add edges that read a text."""
        if len(text) > 1:
            return self.letter(source, text[0], self.run(text, 1, target))
        return self.letter(source, text[0], target) if text else self.empty(source, target)

    def edges(self, first: cython.Py_ssize_t, ranges: cython.const[cython.Py_ssize_t][:, :]) -> None:
        """Add edges that read characters.

        Args:
            first: the number of the state that `ranges` calls 0; the others follow it.
            ranges: int64[n, 4], rows (source, low, high, target) of code points.
        """
        for i in range(ranges.shape[0]):
            self.characters(first + ranges[i, 0], ranges[i, 1], ranges[i, 2], first + ranges[i, 3])

    def table(self) -> NDArray[np.int64]:
        """Return all edges, int64[n, 5]: source, type, a, b, target."""
        return self._edges.table().copy()

    def reading(self, root: int, printed: Any) -> ParsedGrammar:
        """Return the grammar in the form that `equivalence.network` reads.

        Args:
            root: the start rule.
            printed: the grammar's object, which has its complete form.
        """
        n_rules: cython.Py_ssize_t = len(self.names)
        data: list = []
        bodies = filled(n_rules, -1)
        for i, (number, (unit, least, most)) in enumerate(self.repeats.items()):
            bodies[number] = i
            data += (serial.REPEAT, 3, unit, least, -1 if most is None else most)
        for number, (unit, automaton, edge) in self.edges_of_automata.items():
            bodies[number] = len(data) // 5
            data += (serial.REPEAT, 3, unit, MARK - automaton, edge)
        features = {
            serial.VERSION_FIELD: dialect.LAYOUT,
            serial.RULES: PlainRules(self.names.__getitem__, bodies),
            serial.ROOT: root, serial.MARKERS: [],
        }  # fmt: skip
        starts = np.arange(0, len(data), 5, dtype=np.int64)
        return ParsedGrammar(
            features, np.array(data, np.int64), starts, REPEATS if data else NO_TYPES, printed=printed,
            edges=self._edges, automata=tuple(self.automata),
        )  # fmt: skip
