"""How many values a nonterminal has.

What: `Counts` counts the values of nonterminals up to `MOST_COUNTED`; `always_ends` says whether an array
of unique items can always be ended before it runs out of values.
When: for items under `uniqueItems`: when all values are used, the array must end.
Limits: arrays with a few values that must be unique only under conditions, or whose items have several
schemas, are refused. The alternatives of one item are disjoint and are counted separately.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from equivalence.arrays.closure import close_backwards
from hybrid.json_schema.automata import ArrayAutomaton, Counted, Nonterminal, ObjectAutomaton
from hybrid.json_schema.errors import unique_refused
from hybrid.json_schema.languages.automaton import Automaton, empty, intersection
from hybrid.json_schema.languages.lengths import Piece
from hybrid.json_schema.languages.pattern import pattern
from hybrid.json_schema.nonterminals import Nonterminals

MOST_COUNTED = 10_000
"""An array never needs more different values than this."""

_MANY = MOST_COUNTED + 1
"""Stands for every larger number, also for infinitely many."""

_BOUND = 200_000
"""States of a language of canonical numbers."""


@lru_cache(maxsize=1)
def canonical_numbers() -> Automaton:
    """Return a language with exactly one text for each finite decimal."""
    fraction = "\\.[0-9]*[1-9]"
    found = pattern(f"^(?:-?[1-9][0-9]*(?:{fraction})?|0|-?0{fraction})$", _BOUND)
    assert found is not None
    return found


class Counts:
    """For each nonterminal of one schema, its number of values; None: more than `MOST_COUNTED`."""

    def __init__(self, nonterminals: Nonterminals) -> None:
        self._nonterminals = nonterminals
        self._known: dict[Nonterminal, int] = {}
        self._asked: set[Nonterminal] = set()

    def of(self, one: Nonterminal) -> int | None:
        """Return the number of a nonterminal's values.

        Raises:
            SchemaRefused: it has arrays that cannot be counted.
        """
        found = self._count(one)
        return None if found == _MANY else found

    def scalars(self, one: Nonterminal) -> frozenset[tuple[str, Any]] | None:
        """Return the values of a nonterminal, each with its type; None: some are not scalars, or there are
        too many."""
        if one.array is not None or one.object is not None:
            return None
        pieces = self._pieces(one)
        if any(piece.characters is not None and piece.most != 0 for piece in pieces) or self.of(one) is None:
            return None
        constants = [None] * one.null + list(one.booleans)
        found = [("constant", value) for value in constants]
        found += [("number", text) for text in self._number_language(one).words(MOST_COUNTED) or ()]
        return frozenset(
            found + [("string", text) for part in pieces for text in part.prefix.words(MOST_COUNTED) or ()]
        )

    def _count(self, one: Nonterminal) -> int:
        """Return the number of a nonterminal's values, or `_MANY`."""
        if one in self._known:
            return self._known[one]
        if one in self._asked:  # it is recursive: values of any depth, or no value at all
            return _MANY
        self._asked.add(one)
        found = int(one.null) + len(one.booleans) + self._strings(one)
        numbers = self._number_language(one).count(MOST_COUNTED)
        found += _MANY if numbers is None else numbers
        if one.array is not None and found < _MANY:
            found += self._arrays(one.array)
        if one.object is not None and found < _MANY:
            found += self._objects(one.object)
        self._asked.discard(one)
        found = self._known[one] = min(found, _MANY)
        return found

    def _strings(self, one: Nonterminal) -> int:
        listed = self._nonterminals.strings.listed(one.strings)
        return len(listed) if listed is not None else sum(map(_n_texts, self._pieces(one)))

    def _number_language(self, one: Nonterminal) -> Automaton:
        if one.numbers.op == "false":
            return empty()
        texts = self._nonterminals.numbers.texts(one.numbers)
        return intersection([texts, canonical_numbers()], _BOUND)

    def _pieces(self, one: Nonterminal) -> tuple[Piece, ...]:
        """Return the strings of a nonterminal, as disjoint pieces."""
        return self._nonterminals.strings.pieces(one.strings) if one.strings.op != "false" else ()

    def _arrays(self, automaton: ArrayAutomaton) -> int:
        own = list(map(int, automaton.accepting))
        steps = map(automaton.steps, range(len(own)))
        edges = [[(self._count(value), target) for value, target in of_state] for of_state in steps]
        for state, counted in enumerate(automaton.counted):
            if counted is not None:
                edges[state], own[state] = [], self._counted(counted, automaton.is_unique)
        ends = _ends(own, edges)
        if not ends[0]:
            return 0
        numbers = [n for of_state in edges for n, target in of_state if n and ends[target]]
        numbers += [n for n in own if n > 1]
        if automaton.is_conditional and any(n < _MANY for n in numbers):
            raise unique_refused(
                "it applies only in some cases (below 'not' or in a branch), and there are only a few "
                "different items"
            )
        is_mixed = automaton.is_unique and automaton.counted[0] is None
        if is_mixed and _MANY not in numbers and not self._differ(automaton):
            raise unique_refused(
                "its items have several schemas with a few values, and the arrays must be unique, too"
            )
        return _n_ways(own, edges, ends)

    def _differ(self, automaton: ArrayAutomaton) -> bool:
        """Whether items of different edges can be seen to differ."""
        values = [value for of_state in automaton.edges for value, _ in of_state]
        values += [counted.value for counted in automaton.counted if counted is not None]
        found: set[Any] = set()
        for value in values:
            scalars = self.scalars(value)
            if scalars is None or not found.isdisjoint(scalars):
                return False
            found |= scalars
        return True

    def _counted(self, counted: Counted, is_unique: bool | None) -> int:
        """Return the number of arrays of counted items."""
        each, (_, least, most) = self._count(counted.value), counted
        if not is_unique:
            return _n_sequences(each, least, most)
        if each == _MANY:
            return _MANY if most != 0 else 1
        total, ways = 0, 1
        for length in range((each if most is None else min(each, most)) + 1):
            if length >= least:
                total += ways
            if total > MOST_COUNTED:
                return _MANY
            ways *= each - length
        return total

    def _objects(self, automaton: ObjectAutomaton) -> int:
        n = len(automaton.edges)
        edges = [[(self._count(value), target) for value, target in of_state] for of_state in automaton.edges]
        for state, target in enumerate(automaton.skipped):
            if target >= 0:
                edges[state].append((1, target))
        behind = {0, *(target for of_state in edges for _, target in of_state)}
        behind = {state for state in behind if automaton.position[state] == len(automaton.names)}
        own = [self._undeclared(automaton, state) if state in behind else 0 for state in range(n)]
        return _n_ways(own, edges, _ends(own, edges))

    def _undeclared(self, automaton: ObjectAutomaton, start: int) -> int:
        """Return in how many ways undeclared keys can complete an object.

        Their order does not matter, so they are counted in one order: each key comes or does not.
        """
        ways = {start: 1}  # of reaching each state
        for number, known in enumerate(automaton.classes):
            n_keys = known.count(MOST_COUNTED)
            if n_keys is None:
                todo = list(ways)
                for state in todo:
                    for _, target in self._extras(automaton, state, number):
                        if ways.get(target) != _MANY:
                            ways[target] = _MANY
                            todo.append(target)
            for _ in range(n_keys or 0):
                self._nonterminals.check()
                after = dict(ways)
                for state, n in ways.items():
                    for each, target in self._extras(automaton, state, number):
                        after[target] = min(after.get(target, 0) + n * each, _MANY)
                if after == ways:
                    break
                ways = after
                if any(n == _MANY and automaton.accepting[state] for state, n in ways.items()):
                    return _MANY
        return min(sum(n for state, n in ways.items() if automaton.accepting[state]), _MANY)

    def _extras(self, automaton: ObjectAutomaton, state: int, number: int) -> list[tuple[int, int]]:
        """Return the edges of a class of undeclared keys: pairs (number of values, target)."""
        pairs = [edges for one, edges in automaton.extra[state] if one == number]
        return [(n, target) for edges in pairs for value, target in edges if (n := self._count(value))]


def _n_texts(piece: Piece) -> int:
    """Return the number of texts of a piece, or `_MANY`."""
    prefixes = None if piece.is_counted else piece.prefix.count(MOST_COUNTED)
    if prefixes is None:
        return _MANY
    if piece.characters is None:
        return prefixes
    n_characters = sum(high - low + 1 for low, high, _ in piece.characters.rows[0])
    return min(prefixes * _n_sequences(n_characters, piece.least, piece.most), _MANY)


def _n_sequences(n: int, least: int, most: int | None) -> int:
    """Return the number of sequences of n different things with some lengths, or `_MANY`."""
    if n == 0 or most == 0:
        return int(not least)
    if most is None:
        return _MANY
    if n == 1:
        return min(max(most - least + 1, 0), _MANY)
    total, length = 0, least
    while length <= most and total < _MANY:
        total += n**length if length < MOST_COUNTED.bit_length() else _MANY
        length += 1
    return min(total, _MANY)


def _ends(own: list[int], edges: list[list[tuple[int, int]]]) -> list[bool]:
    """For each state, whether an end can be reached from it (see `_n_ways`)."""
    ends = [n > 0 for n in own]
    before: list[list[int]] = [[] for _ in own]
    for state, of_state in enumerate(edges):
        for n, target in of_state:
            if n:
                before[target].append(state)
    close_backwards(ends, before)
    return ends


def _n_ways(own: list[int], edges: list[list[tuple[int, int]]], ends: list[bool]) -> int:
    """Return the number of ways from state 0 to an end, or `_MANY`.

    Args:
        own: for each state, the number of ways to end without another edge.
        edges: for each state, pairs (number of values that an edge reads, target).
        ends: the result of `_ends`.
    """
    useful = [[(n, target) for n, target in of_state if n and ends[target]] for of_state in edges]
    before: list[list[int]] = [[] for _ in own]
    for state, of_state in enumerate(useful):
        for _, target in of_state:
            before[target].append(state)
    left, total = list(map(len, useful)), list(own)
    todo = [state for state, n in enumerate(left) if not n]
    for state in todo:  # its targets came before it
        total[state] = min(total[state] + sum(n * total[target] for n, target in useful[state]), _MANY)
        for source in before[state]:
            left[source] -= 1
            if not left[source]:
                todo.append(source)
    return _MANY if left[0] else total[0]  # the start reaches a cycle


def always_ends(array: ArrayAutomaton, counts: Counts) -> bool:
    """Whether an array of unique items can always be ended, whatever came before: from each state there is
    a way to an end by items that have infinitely many values, or that cannot have come before.

    Args:
        array: an array whose items are remembered, with `is_live` set.
        counts: the counts of the schema.
    """
    n = len(array.accepting)
    sources: list[list[int]] = [[] for _ in range(n)]
    for state in range(n):
        for _, target in array.edges[state]:
            sources[target].append(state)
    before: list[list[int]] = [[] for _ in range(n)]
    ends = array.accepting[:]
    for state, counted in enumerate(array.counted):
        if counted is not None:
            ends[state] = not counted.least or counts.of(counted.value) is None
            continue
        for value, target in array.edges[state]:
            if counts.of(value) is None or _has_new(array, value, state, sources, counts):
                before[target].append(state)
    close_backwards(ends, before)
    return all(end for end, is_live in zip(ends, array.is_live, strict=True) if is_live)


def _has_new(array: ArrayAutomaton, value: Any, state: int, sources: list[list[int]], counts: Counts) -> bool:
    """Whether some value of a nonterminal cannot have come before a state."""
    values = counts.scalars(value)
    if values is None:
        return False
    behind = [False] * len(sources)
    behind[state] = True
    close_backwards(behind, sources)
    for source, is_behind in enumerate(behind):
        for earlier, target in array.edges[source] if is_behind else ():
            if behind[target]:
                others = counts.scalars(earlier)
                if others is None:
                    return False
                values -= others
    return bool(values)
