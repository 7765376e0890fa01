# cython: language_level=3
# mypy: ignore-errors
"""The minimal automaton of a deterministic automaton over ranges of characters.

What: `minimised` drops states that no accepted text passes, merges states that no text distinguishes, and
numbers the rest in the order in which they are reached, so that equal languages have equal results.
When: after each product of languages (`automaton.py`).
Limits: targets are not checked, because rows come only from this package.

States are first separated by the lengths of the shortest and the longest text to an end, which separates
the states of long chains at once, and then by their targets (`equivalence.arrays.refinement`).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.refinement import Partition
from cython.cimports.equivalence.source_check import check_source

from hybrid.json_schema.languages.limits import check_deadline

check_source(__name__)

_first = itemgetter(0)

FIRST_SURROGATE = cython.declare(cython.longlong, 0xD800)
LAST_SURROGATE = cython.declare(cython.longlong, 0xDFFF)

MOST_TEXTS = 1 << 40
"""Texts are counted up to this number."""

C_MOST_TEXTS = cython.declare(cython.longlong, MOST_TEXTS)

NO_LANGUAGE = (), np.empty((0, 4), np.int64), np.empty(0, np.int64), None, 0


@cython.cclass
class Minimiser(Partition):
    """One call of `minimised`. States that are not reached do not matter.

    Attributes:
        accepting: int64[n].
        shortest: int64[n], the length of the shortest text from each state to an end; -1 if there is none.
        longests, left, texts, queue: room for what the methods compute.
        longest: the length of the longest text from the start to an end; -1 if there is no bound.
        n_texts: number of texts from the start to an end, at most `MOST_TEXTS`; -1 if there is no bound.
    """

    accepting: cython.Py_ssize_t[::1]
    shortest: cython.Py_ssize_t[::1]
    longests: cython.Py_ssize_t[::1]
    left: cython.Py_ssize_t[::1]
    texts: cython.Py_ssize_t[::1]
    queue: cython.Py_ssize_t[::1]
    longest: cython.longlong
    n_texts: cython.longlong

    def __init__(self, starts: Any, edges: Any, accepting: Any) -> None:
        Partition.__init__(self, starts, edges, 6)
        n = self.n
        self.accepting, self.shortest, self.longests = (
            self.more[:n],
            self.more[n : 2 * n],
            self.more[2 * n : 3 * n],
        )
        self.left, self.texts, self.queue = (
            self.more[3 * n : 4 * n],
            self.more[4 * n : 5 * n],
            self.more[5 * n :],
        )
        ends: cython.Py_ssize_t[:] = np.asarray(accepting, np.int64)
        self.accepting[:] = ends
        self.color[:] = -1
        self.shortest[:] = -1
        self.drop_surrogates()

    @cython.cfunc
    @cython.exceptval(check=False)
    def drop_surrogates(self) -> cython.void:
        """Let no edge read surrogates alone, because these are not characters: such an edge becomes a part of
        the one before it or after it, or leads nowhere."""
        for state in range(self.n):
            for edge in range(self.starts[state], self.starts[state + 1]):
                if self.low[edge] < FIRST_SURROGATE or self.high[edge] > LAST_SURROGATE:
                    continue
                after = edge + 1
                if edge > self.starts[state] and self.high[edge - 1] + 1 == self.low[edge]:
                    self.target[edge] = self.target[edge - 1]
                    continue
                while self.continues(state, after) and self.high[after] <= LAST_SURROGATE:
                    after += 1
                self.target[edge] = self.target[after] if self.continues(state, after) else -1

    @cython.cfunc
    @cython.inline
    def continues(self, state: cython.Py_ssize_t, edge: cython.Py_ssize_t) -> cython.bint:
        """Whether an edge of a state begins where the one before it ends."""
        return edge < self.starts[state + 1] and self.high[edge - 1] + 1 == self.low[edge]

    @cython.cfunc
    def keep_live(self) -> cython.int:
        """Find the length of the shortest text from each state to an end. Remove edges to states from which
        no end can be reached, and list the states that are reached."""
        queue: cython.Py_ssize_t[::1] = self.order
        begin: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = 0
        for state in range(self.n):
            if self.accepting[state]:
                self.shortest[state] = 0
                queue[end] = state
                end += 1
        while begin < end:
            state = queue[begin]
            begin += 1
            for edge in range(self.before_starts[state], self.before_starts[state + 1]):
                source = self.before[edge]
                if self.shortest[source] < 0:
                    self.shortest[source] = self.shortest[state] + 1
                    queue[end] = source
                    end += 1
        for edge in range(self.target.shape[0]):
            if self.target[edge] >= 0 and self.shortest[self.target[edge]] < 0:
                self.target[edge] = -1
        if self.shortest[0] < 0:
            return 0
        self.color[0] = self.order[0] = 0
        begin, end = 0, 1
        while begin < end:
            state = self.order[begin]
            begin += 1
            for edge in range(self.starts[state], self.starts[state + 1]):
                source = self.target[edge]
                if source >= 0 and self.color[source] < 0:
                    self.color[source] = 0
                    self.order[end] = source
                    end += 1
        self.n_reached = end
        return 0

    @cython.cfunc
    def measure(self) -> cython.Py_ssize_t:
        """Color states by acceptance and by the lengths of their shortest and longest texts to an end.
        Return the number of colors.
        """
        n_texts: cython.Py_ssize_t[::1] = self.texts
        longest: cython.Py_ssize_t[::1] = self.longests
        left: cython.Py_ssize_t[::1] = self.left
        queue: cython.Py_ssize_t[::1] = self.queue
        longest[:] = 0
        left[:] = 0
        begin: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = 0
        for i in range(self.n_reached):
            state = self.order[i]
            for edge in range(self.starts[state], self.starts[state + 1]):
                if self.target[edge] >= 0:
                    left[state] += 1
            if not left[state]:
                queue[end] = state
                end += 1
        while begin < end:
            state = queue[begin]
            begin += 1
            n_texts[state] = self.accepting[state]
            for edge in range(self.starts[state], self.starts[state + 1]):
                if self.target[edge] >= 0:
                    texts = n_characters_between(self.low[edge], self.high[edge]) * n_texts[self.target[edge]]
                    n_texts[state] = min(n_texts[state] + texts, C_MOST_TEXTS)
            for edge in range(self.before_starts[state], self.before_starts[state + 1]):
                source = self.before[edge]
                if self.color[source] < 0:
                    continue
                longest[source] = max(longest[source], longest[state] + 1)
                left[source] -= 1
                if not left[source]:
                    queue[end] = source
                    end += 1
        known: Interned = Interned(self.n_reached, 3)
        for i in range(self.n_reached):
            state = self.order[i]
            at = known.room(3)
            known.pool[at] = self.accepting[state]
            known.pool[at + 1] = self.shortest[state]
            known.pool[at + 2] = -1 if left[state] else longest[state]
            self.color[state] = known.intern(3)
        self.longest = -1 if left[0] else longest[0]
        self.n_texts = -1 if left[0] else n_texts[0]
        return known.count

    @cython.cfunc
    def written(self, n_colors: cython.Py_ssize_t) -> tuple:
        """Return one state for each color, in the order in which they are reached from the first."""
        representative: cython.Py_ssize_t[::1] = self.queue[:n_colors]
        number: cython.Py_ssize_t[::1] = self.left[:n_colors]
        representative[:] = -1
        number[:] = -1
        state: cython.Py_ssize_t
        for i in range(self.n_reached):
            state = self.order[i]
            if representative[self.color[state]] < 0:
                representative[self.color[state]] = state
        number[self.color[0]] = 0
        queue: list = [0]
        accepting: list = []
        found: cython.Py_ssize_t[:, ::1] = np.empty((self.target.shape[0], 4), np.int64)
        n_found: cython.Py_ssize_t = 0
        distances = np.empty(n_colors, np.int64)
        distance: cython.Py_ssize_t[::1] = distances
        i = 0
        while i < len(queue):
            state = queue[i]
            first = n_found
            for edge in range(self.starts[state], self.starts[state + 1]):
                if self.target[edge] < 0:
                    continue
                to = self.color[self.target[edge]]
                if number[to] < 0:
                    number[to] = len(queue)
                    queue.append(representative[to])
                if (
                    n_found > first
                    and found[n_found - 1, 3] == number[to]
                    and found[n_found - 1, 2] + 1 >= self.low[edge]
                ):
                    found[n_found - 1, 2] = self.high[edge]
                    continue
                found[n_found, 0] = i
                found[n_found, 1] = self.low[edge]
                found[n_found, 2] = self.high[edge]
                found[n_found, 3] = number[to]
                n_found += 1
            accepting.append(bool(self.accepting[state]))
            distance[i] = self.shortest[state]
            i += 1
        longest = None if self.longest < 0 else self.longest
        n_texts = None if self.n_texts < 0 else self.n_texts
        return tuple(accepting), np.asarray(found)[:n_found].copy(), distances, longest, n_texts

    @cython.cfunc
    def minimise(self) -> tuple:
        self.index_sources()
        self.keep_live()
        if self.n_reached == 0:
            return NO_LANGUAGE
        return self.written(self.refine(self.measure(), check_deadline))


@cython.ccall
@cython.exceptval(check=False)
def n_characters_between(low: cython.longlong, high: cython.longlong) -> cython.longlong:
    """Return the number of characters from one to another."""
    n_surrogates = min(high, LAST_SURROGATE) + 1 - max(low, FIRST_SURROGATE)
    return high - low + 1 - max(n_surrogates, 0)


def minimised(rows: Sequence, accepting: Sequence) -> tuple:
    """Return the minimal automaton of an automaton whose start is state 0.

    Args:
        rows: for each state, its edges (first character, last character, state), disjoint.
        accepting: for each state, whether a text may end there.

    Returns:
        Of the minimal automaton, for each state, whether a text may end there, a tuple; the edges as a table,
        int64[n, 4], rows (source, first character, last character, target); the number of characters from
        each state to the nearest end, int64; the length of the longest text, or None if there is no text, or
        no bound; and the number of texts, at most `MOST_TEXTS`, or None if there is no bound. The empty
        language has no states.
    """
    n_edges: cython.Py_ssize_t = 0
    for row in rows:
        n_edges += len(row)
    starts = np.empty(len(rows) + 1, np.int64)
    edges = np.empty((n_edges, 3), np.int64)
    _fill(rows, starts, edges)
    return minimised_table(starts, edges, accepting)


@cython.cfunc
def _fill(rows: object, starts: cython.longlong[::1], edges: cython.longlong[:, ::1]) -> cython.int:
    """Write rows as arrays, each in the order of its characters. `np.array` would take half of the time of
    `minimised`."""
    state: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    last: cython.longlong
    for row in rows:
        starts[state] = at
        state += 1
        last = -1
        for edge in row:
            if edge[0] < last:
                row = sorted(row, key=_first)
                break
            last = edge[0]
        for low, high, target in row:
            edges[at, 0], edges[at, 1], edges[at, 2] = low, high, target
            at += 1
    starts[state] = at
    return 0


def minimised_table(starts: Any, edges: Any, accepting: Any) -> tuple:
    """`minimised` for an automaton given as arrays.

    Args:
        starts: int64[states + 1], where the edges of each state begin.
        edges: int64[edges, 3], rows (first character, last character, state), in order for each state.
        accepting: for each state, whether a text may end there.
    """
    if not len(accepting):
        return NO_LANGUAGE
    return Minimiser(starts, edges, accepting).minimise()
