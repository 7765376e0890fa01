# cython: language_level=3
# mypy: ignore-errors
"""Signatures of states: hashes of what they do in their next few steps.

What: `Signatures` divides the states of a graph into blocks, so that states of equal behaviour are always in
one block. In most graphs each state is alone in its block after a few rounds. `refine` splits the others
until the states of each block behave equally.
When: for each larger component of `equivalence.network.component_classes`, which also finds equal components
by them.
Limits: before `refine`, states of one block need not behave equally, because the number of steps is limited
(`MOST_ROUNDS`), and hashes may collide. Indices are not checked.

A round takes a fifth of the time that comparing the states exactly would take.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.hashing import hashed
from cython.cimports.equivalence.arrays.records import empty
from cython.cimports.equivalence.network.bisimulation import GraphPartition
from cython.cimports.equivalence.network.graph import Graph
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.records import Kind

check_source(__name__)

GROUP = Kind("first count number")

MOST_ROUNDS = cython.declare(cython.int, 32)
"""At most this many rounds over all states, or more rounds over fewer states. The keys of real objects may
end in the same 30 characters or more."""


@cython.final
@cython.cclass
class Signatures:
    """The signatures of a graph's states, and the blocks that they make.

    Args:
        graph: its names become the blocks. Targets that are not in the graph are told apart by their numbers.
        account: says when to stop.

    Attributes:
        n_blocks: number of blocks.
        partition: splits blocks further; None otherwise.
        signatures: for each state, the signature of the present round.
        following: the signatures of the next round.
        left, group: the states that are not alone, and the number of the group of each.
        groups: the groups: the first of their states, as an index of `left`; the number of their states; and
            their next number, or -1.
    """

    def __init__(self, graph: Graph, account: Account) -> None:
        self.graph, self.account = graph, account
        self.signatures = self.following = np.empty(0, np.uint64)
        self.left = self.group = np.empty(0, np.int64)
        self.groups = empty(GROUP, 0)

    def prepare(self):
        """Start with the current content of the graph."""
        n: cython.Py_ssize_t = self.graph.size
        if n > self.left.shape[0]:
            with cython.gil:
                room = n + n // 2
                self.signatures, self.following = np.empty(room, np.uint64), np.empty(room, np.uint64)
                self.left, self.group = np.empty(room, np.int64), np.empty(room, np.int64)
                self.groups = empty(GROUP, room)
        self.n_blocks = 0

    def divide(self):
        """Name the states after blocks: states of one block have one signature, and other blocks others."""
        self.prepare()
        n = self.graph.size
        for s in range(n):
            self.signatures[s] = 0
            self.left[s] = s
        self.n_left = n
        self.n_groups = 1
        work: cython.Py_ssize_t = MOST_ROUNDS * n
        n_rounds: cython.Py_ssize_t = 0
        while work > 0:
            work -= self.n_left
            before = self.n_groups
            for i in range(self.n_left):
                self.account.check()
                self.following[i] = self.signature(self.left[i])
            for i in range(self.n_left):
                self.signatures[self.left[i]] = self.following[i]
            self.group_left()
            n_rounds += 1
            n_singletons = self.name_singletons(n_rounds)
            if self.n_left == 0 or (n_singletons == 0 and self.n_groups == before):
                break
        # the groups are the other blocks
        for i in range(self.n_left):
            b = self.n_blocks + self.group[i]
            self.graph.name[self.left[i]] = b
        self.n_blocks += self.n_groups

    def refine(self):
        """Divide the states into blocks, and split these until the states of each behave equally.

        Raises:
            BudgetExceeded: the deadline has passed.
        """
        self.divide()
        if self.n_left > 0:
            with cython.gil:
                self.partition = GraphPartition(self.graph, self.account)
            self.n_blocks = self.partition.refine(self.n_blocks, None)
            with cython.gil:
                self.partition = None

    def group_left(self):
        """Group the states that are left by signature."""
        self.graph.keys.clear(self.n_left)
        table: cython.int[::1] = self.graph.keys.table
        mask: cython.Py_ssize_t = table.shape[0] - 1
        self.n_groups = 0
        for i in range(self.n_left):
            signature = self.following[i]
            slot: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, signature >> 32) & mask
            g: cython.Py_ssize_t = table[slot]
            while g >= 0 and self.following[self.groups[g].first] != signature:
                slot = (slot + 1) & mask
                g = table[slot]
            if g < 0:
                g = self.n_groups
                self.n_groups += 1
                table[slot] = cython.cast(cython.int, g)
                self.groups[g].first = i
                self.groups[g].count = 0
            self.group[i] = g
            self.groups[g].count += 1

    def name_singletons(self, n_rounds):
        """Make a block of each state that is alone in its group. The others are left, and their groups are
        numbered again. Return how many were alone.

        The signature of a state that is alone stays. A later round could give it to another state, so the
        number of the round becomes a part of it.
        """
        n_singletons: cython.Py_ssize_t = 0
        for g in range(self.n_groups):
            if self.groups[g].count == 1:
                n_singletons += 1
                self.groups[g].number = -1
            else:
                self.groups[g].number = g - n_singletons
                self.groups[g - n_singletons].count = self.groups[g].count
        kept: cython.Py_ssize_t = 0
        for i in range(self.n_left):
            s = self.left[i]
            g = self.groups[self.group[i]].number
            if g < 0:
                self.graph.name[s] = self.n_blocks
                self.n_blocks += 1
                self.signatures[s] = hashed(self.signatures[s], n_rounds)
            else:
                self.left[kept] = s
                self.group[kept] = g
                kept += 1
        self.n_left = kept
        self.n_groups -= n_singletons
        return n_singletons

    def signature(self, s):
        """Hash what a state does, with the present signatures of its successors.

        States of equal behaviour have equal signatures: ranges of bytes that lead to the same signature count
        as one, and calls in any order, and however often.
        """
        found: cython.ulonglong = self.graph.final[s] + 1
        first: cython.Py_ssize_t = -1
        last: cython.Py_ssize_t = -1
        target: cython.ulonglong = 0
        for k in range(self.graph.edge_starts[s], self.graph.edge_starts[s + 1]):
            following = self.signature_of(self.graph.edges[k].target)
            if first < 0 or following != target or self.graph.edges[k].first != last + 1:
                if first >= 0:
                    found = hashed(hashed(found, first << 8 | last), target)
                first = self.graph.edges[k].first
                target = following
            last = self.graph.edges[k].last
        if first >= 0:
            found = hashed(hashed(found, first << 8 | last), target)
        if self.graph.call_starts[s] == self.graph.call_starts[s + 1]:
            return found
        least: cython.ulonglong = cython.cast(cython.ulonglong, -1)
        most: cython.ulonglong = 0
        for k in range(self.graph.call_starts[s], self.graph.call_starts[s + 1]):
            one = hashed(self.signature_of(self.graph.calls[k].callee), self.graph.calls[k].bounds)
            one = hashed(one, self.signature_of(self.graph.calls[k].back))
            least = min(least, one)
            most = max(most, one)
        return hashed(hashed(found, least), most)

    def signature_of(self, target):
        """The signature of a target. Those that are not in the graph have their numbers."""
        return self.signatures[target] if target < self.graph.size else hashed(1, target)

    def seal(self):
        """Let each signature depend on the signatures of all states."""
        n = self.graph.size
        total: cython.ulonglong = n
        for s in range(n):
            self.following[s] = hashed(self.signatures[s], self.signature(s))
            total += self.following[s]
        for s in range(n):
            self.signatures[s] = hashed(self.following[s], total)

    def as_integer(self, s):
        """The signature of a state as a signed integer."""
        return cython.cast(cython.Py_ssize_t, self.signatures[s])
