# cython: language_level=3
# mypy: ignore-errors
"""Configurations: the sets of stacks that a text leads to, and the steps between them.

What: a `Space` has all configurations of one computation, and for each class of bytes the next configuration.
Steps are computed when they are first needed.
When: used by walks over the vocabulary (`equivalence.classes.explore`), and by classifiers, which read text
with it.
Limits: configurations are never removed; their number and the account's bytes are bounded. Two threads must
not use a space at once.

A configuration is the interned list [label, number of ports, -1 - port ..., (state, tail) ...] with distinct
states: stacks with equal tops are one entry, with a union of tails. States are listed before their calls are
followed. So the 100 stacks that may come next in a C++ expression are one state, and only calls that can read
the next byte are followed (10,000 configurations take 0.1 s; with all calls, they took 0.7 s). Configuration
0 has no stack: the last byte was not read. *Ports* are ways out of the known part of the stack (`ports.py`).

Source: the step is that of post* for pushdown systems (Bouajjani, Esparza, Maler 1997), on graph structured
stacks.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.bits import has_bit
from cython.cimports.equivalence.arrays.records import empty, zeros
from cython.cimports.equivalence.parser.automaton import Automaton, begin_of, has_moves
from cython.cimports.equivalence.parser.byte_tables import ByteTables
from cython.cimports.equivalence.parser.configurations import Configurations, stacks_of
from cython.cimports.equivalence.parser.frames import counting, relative_of, unit_of
from cython.cimports.equivalence.parser.ports import Ports
from cython.cimports.equivalence.parser.space import AFTER, BEFORE, REJECT, after
from cython.cimports.equivalence.parser.stacks import ABOVE_LABELS, Stacks
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.records import Kind
from equivalence.parser.configurations import FACTS

check_source(__name__)

OCCURRENCE = Kind("links listed", np.int32, "stamp")
LINK = Kind("tail next")


@cython.final
@cython.no_gc
@cython.cclass
class Space(Configurations):
    """All configurations of a computation, and scratch memory for a step. There are S states and B byte
    classes.

    Args:
        automaton: the grammar's automata.
        byte_tables: the byte classes.
        rank: int64[S], from `equivalence.parser.byte_tables.call_ranks`.
        absorbing: uint8[S], see `Stacks`.
        frames, configurations: initial room for each.
        most_frames, most_configurations: the maximum number of each.
        account: counts bytes, and may stop the computation.
        excess: the message of the error if a bound is exceeded.

    Attributes:
        stacks: frames and tails.
        occurrences: rows 2 s and 2 s + 1 are about state s before and after the current byte: the tails on
            which it occurs, as a linked list in `links`, and the step in which it occurred last (`stamp`).
            Field `listed` is also read from the top: the states before the byte, by rank, in the even rows,
            and those after it in the odd ones.
        links: (tail, next link). The tails of a state are united when all of them are known, because uniting
            them one by one made a new tail each time.
    """

    def __init__(
        self,
        automaton: Automaton,
        byte_tables: ByteTables,
        rank: Any,
        absorbing: Any,
        frames: cython.Py_ssize_t,
        configurations: cython.Py_ssize_t,
        most_frames: cython.Py_ssize_t = 1 << 40,
        most_configurations: cython.Py_ssize_t = 1 << 40,
        account: Account = None,
        excess: str = "too many configurations",
    ) -> None:
        account = Account() if account is None else account
        Configurations.__init__(
            self, automaton, byte_tables, configurations, most_configurations, account, excess
        )
        account.claim(24 * frames + 32 * (self.n_states + 1))
        self.stacks = Stacks(automaton, absorbing, frames, most_frames, account, excess)
        self.occurrences = zeros(OCCURRENCE, 2 * (self.n_states + 1))
        self.rank = rank
        self.links = empty(LINK, frames)
        self.returning = account.new_integers(frames + 2)
        self.ports = Ports(account)
        self.n_links = 0
        self.stamp = 0

    # ---------------------------------------------------------------- lists of states with their tails

    def new_link(self, tail, following):
        """Add a link to a tail, before another link."""
        link = self.n_links
        if link >= self.links.shape[0]:
            with cython.gil:
                self.links = self.account.bigger(self.links, 2 * link)
        self.links[link].tail = tail
        self.links[link].next = following
        self.n_links = link + 1
        return link

    def add(self, side, state, tail, n):
        """Record that a state occurs on a tail before or after the byte. Return the number of states that are
        listed on this side, given the number before."""
        at = 2 * state + side
        if self.occurrences[at].stamp != self.stamp:
            self.occurrences[at].stamp = self.stamp
            self.occurrences[2 * n + side].listed = state
            self.occurrences[at].links = self.new_link(tail, -1)
            return n + 1
        i = self.occurrences[at].links
        while i >= 0 and self.links[i].tail != tail:
            i = self.links[i].next
        if i < 0:
            self.occurrences[at].links = self.new_link(tail, self.occurrences[at].links)
        return n

    def sort_in(self, state, before, n):
        """Move the state that was listed last to its place by rank: before the states of lower rank, with
        which its calls may begin."""
        if n > before:
            rank = self.rank[state]
            at = 2 * before + BEFORE
            while at > BEFORE and self.rank[self.occurrences[at - 2].listed] < rank:
                self.occurrences[at].listed = self.occurrences[at - 2].listed
                at -= 2
            self.occurrences[at].listed = state

    def unite_links(self, head):
        """The union of a list of tails."""
        self.account.check()  # an ambiguous text may have thousands
        total: cython.Py_ssize_t = 0
        label: cython.Py_ssize_t = ABOVE_LABELS
        i: cython.Py_ssize_t = head
        while i >= 0:
            tail = self.links[i].tail
            total += self.stacks.tails.starts[tail + 1] - self.stacks.tails.starts[tail]
            label = min(label, self.stacks.label[tail])
            i = self.links[i].next
        begin = self.stacks.tails.room(total)
        n: cython.Py_ssize_t = 0
        i = head
        while i >= 0:
            tail = self.links[i].tail
            place: cython.Py_ssize_t = begin + n  # both lists are in order: read them once, from their ends
            k: cython.Py_ssize_t = self.stacks.tails.starts[tail + 1]
            while k > self.stacks.tails.starts[tail]:
                k -= 1
                frame = self.stacks.tails.pool[k]
                while place > begin and self.stacks.tails.pool[place - 1] > frame:
                    place -= 1
                if place > begin and self.stacks.tails.pool[place - 1] == frame:
                    continue
                for j in range(begin + n, place, -1):
                    self.stacks.tails.pool[j] = self.stacks.tails.pool[j - 1]
                self.stacks.tails.pool[place] = frame
                n += 1
            i = self.links[i].next
        return self.stacks.tail_of(n, label)

    def tail_of_links(self, link):
        """The union of a list of tails, which usually has one entry."""
        if self.links[link].next < 0:
            return self.links[link].tail
        return self.unite_links(link)

    # ---------------------------------------------------------------- the step

    def step(self, configuration, byte_class):
        """Compute and record the configuration after a byte of a class."""
        self.account.check()
        byte = self.byte_classes[byte_class].byte
        self.stamp += 1
        self.n_links = 0
        begin = stacks_of(self, configuration)
        end = self.configurations.starts[configuration + 1]
        n: cython.Py_ssize_t = 0  # states that can read the byte, higher ranks first
        n_next: cython.Py_ssize_t = 0
        label: cython.Py_ssize_t = ABOVE_LABELS
        for i in range(begin, end, 2):
            state = self.configurations.pool[i]
            if has_bit(self.first_bits, state, byte_class):
                before = n
                n = self.add(BEFORE, state, self.configurations.pool[i + 1], n)
                self.sort_in(state, before, n)
        i = 0
        while i < n:
            state = self.occurrences[2 * i + BEFORE].listed
            i += 1
            tail = self.tail_of_links(self.occurrences[2 * state + BEFORE].links)
            for k in range(self.automaton.edge_starts[state], self.automaton.edge_starts[state + 1]):
                if self.automaton.edges[k].first <= byte <= self.automaton.edges[k].last:
                    n_next = self.add(AFTER, self.automaton.edges[k].target, tail, n_next)
                    label = min(label, self.stacks.label[tail])
                    break
            n = self.call(state, tail, byte_class, n)
        following: cython.Py_ssize_t = REJECT
        if n_next > 0:
            following = self.close(n_next, label, 0)
        self.steps[configuration, byte_class] = cython.cast(cython.int, following)
        return following

    def call(self, state, tail, byte_class, n):
        """List the first states of those calls of a state that can read the byte. Return the number of listed
        states."""
        for k in range(self.automaton.call_starts[state], self.automaton.call_starts[state + 1]):
            start = begin_of(self.automaton, k)
            if not has_bit(self.first_bits, start, byte_class):
                continue
            top = tail
            if self.automaton.calls[k].back >= 0:
                top = self.stacks.frame(self.automaton.calls[k].back, 0, top)
            callee = self.automaton.calls[k].callee
            if callee < 0:
                top = self.stacks.frame(self.frame_of(-1 - callee), 0, top)
            before = n
            n = self.add(BEFORE, start, top, n)
            self.sort_in(start, before, n)
        return n

    def frame_of(self, unit):
        """The state of the frame that a counted rule pushes."""
        return counting(self.automaton.limits[unit].frame if self.automaton.is_limited(unit) else unit, 0)

    def push_returning(self, tail, n):
        """Add a tail to those to which rules return, unless it was added before. Return their number."""
        if self.stacks.seen[tail] == self.stamp:
            return n
        self.stacks.seen[tail] = self.stamp
        if n >= self.returning.shape[0]:
            with cython.gil:
                self.grow_returning()
        self.returning[n] = tail
        return n + 1

    def close(self, n, label, n_returning):
        """The configuration of the n states that are listed after the byte, and of the states that they and
        the returning tails return to."""
        self.ports.count = 0
        for i in range(n_returning):
            self.stacks.seen[self.returning[i]] = self.stamp
        for i in range(n):
            state = self.occurrences[2 * i + AFTER].listed
            if self.automaton.final[state]:
                link = self.occurrences[2 * state + AFTER].links
                while link >= 0:
                    n_returning = self.push_returning(self.links[link].tail, n_returning)
                    link = self.links[link].next
        while n_returning > 0:
            self.account.check()
            n_returning -= 1
            tail = self.returning[n_returning]
            for k in range(self.stacks.tails.starts[tail], self.stacks.tails.starts[tail + 1]):
                frame = self.stacks.tails.pool[k]
                state = self.stacks.frames[frame].state
                below = self.stacks.frames[frame].tail
                alone = self.stacks.frames[frame].singleton
                if alone != tail:
                    if self.stacks.seen[alone] == self.stamp:
                        continue  # ambiguous texts have the same frame in many tails
                    self.stacks.seen[alone] = self.stamp
                if frame == 0:
                    self.ports.insert(-1)
                elif state >= 0:
                    n = self.add(AFTER, state, below, n)
                    if self.automaton.final[state]:
                        n_returning = self.push_returning(below, n_returning)
                else:
                    count = self.stacks.frames[frame].count + 1
                    unit = unit_of(state)
                    least = self.automaton.counted[unit].least
                    if self.automaton.is_limited(unit):
                        n = self.go_on(unit, count, below, n)
                        if self.automaton.limits[unit].accepts and count >= least:
                            n_returning = self.push_returning(below, n_returning)
                        continue
                    is_relative = relative_of(state)
                    most = self.automaton.counted[unit].most
                    if is_relative:
                        most = self.automaton.counted[unit].relative
                    if most < 0:
                        count = min(count, least)
                    if most < 0 or count < most:
                        top = self.stacks.frame(state, count, below)
                        n = self.add(AFTER, self.automaton.counted[unit].start, top, n)
                    if is_relative:
                        self.ports.insert(-1 - count)
                    elif count >= least:
                        n_returning = self.push_returning(below, n_returning)
        return self.listed(n, label)

    def go_on(self, unit, count, below, n):
        """List the units that may be next in a counted automaton after an edge, `count` units in all. Return
        the number of listed states, given the number before."""
        for k in range(self.automaton.limits[unit].first, self.automaton.limits[unit].end):
            edge = self.automaton.following[k]
            if count <= self.automaton.limits[edge].room:
                top = self.stacks.frame(self.frame_of(edge), count, below)
                n = self.add(AFTER, self.automaton.counted[edge].start, top, n)
        return n

    def listed(self, n, label):
        """The configuration of the states that are listed after the byte, in order, without those that can
        only return."""
        n_ports = self.ports.count
        first = self.configurations.room(2 + n_ports + 2 * n)
        begin = first + 2 + n_ports
        end = begin
        self.configurations.pool[first] = label
        self.configurations.pool[first + 1] = n_ports
        for i in range(n_ports):
            self.configurations.pool[first + 2 + i] = self.ports.numbers[i]
        for i in range(n):
            state = self.occurrences[2 * i + AFTER].listed
            if not has_moves(self.automaton, state):
                continue
            at = end
            while at > begin and self.configurations.pool[at - 2] > state:
                self.configurations.pool[at] = self.configurations.pool[at - 2]
                self.configurations.pool[at + 1] = self.configurations.pool[at - 1]
                at -= 2
            self.configurations.pool[at] = state
            self.configurations.pool[at + 1] = self.tail_of_links(self.occurrences[2 * state + AFTER].links)
            end += 2
        return self.put(end - first)

    # ---------------------------------------------------------------- where walks begin

    def context(self, symbol):
        """The configuration of a state (or of counted rule k if it is -1 - k, after one unit and an unknown
        number of earlier units) on an unknown stack."""
        self.stamp += 1
        self.n_links = 0
        if symbol < 0:
            self.returning[0] = self.stacks.frame(counting(-1 - symbol, 1), 0, 0)
            return self.close(0, 0, 1)
        self.add(AFTER, symbol, 0, 0)
        return self.close(1, 0, 0)

    def after_unit(self, unit, count):
        """The configuration after a unit of a counted rule and `count` earlier units, on an unknown stack."""
        self.stamp += 1
        self.n_links = 0
        self.returning[0] = self.stacks.frame(counting(unit, 0), count, 0)
        return self.close(0, 0, 1)

    # ---------------------------------------------------------------- room

    def grow_returning(self):
        """Make room for more returning tails."""
        self.returning = self.account.bigger(self.returning, 2 * self.returning.shape[0])

    # ---------------------------------------------------------------- from Python

    def context_of(self, symbol: cython.Py_ssize_t) -> int:
        """`context`, for Python.

        Args:
            symbol: a state, or -1 - k for counted rule k.
        """
        return self.context(symbol)

    def following(self, configuration: cython.Py_ssize_t, byte_class: cython.Py_ssize_t) -> int:
        """The configuration after a byte of a class, for Python; 0 if it cannot be read.

        Args:
            configuration: a configuration of this space.
            byte_class: a class, from 0 to `n_classes` - 1.
        """
        return after(self, configuration, byte_class)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that grow."""
        own = self.steps.shape[0] * (4 * self.n_classes + FACTS.size) + 16 * self.links.shape[0]
        return own + 8 * self.returning.shape[0] + self.configurations.nbytes + self.stacks.nbytes
