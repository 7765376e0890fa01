# cython: language_level=3
# mypy: ignore-errors
"""The coarsest bisimulation of a graph: states with equal behaviour are in one block.

What: `GraphPartition` splits blocks until the states of each behave equally
(`equivalence.arrays.refinement`).
When: if signatures (`equivalence.network.signatures`) have not divided a graph completely.
Limits: indices are not checked.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.refinement import Partition
from cython.cimports.equivalence.network.graph import Graph, n_successors, successor
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)


@cython.cclass
class GraphPartition(Partition):
    """The states of a graph. Their names are their colors."""

    def __init__(self, graph: Graph, account: Account) -> None:
        self.graph, self.account = graph, account
        n: cython.Py_ssize_t = graph.size
        starts: cython.Py_ssize_t[::1] = np.zeros(n + 1, np.int64)
        edges: cython.Py_ssize_t[:, ::1] = np.empty(
            (graph.edges.shape[0] + 2 * graph.calls.shape[0], 3), np.int64
        )
        n_edges: cython.Py_ssize_t = 0
        for s in range(n):
            for i in range(n_successors(graph, s)):
                target = successor(graph, s, i)
                # targets that are not in the graph keep their names
                edges[n_edges, 0] = edges[n_edges, 1] = i
                edges[n_edges, 2] = target if target < n else -1
                n_edges += 1
            starts[s + 1] = n_edges
        Partition.__init__(self, starts, edges)
        self.color, self.keys = graph.name[:n], graph.keys
        self.n_reached = n
        for s in range(n):
            self.order[s] = s
        self.index_sources()

    def group(self, state):
        """Return the number of a state's key: its name, and what it does, with the names of its
        successors."""
        self.account.check()
        length = self.graph.write_key(state, -1)
        self.keys.pool[self.keys.used + length] = self.color[state]
        return self.keys.intern(length + 1)
