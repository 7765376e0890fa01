# cython: language_level=3
# mypy: ignore-errors
"""Derivatives: the automaton of a term.

What: `Derivatives.explored` finds all derivatives of a term. They are the states of its automaton, because
the derivative by a character is the term of what may follow it. (Brzozowski: Derivatives of Regular
Expressions, 1964, theorem 5.2; Owens, Reppy, Turon: Regular-expression Derivatives Re-examined, 2009,
section 4.2, groups characters that lead to the same derivative, as `CharacterSets` does.)
When: once for each pattern, after its term has been made.
Limits: see `terms.py`. What is computed about a loop while it is under way is kept, too. That is right
because no iteration of a loop may be empty (`_Builder._repeat` of `pattern.py`), so nothing asks about it.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.network.sorted_set import SortedSet
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.languages.terms import (
    ALL_TEXTS,
    AND,
    CAT,
    CHARS,
    EMPTY_TEXT,
    FIRST,
    LOOP,
    NO_TEXT,
    NOT,
    OR,
    REPEAT,
    STAR,
    STATE,
    Terms,
    argument,
    end_of,
    kind_of,
)

from equivalence.arrays.dynamic_arrays import bigger
from hybrid.json_schema.languages import limits
from hybrid.json_schema.languages.syntax import LAST

check_source(__name__)

ROUND = cython.declare(cython.Py_ssize_t, 15)  # the deadline is checked after one more than this many states


@cython.final
@cython.cclass
class Derivatives:
    """The derivatives of the terms of one pattern.

    Attributes:
        terms: the terms.
        pairs, results: each pair of a term and a selection of sets of characters, and the derivative by
            characters in these sets; -1 while it is being computed.
    """

    terms: Terms
    pairs: Interned
    results: cython.Py_ssize_t[::1]

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.pairs = Interned(64, 2)
        self.results = np.empty(64, np.int64)

    @cython.cfunc
    @cython.exceptval(-1)
    def first(self, term: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the sets of characters on which the derivatives of a term depend, a selection."""
        terms: Terms = self.terms
        found = terms.facts[term, FIRST]
        if found < 0:
            terms.facts[term, FIRST] = 0  # for a loop inside itself
            terms.enter()
            found = self.find_first(term)
            terms.depth -= 1
            terms.facts[term, FIRST] = found
        return found

    @cython.cfunc
    @cython.exceptval(-1)
    def find_first(self, term: cython.Py_ssize_t) -> cython.Py_ssize_t:
        terms: Terms = self.terms
        kind = kind_of(terms, term)
        if kind <= ALL_TEXTS:
            return 0
        part = argument(terms, term, 1)
        if kind == CHARS:
            return terms.sets.only(part)
        if kind == LOOP:
            then: cython.Py_ssize_t = terms.loops[part][2]
            found = self.first(then)
            return terms.sets.either(found, self.first(terms.unfold(part)))
        found = self.first(part)
        if kind == CAT and terms.nullable(part):
            found = terms.sets.either(found, self.first(argument(terms, term, 2)))
        elif kind in (OR, AND):
            for i in range(2, end_of(terms, term)):
                found = terms.sets.either(found, self.first(argument(terms, term, i)))
        return found

    @cython.cfunc
    @cython.exceptval(-1)
    def derivative(self, term: cython.Py_ssize_t, selection: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the derivative of a term by a character; the selection has all sets that contain it and on
        which the derivative depends, and may have others."""
        terms: Terms = self.terms
        kind = kind_of(terms, term)
        if kind <= CHARS:
            if kind == CHARS:
                return EMPTY_TEXT if terms.sets.contains(selection, argument(terms, term, 1)) else NO_TEXT
            return ALL_TEXTS if term == ALL_TEXTS else NO_TEXT
        selection = terms.sets.both(selection, self.first(term))
        count = self.pairs.count
        at = self.pairs.pair(term, selection)
        if at < count:
            return max(self.results[at], NO_TEXT)  # nothing for a loop inside itself
        if at == self.results.shape[0]:
            self.results = bigger(self.results, 2 * at)
        self.results[at] = -1
        terms.enter()
        found = self.derive(term, kind, selection)
        terms.depth -= 1
        self.results[at] = found
        return found

    @cython.cfunc
    @cython.exceptval(-1)
    def derive(
        self, term: cython.Py_ssize_t, kind: cython.Py_ssize_t, selection: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        terms: Terms = self.terms
        part = argument(terms, term, 1)
        begin = terms.n_stack
        if kind in (OR, AND):
            for i in range(1, end_of(terms, term)):
                terms.push(self.derivative(argument(terms, term, i), selection))
            return terms.join(kind, begin)
        if kind == LOOP:
            then: cython.Py_ssize_t = terms.loops[part][2]
            terms.push(self.derivative(then, selection))
            terms.push(self.derivative(terms.unfold(part), selection))
            return terms.join(OR, begin)
        after = self.derivative(part, selection)
        if kind == NOT:
            return terms.other(after)
        if kind == STAR:
            return terms.cat(after, term)
        if kind == REPEAT:
            least = max(argument(terms, term, 2) - 1, 0)
            return terms.cat(after, terms.bounded(part, least, argument(terms, term, 3) - 1))
        after = terms.cat(after, argument(terms, term, 2))
        if terms.nullable(part):
            terms.push(after)
            terms.push(self.derivative(argument(terms, term, 2), selection))
            return terms.join(OR, begin)
        return after

    def explored(self, start: cython.Py_ssize_t, bound: cython.Py_ssize_t) -> tuple:
        """Find all derivatives of a term: the states of its automaton.

        Args:
            bound: the maximum number of states, including the term itself.

        Returns:
            Where the edges of each state begin, int64[states + 1], the term first; the edges, int64[n, 3],
            rows (first character, last character, state); whether each state contains the empty text,
            int64[states].

        Raises:
            TooLarge: there are more.
        """
        terms: Terms = self.terms
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
            term = states.values[state]
            first: cython.Py_ssize_t
            end: cython.Py_ssize_t
            first, end = terms.sets.runs_of(self.first(term))
            while n_edges + end - first > edges.shape[0]:
                edges = bigger(edges, 2 * edges.shape[0], n_edges)
            before: cython.Py_ssize_t = NO_TEXT
            for run in range(first, end):
                after = self.derivative(term, terms.sets.classes[run])
                low = terms.sets.lows[run]
                if after == before:
                    continue
                if before != NO_TEXT:
                    edges[n_edges - 1, 1] = low - 1
                before = after
                if after == NO_TEXT:
                    continue
                if terms.facts[after, STATE] < 0:
                    if states.count >= bound:
                        raise limits.TooLarge(bound)
                    terms.facts[after, STATE] = states.count
                    states.add(after)
                edges[n_edges, 0], edges[n_edges, 1], edges[n_edges, 2] = low, LAST, terms.facts[after, STATE]
                n_edges += 1
            state += 1
            if state == starts.shape[0]:
                starts = bigger(starts, 2 * state)
            starts[state] = n_edges
        accepting: cython.Py_ssize_t[::1] = np.empty(states.count, np.int64)
        for state in range(states.count):
            accepting[state] = terms.nullable(states.values[state])
        return np.array(starts[: states.count + 1]), np.array(edges[:n_edges]), np.asarray(accepting)
