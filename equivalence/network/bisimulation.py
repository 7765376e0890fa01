# cython: language_level=3
# mypy: ignore-errors
"""The coarsest bisimulation of a graph: states with equal behaviour are in one block.

What: `Refinement` starts with blocks of states that do the same for a few steps (`signatures.py`), and splits
blocks until the states of each behave equally.
When: for each larger component of `equivalence.network.component_merging`, and for all classes if its result
is not certain.
Limits: indices are not checked.
Source: partition refinement that processes all but the largest part (Hopcroft 1971; Paige and Tarjan 1987).

Each round examines the states with a successor that moved to another block. All states of one block behaved
equally before. The states that are not examined still do. Each examined state leads to a new block, to which
the states that are not examined do not lead. So a block is split into the states that are not examined, and
groups of examined states with equal keys. The largest of these parts stays, so a state moves at most log n
times.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.network.graph import Graph, n_successors, successor
from cython.cimports.equivalence.network.signatures import Signatures
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import record_type

check_source(__name__)

STATE = record_type("place turn")
BLOCK = record_type("first count looked placed largest")
GROUP = record_type("block count end")
LOOKED = record_type("state group")


@cython.final
@cython.cclass
class Refinement:
    """Blocks of states, which are split into smaller ones.

    Args:
        graph: its names become the blocks.
        account: says when to stop.

    Attributes:
        signatures: makes the first blocks.
        predecessors: the predecessors of each state: those that lead to it by an edge, a call or a return.
        members: the states, block by block.
        states: for each state, its position among the members, and the round in which it is examined next.
        blocks: where a block's members begin, and their number; during a round also how many of them are
            examined, how many of these were moved to its front, and the largest of their groups; -1 if more
            states are not examined than the largest group has.
        n_blocks: number of blocks.
        queue: the states that are examined in this round, and the group of each.
        groups: examined states of one block with equal behaviour: the block, their number, and the position
            of the last one among the members.
        moved: blocks that are new in this round.
    """

    def __init__(self, graph: Graph, account: Account) -> None:
        self.graph, self.account = graph, account
        self.signatures = Signatures(graph, account)
        self.predecessor_starts = self.predecessors = self.members = self.moved = np.empty(0, np.int64)
        self.states = np.empty(0, STATE)
        self.blocks = np.empty(0, BLOCK)
        self.queue = np.empty(0, LOOKED)
        self.groups = np.empty(0, GROUP)

    def grow(self, room):
        """Make room for `room` states."""
        self.predecessor_starts = np.empty(room + 2, np.int64)
        self.states = np.empty(room, STATE)
        self.members = np.empty(room, np.int64)
        self.blocks = np.empty(room, BLOCK)
        self.queue = np.empty(room, LOOKED)
        self.groups = np.empty(room, GROUP)
        self.moved = np.empty(room, np.int64)

    def prepare(self):
        """Start with the current content of the graph."""
        n: cython.Py_ssize_t = self.graph.size
        n_predecessors: cython.Py_ssize_t = self.graph.edges.shape[0] + 2 * self.graph.calls.shape[0]
        if n > self.members.shape[0]:
            with cython.gil:
                self.grow(n + n // 2)
        if n_predecessors > self.predecessors.shape[0]:
            with cython.gil:
                self.predecessors = np.empty(n_predecessors + n_predecessors // 2, np.int64)
        self.n_blocks = 0
        self.n_queue = 0
        self.n_groups = 0
        self.n_moved = 0
        self.round = 0

    def refine(self):
        """Split the blocks until the states of each behave equally.

        Raises:
            BudgetExceeded: the deadline has passed.
        """
        self.prepare()
        self.signatures.divide()
        self.n_blocks = self.signatures.n_blocks
        if not self.signatures.is_divided:
            self.find_predecessors()
            self.begin()
        while self.n_queue > 0:
            self.round += 1
            self.graph.keys.clear(self.n_queue)
            self.drop_singletons()
            self.group_queue()
            self.choose_largest()
            self.order_members()
            self.n_moved = 0
            self.split_rests()
            self.split_groups()
            self.name_moved()

    def find_predecessors(self):
        """Find the predecessors of each state. The row of a state ends where the next one starts."""
        n = self.graph.size
        for s in range(n + 2):
            self.predecessor_starts[s] = 0
        # targets that are not in the graph need none
        for s in range(n):
            for i in range(n_successors(self.graph, s)):
                target = successor(self.graph, s, i)
                if target < n:
                    self.predecessor_starts[target + 2] += 1
        for s in range(n):
            self.predecessor_starts[s + 2] += self.predecessor_starts[s + 1]
        for s in range(n):
            for i in range(n_successors(self.graph, s)):
                target = successor(self.graph, s, i)
                if target < n:
                    self.predecessors[self.predecessor_starts[target + 1]] = s
                    self.predecessor_starts[target + 1] += 1

    def begin(self):
        """Order the states by block, and queue those that are not alone in their blocks."""
        n = self.graph.size
        at: cython.Py_ssize_t = 0
        for b in range(self.n_blocks):
            self.blocks[b].count = 0
        for s in range(n):
            self.blocks[self.graph.name[s]].count += 1
        for b in range(self.n_blocks):
            self.blocks[b].first = at
            at += self.blocks[b].count
            self.blocks[b].placed = 0
        for s in range(n):
            b = self.graph.name[s]
            at = self.blocks[b].first + self.blocks[b].placed
            self.blocks[b].placed += 1
            self.members[at] = s
            self.states[s].place = at
            self.states[s].turn = 0
        for i in range(self.signatures.n_left):
            self.queue[i].state = self.signatures.left[i]
        self.n_queue = self.signatures.n_left

    def add_block(self, first, count):
        """Add a block of members that were in another one."""
        self.blocks[self.n_blocks].first = first
        self.blocks[self.n_blocks].count = count
        self.moved[self.n_moved] = self.n_blocks
        self.n_moved += 1
        self.n_blocks += 1

    def drop_singletons(self):
        """Remove states that are alone in their blocks: nothing can split these."""
        kept: cython.Py_ssize_t = 0
        for i in range(self.n_queue):
            if self.blocks[self.graph.name[self.queue[i].state]].count > 1:
                self.queue[kept].state = self.queue[i].state
                kept += 1
        self.n_queue = kept

    def group_queue(self):
        """Group the examined states by block and key."""
        for i in range(self.n_queue):
            self.account.check()
            s = self.queue[i].state
            b = self.graph.name[s]
            length = self.graph.write_key(s, -1)
            self.graph.keys.pool[self.graph.keys.used + length] = b
            known = self.graph.keys.count
            g = self.graph.keys.intern(length + 1)
            self.queue[i].group = g
            if g == known:
                self.groups[g].block = b
                self.groups[g].count = 0
                self.blocks[b].looked = 0
                self.blocks[b].placed = 0
                self.blocks[b].largest = -1
            self.groups[g].count += 1
        self.n_groups = self.graph.keys.count

    def choose_largest(self):
        """Find the position of each group among the members of its block, and the largest part of each
        block."""
        for g in range(self.n_groups):
            b = self.groups[g].block
            self.groups[g].end = self.blocks[b].first + self.blocks[b].looked
            self.blocks[b].looked += self.groups[g].count
        for g in range(self.n_groups):
            b = self.groups[g].block
            largest = self.blocks[b].largest
            count = (
                self.blocks[b].count - self.blocks[b].looked if largest < 0 else self.groups[largest].count
            )
            if self.groups[g].count > count:
                self.blocks[b].largest = g

    def order_members(self):
        """Move the examined states to the front of their block, and order them by group there."""
        for i in range(self.n_queue):
            s = self.queue[i].state
            b = self.graph.name[s]
            at = self.blocks[b].first + self.blocks[b].placed
            self.blocks[b].placed += 1
            other = self.members[at]
            self.members[self.states[s].place] = other
            self.states[other].place = self.states[s].place
            self.members[at] = s
            self.states[s].place = at
        for i in range(self.n_queue):
            g = self.queue[i].group
            at = self.groups[g].end
            self.groups[g].end = at + 1
            self.members[at] = self.queue[i].state
            self.states[self.queue[i].state].place = at

    def split_rests(self):
        """Move the states of a block that are not examined, unless they are the largest part."""
        for g in range(self.n_groups):
            b = self.groups[g].block
            looked = self.blocks[b].looked
            if looked < 0:
                continue  # another of its groups did it
            rest = self.blocks[b].count - looked
            if self.blocks[b].largest < 0:
                self.blocks[b].first += looked
                self.blocks[b].count = rest
            elif rest > 0:
                self.add_block(self.blocks[b].first + looked, rest)
            self.blocks[b].looked = -1

    def split_groups(self):
        """Move each group, unless it is the largest part of its block."""
        for g in range(self.n_groups):
            b = self.groups[g].block
            first = self.groups[g].end - self.groups[g].count
            if self.blocks[b].largest == g:
                self.blocks[b].first = first
                self.blocks[b].count = self.groups[g].count
            else:
                self.add_block(first, self.groups[g].count)

    def name_moved(self):
        """Name the states that have moved after their blocks, and queue the states that lead to them."""
        self.n_queue = 0
        for i in range(self.n_moved):
            b = self.moved[i]
            for at in range(self.blocks[b].first, self.blocks[b].first + self.blocks[b].count):
                s = self.members[at]
                self.graph.name[s] = b
                for k in range(self.predecessor_starts[s], self.predecessor_starts[s + 1]):
                    predecessor = self.predecessors[k]
                    if self.states[predecessor].turn != self.round:
                        self.states[predecessor].turn = self.round
                        self.queue[self.n_queue].state = predecessor
                        self.n_queue += 1
