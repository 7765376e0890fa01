"""How many values a nonterminal has.

What: `Counts` counts the values of nonterminals up to `MOST_COUNTED`.
When: for items under `uniqueItems`: when all values are used, the array must end.
Limits: arrays are refused if they must be unique and their items have several schemas, some with a few
values; or if they must be unique only under conditions, and have a few values. Strings of long patterns that
have many lengths are refused, too (`languages/counted.py`).
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from equivalence import forks
from equivalence.arrays.closure import close_backwards, outside_cycles, predecessors_of
from equivalence.bounded_cache import cached
from hybrid.json_schema.automata import ArrayAutomaton, Counted, Nonterminal, ObjectAutomaton
from hybrid.json_schema.errors import unique_refused
from hybrid.json_schema.keyword_values import MOST_COUNTED
from hybrid.json_schema.languages.automaton import Automaton, empty, intersection
from hybrid.json_schema.languages.counted import n_texts
from hybrid.json_schema.languages.lengths import Piece
from hybrid.json_schema.languages.pattern import pattern
from hybrid.json_schema.nonterminals import Nonterminals
from hybrid.json_schema.productive import parts_of

MOST_LISTED = 10_000
"""At most this many values are listed."""

MOST_KEYS = 10_000
"""A class with more keys than this counts as one that always has another key for an item to differ in."""

MANY = MOST_COUNTED + 1
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


@cached(256)
def shortest_texts(texts: Automaton, bound: int) -> Automaton:
    """Return the shortest text of each finite decimal in a language of numbers.

    Raises:
        TooLarge: there are more states than the bound.
    """
    return intersection([texts, canonical_numbers()], bound)


@forks.with_unlocked_properties
class Counts:
    """For each nonterminal of one schema, its number of values; None: more than `MOST_COUNTED`.

    Args:
        nonterminals: the sets of values, after `find_productive`.
        at_recursion: the count of a nonterminal while it is being counted, if its values contain others of
            its values. By default it has infinitely many. With 0, the counts are lower bounds.

    Attributes:
        nonterminals: the sets of values.
        check: raises an error if the deadline has passed.
    """

    def __init__(self, nonterminals: Nonterminals, at_recursion: int = MANY) -> None:
        self.nonterminals, self.check = nonterminals, nonterminals.check
        self._at_recursion = at_recursion
        self._known: dict[Nonterminal, int] = {}
        self._asked: set[Nonterminal] = set()  # those that are being counted
        self._assumed: set[Nonterminal] = set()  # those of them whose count was needed
        self._n_scalars: dict[Nonterminal, int] = {}

    def of(self, one: Nonterminal) -> int | None:
        """Return the number of a nonterminal's values.

        Raises:
            SchemaRefused: it has arrays that cannot be counted.
        """
        found = self._count(one)
        return None if found == MANY else found

    @cached_property
    def _lower(self) -> Counts:
        """Lower bounds: values that contain values of their own nonterminal are not counted."""
        return Counts(self.nonterminals, 0)

    def scalars(self, one: Nonterminal) -> list[tuple[str, Any]] | None:
        """Return the values of a nonterminal, each with its type; None: some are not scalars, or there are
        too many."""
        if one.array is not None or one.object is not None or self._scalars(one) > MOST_LISTED:
            return None
        constants = [None] * one.null + list(one.booleans)
        found = [("constant", value) for value in constants]
        found += [("number", text) for text in self._number_language(one).words(MOST_LISTED) or ()]
        listed = self.nonterminals.strings.listed(one.strings)
        for piece in self.pieces(one) if listed is None else ():
            if piece.is_counted or (piece.characters is not None and piece.most != 0):
                return None
            found += [("string", text) for text in piece.prefix.words(MOST_LISTED) or ()]
        return found + [("string", text) for text in listed or ()]

    def holds(self, one: Nonterminal, scalar: tuple[str, Any]) -> bool:
        """Whether a nonterminal contains one of the `scalars` of another one."""
        kind, value = scalar
        if kind == "constant":
            return one.null if value is None else value in one.booleans
        if kind == "string":
            return self.nonterminals.strings.writes(one.strings, value)
        return one.numbers.op != "false" and self.nonterminals.numbers.texts(one.numbers).contains(value)

    def _count(self, one: Nonterminal) -> int:
        """Return the number of a nonterminal's values, or `MANY`."""
        if one in self._known:
            return self._known[one]
        if not one.is_productive:
            return 0
        if one in self._asked:
            self._assumed.add(one)
            return self._at_recursion
        self.check()
        self._asked.add(one)
        n_known, found = len(self._known), 0
        try:
            found = self._scalars(one)
            if one.array is not None and found < MANY:
                found += self._arrays(one, one.array)
            if one.object is not None and found < MANY:
                found += self._objects(one.object)
        finally:
            self._asked.discard(one)
            if found < MANY == self._at_recursion and one in self._assumed:
                for other in [*self._known][n_known:]:  # they were counted as if this one had infinitely many
                    del self._known[other]
            self._assumed.discard(one)
        found = self._known[one] = min(found, MANY)
        return found

    def _scalars(self, one: Nonterminal) -> int:
        """Return the number of a nonterminal's scalars, or at least `MANY`."""
        if one not in self._n_scalars:
            found = int(one.null) + len(one.booleans) + self._strings(one)
            numbers = self._number_language(one).count(MOST_COUNTED)
            self._n_scalars[one] = found + (MANY if numbers is None else numbers)
        return self._n_scalars[one]

    def _strings(self, one: Nonterminal) -> int:
        listed = self.nonterminals.strings.listed(one.strings)
        return len(listed) if listed is not None else sum(map(n_of_piece, self.pieces(one)))

    def _number_language(self, one: Nonterminal) -> Automaton:
        if one.numbers.op == "false":
            return empty()
        return shortest_texts(self.nonterminals.numbers.texts(one.numbers), _BOUND)

    def pieces(self, one: Nonterminal) -> tuple[Piece, ...]:
        """Return the strings of a nonterminal, as disjoint pieces."""
        return self.nonterminals.strings.pieces(one.strings) if one.strings.op != "false" else ()

    def _arrays(self, of: Nonterminal, automaton: ArrayAutomaton) -> int:
        if not automaton.is_live[0]:
            return 0
        if automaton.is_unique and automaton.counted[0] is None:
            if self._is_endless(of, automaton):
                return MANY
            raise unique_refused(
                "its items have several schemas with a few values, and the arrays must be unique, too"
            )
        own = list(map(int, automaton.accepting))
        steps = map(automaton.steps, range(len(own)))
        edges = [[(self._count(value), target) for value, target in of_state] for of_state in steps]
        for state, counted in enumerate(automaton.counted):
            if counted is not None:
                edges[state], own[state] = [], self._counted(of, counted, automaton.is_unique)
        ends = _ends(own, edges)
        if not ends[0]:
            return 0
        if automaton.is_conditional:
            self._check_conditional(of, automaton, edges, ends)
        return n_ways(own, edges)[0]

    def _check_conditional(
        self,
        of: Nonterminal,
        automaton: ArrayAutomaton,
        edges: list[list[tuple[int, int]]],
        ends: list[bool],
    ) -> None:
        """Refuse arrays that must be unique only under conditions, unless there are many different items.

        Args:
            edges: see `n_ways`.
            ends: see `_ends`.
        """
        numbers = [n for of_state in edges for n, target in of_state if n and ends[target]]
        if any(n < MANY for n in numbers):
            raise unique_refused(
                "it applies only in some cases (below 'not' or in a branch), and there are only a few "
                "different items"
            )
        for value in dict.fromkeys(automaton.values):
            if self._is_recursive(value, of) and self._lower._count(value) < MANY:
                raise unique_refused(
                    "it applies only in some cases (below 'not' or in a branch), an item may contain the "
                    "array itself, and there may be too few others"
                )

    def _is_recursive(self, value: Nonterminal, of: Nonterminal) -> bool:
        """Whether the count of a value assumed that a nonterminal has infinitely many values."""
        is_certain = not self._at_recursion or not value.is_productive or self._scalars(value) >= MANY
        return not is_certain and (value is of or of in parts_of(value.automata))

    def _is_endless(self, of: Nonterminal, automaton: ArrayAutomaton) -> bool:
        """Whether there are infinitely many arrays of items that each have infinitely many values, and do not
        contain such an array."""

        def is_endless(value: Nonterminal) -> bool:
            return self._count(value) == MANY and not self._is_recursive(value, of)

        own = list(map(int, automaton.accepting))
        edges = [
            [(MANY, target) for value, target in of_state if is_endless(value)]
            for of_state in automaton.edges
        ]
        for state, counted in enumerate(automaton.counted):
            if counted is not None:
                own[state] = MANY if is_endless(counted.value) and counted.most != 0 else not counted.least
                edges[state] = []
        return n_ways(own, edges)[0] == MANY

    def _counted(self, of: Nonterminal, counted: Counted, is_unique: bool | None) -> int:
        """Return the number of arrays of counted items."""
        each, (value, least, most) = self._count(counted.value), counted
        if is_unique and least > 1 and each == MANY and self._is_recursive(value, of):
            if self._lower._count(value) < least:
                raise unique_refused("an item may contain the array itself, and there may be too few others")
        return n_arrays(each, least, most, bool(is_unique))

    def _objects(self, automaton: ObjectAutomaton) -> int:
        """Return the number of objects. Either only one undeclared key may come, or another one of many may
        always come (`refuse_reordering`). So their order does not matter."""
        edges = [[(self._count(value), target) for value, target in of_state] for of_state in automaton.edges]
        extras = [automaton.live_extra(state) for state in range(len(edges))]
        behind_extra = {target for of_state in extras for _, some in of_state for _, target in some}
        for state, of_state in enumerate(edges):
            if automaton.skipped[state] >= 0:
                of_state.append((1, automaton.skipped[state]))
            for number, some in extras[state]:
                n_keys = automaton.classes[number].count(MOST_COUNTED) or MANY
                if n_keys > MOST_KEYS or state not in behind_extra:  # others may have come before
                    of_state += [(n_keys * self._count(value), target) for value, target in some]
        return n_ways(list(map(int, automaton.accepting)), edges)[0]


def n_of_piece(piece: Piece) -> int:
    """Return the number of texts of a piece, or `MANY`."""
    if piece.is_counted:
        if piece.most is None:
            return MANY
        found = n_texts(piece.prefix, piece.least, piece.most, MOST_COUNTED)
        if found is None:
            raise unique_refused(
                "its items are strings of a pattern and of many lengths, which cannot be counted"
            )
        return found
    prefixes = piece.prefix.count(MOST_COUNTED)
    if prefixes is None:
        return MANY
    if piece.characters is None:
        return prefixes
    n_characters = piece.characters.n_texts or 0
    return min(prefixes * n_sequences(n_characters, piece.least, piece.most), MANY)


def n_arrays(n: int, least: int, most: int | None, is_unique: bool) -> int:
    """Return the number of arrays of n different items with some lengths, or `MANY`.

    Args:
        is_unique: whether all items must differ.
    """
    if not is_unique:
        return n_sequences(n, least, most)
    if least > n:  # there are too few values; the loop would run n times
        return 0
    total, ways = 0, 1
    for length in range((n if most is None else min(n, most)) + 1):
        if length >= least:
            total += ways
        # from here on, each further item leaves at least as many ways
        if total > MOST_COUNTED or ways > MOST_COUNTED:
            return MANY
        ways *= n - length
    return total


def n_sequences(n: int, least: int, most: int | None) -> int:
    """Return the number of sequences of n different things with some lengths, or `MANY`."""
    if n == 0 or most == 0:
        return int(not least)
    if most is None:
        return MANY
    if n == 1:
        return min(max(most - least + 1, 0), MANY)
    total, length = 0, least
    while length <= most and total < MANY:
        total += n**length if length < MOST_COUNTED.bit_length() else MANY
        length += 1
    return min(total, MANY)


def _ends(own: list[int], edges: list[list[tuple[int, int]]]) -> list[bool]:
    """For each state, whether an end can be reached from it (see `n_ways`)."""
    ends = [n > 0 for n in own]
    close_backwards(ends, predecessors_of([[target for n, target in of_state if n] for of_state in edges]))
    return ends


def n_ways(own: list[int], edges: list[list[tuple[int, int]]]) -> list[int]:
    """Return, for each state, the number of ways to an end, or `MANY`.

    Args:
        own: for each state, the number of ways to end without another edge.
        edges: for each state, pairs (number of values that an edge reads, target).
    """
    ends = _ends(own, edges)
    useful = [[(n, target) for n, target in of_state if n and ends[target]] for of_state in edges]
    found = [MANY] * len(own)
    for state in outside_cycles([[target for _, target in of_state] for of_state in useful]):
        found[state] = min(own[state] + sum(n * found[target] for n, target in useful[state]), MANY)
    return found
