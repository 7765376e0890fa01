# cython: language_level=3
# mypy: ignore-errors
"""The minimal automaton of a deterministic automaton over ranges of characters.

What: `minimised` drops states that no accepted text passes, merges states that no text distinguishes, and
numbers the rest in the order in which they are reached, so that equal languages have equal results.
When: after each product of languages (`automaton.py`).
Limits: targets are not checked, because rows come only from this package.

States are first separated by the lengths of the shortest and the longest text to an end, which separates
the states of long chains at once, and then by their targets (Moore: Gedanken-Experiments on Sequential
Machines, 1956), where only the sources of states that were separated are looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import cython
import numpy as np
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.equivalence.source_check import check_source

from hybrid.json_schema.languages.limits import check_deadline

check_source(__name__)

_first = itemgetter(0)

FIRST_SURROGATE = cython.declare(cython.longlong, 0xD800)
LAST_SURROGATE = cython.declare(cython.longlong, 0xDFFF)


@cython.cclass
class Minimiser:
    """One call of `minimised`: the edges of state s are those from starts[s] to starts[s + 1].

    Attributes:
        n: number of states.
        low, high, target: int64[edges]; the target -1 means that an edge leads nowhere.
        accepting: int64[n].
        color: int64[n], the class of each state; -1 if it is not reached.
        shortest: int64[n], the length of the shortest text from each state to an end; -1 if there is none.
    """

    n: cython.Py_ssize_t
    starts: cython.longlong[::1]
    low: cython.longlong[::1]
    high: cython.longlong[::1]
    target: cython.longlong[::1]
    accepting: cython.longlong[::1]
    color: cython.longlong[::1]
    shortest: cython.longlong[::1]
    before: cython.longlong[::1]
    before_starts: cython.longlong[::1]
    order: cython.longlong[::1]
    buffer: cython.longlong[::1]
    n_reached: cython.Py_ssize_t

    def __init__(self, starts: Any, edges: Any, accepting: Any) -> None:
        self.n = len(accepting)
        self.starts = starts
        self.low = edges[:, 0].copy()
        self.high = edges[:, 1].copy()
        self.target = edges[:, 2].copy()
        self.drop_surrogates()
        self.accepting = np.array(accepting, np.int64)
        self.color = np.full(self.n, -1, np.int64)
        self.shortest = np.full(self.n, -1, np.int64)
        self.order = np.empty(self.n, np.int64)
        self.n_reached = 0

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
    def index_sources(self) -> cython.int:
        """Make `before`: for each state, the sources of the edges that lead to it."""
        counts: cython.longlong[::1] = np.zeros(self.n + 1, np.int64)
        for edge in range(self.target.shape[0]):
            if self.target[edge] >= 0:
                counts[self.target[edge] + 1] += 1
        for state in range(self.n):
            counts[state + 1] += counts[state]
        self.before_starts = counts.copy()
        self.before = np.empty(counts[self.n], np.int64)
        for state in range(self.n):
            for edge in range(self.starts[state], self.starts[state + 1]):
                if self.target[edge] >= 0:
                    self.before[counts[self.target[edge]]] = state
                    counts[self.target[edge]] += 1
        return 0

    @cython.cfunc
    def keep_live(self) -> cython.int:
        """Find the length of the shortest text from each state to an end. Remove edges to states from which
        no end can be reached, and list the states that are reached."""
        queue: cython.longlong[::1] = self.order
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
        longest: cython.longlong[::1] = np.zeros(self.n, np.int64)
        left: cython.longlong[::1] = np.zeros(self.n, np.int64)
        queue: cython.longlong[::1] = np.empty(self.n, np.int64)
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
            for edge in range(self.before_starts[state], self.before_starts[state + 1]):
                source = self.before[edge]
                if self.color[source] < 0:
                    continue
                longest[source] = max(longest[source], longest[state] + 1)
                left[source] -= 1
                if not left[source]:
                    queue[end] = source
                    end += 1
        keys: dict = {}
        for i in range(self.n_reached):
            state = self.order[i]
            key = (self.accepting[state], self.shortest[state], -1 if left[state] else longest[state])
            self.color[state] = keys.setdefault(key, len(keys))
        return len(keys)

    @cython.cfunc
    def refine(self, n_colors: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Separate states whose edges lead to different colors, until there are none. Return the new number
        of colors.

        After the first round, only states with an edge to a state whose color has changed are looked at.
        The other states of a color still agree with each other, and keep the color. If all states of a color
        are looked at, one group of them keeps it. With all states in each round,
        `[a-z]{1,256}\\.[a-z]{1,6}[a-z/]*` took 256 rounds over 2,054 states, 0.4 s.
        """
        color: cython.Py_ssize_t
        group: cython.Py_ssize_t
        most: cython.Py_ssize_t = 0
        sizes: cython.longlong[::1] = np.zeros(self.n_reached, np.int64)  # states of each color
        for i in range(self.n_reached):
            state = self.order[i]
            sizes[self.color[state]] += 1
            most = max(most, self.starts[state + 1] - self.starts[state])
        self.buffer = np.empty(3 * most + 1, np.int64)
        todo: cython.longlong[::1] = self.order[: self.n_reached].copy()
        n_todo: cython.Py_ssize_t = self.n_reached
        seen: cython.longlong[::1] = np.zeros(self.n_reached, np.int64)  # states of each color in `todo`
        group_of: cython.longlong[::1] = np.empty(self.n_reached, np.int64)
        changed: cython.longlong[::1] = np.empty(self.n_reached, np.int64)  # states with a new color
        keeping: cython.longlong[::1] = np.full(self.n_reached, -1, np.int64)  # for a color, the group
        waits: cython.uchar[::1] = np.zeros(self.n, np.uint8)
        while n_todo and n_colors < self.n_reached:
            check_deadline()
            keys: dict = {}
            colors: list = []  # for each group
            counts: list = []
            for i in range(n_todo):
                state = todo[i]
                waits[state] = 0
                group = keys.setdefault(self.key(state), len(keys))
                if group == len(counts):
                    colors.append(self.color[state])
                    counts.append(0)
                counts[group] += 1
                seen[self.color[state]] += 1
                group_of[i] = group
            for group, color in enumerate(colors):
                if seen[color] == sizes[color] and (
                    keeping[color] < 0 or counts[keeping[color]] < counts[group]
                ):
                    keeping[color] = group
            names: list = []
            for group, color in enumerate(colors):
                if keeping[color] == group:
                    names.append(color)
                else:
                    names.append(n_colors)
                    sizes[n_colors] = counts[group]
                    n_colors += 1
            for group, color in enumerate(colors):
                keeping[color] = -1
                seen[color] = 0
                if names[group] != color:
                    sizes[color] -= counts[group]
            n_changed: cython.Py_ssize_t = 0
            for i in range(n_todo):
                state = todo[i]
                color = names[group_of[i]]
                if color != self.color[state]:
                    self.color[state] = color
                    changed[n_changed] = state
                    n_changed += 1
            n_todo = 0
            for i in range(n_changed):
                state = changed[i]
                for edge in range(self.before_starts[state], self.before_starts[state + 1]):
                    source = self.before[edge]
                    if self.color[source] >= 0 and not waits[source]:
                        waits[source] = 1
                        todo[n_todo] = source
                        n_todo += 1
        return n_colors

    @cython.cfunc
    def key(self, state: cython.Py_ssize_t) -> bytes:
        """Return the color of a state, and its edges with the colors to which they lead."""
        at: cython.Py_ssize_t = 1
        buffer: cython.longlong[::1] = self.buffer
        buffer[0] = self.color[state]
        for edge in range(self.starts[state], self.starts[state + 1]):
            if self.target[edge] < 0:
                continue
            to = self.color[self.target[edge]]
            if at > 1 and buffer[at - 1] == to and buffer[at - 2] + 1 >= self.low[edge]:
                buffer[at - 2] = self.high[edge]
                continue
            buffer[at], buffer[at + 1], buffer[at + 2] = self.low[edge], self.high[edge], to
            at += 3
        return PyBytes_FromStringAndSize(cython.cast(cython.p_char, cython.address(buffer[0])), 8 * at)

    @cython.cfunc
    def written(self, n_colors: cython.Py_ssize_t) -> tuple:
        """Return one state for each color, in the order in which they are reached from the first."""
        representative: cython.longlong[::1] = np.full(n_colors, -1, np.int64)
        number: cython.longlong[::1] = np.full(n_colors, -1, np.int64)
        state: cython.Py_ssize_t
        low: cython.longlong
        high: cython.longlong
        before: cython.longlong
        for i in range(self.n_reached):
            state = self.order[i]
            if representative[self.color[state]] < 0:
                representative[self.color[state]] = state
        number[self.color[0]] = 0
        queue: list = [0]
        rows: list = []
        accepting: list = []
        i = 0
        while i < len(queue):
            state = queue[i]
            i += 1
            row: list = []
            low = high = before = -1
            for edge in range(self.starts[state], self.starts[state + 1]):
                if self.target[edge] < 0:
                    continue
                to = self.color[self.target[edge]]
                if number[to] < 0:
                    number[to] = len(queue)
                    queue.append(representative[to])
                if before == number[to] and high + 1 >= self.low[edge]:
                    high = self.high[edge]
                    continue
                if before >= 0:
                    row.append((low, high, before))
                low, high, before = self.low[edge], self.high[edge], number[to]
            if before >= 0:
                row.append((low, high, before))
            rows.append(tuple(row))
            accepting.append(bool(self.accepting[state]))
        return tuple(rows), tuple(accepting)

    @cython.cfunc
    def minimise(self) -> tuple:
        self.index_sources()
        self.keep_live()
        if self.n_reached == 0:
            return (), ()
        return self.written(self.refine(self.measure()))


def minimised(rows: Sequence, accepting: Sequence) -> tuple:
    """Return the minimal automaton of an automaton whose start is state 0.

    Args:
        rows: for each state, its edges (first character, last character, state), disjoint.
        accepting: for each state, whether a text may end there.

    Returns:
        Rows and accepting states of the minimal automaton, both tuples; empty for the empty language.
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
        return (), ()
    return Minimiser(starts, edges, accepting).minimise()
