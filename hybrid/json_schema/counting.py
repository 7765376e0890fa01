"""How many values a nonterminal has.

What: `Counts` counts the values of nonterminals up to `MOST_COUNTED`; `always_ends` says whether an array
of unique items can always be ended before it runs out of values.
When: for items under `uniqueItems`: when all values are used, the array must end.
Limits: undeclared keys count as infinitely many values. The alternatives of one item are disjoint and are
counted separately.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from equivalence.arrays.closure import close_backwards
from hybrid.json_schema.automata import ArrayAutomaton, Nonterminal, ObjectAutomaton
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.languages.automaton import Automaton, empty, intersection
from hybrid.json_schema.languages.pattern import pattern
from hybrid.json_schema.nonterminals import Nonterminals

MOST_COUNTED = 10_000
"""An array never needs more different values than this."""

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
        self._known: dict[Nonterminal, int | None] = {}
        self._asked: set[Nonterminal] = set()

    def of(self, one: Nonterminal) -> int | None:
        """Return the number of a nonterminal's values."""
        if one in self._known:
            return self._known[one]
        if one in self._asked:  # it is recursive: values of any depth, or no value at all
            return None
        self._asked.add(one)
        parts = [
            int(one.null) + len(one.booleans),
            self._number_language(one).count(MOST_COUNTED),
            self._strings(one),
        ]
        if one.array is not None:
            parts.append(self._array(one.array, 0))
        if one.object is not None:
            parts.append(self._object(one.object, 0, {}))
        self._asked.discard(one)
        found = self._known[one] = _sum(parts)
        return found

    def scalars(self, one: Nonterminal) -> frozenset[tuple[str, Any]] | None:
        """Return the values of a nonterminal, each with its type; None: some are not scalars, or there are
        too many."""
        if one.array is not None or one.object is not None:
            return None
        languages = self._string_languages(one)
        if languages is None or self.of(one) is None:
            return None
        constants = [None] * one.null + list(one.booleans)
        found = [("constant", value) for value in constants]
        found += [("number", text) for text in self._number_language(one).words(MOST_COUNTED) or ()]
        return frozenset(
            found + [("string", text) for part in languages for text in part.words(MOST_COUNTED) or ()]
        )

    def _strings(self, one: Nonterminal) -> int | None:
        listed = self._nonterminals.strings.listed(one.strings)
        if listed is not None:
            return _sum([len(listed)])
        languages = self._string_languages(one)
        return None if languages is None else _sum([part.count(MOST_COUNTED) for part in languages])

    def _number_language(self, one: Nonterminal) -> Automaton:
        if one.numbers.op == "false":
            return empty()
        texts = self._nonterminals.numbers.texts(one.numbers)
        return intersection([texts, canonical_numbers()], _BOUND)

    def _string_languages(self, one: Nonterminal) -> list[Automaton] | None:
        """Return disjoint languages of its strings; None: there are too many strings."""
        pieces = self._nonterminals.strings.pieces(one.strings) if one.strings.op != "false" else ()
        if any(piece.is_counted or (piece.characters is not None and piece.most != 0) for piece in pieces):
            return None
        return [piece.prefix for piece in pieces]

    def _array(self, automaton: ArrayAutomaton, state: int) -> int | None:
        if automaton.is_conditional:
            if any(self.of(value) is not None for edges in automaton.edges for value, _ in edges):
                raise SchemaRefused(
                    "unsupported",
                    "uniqueItems",
                    "",
                    "is not supported here: it applies only in some cases (below 'not' or in a "
                    "branch), and there are only a few different items",
                )
            return None
        counted = automaton.counted[state]
        if counted is not None:
            each = self.of(counted.value)
            most = counted.most if counted.most is not None else (each if automaton.is_unique else None)
            if each is None or (most is None and each):
                return None
            total, ways = 0, 1
            for length in range((most or 0) + 1):
                if length >= counted.least:
                    total += ways
                ways *= each - length if automaton.is_unique else each
                if total > MOST_COUNTED:
                    return None
                if ways <= 0:
                    break
            return total
        if any(target <= state for _, target in automaton.edges[state]):
            return None  # it may contain a cycle
        parts: list[int | None] = [int(automaton.accepting[state])]
        for value, target in automaton.edges[state]:
            parts.append(_product(self.of(value), self._array(automaton, target)))
        return _sum(parts)

    def _object(self, automaton: ObjectAutomaton, state: int, known: dict[int, int | None]) -> int | None:
        if state not in known:
            parts: list[int | None] = [int(automaton.accepting[state])]
            if automaton.skipped[state] >= 0:
                parts.append(self._object(automaton, automaton.skipped[state], known))
            for value, target in automaton.edges[state]:
                parts.append(_product(self.of(value), self._object(automaton, target, known)))
            if any(self.of(value) != 0 for _, edges in automaton.extra[state] for value, _ in edges):
                parts.append(None)
            known[state] = _sum(parts)
        return known[state]


def _sum(parts: list[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total if total <= MOST_COUNTED else None


def _product(one: int | None, other: int | None) -> int | None:
    if one == 0 or other == 0:
        return 0
    if one is None or other is None:
        return None
    return one * other if one * other <= MOST_COUNTED else None


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
