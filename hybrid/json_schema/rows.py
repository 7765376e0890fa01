# cython: language_level=3, wraparound=True
"""The rules of a grammar as rows: states and edges.

What: `Rows` collects the automata of all rules of a grammar. Their edges read nothing, bytes or characters,
or call a rule; a rule may also be a repetition of another. `reading` gives them to `equivalence.network`,
which determinises and minimises them; `hybrid.json_schema.ebnf` writes them as text.
When: filled by `hybrid.json_schema.emission`.
Limits: each state belongs to one rule. Characters are code points; surrogates are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from numpy.typing import NDArray

from equivalence import built
from equivalence.network import edge_types, serial
from equivalence.network.characters import CHARACTERS, as_bytes
from equivalence.network.reading import PlainRules, ReadGrammar

built.check(__name__, EQUIMASK_SOURCE)

EMPTY, BYTES, CALL = edge_types.EMPTY, edge_types.BYTES, edge_types.CALL


class Repeat(NamedTuple):
    """A rule that repeats another.

    Attributes:
        unit: number of the repeated rule.
        least, most: how often; most is None if there is no upper bound.
    """

    unit: int
    least: int
    most: int | None


class Rows:
    """The rules of one grammar.

    Inner states are numbered from 0 across all rules; rule r begins at state -1 - 2 r and ends at -2 - 2 r.

    Attributes:
        names: the names of the rules.
        repeats: the rules that repeat others, by number.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.repeats: dict[int, Repeat] = {}
        self._numbers: list[int] = []
        self._blocks: list[NDArray[np.int64]] = []
        self._runs: list[tuple[int, int, int]] = []  # first state, length of the text, state after it
        self._texts: list[str] = []  # of the runs
        self._n_states = 0

    def rule(self, name: str) -> int:
        """A new rule."""
        self.names.append(name)
        return len(self.names) - 1

    def repeat(self, unit: int, least: int, most: int | None) -> int:
        """Add a rule that repeats another."""
        number = self.rule(f"{self.names[unit]}_{least}_{'' if most is None else most}")
        self.repeats[number] = Repeat(unit, least, most)
        return number

    def state(self) -> int:
        """A new state."""
        self._n_states += 1
        return self._n_states - 1

    def empty(self, source: int, target: int) -> None:
        """Add an edge that reads nothing."""
        self._numbers += (source, EMPTY, 0, 0, target)

    def byte(self, source: int, text: str, target: int) -> None:
        """Add an edge that reads one ASCII character."""
        code = ord(text)
        self._numbers += (source, BYTES, code, code, target)

    def characters(self, source: int, low: int, high: int, target: int) -> None:
        """Add an edge that reads one character of a range."""
        self._numbers += (source, CHARACTERS, low, high, target)

    def call(self, source: int, rule: int, target: int) -> None:
        """Add an edge that calls a rule."""
        self._numbers += (source, CALL, rule, 0, target)

    def run(self, text: str, target: int) -> int:
        """Add a state from which a non-empty ASCII text leads to a target state."""
        first = self._n_states
        self._n_states += len(text)
        self._runs.append((first, len(text), target))
        self._texts.append(text)
        return first

    def text(self, source: int, text: str, target: int) -> None:
        """Add edges that read an ASCII text."""
        if len(text) > 1:
            self.byte(source, text[0], self.run(text[1:], target))
        elif text:
            self.byte(source, text, target)
        else:
            self.empty(source, target)

    def states(self, n: int) -> int:
        """Add n states with consecutive numbers, and return the first."""
        self._n_states += n
        return self._n_states - n

    def edges(self, first: int, ranges: NDArray[np.int64]) -> None:
        """Add edges that read characters.

        Args:
            first: the number of the state that `ranges` calls 0; the others follow it.
            ranges: int64[n, 4], rows (source, low, high, target) of code points.
        """
        rows = np.empty((len(ranges), 5), np.int64)
        rows[:, 0] = ranges[:, 0] + first
        rows[:, 1] = CHARACTERS
        rows[:, 2:4] = ranges[:, 1:3]
        rows[:, 4] = ranges[:, 3] + first
        self._blocks.append(rows)

    def calls(self, first: int, edges: NDArray[np.int64], rules: Sequence[int]) -> None:
        """Add edges that call rules.

        Args:
            first: the number of the state that `edges` calls 0; the others follow it.
            edges: int64[n, 3], rows (source, index into `rules`, target).
            rules: the called rules.
        """
        rows = np.empty((len(edges), 5), np.int64)
        rows[:, 0] = edges[:, 0] + first
        rows[:, 1] = CALL
        rows[:, 2] = np.array(rules, np.int64)[edges[:, 1]]
        rows[:, 3] = 0
        rows[:, 4] = edges[:, 2] + first
        self._blocks.append(rows)

    def table(self) -> NDArray[np.int64]:
        """All edges, int64[n, 5]: source, type, a, b, target."""
        own = np.array(self._numbers, np.int64).reshape(-1, 5)
        return np.concatenate([own, self._run_table(), *self._blocks])

    def _run_table(self) -> NDArray[np.int64]:
        """The edges of all runs."""
        codes = np.frombuffer("".join(self._texts).encode("ascii"), np.uint8)
        firsts, lengths, targets = np.array(self._runs, np.int64).reshape(-1, 3).T
        ends = np.cumsum(lengths)
        found = np.empty((len(codes), 5), np.int64)
        found[:, 0] = np.arange(len(codes)) + np.repeat(firsts - (ends - lengths), lengths)
        found[:, 1] = BYTES
        found[:, 2] = found[:, 3] = codes
        found[:, 4] = found[:, 0] + 1
        found[ends - 1, 4] = targets
        return found

    def reading(self, root: int) -> ReadGrammar:
        """The grammar in the form that `equivalence.network` reads.

        Args:
            root: the start rule.
        """
        table, n_rules = self.table(), len(self.names)
        for column in (0, 4):
            states = table[:, column]
            table[:, column] = np.where(states < 0, -1 - states, states + 2 * n_rules)
        edges, n_states = as_bytes(table, self._n_states + 2 * n_rules)
        data: list[int] = []
        bodies = [-1] * n_rules
        for i, (number, (unit, least, most)) in enumerate(self.repeats.items()):
            bodies[number] = i
            data += (serial.REPEAT, 3, unit, least, -1 if most is None else most)
        features = {
            serial.VERSION_FIELD: serial.SERIALIZATION_VERSION,
            serial.RULES: PlainRules(self.names.__getitem__, np.array(bodies, np.int64)),
            serial.ROOT: root, serial.MARKERS: [],
        }  # fmt: skip
        starts = np.arange(0, len(data), 5, dtype=np.int64)
        return ReadGrammar(features, np.array(data, np.int64), starts, edges=edges, n_states=n_states)
