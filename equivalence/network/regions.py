# cython: language_level=3
# mypy: ignore-errors
"""Regions of a network: states below which the same may lie.

What: `Regions` divides the states of a network into regions, and finds what each of them leaves below
another one. A *head* is a state in which a rule begins (a state that is called, or the unit of a counted
rule), or a state to which several regions lead. A region is a head with the states to which all paths lead
through it. The frames of a counted rule are a region of their own, and so is the outside of the grammar.
When: before below sets and follow sets are computed.
Limits: indices are not checked. States that cannot be reached from the start, and those that only end their
rule, are in no region.
Source: a region is a subtree below the root of the dominator tree, if the root leads to all states in which
rules begin. It is found as in Cooper, Harvey, Kennedy: A simple, fast dominance algorithm (2001), section 3.

Rejected: regions of rules, as they were before states of different rules were merged. The deterministic
automata and the class of each of their states then live as long as the network, and are a third of its bytes.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)


@cython.final
@cython.cclass
class Regions:
    """The regions of a network, numbered such that callers usually come before callees.

    A *node* is a state; behind the states, the frame of a counted class; and behind these the outside, which
    leads to the start.

    Args:
        automaton: the arrays of `equivalence.network.build.Network`.
        start: the first state.
        account: says when to stop.

    Attributes:
        n_states, n_frames: number of states, and of frames.
        outside: the last node.
        final, edge_starts, edges, call_starts, calls, counted: the automaton.
        region_of: int32[nodes], the region of each node, 0 for the outside; -1: none.
        n_regions: number of regions.
        head_of: int32[regions], the head of each region.
        is_head: uint8[nodes], heads.
        is_top: uint8[states], the states that may be on top of a stack between two bytes, above everything
            that may lie below their region. Other heads may be on top only above what lies below a region
            that leads to them (`EDGE`).
        pairs: pairs (symbol, region below it). The symbol is the state to which a call returns, or -1 - k,
            the frame of counted class k. If nothing is pushed, it is `TAIL_CALL`, or `EDGE` (also for returns
            from a call).
        links: pairs (region, number of a pair): what may be pushed below a region.
    """

    def __init__(self, automaton: tuple[Any, ...], start: cython.Py_ssize_t, account: Account) -> None:
        final, self.edge_starts, self.edges, self.call_starts, self.calls, self.counted = automaton[:6]
        self.final = final.view(np.uint8)
        self.n_states = self.final.shape[0]
        self.n_frames = self.counted.shape[0]
        self.outside = self.n_states + self.n_frames
        self.start = start
        self.account = account
        n: cython.Py_ssize_t = self.outside + 1
        self.order, self.head_of = np.empty(n, np.int32), np.empty(n, np.int32)
        self.region_of = np.full(n, -1, np.int32)
        self.is_head, self.is_top = np.zeros(n, np.uint8), np.zeros(self.n_states, np.uint8)
        self.pairs, self.links = Interned(self.calls.shape[0] + 8, 2), Interned(self.calls.shape[0] + 8, 2)
        path: cython.int[::1] = np.empty(n, np.int32)
        cursor: cython.int[::1] = np.full(n, -1, np.int32)
        with cython.nogil:
            self.find_order(path, cursor)
            self.divide(cursor)
            self.link()

    def n_successors(self, node):
        """Number of a node's successors: its edges, and two for each call."""
        if node >= self.n_states:
            return 1
        n_calls = self.call_starts[node + 1] - self.call_starts[node]
        return self.edge_starts[node + 1] - self.edge_starts[node] + 2 * n_calls

    def successor(self, node, i):
        """The i-th successor of a node: the targets of its edges, then what each call enters, and where it
        returns to. -1: a tail call returns nowhere, and states that only end their rule are left out."""
        if node >= self.n_states:
            following = self.start if node == self.outside else self.counted[node - self.n_states, 0]
        else:
            k = self.edge_starts[node] + i
            if k < self.edge_starts[node + 1]:
                following = self.edges[k, 2]
            else:
                i = k - self.edge_starts[node + 1]
                following = self.calls[self.call_starts[node] + (i >> 1), i & 1]
                if following < 0 and not i & 1:
                    return self.n_states - 1 - following
        return -1 if following < 0 or self.is_end(following) else following

    def is_flow(self, node, i):
        """Whether the i-th successor has the same below it as the node: it is not entered by a call, and no
        unit."""
        if node >= self.n_states:
            return node == self.outside
        i -= self.edge_starts[node + 1] - self.edge_starts[node]
        return i < 0 or i & 1

    def find_order(self, path, cursor):
        """Put the nodes that can be reached in reverse postorder at the end of `order`."""
        at: cython.Py_ssize_t = self.outside + 1
        depth: cython.Py_ssize_t = 1
        path[0] = cython.cast(cython.int, self.outside)
        cursor[self.outside] = 0
        while depth > 0:
            node: cython.Py_ssize_t = path[depth - 1]
            if cursor[node] == self.n_successors(node):
                depth -= 1
                at -= 1
                self.order[at] = cython.cast(cython.int, node)
                continue
            following: cython.Py_ssize_t = self.successor(node, cursor[node])
            cursor[node] += 1
            if following >= 0 and cursor[following] < 0:
                cursor[following] = 0
                path[depth] = cython.cast(cython.int, following)
                depth += 1
        self.order = self.order[at:]

    def divide(self, position):
        """Find the heads, and number the regions."""
        n_reached: cython.Py_ssize_t = self.order.shape[0]
        for i in range(n_reached):
            node: cython.Py_ssize_t = self.order[i]
            position[node] = cython.cast(cython.int, i)
            if node >= self.n_states:
                self.is_head[node] = 1
            for j in range(self.n_successors(node)):
                following = self.successor(node, j)
                if following >= 0 and not self.is_flow(node, j):
                    self.is_head[following] = 1
        while self.lead_on(position):
            pass
        self.n_regions = 0
        for i in range(n_reached):
            node = self.order[i]
            if self.is_head[node]:
                self.region_of[node] = cython.cast(cython.int, self.n_regions)
                self.head_of[self.n_regions] = cython.cast(cython.int, node)
                self.n_regions += 1
            else:  # its head comes before it
                self.region_of[node] = self.region_of[self.region_of[node]]

    def lead_on(self, position):
        """Pass the head of each node on to its successors. A node that gets two becomes a head itself. Return
        whether such a node comes before one that leads to it: the nodes in between are then done again."""
        found: cython.bint = False
        for i in range(self.order.shape[0]):
            self.region_of[self.order[i]] = -1
        for i in range(self.order.shape[0]):
            self.account.check()
            node: cython.Py_ssize_t = self.order[i]
            if self.is_head[node]:
                self.region_of[node] = cython.cast(cython.int, node)
            head = self.region_of[node]
            for j in range(self.n_successors(node)):
                following = self.successor(node, j)
                if following < 0 or self.is_head[following] or not self.is_flow(node, j):
                    continue
                if self.region_of[following] < 0:
                    self.region_of[following] = head
                elif self.region_of[following] != head:
                    self.is_head[following] = 1
                    found |= position[following] <= i
        return found

    def link(self):
        """Find what may be pushed below each region, and what may be on top."""
        for i in range(self.order.shape[0]):
            node: cython.Py_ssize_t = self.order[i]
            region: cython.Py_ssize_t = self.region_of[node]
            for j in range(self.n_successors(node)):
                following = self.successor(node, j)
                if following < 0:
                    continue
                symbol: cython.Py_ssize_t = TAIL_CALL  # noqa: F821 - in regions.pxd
                if self.is_flow(node, j):
                    if self.region_of[following] == region:
                        self.is_top[following] = 1
                        continue
                    symbol = EDGE  # noqa: F821
                elif node >= self.n_states:
                    symbol = self.n_states - 1 - node
                else:
                    back = self.successor(node, j + 1)
                    if back >= 0:
                        symbol = back
                self.links.pair(self.region_of[following], self.pairs.pair(symbol, region))

    def region_of_link(self, k):
        """The region below which link k may push something."""
        return self.links.pool[self.links.starts[k]]

    def symbol_of_link(self, k):
        """The symbol that link k pushes, or why it pushes nothing."""
        return self.pairs.pool[self.pairs.starts[self.links.pool[self.links.starts[k] + 1]]]

    def below_link(self, k):
        """The region below the symbol of link k."""
        return self.pairs.pool[self.pairs.starts[self.links.pool[self.links.starts[k] + 1]] + 1]

    def is_end(self, state):
        """Whether a state is final and does nothing else."""
        return (
            self.final[state] != 0
            and self.edge_starts[state + 1] == self.edge_starts[state]
            and self.call_starts[state + 1] == self.call_starts[state]
        )
