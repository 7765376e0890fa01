# cython: language_level=3
# mypy: ignore-errors
"""Merging states component by component, from the leaves up, in one pass.

What: `ComponentMerging` gives equivalent states one class. It finds the strongly connected components of a
graph, each after all components to which it leads, and `component_classes.py` gives them classes.
When: called by `equivalence.network.state_merging`.
Limits: those of `component_classes.py`.
Source: Tarjan, Depth-first search and linear graph algorithms, 1972.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.network.component_classes import ComponentClasses
from cython.cimports.equivalence.network.graph import Graph, n_successors, successor
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)


@cython.final
@cython.cclass
class ComponentMerging:
    """A walk that gives each state its class after all states that it leads to.

    Args:
        graph: its names become the classes; -1 for states that cannot be reached from the root.
        account: says when to stop.

    Attributes:
        classes: the classes.
        path: the states from the root to the current one.
        cursor: one more than the number of a state's successors that were visited; 0: it was not visited.
        order: when each state was visited first.
        earliest: the least order of the states in the same component that are known to be reached from here.
        n_members: number of visited states that have no class yet; they are `classes.members`, in the order
            of their visits.
    """

    def __init__(self, graph: Graph, account: Account) -> None:
        self.graph, self.account = graph, account
        self.classes = ComponentClasses(graph, account)
        self.path = self.cursor = self.order = self.earliest = np.empty(0, np.int64)

    def prepare(self):
        """Start with the current content of the graph."""
        n: cython.Py_ssize_t = self.graph.size
        self.depth = 0
        self.n_visited = 0
        self.n_members = 0
        if n > self.path.shape[0]:
            with cython.gil:
                room = n + n // 2
                self.path, self.cursor = np.empty(room, np.int64), np.empty(room, np.int64)
                self.order, self.earliest = np.empty(room, np.int64), np.empty(room, np.int64)
        for s in range(n):
            self.cursor[s] = 0
        return self.classes.prepare()

    def merge(self, root):
        """Give classes to all states that can be reached from the root.

        Raises:
            BudgetExceeded: the deadline has passed.
        """
        self.prepare()
        self.visit(root)
        while self.depth > 0:
            s = self.path[self.depth - 1]
            successor = self.next_unvisited(s)
            if successor >= 0:
                self.visit(successor)
                continue
            self.account.check()
            self.depth -= 1
            if self.earliest[s] == self.order[s]:
                self.take_component(s)
            else:
                above = self.path[self.depth - 1]
                self.earliest[above] = min(self.earliest[above], self.earliest[s])

    def visit(self, s):
        """Append a state to the path."""
        self.path[self.depth] = s
        self.depth += 1
        self.cursor[s] = 1
        self.order[s] = self.earliest[s] = self.n_visited
        self.n_visited += 1
        self.classes.members[self.n_members] = s
        self.n_members += 1

    def next_unvisited(self, s):
        """The next successor of a state that was not visited; -1 if there is none."""
        n = n_successors(self.graph, s)
        i = self.cursor[s] - 1
        while i < n:
            t = successor(self.graph, s, i)
            i += 1
            if self.cursor[t] == 0:
                self.cursor[s] = i + 1
                return t
            if self.graph.name[t] < 0:
                self.earliest[s] = min(self.earliest[s], self.order[t])
        self.cursor[s] = i + 1
        return -1

    def take_component(self, s):
        """Give classes to the component of which this state was visited first."""
        end = self.n_members
        begin = end - 1
        while self.classes.members[begin] != s:
            begin -= 1
        self.n_members = begin
        return self.classes.name_component(begin, end)
