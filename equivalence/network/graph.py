# cython: language_level=3
# mypy: ignore-errors
"""The states that are merged: what each reads and calls, and a key that equal states share.

What: a `Graph` of states, whose calls lead to first states instead of rules; a name for each state, given
by merging; and keys: lists of integers that describe what a state does next, with its successors by name.
When: made by `equivalence.network.state_merging`, first of states, then of their classes.
Limits: indices are not checked.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.records import empty
from cython.cimports.equivalence.network.sorted_set import SortedSet
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.records import Kind

check_source(__name__)

EDGE = Kind("first last target", np.int32)
CALL = Kind("callee bounds back", np.int32)


@cython.final
@cython.cclass
class Graph:
    """States, with what they read and call.

    Attributes:
        size: number of states.
        final: uint8[states].
        edge_starts, call_starts: int64[states + 1], where the edges and calls of each state start.
        edges: rows (first byte, last byte, target).
        calls: rows (first state of the callee, number of its bounds, state to return to); the number is 0
            for rules that are called once.
        n_bounds: count of different bounds that calls may have.
        name: the name of each state, and of targets that are not in the graph; states have equal names only
            if they are known to behave equally.
        keys: the keys, with room for one more at the end of the pool.
        example: the first state with each name (`find_examples`).
    """

    def __init__(self) -> None:
        self.edges = self.edges_room = empty(EDGE, 0)
        self.calls = self.calls_room = empty(CALL, 0)
        self.name = self.name_room = np.empty(0, np.int64)
        self.example = np.empty(0, np.int64)
        self.own_final = np.empty(0, np.uint8)
        self.own_edge_starts = self.own_call_starts = np.empty(0, np.int64)
        self.codes = SortedSet()
        self.keys = Interned(64, 8)

    def prepare(self, final, edge_starts, n_edges, call_starts, n_calls, n_bounds, n_named):
        """Start with other states; the caller fills in the edges and calls. The first of the `n_named` names
        belong to the states, the others to targets that are not in the graph."""
        n: cython.Py_ssize_t = final.shape[0]
        self.size = n
        self.final = final
        self.edge_starts = edge_starts
        self.call_starts = call_starts
        self.n_bounds = n_bounds
        if n_edges > self.edges_room.shape[0]:
            with cython.gil:
                self.edges_room = empty(EDGE, n_edges + n_edges // 2)
        if n_calls > self.calls_room.shape[0]:
            with cython.gil:
                self.calls_room = empty(CALL, n_calls + n_calls // 2)
        if n_named > self.name_room.shape[0]:
            with cython.gil:
                self.name_room = np.empty(n_named + n_named // 2, np.int64)
        self.edges = self.edges_room[:n_edges]
        self.calls = self.calls_room[:n_calls]
        self.name = self.name_room[:n_named]
        self.shift = 1
        while (1 << self.shift) < n_named + 2:  # names, and two numbers that are not names
            self.shift += 1
        self.keys.clear(n + 2)

    def named(self, target, s, own):
        """The name of a successor of a state; `own`, unless it is -1, replaces the state's own name."""
        name = self.name[target]
        return own if own != -1 and name == self.name[s] else name

    def write_key(self, s, own):
        """Write what a state does next at the end of the pool of keys, with room for one more integer.

        `own`, unless it is -1, replaces the state's own name. Return the length.
        """
        begin = self.edge_starts[s]
        end = self.edge_starts[s + 1]
        at = self.keys.room(3 * (end - begin) + 2 * (self.call_starts[s + 1] - self.call_starts[s]) + 3)
        first_edge = at + 1
        self.keys.pool[at] = self.final[s]
        at += 1
        for k in range(begin, end):
            target = self.named(self.edges[k].target, s, own)
            if (
                at > first_edge
                and self.keys.pool[at - 1] == target
                and self.keys.pool[at - 2] == self.edges[k].first - 1
            ):
                self.keys.pool[at - 2] = self.edges[k].last
                continue
            self.keys.pool[at] = self.edges[k].first
            self.keys.pool[at + 1] = self.edges[k].last
            self.keys.pool[at + 2] = target
            at += 3
        self.keys.pool[at] = -1
        at += 1
        if self.call_starts[s + 1] > self.call_starts[s]:
            at = self.write_calls(s, own, at)
        return at - self.keys.used

    def write_calls(self, s, own, at):
        """Write what a state calls to the pool of keys, sorted and without duplicates. Return the end."""
        self.codes.count = 0
        for k in range(self.call_starts[s], self.call_starts[s + 1]):
            callee = self.named(self.calls[k].callee, s, own) + 2
            back = self.named(self.calls[k].back, s, own) + 2
            self.codes.add(((callee * self.n_bounds + self.calls[k].bounds) << self.shift) | back)
        for i in range(self.codes.sort()):
            # in two parts: the hash looks at 30 bits of each
            self.keys.pool[at] = self.codes.values[i] >> self.shift
            self.keys.pool[at + 1] = self.codes.values[i] & ((1 << self.shift) - 1)
            at += 2
        return at

    def find_examples(self, n_names):
        """Find the first state with each name below `n_names`; -1 is not a name."""
        if n_names > self.example.shape[0]:
            with cython.gil:
                self.example = np.empty(2 * n_names, np.int64)
        for c in range(n_names):
            self.example[c] = -1
        for s in range(self.size):
            if 0 <= self.name[s] < n_names and self.example[self.name[s]] < 0:
                self.example[self.name[s]] = s

    def by_name(self, graph, n_names):
        """Turn another graph into a graph of names: its state c does what the first state with name c does.
        Names from `n_names` on are targets that are not in it."""
        self.find_examples(n_names)
        return self.take(graph, self.example[:n_names], 0, n_names)

    def take(self, graph, states, others, n_named):
        """Turn another graph into a part of this one: its state i does what `states[i]` does.

        A target with the name `INSIDE` - i is state i there; one with another name has the number `others`
        plus this name there. `n_named` is the number of names there.
        """
        n: cython.Py_ssize_t = states.shape[0]
        if n > graph.own_final.shape[0]:
            with cython.gil:
                graph.own_final = np.empty(2 * n, np.uint8)
                graph.own_edge_starts = np.empty(2 * n + 1, np.int64)
                graph.own_call_starts = np.empty(2 * n + 1, np.int64)
        final: cython.uchar[::1] = graph.own_final[:n]
        edge_starts: cython.Py_ssize_t[::1] = graph.own_edge_starts[: n + 1]
        call_starts: cython.Py_ssize_t[::1] = graph.own_call_starts[: n + 1]
        edge_starts[0] = 0
        call_starts[0] = 0
        n_edges: cython.Py_ssize_t = 0
        n_calls: cython.Py_ssize_t = 0
        for i in range(n):
            s = states[i]
            final[i] = self.final[s]
            n_edges += self.edge_starts[s + 1] - self.edge_starts[s]
            n_calls += self.call_starts[s + 1] - self.call_starts[s]
            edge_starts[i + 1] = n_edges
            call_starts[i + 1] = n_calls
        graph.prepare(final, edge_starts, n_edges, call_starts, n_calls, self.n_bounds, n_named)
        n_edges = 0
        n_calls = 0
        for i in range(n):
            s = states[i]
            for k in range(self.edge_starts[s], self.edge_starts[s + 1]):
                graph.edges[n_edges].first = self.edges[k].first
                graph.edges[n_edges].last = self.edges[k].last
                graph.edges[n_edges].target = self.number_in(others, self.edges[k].target)
                n_edges += 1
            for k in range(self.call_starts[s], self.call_starts[s + 1]):
                graph.calls[n_calls].callee = self.number_in(others, self.calls[k].callee)
                graph.calls[n_calls].bounds = self.calls[k].bounds
                graph.calls[n_calls].back = self.number_in(others, self.calls[k].back)
                n_calls += 1

    def number_in(self, others, target):
        """The number of a target in the graph that `take` makes."""
        name = self.name[target]
        return INSIDE - name if name <= INSIDE else others + name  # noqa: F821 - in graph.pxd

    def name_others(self, n):
        """Name n targets that are not in the graph, from n on, by their numbers. The names are kept as long
        as no graph has more than n states and n such targets."""
        if 2 * n > self.name_room.shape[0]:
            with cython.gil:
                self.name_room = np.empty(3 * n, np.int64)
        for target in range(n, 2 * n):
            self.name_room[target] = target
