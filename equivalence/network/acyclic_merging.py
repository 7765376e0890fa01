# cython: language_level=3
# mypy: ignore-errors
"""Merging the states that are on no cycle, from the leaves up, in one pass.

What: `AcyclicMerging` gives equivalent states one class, once their successors have classes. In large
schemas, six of seven states are merged here.
When: the first step of `equivalence.network.merging`.
Limits: states on cycles of two or more states stay apart. States of one class are equivalent. Equivalent
states of different classes are left to `equivalence.network.bisimulation`. There are none among the states
that reach no cycle: what such a state can do is a finite tree, so by induction on its height, equivalent
states have equal keys. And no state that reaches a cycle is equivalent to such a state.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.equivalence.network.graph import Graph

from equivalence import built

built.check(__name__, EQUIMASK_SOURCE)

SELF = cython.declare(cython.int, -2)  # in a key: the state itself, whose class is not known yet
UNKNOWN = cython.declare(cython.int, 2)  # of `loops`: the class of a successor is not known


@cython.final
@cython.cclass
class AcyclicMerging:
    """A walk that gives each state its class after all states that it leads to.

    Args:
        graph: its names become the classes; -1 for states that cannot be reached from the root.

    Attributes:
        account: says when to stop; set by the owner.
        n_classes: number of classes so far.
        n_cyclic: number of classes that reach a cycle; they come first.
        ends: whether each class reaches no cycle.
        class_of_key: the class of each of the graph's keys.
        path: the states from the root to the current one.
        cursor: one more than the number of a state's successors that were visited; 0: it was not visited.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.class_of_key = self.path = self.cursor = np.empty(0, np.int64)
        self.ends = np.empty(0, np.uint8)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def prepare(self) -> cython.int:
        """Start with the current content of the graph."""
        n: cython.Py_ssize_t = self.graph.size
        self.n_classes = 0
        self.depth = 0
        if n > self.path.shape[0]:
            with cython.gil:
                self.class_of_key = np.empty(3 * n, np.int64)  # a state with an edge to itself has two
                self.path = np.empty(n + n // 2, np.int64)
                self.cursor = np.empty(n + n // 2, np.int64)
                self.ends = np.empty(n + n // 2, np.uint8)
        self.graph.name[:] = -1
        for s in range(n):
            self.cursor[s] = 0
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def merge(self, root: cython.Py_ssize_t) -> cython.int:
        """Give classes to all states that can be reached from the root.

        Raises:
            BudgetExceeded: the time is over.
        """
        self.prepare()
        self.visit(root)
        while self.depth > 0:
            s = self.path[self.depth - 1]
            successor = self.next_unvisited(s)
            if successor >= 0:
                self.visit(successor)
            else:
                self.account.look()
                self.depth -= 1
                self.settle(s)
        self.number_again()
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def number_again(self) -> cython.void:
        """Number the classes that reach a cycle before the others."""
        number: cython.Py_ssize_t[::1] = self.class_of_key  # the keys are not needed any more
        at: cython.Py_ssize_t = 0
        for c in range(self.n_classes):
            if not self.ends[c]:
                number[c] = at
                at += 1
        self.n_cyclic = at
        for c in range(self.n_classes):
            if self.ends[c]:
                number[c] = at
                at += 1
        for s in range(self.graph.size):
            if self.graph.name[s] >= 0:
                self.graph.name[s] = number[self.graph.name[s]]

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def visit(self, s: cython.Py_ssize_t) -> cython.void:
        """Append a state to the path."""
        self.path[self.depth] = s
        self.depth += 1
        self.cursor[s] = 1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def next_unvisited(self, s: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The next successor of a state that was not visited; -1 if there is none."""
        begin = self.graph.edge_starts[s]
        n_edges = self.graph.edge_starts[s + 1] - begin
        call_begin = self.graph.call_starts[s]
        n = n_edges + 2 * (self.graph.call_starts[s + 1] - call_begin)
        i = self.cursor[s] - 1
        while i < n:
            if i < n_edges:
                t = self.graph.edges[begin + i].target
            elif (i - n_edges) & 1:
                t = self.graph.calls[call_begin + ((i - n_edges) >> 1)].back
            else:
                t = self.graph.calls[call_begin + ((i - n_edges) >> 1)].callee
            i += 1
            if self.cursor[t] == 0:
                self.cursor[s] = i + 1
                return t
        self.cursor[s] = i + 1
        return -1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def loops(self, s: cython.Py_ssize_t) -> cython.int:
        """Whether a state leads to itself; `UNKNOWN` if another successor has no class yet."""
        found: cython.int = 0
        for k in range(self.graph.edge_starts[s], self.graph.edge_starts[s + 1]):
            t = self.graph.edges[k].target
            if t == s:
                found = 1
            elif self.graph.name[t] < 0:
                return UNKNOWN
        for k in range(self.graph.call_starts[s], self.graph.call_starts[s + 1]):
            callee = self.graph.calls[k].callee
            back = self.graph.calls[k].back
            if callee == s or back == s:
                found = 1
            if (callee != s and self.graph.name[callee] < 0) or (back != s and self.graph.name[back] < 0):
                return UNKNOWN
        return found

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def successors_end(self, s: cython.Py_ssize_t) -> cython.bint:
        """Whether no successor of a state reaches a cycle; all of them have classes."""
        for k in range(self.graph.edge_starts[s], self.graph.edge_starts[s + 1]):
            if not self.ends[self.graph.name[self.graph.edges[k].target]]:
                return False
        for k in range(self.graph.call_starts[s], self.graph.call_starts[s + 1]):
            if not self.ends[self.graph.name[self.graph.calls[k].callee]]:
                return False
            if not self.ends[self.graph.name[self.graph.calls[k].back]]:
                return False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def settle(self, s: cython.Py_ssize_t) -> cython.int:
        """Give a state its class: the class of an equivalent state, or a new one."""
        loops = self.loops(s)
        if loops != UNKNOWN:
            length = self.graph.write_key(s, SELF if loops else -1)
            known = self.graph.keys.count
            key = self.graph.keys.intern(length)
            if key < known:
                self.graph.name[s] = self.class_of_key[key]
                return 0
            self.class_of_key[key] = self.n_classes
        self.graph.name[s] = self.n_classes
        self.ends[self.n_classes] = loops == 0 and self.successors_end(s)
        self.n_classes += 1
        if loops == 1:
            # a state without this loop may lead here and still be equivalent
            length = self.graph.write_key(s, -1)
            known = self.graph.keys.count
            key = self.graph.keys.intern(length)
            if key == known:
                self.class_of_key[key] = self.graph.name[s]
        return 0
