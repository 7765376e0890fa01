# cython: language_level=3
# mypy: ignore-errors
"""Products: the combinations of states that several automata reach together.

What: `product` explores the vectors of states that some automata reach by the same text, as arrays.
When: for each Boolean combination of languages, and for the cells into which languages divide all texts
(`automaton.py`).
Limits: edges are not checked, because they come only from this package.

There may be many: a number with nine divisors has 24,024 vectors, each with ten edges.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import bigger
from hybrid.json_schema.languages.limits import TooLarge, check_deadline

check_source(__name__)

LAST = cython.declare(cython.longlong, 0x10FFFF)
ROUND = cython.declare(cython.Py_ssize_t, 1 << 20)  # edges looked at between two checks of the deadline
WIDTH = cython.declare(cython.Py_ssize_t, 1024)  # automata whose vector counts as one state


@cython.cclass
class Product:
    """One call of `product`: the edges of state s of automaton i are those from starts[first[i] + s] to
    starts[first[i] + s + 1].

    Attributes:
        width: number of automata.
        all_live: whether vectors in which some automaton is dead are left out.
        with_dead: whether the vector in which all automata are dead is kept.
        vectors: the vectors so far, lists of `width` states; -1 if an automaton is dead.
        found: int64[room, 3], the edges of all vectors so far: first character, last character, target.
        n_found: number of these edges.
        n_looked: about how many edges were looked at since the deadline was checked.
    """

    width: cython.Py_ssize_t
    first: cython.longlong[::1]
    starts: cython.longlong[::1]
    edges: cython.longlong[:, ::1]
    all_live: cython.bint
    with_dead: cython.bint
    bound: cython.Py_ssize_t
    vectors: Interned
    found: cython.longlong[:, ::1]
    n_found: cython.Py_ssize_t
    n_looked: cython.Py_ssize_t
    after: cython.Py_ssize_t[::1]
    at: cython.longlong[::1]
    end: cython.longlong[::1]

    def __init__(self, tables: Sequence, all_live: bool, with_dead: bool, bound: int) -> None:
        n_places: cython.Py_ssize_t = 0
        n_edges: cython.Py_ssize_t = 0
        edge: cython.Py_ssize_t
        self.width = len(tables)
        self.first = np.empty(self.width, np.int64)
        self.starts = np.empty(sum([states + 1 for _, states in tables]), np.int64)
        for i in range(self.width):
            ranges, states = tables[i]
            of: cython.longlong[:, :] = ranges
            n_states: cython.Py_ssize_t = states
            self.first[i] = n_places
            edge = 0
            for state in range(n_states + 1):
                while edge < of.shape[0] and of[edge, 0] < state:
                    edge += 1
                self.starts[n_places] = n_edges + edge
                n_places += 1
            n_edges += of.shape[0]
        self.edges = np.ascontiguousarray(np.concatenate([ranges[:, 1:] for ranges, _ in tables]))
        self.all_live = all_live
        self.with_dead = with_dead
        self.bound = bound
        self.vectors = Interned(16, self.width)
        self.found = np.empty((64, 3), np.int64)
        self.after = np.array([0 if states else -1 for _, states in tables], np.int64)
        self.at = np.empty(self.width, np.int64)
        self.end = np.empty(self.width, np.int64)
        self.n_found = 0
        self.n_looked = ROUND

    @cython.cfunc
    def number(self) -> cython.Py_ssize_t:
        """Return the number of the vector `after`; -1 if it is left out."""
        is_live: cython.bint = False
        for i in range(self.width):
            if self.after[i] >= 0:
                is_live = True
            elif self.all_live:
                return -1
        if not (is_live or self.with_dead):
            return -1
        vectors: Interned = self.vectors
        begin = vectors.room(self.width)
        for i in range(self.width):
            vectors.pool[begin + i] = self.after[i]
        found = vectors.intern(self.width)
        if found > 0 and found * max(self.width, WIDTH) >= self.bound * WIDTH:
            raise TooLarge(self.bound)
        return found

    @cython.cfunc
    def follow(self, state: cython.Py_ssize_t) -> cython.int:
        """Find the edges of a vector."""
        begin: cython.longlong = 0
        last: cython.longlong
        for i in range(self.width):
            self.at[i] = self.end[i] = 0
            inner = self.vectors.pool[state * self.width + i]
            if inner >= 0:
                self.at[i] = self.starts[self.first[i] + inner]
                self.end[i] = self.starts[self.first[i] + inner + 1]
        while begin <= LAST:
            self.n_looked += self.width
            if self.n_looked >= ROUND:
                self.n_looked = 0
                check_deadline()
            last = LAST
            for i in range(self.width):
                while self.at[i] < self.end[i] and self.edges[self.at[i], 1] < begin:
                    self.at[i] += 1
                self.after[i] = -1
                if self.at[i] == self.end[i]:
                    continue
                if self.edges[self.at[i], 0] <= begin:
                    self.after[i] = self.edges[self.at[i], 2]
                    last = min(last, self.edges[self.at[i], 1])
                else:
                    last = min(last, self.edges[self.at[i], 0] - 1)
            target = self.number()
            if target >= 0:
                if self.n_found == self.found.shape[0]:
                    self.found = bigger(self.found, 2 * self.n_found)
                self.found[self.n_found, 0] = begin
                self.found[self.n_found, 1] = last
                self.found[self.n_found, 2] = target
                self.n_found += 1
            begin = last + 1
        return 0

    @cython.ccall
    def explore(self) -> tuple:
        state: cython.Py_ssize_t = 0
        starts: list = [0]
        self.number()
        while state < self.vectors.count:
            self.follow(state)
            starts.append(self.n_found)
            state += 1
        return (
            np.asarray(self.vectors.pool)[: self.vectors.used].reshape(-1, self.width),
            np.array(starts, np.int64),
            np.asarray(self.found)[: self.n_found],
        )


def product(tables: Sequence, all_live: bool, with_dead: bool, bound: int) -> tuple:
    """Return the vectors of states that automata reach by the same text.

    Args:
        tables: for each automaton, its edges, int64[n, 4] ordered by source and first character, and its
            number of states.
        all_live: whether vectors in which some automaton is dead are left out.
        with_dead: whether the vector in which all automata are dead is kept.
        bound: the maximum number of vectors; one of more than 1,024 automata counts as several.

    Returns:
        The vectors, int64[n, number of automata], with -1 for a dead automaton and the start first; where
        the edges of each vector begin, int64[n + 1]; and the edges, int64[edges, 3]: first character, last
        character, target. There may be no vector.

    Raises:
        TooLarge: there are more vectors than the bound.
    """
    return Product(tables, all_live, with_dead, bound).explore()
