# cython: language_level=3
# mypy: ignore-errors
"""Terms: regular expressions with intersection and complement, numbered by content.

What: `Terms` makes them, simplified: `|` and `&` are sets, and equal terms have equal numbers. (Owens, Reppy,
Turon: Regular-expression Derivatives Re-examined, 2009, section 4.1.)
When: while `hybrid.json_schema.languages.pattern` turns a pattern into a term, and while the derivatives of
that term are computed (`term_derivatives.py`).
Limits: calls are nested at most `MOST_NESTED` times; beyond that, `RecursionError` is raised. After an
error, the terms must not be used again.

A term is a list of integers: its kind, and its arguments. With tuples and dicts of Python in place of these
lists, the automaton of `[0-9a-zA-Z_-]{1,255}` took 1.5 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    CAT,
    CHARS,
    EMPTY_TEXT,
    LOOP,
    NO_TEXT,
    NOT,
    NULLABLE,
    OR,
    REPEAT,
    RESIDUE,
    RUNS,
    STAR,
    STATE,
    VECTOR,
    Front,
    argument,
    end_of,
    kind_of,
)

from equivalence.arrays.dynamic_arrays import bigger
from equivalence.arrays.ranges import LAST, joined
from hybrid.json_schema.languages import limits

check_source(__name__)

NOTHING, EMPTY, ALL = 0, 1, 2
"""The terms of: no text; only the empty text; all texts."""

MOST_NESTED = cython.declare(cython.Py_ssize_t, limits.MOST_NESTED)

NO_END = cython.declare(cython.Py_ssize_t, 1 << 40)  # more than the times of any repeat
MOST_COMPARED = cython.declare(cython.Py_ssize_t, 64)  # each part of a union is compared with each other one
MOST_COMPARISONS = cython.declare(cython.Py_ssize_t, 32)  # of parts of two terms


@cython.final
@cython.cclass
class Terms:
    """The terms of one pattern. A term is given by its number.

    Attributes:
        terms: the terms, each a list of its kind and its arguments.
        facts: int64[room, 3], of each term: whether it contains the empty text; where its derivatives are
            (`Derivatives.runs`); the state of the automaton that it is. -1 means that it is not known yet.
        sets: the sets of characters, each as ranges.
        stack: parts of unions and intersections that are under way.
        parts: the parts of the union or intersection that is being made.
        edges: int64[n, 4], the edges of automata: not used, the first and the last character, the target.
        edge_starts: int64[states + 1], where the edges of each state begin.
        ends: int64[states], whether a text may end in each state.
    """

    def __init__(self) -> None:
        self.terms = Interned(64, 3)
        self.facts = np.empty((64, 3), np.int64)
        self.stack = np.empty(64, np.int64)
        self.parts = SortedSet()
        self.sets, self.set_numbers, self.subsets = [], {}, {}
        self.n_stack = self.depth = 0
        self.loops, self.loop_numbers, self.unfolded = [], {}, {}
        self.divisors = []
        for kind in range(3):
            self.terms.room(1)
            self.terms.pool[self.terms.used] = kind
            self.number(1)
        self.any_character = self.chars(((0, LAST),))

    def enter(self) -> cython.int:
        """Enter one more level of nested calls."""
        if self.depth >= MOST_NESTED:
            raise RecursionError("in a regular expression")
        self.depth += 1
        return 0

    def number(self, length: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the number of the term that was written to the end of `terms`."""
        count = self.terms.count
        number = self.terms.intern(length)
        if number == count:
            if number == self.facts.shape[0]:
                self.facts = bigger(self.facts, 2 * number)
            self.facts[number, NULLABLE] = self.find_nullable(number)
            self.facts[number, RUNS] = self.facts[number, STATE] = -1
        return number

    def make(
        self, kind: cython.Py_ssize_t, first: cython.Py_ssize_t, second: cython.Py_ssize_t = -1,
        third: cython.Py_ssize_t = -1,
    ) -> cython.Py_ssize_t:  # fmt: skip
        """Return the term of a kind with one, two or three arguments."""
        begin = self.terms.room(4)
        self.terms.pool[begin], self.terms.pool[begin + 1] = kind, first
        self.terms.pool[begin + 2], self.terms.pool[begin + 3] = second, third
        return self.number(2 + (second >= 0) + (third >= 0))

    def find_nullable(self, term: cython.Py_ssize_t) -> cython.bint:
        kind = kind_of(self, term)
        if kind in (CHARS, NO_TEXT):
            return False
        if kind == CAT:
            return self.nullable(argument(self, term, 1)) and self.nullable(argument(self, term, 2))
        if kind == REPEAT:
            return argument(self, term, 2) == 0 or self.nullable(argument(self, term, 1))
        if kind in (OR, AND):
            for i in range(1, end_of(self, term)):
                if self.nullable(argument(self, term, i)) == (kind == OR):
                    return kind == OR
            return kind == AND
        if kind == NOT:
            return not self.nullable(argument(self, term, 1))
        if kind == LOOP:
            then: cython.Py_ssize_t = self.loops[argument(self, term, 1)][0]
            return self.nullable(then)
        if kind == RESIDUE:
            divisor: Residue = self.divisors[argument(self, term, 1)]
            return divisor.accepts(argument(self, term, 2))
        if kind == AUTOMATON:
            return self.ends[argument(self, term, 1)]
        return True  # STAR, and the terms of the empty text and of all texts

    def nullable(self, term: cython.Py_ssize_t) -> cython.bint:
        """Whether a term contains the empty text."""
        return self.facts[term, NULLABLE] != 0

    def chars(self, ranges: tuple) -> cython.Py_ssize_t:
        """Return the term of one character from some ranges."""
        if not ranges:
            return NO_TEXT
        number = self.set_numbers.setdefault(ranges, len(self.sets))
        if number == len(self.sets):
            self.sets.append(ranges)
        return self.make(CHARS, number)

    def nonempty(self) -> cython.Py_ssize_t:
        """Return the term of all texts with at least one character."""
        return self.cat(self.any_character, ALL_TEXTS)

    def cat(self, one: cython.Py_ssize_t, other: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the concatenation of two terms."""
        if one == NO_TEXT or other == NO_TEXT:
            return NO_TEXT
        if one == EMPTY_TEXT:
            return other
        if other == EMPTY_TEXT:
            return one
        if one == ALL_TEXTS and other == ALL_TEXTS:
            return ALL_TEXTS
        if kind_of(self, one) != CAT:
            return self.make(CAT, one, other)
        self.enter()
        rest = self.cat(argument(self, one, 2), other)
        found = self.cat(argument(self, one, 1), rest)
        self.depth -= 1
        return found

    def repeat(self, term: cython.Py_ssize_t, least: cython.Py_ssize_t, most: Any) -> int:
        """Return a term repeated `least` to `most` times, or without upper bound if `most` is None."""
        if most is not None:
            return self.bounded(term, least, most)
        if term in (EMPTY_TEXT, NO_TEXT):
            return EMPTY_TEXT if term == EMPTY_TEXT or least == 0 else NO_TEXT
        star = ALL_TEXTS if term == self.any_character else self.make(STAR, term)
        if least == 0 or self.nullable(term):
            return star
        return self.cat(self.make(REPEAT, term, least, least), star)

    def bounded(
        self, term: cython.Py_ssize_t, least: cython.Py_ssize_t, most: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        if most == 0 or term == EMPTY_TEXT:
            return EMPTY_TEXT
        if term == NO_TEXT:
            return EMPTY_TEXT if least == 0 else NO_TEXT
        if self.nullable(term):
            least = 0
        return term if least == 1 and most == 1 else self.make(REPEAT, term, least, most)

    def union(self, parts: tuple) -> int:
        """Return the union of some terms."""
        return self.join_all(OR, parts)

    def intersection(self, parts: tuple) -> int:
        """Return the intersection of some terms."""
        return self.join_all(AND, parts)

    def join_all(self, kind: cython.Py_ssize_t, parts: tuple) -> cython.Py_ssize_t:
        begin = self.n_stack
        for part in parts:
            self.push(part)
        return self.join(kind, begin)

    def push(self, term: cython.Py_ssize_t) -> cython.int:
        """Add a part of the union or intersection that `join` makes next."""
        if self.n_stack == self.stack.shape[0]:
            self.stack = bigger(self.stack, 2 * self.n_stack)
        self.stack[self.n_stack] = term
        self.n_stack += 1
        return 0

    def join(self, kind: cython.Py_ssize_t, begin: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the union or intersection of the terms on the stack from a place on, and remove them."""
        if kind == VECTOR:
            return self.side_by_side(begin)
        neutral = NO_TEXT if kind == OR else ALL_TEXTS
        absorbing = ALL_TEXTS if kind == OR else NO_TEXT
        parts: SortedSet = self.parts
        parts.count = 0
        for k in range(begin, self.n_stack):
            part = self.stack[k]
            if kind_of(self, part) == kind:
                for i in range(1, end_of(self, part)):
                    parts.add(argument(self, part, i))
            elif part != neutral:
                parts.add(part)
        self.n_stack = begin
        parts.sort()
        has_empty: cython.bint = False
        are_nullable: cython.bint = True
        for i in range(parts.count):
            part = parts.values[i]
            if part == absorbing:
                return absorbing
            has_empty = has_empty or part == EMPTY_TEXT
            are_nullable = are_nullable and self.nullable(part)
        if kind == AND and has_empty:
            return EMPTY_TEXT if are_nullable else NO_TEXT
        if kind == OR and parts.count > 1:
            self.unite_repeats()
        if 1 < parts.count <= MOST_COMPARED:
            self.drop_included(kind)
        if parts.count < 2:
            return parts.values[0] if parts.count else neutral
        at = self.terms.room(parts.count + 1)
        self.terms.pool[at] = kind
        for i in range(parts.count):
            self.terms.pool[at + 1 + i] = parts.values[i]
        return self.number(parts.count + 1)

    def side_by_side(self, begin: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the vector of the terms on the stack from a place on, and remove them."""
        n = self.n_stack - begin
        at = self.terms.room(n + 1)
        self.terms.pool[at] = VECTOR
        for i in range(n):
            self.terms.pool[at + 1 + i] = self.stack[begin + i]
        self.n_stack = begin
        return self.number(n + 1)

    def unite_repeats(self) -> cython.int:
        """In a union, replace repeats of one term before the same rest by one repeat if their bounds
        overlap. A well-known pattern of URLs, which has `(www\\.)?[a-z.]{1,256}` in it, has 4,602 derivatives
        instead of 9,061."""
        parts: SortedSet = self.parts
        repeats: list = []
        for i in range(parts.count):
            number = parts.values[i]
            rest = EMPTY_TEXT
            repeat = number
            if kind_of(self, number) == CAT:
                repeat, rest = argument(self, number, 1), argument(self, number, 2)
            if kind_of(self, repeat) != REPEAT:
                continue
            part = argument(self, repeat, 1)
            repeats.append((part, rest, argument(self, repeat, 2), argument(self, repeat, 3), number))
        if not repeats:
            return 0
        found: set = {parts.values[i] for i in range(parts.count)}
        for part, rest in dict.fromkeys([(one[0], one[1]) for one in repeats]):
            if rest in found:
                repeats.append((part, rest, 0, 0, rest))
        if len(repeats) < 2:
            return 0
        repeats.sort()
        part = rest = -1
        least: cython.Py_ssize_t = 0
        most: cython.Py_ssize_t = 0
        low: cython.Py_ssize_t
        high: cython.Py_ssize_t
        for one in repeats:
            low, high = one[2], one[3]
            if one[0] != part or one[1] != rest or low > most + 1:
                part, rest, least, most, number = one
                continue
            found.discard(number)
            found.discard(one[4])
            most = max(most, high)
            number = self.cat(self.make(REPEAT, part, least, most), rest)
            found.add(number)
        parts.count = 0
        for number in found:
            parts.add(number)
        parts.sort()
        return 0

    def drop_included(self, kind: cython.Py_ssize_t) -> cython.int:
        """In a union, drop the terms that are included in one which begins with repeated characters; in an
        intersection, drop this one. Without this, `EN[A-Z]{32}` has a state for each set of places where `EN`
        may stand: only the first of them matters."""
        parts: SortedSet = self.parts
        kept: cython.Py_ssize_t = 0
        for i in range(parts.count):
            first = self.front(parts.values[i])
            if kind_of(self, first.part) != CHARS or first.most in (1, NO_END):
                continue
            for k in range(parts.count):
                self.n_comparisons = 0
                if k != i and parts.values[k] != NO_TEXT and self.includes(parts.values[i], parts.values[k]):
                    parts.values[k if kind == OR else i] = NO_TEXT
                    if kind == AND:
                        break
        for i in range(parts.count):
            parts.values[kept] = parts.values[i]
            kept += parts.values[i] != NO_TEXT
        parts.count = kept
        return 0

    def front(self, term: cython.Py_ssize_t) -> Front:
        rest: cython.Py_ssize_t = EMPTY_TEXT
        if kind_of(self, term) == CAT:
            rest = argument(self, term, 2)
            term = argument(self, term, 1)
        kind = kind_of(self, term)
        if kind == REPEAT:
            least, most = argument(self, term, 2), argument(self, term, 3)
            return Front(argument(self, term, 1), least, most, rest)
        if kind in (STAR, ALL_TEXTS):
            return Front(argument(self, term, 1) if kind == STAR else term, 0, NO_END, rest)
        n_times: cython.Py_ssize_t = kind != EMPTY_TEXT
        return Front(term, n_times, n_times, rest)

    def includes(self, other: cython.Py_ssize_t, one: cython.Py_ssize_t) -> cython.bint:
        """Whether a term includes all texts of another, as far as a few comparisons of their parts show."""
        if self.nullable(one) and not self.nullable(other):
            return False
        if one in (EMPTY_TEXT, other) or other == ALL_TEXTS:
            return True
        if kind_of(self, one) != CHARS or kind_of(self, other) != CHARS:
            first, second = self.front(one), self.front(other)
            has_parts = first.part != one or second.part != other
            return has_parts and self.included(first, second)
        key = argument(self, one, 1), argument(self, other, 1)
        known = self.subsets.get(key)
        if known is None:
            inner, outer = self.sets[key[0]], self.sets[key[1]]
            known = self.subsets[key] = joined([*inner, *outer]) == outer
        return known

    def included(self, one: Front, other: Front) -> cython.bint:
        while self.n_comparisons < MOST_COMPARISONS:
            self.n_comparisons += 1
            if one.most == 0 and one.rest != EMPTY_TEXT:
                one = self.front(one.rest)
            if other.most == 0 and other.rest != EMPTY_TEXT:
                other = self.front(other.rest)
            if other.part == ALL_TEXTS and other.rest == EMPTY_TEXT:
                return True
            if one.most == 0:
                return (other.least == 0 or self.nullable(other.part)) and self.nullable(other.rest)
            if other.most == 0:
                return False
            if other.least == 0 and other.rest != EMPTY_TEXT and self.included(one, self.front(other.rest)):
                return True
            if not self.includes(other.part, one.part):
                return False
            # read as much as `other` has room for: all of `one`, or what it has at least
            least = max(other.least - one.least, 0)
            if one.most <= other.most and least <= other.most - one.most:
                n = one.most
                one.most = 0
            else:
                n = min(one.least, other.most)
                if n == 0:
                    return False
                least = max(other.least - n, 0)
                one.least -= n
                one.most -= n
            other.least = least
            if other.most < NO_END:
                other.most -= n
        return False

    def complement(self, term: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the complement of a term."""
        if term in (NO_TEXT, ALL_TEXTS):
            return ALL_TEXTS if term == NO_TEXT else NO_TEXT
        return argument(self, term, 1) if kind_of(self, term) == NOT else self.make(NOT, term)

    def multiple(self, divisor: Residue) -> cython.Py_ssize_t:
        """Return the term of the multiples of a divisor, without a sign. It has other texts, too, which are
        no numbers."""
        self.divisors.append(divisor)
        return self.residue(len(self.divisors) - 1, 0)

    def residue(self, divisor: cython.Py_ssize_t, state: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the term of what may follow in a state of a divisor."""
        known: Residue = self.divisors[divisor]
        return NO_TEXT if state == known.last else self.make(RESIDUE, divisor, state)

    def automata(self, given: Sequence) -> list[int]:
        """Return the terms of some automata (`hybrid.json_schema.languages.automaton`). To be called once."""
        self.edges = np.concatenate([one.ranges for one in given])
        self.ends = np.array([accepts for one in given for accepts in one.accepting], np.int64)
        self.edge_starts = np.empty(self.ends.shape[0] + 1, np.int64)
        starts: list = []
        first: cython.Py_ssize_t = 0
        edge: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = 0
        n_states: cython.Py_ssize_t
        for one in given:
            n_states = one.n_states
            starts.append(first if n_states else -1)
            end += len(one.ranges)
            for state in range(first, first + n_states):
                self.edge_starts[state] = edge
                while edge < end and self.edges[edge, 0] + first == state:
                    self.edges[edge, 3] += first
                    edge += 1
            first += n_states
        self.edge_starts[first] = edge
        return [NO_TEXT if start < 0 else self.rest_of(start) for start in starts]

    def rest_of(self, state: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the term of the texts that an automaton reads from a state on."""
        edge = self.edge_starts[state]
        if (
            self.ends[state]
            and self.edge_starts[state + 1] == edge + 1
            and self.edges[edge, 2] - self.edges[edge, 1] == LAST
            and self.edges[edge, 3] == state
        ):
            return ALL_TEXTS
        return self.make(AUTOMATON, state)

    def vector(self, parts: tuple) -> int:
        """Return a term whose derivatives are those of some terms, side by side."""
        return self.join_all(VECTOR, parts)

    def accepting(self, terms: cython.Py_ssize_t[::1], part: cython.Py_ssize_t = 0) -> np.ndarray:
        """Return, for some terms, whether they contain the empty text, uint8[terms].

        Args:
            part: from 1 on: which part of each vector is asked about instead.
        """
        found: cython.uchar[::1] = np.empty(terms.shape[0], np.uint8)
        for i in range(terms.shape[0]):
            found[i] = self.nullable(argument(self, terms[i], part) if part else terms[i])
        return np.asarray(found)

    def loop(self, key: Any, then: int, once_more: Any) -> int:
        """Return a repetition of something with assertions, followed by a term. Its continuation is the loop
        itself.

        Args:
            key: equal for equal loops.
            then: what follows the repetition.
            once_more: returns, for the loop, the term of one more repetition and the loop.
        """
        number = self.loop_numbers.setdefault(key, len(self.loops))
        if number == len(self.loops):
            self.loops.append((then, once_more))
        return self.make(LOOP, number)

    def unfold(self, number: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return a loop that is entered at least once. Iterations that read nothing are left out: they add
        nothing."""
        known = self.unfolded.get(number)
        if known is None:
            known = self.unfolded[number] = self.loops[number][1](self.make(LOOP, number))
        return known
