# cython: language_level=3, wraparound=True
"""Deterministic automata over characters, in canonical form.

What: `Automaton` is the minimal automaton of a language of texts; equal languages have equal automata.
`language_of` makes it from a term. Boolean combinations are terms (`combine`); `cells_of` partitions
all texts by several languages.
When: for the patterns, formats, sets of texts and numbers of a schema.
Limits: characters are code points without surrogates. A combination with more states than its bound raises
`TooLarge`.

Edges are ranges of characters instead of entries of a table: in real patterns, the median state has three
edges, while the alphabet of a pattern has twenty classes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.closure import outside_cycles
from equivalence.arrays.ranges import LAST, Ranges, joined
from equivalence.bounded_cache import cached
from hybrid.json_schema.languages.limits import check_deadline
from hybrid.json_schema.languages.minimisation import (
    NO_LANGUAGE,
    minimised,
    minimised_table,
    n_characters_between,
)
from hybrid.json_schema.languages.term_derivatives import Derivatives
from hybrid.json_schema.languages.terms import Terms

check_source(__name__)

SURROGATES = range(0xD800, 0xE000)
"""Code points that are no characters. A range of an edge may have them between its ends."""

WIDE = 1024
"""Vectors of more automata count as several states of `cells_of`."""

Edge = tuple[int, int, int]
"""The first and the last character, and the target state."""

Row = tuple[Edge, ...]
"""The edges of a state: sorted, disjoint, and merged where possible."""


class Automaton:
    """A language of texts. Only functions of this package make them.

    Attributes:
        accepting: for each state, whether a text may end there. State 0 is the start. The empty language has
            no states.
        ranges: the edges as a table, int64[n, 4], read-only: rows (source, first character, last character,
            target). They lead to states from which an end can be reached.
        distances: for each state, the number of characters to the nearest end, int64.
        longest: length of the longest text in characters; None if there is no text, or no bound.
        n_texts: number of texts, at most `MOST_TEXTS`; None if there is no bound.
    """

    __slots__ = (
        "_content",
        "_hash",
        "_rows",
        "_starts",
        "_words",
        "accepting",
        "distances",
        "longest",
        "n_texts",
        "ranges",
    )

    def __init__(
        self, accepting: tuple[bool, ...], ranges: NDArray[np.int64], distances: NDArray[np.int64],
        longest: int | None, n_texts: int | None,
    ) -> None:  # fmt: skip
        self.accepting, self.ranges, self.distances = accepting, ranges, distances
        self.longest, self.n_texts = longest, n_texts
        self._content = ranges.tobytes()
        self._hash = hash((self._content, accepting))
        self._rows: tuple[Row, ...] | None = None
        self._starts: dict[int, list[int]] = {}
        self._words: dict[int, list[str] | None] = {}

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Automaton):
            return False
        return self._content == other._content and self.accepting == other.accepting

    def __repr__(self) -> str:
        return f"Automaton({self.n_states} states)"

    @property
    def rows(self) -> tuple[Row, ...]:
        """The edges of each state."""
        if self._rows is None:
            rows: list[list[Edge]] = [[] for _ in self.accepting]
            for source, low, high, target in self.ranges.tolist():
                rows[source].append((low, high, target))
            self._rows = tuple(map(tuple, rows))
        return self._rows

    @property
    def n_states(self) -> int:
        """Its states."""
        return len(self.accepting)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, together with its rows."""
        return 220 * len(self.ranges) + 80 * len(self.accepting) + 500

    @property
    def is_empty(self) -> bool:
        """Whether it contains no text."""
        return not self.accepting

    @property
    def is_universal(self) -> bool:
        """Whether it contains all texts."""
        return self == universal()

    @property
    def is_empty_text(self) -> bool:
        """Whether it contains the empty text and nothing else."""
        return self.longest == 0

    def step(self, state: int, character: int) -> int:
        """Return the state after a character, or -1."""
        starts = self._starts.get(state)
        if starts is None:
            starts = self._starts[state] = [low for low, _, _ in self.rows[state]]
        i = bisect_right(starts, character) - 1
        if i < 0:
            return -1
        _, high, target = self.rows[state][i]
        return target if character <= high else -1

    def contains(self, text: str) -> bool:
        """Whether it contains a text."""
        state = -1 if self.is_empty else 0
        for letter in text:
            if state < 0:
                return False
            state = self.step(state, ord(letter))
        return state >= 0 and self.accepting[state]

    @property
    def shortest(self) -> int:
        """Length of the shortest text in characters; 0 if there is no text."""
        return 0 if self.is_empty else int(self.distances[0])

    def words(self, limit: int) -> list[str] | None:
        """Return all its texts, if there are at most `limit`; else None. The list must not be changed."""
        if limit not in self._words:
            self._words[limit] = self._find_words(limit)  # 0.1 ms for a format
        return self._words[limit]

    def count(self, limit: int) -> int | None:
        """Return the number of its texts, if there are at most `limit`, which is below `MOST_TEXTS`; else
        None."""
        return self.n_texts if self.n_texts is not None and self.n_texts <= limit else None

    def _find_words(self, limit: int) -> list[str] | None:
        if self.count(limit) is None:
            return None
        found: list[str] = []
        todo = [] if self.is_empty else [(0, "")]
        while todo:
            state, text = todo.pop()
            if self.accepting[state]:
                found.append(text)
            for low, high, target in self.rows[state]:
                codes = (code for code in range(low, high + 1) if code not in SURROGATES)
                todo += [(target, text + chr(code)) for code in codes]
        return sorted(found)


def minimal(rows: Sequence[Sequence[Edge]], accepting: Sequence[bool]) -> Automaton:
    """Return the canonical automaton of a deterministic one whose start is state 0."""
    check_deadline()
    return Automaton(*minimised(rows, accepting))


@lru_cache(maxsize=1)
def universal() -> Automaton:
    """Return the language of all texts."""
    return minimal([((0, LAST, 0),)], [True])


def empty() -> Automaton:
    """Return the empty language."""
    return Automaton(*NO_LANGUAGE)


def words(texts: Iterable[str]) -> Automaton:
    """Return the language of some texts."""
    nodes: list[dict[int, int]] = [{}]  # of a trie: the target of each character
    ends: set[int] = set()
    for text in texts:
        node = 0
        for code in map(ord, text):
            below = nodes[node]
            node = below.setdefault(code, len(nodes))
            if node == len(nodes):
                nodes.append({})
        ends.add(node)
    rows = [[(code, code, target) for code, target in below.items()] for below in nodes]
    return minimal(rows, [node in ends for node in range(len(nodes))])


def without(language: Automaton, texts: Iterable[str]) -> Automaton:
    """Return a language without some texts, in time linear in their characters. For one text, a difference of
    terms takes twice as long, and most schemas that combine languages need this."""
    # nodes of a trie of the texts that the language contains; each is a copy of the state that it reaches
    of = [0]
    children: list[dict[int, int]] = [{}]
    ends: set[int] = set()
    for text in texts:
        check_deadline()
        if not language.contains(text):
            continue
        node = 0
        for letter in text:
            code = ord(letter)
            child = children[node].get(code)
            if child is None:
                child = children[node][code] = len(of)
                of.append(language.step(of[node], code))
                children.append({})
            node = child
        ends.add(node)
    if not ends:
        return language
    n = len(of)  # the nodes are numbered before the states
    behind = [tuple([(low, high, n + target) for low, high, target in row]) for row in language.rows]
    rows = [
        _rerouted(behind[of[node]], below) if below else behind[of[node]]
        for node, below in enumerate(children)
    ]
    accepting = [language.accepting[of[node]] and node not in ends for node in range(n)]
    return minimal([*rows, *behind], [*accepting, *language.accepting])


def _rerouted(row: Row, below: dict[int, int]) -> Row:
    """Return the edges of a state, with new targets for single characters."""
    found = []
    for low, high, target in row:
        for code in sorted(code for code in below if low <= code <= high):
            if code > low:
                found.append((low, code - 1, target))
            found.append((code, code, below[code]))
            low = code + 1
        if low <= high:
            found.append((low, high, target))
    return tuple(found)


@cached(1024)
def one_of(ranges: Ranges) -> Automaton:
    """Return the language of single characters from some ranges."""
    if not ranges:
        return empty()
    edges = [(0, low, high, 1) for low, high in joined(list(ranges))]
    n_texts = sum(n_characters_between(low, high) for _, low, high, _ in edges)
    return Automaton((False, True), np.array(edges, np.int64), np.array([1, 0]), 1, n_texts)


def language_of(terms: Terms, term: int, bound: int) -> Automaton:
    """Return the language of a term.

    Raises:
        TooLarge: it needs more states than the bound before it is minimal.
    """
    starts, edges, states = Derivatives(terms).explored(term, bound)
    return Automaton(*minimised_table(starts, edges, terms.accepting(states)))


def combine(
    automata: Sequence[Automaton], join: Callable[[Terms, tuple[int, ...]], int], bound: int
) -> Automaton:
    """Return a Boolean combination of some languages.

    Args:
        automata: the automata of the languages.
        join: returns the term of the combination, given the terms of the languages.
        bound: the maximum number of states.

    Raises:
        TooLarge: it needs more states than the bound before it is minimal.
    """
    terms = Terms()
    return language_of(terms, join(terms, tuple(terms.automata(automata))), bound)


def intersection(automata: Sequence[Automaton], bound: int) -> Automaton:
    """Return the texts that all of some languages contain; see `combine`."""
    return combine(automata, Terms.intersection, bound)


def union(automata: Sequence[Automaton], bound: int) -> Automaton:
    """Return the texts that some language contains; see `combine`."""
    return combine(automata, Terms.union, bound)


def difference(one: Automaton, other: Automaton, bound: int) -> Automaton:
    """Return the texts of a language that another one does not contain; see `combine`."""
    return combine(
        [one, other], lambda terms, of: terms.intersection((of[0], terms.complement(of[1]))), bound
    )


def complement(automaton: Automaton) -> Automaton:
    """Return the language of all other texts."""
    return combine([automaton], lambda terms, of: terms.complement(of[0]), automaton.n_states + 2)


@cached(256)
def cells_of(automata: tuple[Automaton, ...], bound: int) -> list[tuple[bytes, Automaton]]:
    """Return the non-empty cells of the partition of all texts by some languages, each with its language. The
    list must not be changed.

    Raises:
        TooLarge: they need more vectors of states than the bound; one of more than `WIDE` automata counts as
            several.
    """
    terms, n = Terms(), len(automata)
    start = terms.vector(tuple(terms.automata(automata)))
    starts, edges, states = Derivatives(terms).explored(start, bound * WIDE // max(n, WIDE))
    signs = np.stack([terms.accepting(states, i + 1) for i in range(n)], axis=1)
    numbers: dict[bytes, int] = {}
    cell_of = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in signs])
    return [(cell, Automaton(*minimised_table(starts, edges, cell_of == i))) for cell, i in numbers.items()]


def edges_by_set(ranges: NDArray[np.int64]) -> tuple[tuple[Ranges, ...], NDArray[np.int64]]:
    """Group edges by the set of characters that leads from one state to another.

    Args:
        ranges: int64[n, 4], rows (source, first character, last character, target), disjoint for each source.

    Returns:
        The sets, and int64[n, 3], rows (source, number of a set, target).
    """
    ranges = ranges[np.lexsort((ranges[:, 1], ranges[:, 3], ranges[:, 0]))]
    ends = ranges[:, (0, 3)]
    starts = np.flatnonzero(np.concatenate([[True], np.any(ends[1:] != ends[:-1], axis=1)])[: len(ranges)])
    characters = np.ascontiguousarray(ranges[:, 1:3])
    content, width = characters.tobytes(), 16
    numbers: dict[bytes, int] = {}
    bounds = [*(width * starts).tolist(), len(content)]
    found = [numbers.setdefault(content[a:b], len(numbers)) for a, b in pairwise(bounds)]
    sets = []
    for key in numbers:
        rows = np.frombuffer(key, np.int64).reshape(-1, 2).tolist()
        sets.append(tuple((low, high) for low, high in rows))
    return tuple(sets), np.stack([ends[starts, 0], np.array(found, np.int64), ends[starts, 1]], axis=1)


def is_endless(language: Automaton) -> bool:
    """Whether every beginning of a text has infinitely many continuations: every state reaches a cycle."""
    return not ending_states(language)


def ending_states(language: Automaton) -> list[int]:
    """Return the states that reach no cycle: only finitely many texts continue from them."""
    return outside_cycles([[target for _, _, target in row] for row in language.rows])
