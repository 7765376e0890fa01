# cython: language_level=3
# mypy: ignore-errors
"""Derivatives: the automaton of a term.

What: `Derivatives.explored` finds all derivatives of a term. They are the states of its automaton, because
the derivative by a character is the term of what may follow it. (Brzozowski: Derivatives of Regular
Expressions, 1964, theorem 5.2.)
When: once for each pattern, after its term has been made.
Limits: see `terms.py`. What is computed about a loop while it is under way is kept, too. That is right
because no iteration of a loop may be empty (`_Builder._repeat` of `pattern.py`), so nothing asks about it.

The derivatives of a term by all characters are found together, from those of its parts: as runs of
characters with the same derivative.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.network.sorted_set import SortedSet
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.languages.residues import Residue
from cython.cimports.hybrid.json_schema.languages.terms import (
    ALL_TEXTS,
    AND,
    AUTOMATON,
    CHARS,
    EMPTY_TEXT,
    LOOP,
    NO_TEXT,
    NOT,
    OR,
    REPEAT,
    RESIDUE,
    RUNS,
    STAR,
    STATE,
    VECTOR,
    Terms,
    argument,
    end_of,
    kind_of,
)

from equivalence.arrays.dynamic_arrays import bigger
from equivalence.arrays.ranges import LAST
from hybrid.json_schema.languages import limits

check_source(__name__)

ROUND = cython.declare(cython.Py_ssize_t, 15)  # the deadline is checked after one more than this many states
MANY = cython.declare(cython.Py_ssize_t, 64)  # it is checked after each derivative of a term with more parts
TERMS = cython.declare(cython.Py_ssize_t, 16)  # terms for each state that is allowed
LEAST_TERMS = cython.declare(cython.Py_ssize_t, 100_000)  # allowed for few states, too
END = cython.declare(cython.int, LAST + 1)  # the first character of the entry after the last run

POINT = cython.declare(cython.Py_ssize_t, ord("."))
ZERO = cython.declare(cython.Py_ssize_t, ord("0"))


@cython.final
@cython.cclass
class Derivatives:
    """The derivatives of the terms of one pattern.

    Attributes:
        terms: the terms.
        runs: int32[room, 2], the runs of each term: the first character, and the derivative by it and all
            others before the next run. An entry with the character `END` follows the last run.
        n_runs: number of entries.
        parts: int64[room, 2], the parts of the terms whose runs are being found: the place of the part's run
            that is read next, and the term that follows the part.
        n_parts: number of these parts.
        vectors, results: for the term whose runs are being joined: the derivatives of its parts by one
            character, and its own derivative by it.
        bound: the maximum number of states.
    """

    terms: Terms
    runs: cython.int[:, ::1]
    n_runs: cython.Py_ssize_t
    parts: cython.Py_ssize_t[:, ::1]
    n_parts: cython.Py_ssize_t
    vectors: Interned
    results: cython.Py_ssize_t[::1]
    bound: cython.Py_ssize_t

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.runs = np.empty((256, 2), np.int32)
        self.parts = np.empty((64, 2), np.int64)
        self.vectors, self.results = Interned(16, 2), np.empty(16, np.int64)
        self.n_runs = self.n_parts = 0
        self.add(0, NO_TEXT, 0)  # the runs of the term of no text
        self.add(END, NO_TEXT, 0)

    @cython.cfunc
    def add(self, low: cython.Py_ssize_t, after: cython.Py_ssize_t, begin: cython.Py_ssize_t) -> cython.int:
        """Add a run to those of a term that begin at a place. It becomes a part of the run before it if that
        has the same derivative."""
        if self.n_runs > begin and low < END and self.runs[self.n_runs - 1, 1] == after:
            return 0
        if self.n_runs == self.runs.shape[0]:
            self.runs = bigger(self.runs, 2 * self.n_runs)
        self.runs[self.n_runs, 0] = cython.cast(cython.int, low)
        self.runs[self.n_runs, 1] = cython.cast(cython.int, after)
        self.n_runs += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def runs_of(self, term: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the place of a term's first run."""
        terms: Terms = self.terms
        if terms.facts[term, RUNS] < 0:
            terms.facts[term, RUNS] = 0  # for a loop inside itself: the runs of the term of no text
            terms.enter()
            found = self.find_runs(term)
            terms.depth -= 1
            terms.facts[term, RUNS] = found
        return terms.facts[term, RUNS]

    @cython.cfunc
    @cython.exceptval(-1)
    def find_runs(self, term: cython.Py_ssize_t) -> cython.Py_ssize_t:
        terms: Terms = self.terms
        kind = kind_of(terms, term)
        if kind <= CHARS:
            return self.runs_of_characters(term, kind)
        begin = self.n_parts
        part = argument(terms, term, 1)
        if kind == RESIDUE:
            return self.runs_of_digits(part, argument(terms, term, 2))
        if kind == AUTOMATON:
            return self.runs_of_state(part)
        if kind in (OR, AND, VECTOR):
            for i in range(1, end_of(terms, term)):
                self.add_part(argument(terms, term, i), EMPTY_TEXT)
        elif kind == LOOP:
            then: cython.Py_ssize_t = terms.loops[part][0]
            self.add_part(then, EMPTY_TEXT)
            self.add_part(terms.unfold(part), EMPTY_TEXT)
        elif kind == NOT:
            self.add_part(part, EMPTY_TEXT)
        elif kind == STAR:
            self.add_part(part, term)
        elif kind == REPEAT:
            least = max(argument(terms, term, 2) - 1, 0)
            self.add_part(part, terms.bounded(part, least, argument(terms, term, 3) - 1))
        else:
            self.add_part(part, argument(terms, term, 2))
            if terms.nullable(part):
                self.add_part(argument(terms, term, 2), EMPTY_TEXT)
        return self.joined(kind, begin)

    @cython.cfunc
    @cython.exceptval(-1)
    def runs_of_characters(self, term: cython.Py_ssize_t, kind: cython.Py_ssize_t) -> cython.Py_ssize_t:
        begin = self.n_runs
        low: cython.Py_ssize_t
        high: cython.Py_ssize_t
        at: cython.Py_ssize_t = 0
        for low, high in self.terms.sets[argument(self.terms, term, 1)] if kind == CHARS else ():
            if low > at:
                self.add(at, NO_TEXT, begin)
            self.add(low, EMPTY_TEXT, begin)
            at = high + 1
        if at < END:
            self.add(at, ALL_TEXTS if kind == ALL_TEXTS else NO_TEXT, begin)
        self.add(END, NO_TEXT, begin)
        return begin

    @cython.cfunc
    @cython.exceptval(-1)
    def runs_of_digits(self, number: cython.Py_ssize_t, state: cython.Py_ssize_t) -> cython.Py_ssize_t:
        terms: Terms = self.terms
        divisor: Residue = terms.divisors[number]
        begin = self.n_runs
        self.add(0, NO_TEXT, begin)
        self.add(POINT, terms.residue(number, divisor.point(state)), begin)
        self.add(POINT + 1, NO_TEXT, begin)
        for digit in range(10):
            self.add(ZERO + digit, terms.residue(number, divisor.digit(state, digit)), begin)
        self.add(ZERO + 10, NO_TEXT, begin)
        self.add(END, NO_TEXT, begin)
        return begin

    @cython.cfunc
    @cython.exceptval(-1)
    def runs_of_state(self, state: cython.Py_ssize_t) -> cython.Py_ssize_t:
        terms: Terms = self.terms
        begin = self.n_runs
        at: cython.Py_ssize_t = 0
        for edge in range(terms.edge_starts[state], terms.edge_starts[state + 1]):
            if terms.edges[edge, 1] > at:
                self.add(at, NO_TEXT, begin)
            self.add(terms.edges[edge, 1], terms.rest_of(terms.edges[edge, 3]), begin)
            at = terms.edges[edge, 2] + 1
        if at < END:
            self.add(at, NO_TEXT, begin)
        self.add(END, NO_TEXT, begin)
        return begin

    @cython.cfunc
    def add_part(self, part: cython.Py_ssize_t, then: cython.Py_ssize_t) -> cython.int:
        """Add a part of the term whose runs are being found, and the term that follows the part."""
        first = self.runs_of(part)
        if self.n_parts == self.parts.shape[0]:
            self.parts = bigger(self.parts, 2 * self.n_parts)
        self.parts[self.n_parts, 0], self.parts[self.n_parts, 1] = first, then
        self.n_parts += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def joined(self, kind: cython.Py_ssize_t, first_part: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the place of the first run of a term of a kind. Its parts are those from one on, which are
        removed."""
        begin = self.n_runs
        n = self.n_parts - first_part
        vectors: Interned = self.vectors
        vectors.clear(16)
        low: cython.Py_ssize_t = 0
        while low < END:
            following: cython.Py_ssize_t = END
            vector = vectors.room(n)
            for i in range(n):
                at = self.parts[first_part + i, 0]
                vectors.pool[vector + i] = self.runs[at, 1]
                following = min(following, self.runs[at + 1, 0])
            known = vectors.count
            number = vectors.intern(n)
            if number == known:
                if number == self.results.shape[0]:
                    self.results = bigger(self.results, 2 * number)
                if n > MANY:
                    limits.check_deadline()
                    if kind == VECTOR and number >= self.bound:  # each of them is a state
                        raise limits.TooLarge(self.bound)
                self.results[number] = self.join(kind, first_part, vector)
            self.add(low, self.results[number], begin)
            for i in range(first_part, self.n_parts):
                self.parts[i, 0] += self.runs[self.parts[i, 0] + 1, 0] == following
            low = following
        self.add(END, NO_TEXT, begin)
        self.n_parts = first_part
        return begin

    @cython.cfunc
    @cython.exceptval(-1)
    def join(
        self, kind: cython.Py_ssize_t, first_part: cython.Py_ssize_t, vector: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Return the derivative of a term of a kind. Those of its parts stand in `vectors` from a place
        on."""
        terms: Terms = self.terms
        begin = terms.n_stack
        for i in range(first_part, self.n_parts):
            after = self.vectors.pool[vector + i - first_part]
            terms.push(terms.cat(after, self.parts[i, 1]))
        after = terms.join(kind if kind in (AND, VECTOR) else OR, begin)
        return terms.complement(after) if kind == NOT else after

    def explored(self, start: cython.Py_ssize_t, bound: cython.Py_ssize_t) -> tuple:
        """Find all derivatives of a term: the states of its automaton.

        Args:
            bound: the maximum number of states, including the term itself.

        Returns:
            Where the edges of each state begin, int64[states + 1], the term first; the edges, int64[n, 3],
            rows (first character, last character, state); the term of each state, int64[states].

        Raises:
            TooLarge: there are more, or too many terms in them.
        """
        terms: Terms = self.terms
        self.bound = bound
        states: SortedSet = SortedSet()  # in the order in which they are found
        terms.facts[start, STATE] = 0
        states.add(start)
        starts: cython.Py_ssize_t[::1] = np.zeros(65, np.int64)
        edges: cython.Py_ssize_t[:, ::1] = np.empty((64, 3), np.int64)
        n_edges: cython.Py_ssize_t = 0
        state: cython.Py_ssize_t = 0
        while state < states.count:
            if state & ROUND == 0:
                limits.check_deadline()
                # a state of 40 nested conditions has a term for each: 96,000 states took 5 GB
                if terms.terms.count > max(TERMS * bound, LEAST_TERMS):
                    raise limits.TooLarge(bound)
            at = self.runs_of(states.values[state])
            while self.runs[at, 0] < END:
                after = self.runs[at, 1]
                if after != NO_TEXT:
                    if terms.facts[after, STATE] < 0:
                        if states.count >= bound:
                            raise limits.TooLarge(bound)
                        terms.facts[after, STATE] = states.count
                        states.add(after)
                    if n_edges == edges.shape[0]:
                        edges = bigger(edges, 2 * n_edges)
                    edges[n_edges, 0], edges[n_edges, 1] = self.runs[at, 0], self.runs[at + 1, 0] - 1
                    edges[n_edges, 2] = terms.facts[after, STATE]
                    n_edges += 1
                at += 1
            state += 1
            if state == starts.shape[0]:
                starts = bigger(starts, 2 * state)
            starts[state] = n_edges
        found = np.array(states.values[: states.count])
        return np.array(starts[: states.count + 1]), np.array(edges[:n_edges]), found
