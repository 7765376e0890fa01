# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Below sets: what may lie below the states of each region.

What: `BelowSets` collects the sets of all regions, and lets regions with equal sets share one. Section 3 of
docs/theory.md has the definitions.
When: token classes need them; `equivalence.network.contexts` reads the sets.
Limits: stacks are over-approximated: the set of a region is the union of what all its callers leave below it.
It includes what lies below the regions that pass on to it, as a tail call does. Chains of these therefore
make sets whose total length is the square of the chain's; a bound applies to that.

Every index is always checked. This adds a seventh to the time of this module.

A symbol is a state, or -1 - k for the frame of counted class k.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.network.regions import OUTSIDE, TAIL_CALL, Regions
from cython.cimports.equivalence.network.sorted_set import SortedSet
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.dynamic_arrays import bigger, filled
from equivalence.arrays.grouping import grouped
from equivalence.network.sizes import too_large

check_source(__name__)

MEMBERS_A_STATE = cython.declare(cython.Py_ssize_t, 16)
# most members of all below sets together, for each allowed state: about 40 bytes each


@cython.final
@cython.cclass
class BelowSets:
    """What may lie below each region: the states to which its callers return, or below a tail call, what lies
    below the caller; below the unit of a counted rule, its frame.

    Args:
        regions: the regions.
        max_states: bound on the states of automata, and thereby on the size of these sets.
        stop: says when to stop.

    Attributes:
        pairs: the pairs of `Regions`.
        link_starts, links: the links of each region, and where they begin.
        pair_of_link: the pair of each link.
        set_starts, members: the pairs of each region, and where they begin.
        bottom: uint8[regions], whether nothing may lie below.
        sets: the sets as lists [bottom, symbol, set below it, ...].
        set_of_region: int64[regions].

    Raises:
        BudgetExceeded: the sets have more than `MEMBERS_A_STATE` members for each state, or the deadline has
            passed.
    """

    def __init__(self, regions: Regions, max_states, stop) -> None:
        self.regions, self.max_states = regions, max_states
        self.account = Account(stop)
        self.total = regions.n_regions
        self.pairs = regions.pairs
        links = regions.links.lists()[1].reshape(-1, 2)
        self.pair_of_link = links[:, 1].copy()
        self.link_starts, self.links = grouped(links[:, 0].astype(np.int32), self.total)
        self.set_starts = np.empty(self.total + 1, np.int64)
        self.bottom = np.zeros(self.total, np.uint8)
        self.members = np.empty(2 * len(links) + 64, np.int64)
        self.n_members = 0
        self.region_seen = filled(self.total, -1)
        self.pair_seen = filled(regions.pairs.count, -1)
        self.queue = np.empty(self.total, np.int64)
        with cython.nogil:
            for region in range(self.total):
                self.set_starts[region] = self.n_members
                self.gather(region)
            self.set_starts[self.total] = self.n_members

    def gather(self, region):
        """Collect the pairs of a region, and those of the regions that pass on to it, directly or
        indirectly."""
        self.queue[0] = region
        self.region_seen[region] = region
        head: cython.Py_ssize_t = 0
        tail: cython.Py_ssize_t = 1
        while head < tail:
            r = self.queue[head]
            head += 1
            self.account.check()
            if self.n_members > MEMBERS_A_STATE * self.max_states:
                with cython.gil:
                    raise too_large(self.max_states)
            if r == OUTSIDE:
                self.bottom[region] = 1
            first = self.link_starts[r]
            end = self.link_starts[r + 1]
            if self.n_members + end - first > self.members.shape[0]:
                with cython.gil:
                    self.members = bigger(self.members, 2 * (self.n_members + end - first), self.n_members)
            for k in range(first, end):
                p = self.pair_of_link[self.links[k]]
                if self.pair_seen[p] == region:
                    continue
                self.pair_seen[p] = region
                below = self.pairs.pool[self.pairs.starts[p] + 1]
                if self.pairs.pool[self.pairs.starts[p]] < TAIL_CALL:
                    self.members[self.n_members] = p
                    self.n_members += 1
                elif self.region_seen[below] != region:
                    self.region_seen[below] = region
                    self.queue[tail] = below
                    tail += 1

    def share(self) -> None:
        """Let regions with equal sets share one. Then sets that differ only in these become equal, too.

        No more is shared than follows from that: regions begin separate, and rounds are repeated until
        nothing changes (two rounds for most grammars, as callers are numbered before callees).

        Raises:
            BudgetExceeded: the deadline has passed.
        """
        self.codes = SortedSet()
        self.number = np.arange(self.total)
        self.set_of_region = np.empty(self.total, np.int64)
        most: cython.Py_ssize_t = self.total + 1
        self.example = np.empty(most, np.int64)
        self.sets = Interned(most, 1 + 2 * self.n_members // most)
        changed: cython.int = 1
        with cython.nogil:
            while changed:
                self.sets.clear(most)
                changed = self.share_round()
            n_sets = self.sets.count
            for i in range(n_sets):
                self.set_of_region[self.example[i]] = i
            for region in range(self.total):
                self.number[region] = self.set_of_region[self.number[region]]
            for region in range(self.total):
                self.set_of_region[region] = self.number[region]
            self.sets.clear(most)
            for i in range(n_sets):
                self.account.check()
                self.intern_set(self.example[i])

    def share_round(self):
        """Let each region share the set of the first region with an equal set. Return whether anything
        changed."""
        changed: cython.int = 0
        for region in range(self.total):
            self.account.check()
            known = self.sets.count
            found = self.intern_set(region)
            if found == known:
                self.example[found] = region
            if self.number[region] != self.example[found]:
                self.number[region] = self.example[found]
                changed = 1
        return changed

    def intern_set(self, region):
        """The number of a region's set as a sorted list, in which the region below each symbol is given by
        its `number`."""
        n_frames: cython.Py_ssize_t = self.regions.n_frames
        self.codes.count = 0
        for k in range(self.set_starts[region], self.set_starts[region + 1]):
            begin = self.pairs.starts[self.members[k]]
            symbol = self.pairs.pool[begin] + n_frames
            self.codes.add(symbol * self.total + self.number[self.pairs.pool[begin + 1]])
        length = 1 + 2 * self.codes.sort()
        begin = self.sets.room(length)
        self.sets.pool[begin] = self.bottom[region]
        for i in range(self.codes.count):
            self.sets.pool[begin + 1 + 2 * i] = self.codes.values[i] // self.total - n_frames
            self.sets.pool[begin + 2 + 2 * i] = self.codes.values[i] % self.total
        return self.sets.intern(length)

    def flat(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """The sets in the form of `Network`: (starts, symbols, set below each, bottom)."""
        starts, pool = self.sets.lists()
        is_member = np.ones(len(pool), bool)
        is_member[starts[: self.sets.count]] = False
        members = pool[is_member].reshape(-1, 2)
        bottom = pool[starts[: self.sets.count]] > 0
        return (starts - np.arange(len(starts))) >> 1, members[:, 0].copy(), members[:, 1].copy(), bottom
