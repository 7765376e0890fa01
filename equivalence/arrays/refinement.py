# cython: language_level=3
# mypy: ignore-errors
"""Separating the states of a deterministic automaton by where their edges lead.

What: `Partition.refine` separates states of one color until the edges of all states of a color agree.
`classes_of` does this for an automaton given as arrays. A subclass may compare more than edges.
When: to find the states that no text distinguishes (lexers, languages of strings, networks).
Limits: targets are not checked.
Source: partition refinement that processes all but the largest part (Hopcroft 1971; Paige and Tarjan 1987).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)


@cython.cclass
class Partition:
    """The states of an automaton and their colors: the edges of state s are those from starts[s] to
    starts[s + 1].

    Args:
        starts: int64[states + 1].
        edges: int64[edges, 3], rows (first label, last label, target), in order for each state.
        n_more: how many more numbers for each state `more` has room for.

    Attributes:
        n: number of states.
        low, high, target: int64[edges], the columns of `edges`; the target -1 means that an edge leads
            nowhere.
        color: int64[n], the color of each state; -1 if it does not matter.
        before_starts, before: the sources of the edges to each state s, from before_starts[s] on.
        order, n_reached: the states that matter, and their number.
        counts: room for what the methods compute.
        keys: numbers the keys of states while `refine` runs; a subclass may set it.
        more: room for a subclass.
    """

    def __init__(self, starts: Any, edges: Any, n_more: cython.Py_ssize_t = 0) -> None:
        n: cython.Py_ssize_t = len(starts) - 1
        n_edges: cython.Py_ssize_t = len(edges)
        self.n, self.n_reached = n, 0
        self.starts = starts
        # one array for all: numpy and the view of it take longer than filling it for the few states of most
        # languages; `minimised` of 2 to 7 states took 27 to 31 us with an array for each
        room: cython.Py_ssize_t[::1] = np.empty((4 + n_more) * n + 2 + 4 * n_edges, np.int64)
        self.color, self.order = room[:n], room[n : 2 * n]
        self.before_starts, self.counts = room[2 * n : 3 * n + 1], room[3 * n + 1 : 4 * n + 2]
        room = room[4 * n + 2 :]
        self.low, self.high = room[:n_edges], room[n_edges : 2 * n_edges]
        self.target, self.before = room[2 * n_edges : 3 * n_edges], room[3 * n_edges : 4 * n_edges]
        self.more = room[4 * n_edges :]
        table: cython.Py_ssize_t[:, :] = edges
        for edge in range(n_edges):
            self.low[edge], self.high[edge] = table[edge, 0], table[edge, 1]
            self.target[edge] = table[edge, 2]

    def index_sources(self):
        """Make `before`: for each state, the sources of the edges that lead to it."""
        counts: cython.Py_ssize_t[::1] = self.counts
        counts[:] = 0
        for edge in range(self.target.shape[0]):
            if self.target[edge] >= 0:
                counts[self.target[edge] + 1] += 1
        for state in range(self.n):
            counts[state + 1] += counts[state]
        self.before_starts[:] = counts
        for state in range(self.n):
            for edge in range(self.starts[state], self.starts[state + 1]):
                if self.target[edge] >= 0:
                    self.before[counts[self.target[edge]]] = state
                    counts[self.target[edge]] += 1

    def refine(self, n_colors, check):
        """Separate states whose edges lead to different colors, until there are none. Return the new number
        of colors.

        After the first round, only states with an edge to a state whose color has changed are looked at.
        The other states of a color still agree with each other. The largest part of each color keeps it, so a
        state changes its color at most log n times. With all states in each round,
        `[a-z]{1,256}\\.[a-z]{1,6}[a-z/]*` took 256 rounds over 2,054 states, 0.4 s. `check`, unless it is
        None, is called in each round.
        """
        if n_colors == self.n_reached:
            return n_colors
        color: cython.Py_ssize_t
        group: cython.Py_ssize_t
        i: cython.Py_ssize_t
        state: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.n_reached
        room: cython.Py_ssize_t[::1]
        waits: cython.uchar[::1]
        with cython.gil:
            room = np.empty(8 * n + 2 * self.n, np.int64)
            waits = np.ones(self.n, np.uint8)
            if self.keys is None:
                self.keys = Interned(n, 8)
        todo: cython.Py_ssize_t[::1] = room[:n]
        changed: cython.Py_ssize_t[::1] = room[n : 2 * n]  # states with a new color
        keeping: cython.Py_ssize_t[::1] = room[2 * n : 3 * n]  # for a color, the group that keeps it, or -1
        # the states of each color that are not in `todo`: the first one and their number; and for each state
        # the one before it and the one after it, or -1
        first: cython.Py_ssize_t[::1] = room[3 * n : 4 * n]
        rest: cython.Py_ssize_t[::1] = room[4 * n : 5 * n]
        preceding: cython.Py_ssize_t[::1] = room[8 * n : 8 * n + self.n]
        following: cython.Py_ssize_t[::1] = room[8 * n + self.n :]
        # states in `todo` that have equal keys are a group; for each state its group, and for each group its
        # color and its number of states
        group_of: cython.Py_ssize_t[::1] = room[5 * n : 6 * n]
        colors: cython.Py_ssize_t[::1] = room[6 * n : 7 * n]
        counts: cython.Py_ssize_t[::1] = room[7 * n : 8 * n]
        keeping[:] = -1
        first[:] = -1
        rest[:] = 0
        todo[:] = self.order[:n]
        n_todo: cython.Py_ssize_t = n
        while n_todo and n_colors < n:
            if check is not None:
                with cython.gil:
                    check()
            self.keys.clear(n_todo)
            n_groups: cython.Py_ssize_t = 0
            for i in range(n_todo):
                state = todo[i]
                group = self.group(state)
                if group == n_groups:
                    n_groups += 1
                    colors[group] = self.color[state]
                    counts[group] = 0
                counts[group] += 1
                group_of[i] = group
            for group in range(n_groups):
                color = colors[group]
                if counts[group] > (rest[color] if keeping[color] < 0 else counts[keeping[color]]):
                    keeping[color] = group
            n_changed: cython.Py_ssize_t = 0
            for group in range(n_groups):
                color = colors[group]
                if keeping[color] != group:
                    colors[group] = n_colors
                    n_colors += 1
                elif rest[color]:
                    state = first[color]
                    while state >= 0:
                        self.color[state] = n_colors
                        changed[n_changed] = state
                        n_changed += 1
                        state = following[state]
                    first[n_colors], rest[n_colors] = first[color], rest[color]
                    first[color], rest[color] = -1, 0
                    n_colors += 1
            for i in range(n_todo):
                state = todo[i]
                color = colors[group_of[i]]
                keeping[self.color[state]] = -1
                if color != self.color[state]:
                    self.color[state] = color
                    changed[n_changed] = state
                    n_changed += 1
                waits[state] = 0
                preceding[state], following[state] = -1, first[color]
                if first[color] >= 0:
                    preceding[first[color]] = state
                first[color] = state
                rest[color] += 1
            n_todo = 0
            for i in range(n_changed):
                for edge in range(self.before_starts[changed[i]], self.before_starts[changed[i] + 1]):
                    state = self.before[edge]
                    color = self.color[state]
                    if color < 0 or waits[state]:
                        continue
                    waits[state] = 1
                    todo[n_todo] = state
                    n_todo += 1
                    rest[color] -= 1
                    if preceding[state] < 0:
                        first[color] = following[state]
                    else:
                        following[preceding[state]] = following[state]
                    if following[state] >= 0:
                        preceding[following[state]] = preceding[state]
        return n_colors

    def group(self, state):
        """Return the number of a state's key: its color, and its edges with the colors to which they lead."""
        begin: cython.Py_ssize_t = self.keys.room(3 * (self.starts[state + 1] - self.starts[state]) + 1)
        at: cython.Py_ssize_t = begin + 1
        pool: cython.Py_ssize_t[::1] = self.keys.pool
        pool[begin] = self.color[state]
        for edge in range(self.starts[state], self.starts[state + 1]):
            if self.target[edge] < 0:
                continue
            to = self.color[self.target[edge]]
            if at > begin + 1 and pool[at - 1] == to and pool[at - 2] + 1 >= self.low[edge]:
                pool[at - 2] = self.high[edge]
                continue
            pool[at], pool[at + 1], pool[at + 2] = self.low[edge], self.high[edge], to
            at += 3
        return self.keys.intern(at - begin)


def classes_of(starts: Any, edges: Any, colors: Any, check: Callable[[], object]) -> NDArray[np.int64]:
    """Return the class of each state: the states of a class have the same color, and edges with the same
    labels to states of the same classes.

    Args:
        starts, edges: see `Partition`.
        colors: int64[states], from 0 on.
        check: called in each round; may raise an error to stop.
    """
    partition = Partition(starts, edges)
    color: cython.Py_ssize_t[:] = np.asarray(colors, np.int64)
    n_colors: cython.Py_ssize_t = 0
    for state in range(partition.n):
        partition.color[state], partition.order[state] = color[state], state
        n_colors = max(n_colors, color[state] + 1)
    partition.n_reached = partition.n
    partition.index_sources()
    partition.refine(n_colors, check)
    return np.array(partition.color)
