# cython: language_level=3
# mypy: ignore-errors
"""Counters far from their bounds: counts that the rest of a token cannot distinguish.

What: a configuration may have the frame of a counter below the top of its stacks. `Counters` finds a
configuration with a smaller count that reads the same texts of bounded length. The count does not matter if
it is far below the minimum, or if it is at least the minimum and far below the maximum.
When: used by walks over the vocabulary. A string of at most 2,048 characters is a new configuration after
each character, so each walk entered all 300,000 nodes of a trie: 6 ms for each length that a schema names.
With smaller counts, the configuration stays the same, and subtrees are skipped.
Limits: only frames directly below a state, one on each stack; other configurations are unchanged.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import zeros
from cython.cimports.equivalence.parser.character_loops import CharacterLoops
from cython.cimports.equivalence.parser.frames import relative_of, unit_of
from cython.cimports.equivalence.parser.space import Space
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.counter_abstraction import ANY, Known, room_of, smaller_count

from equivalence.arrays.records import Kind

check_source(__name__)

KNOWN = Kind("replaced reach loops", np.int32)

FIRST_ROWS = cython.declare(cython.Py_ssize_t, 64)

UNKNOWN = cython.declare(cython.int, -1)


@cython.no_gc
@cython.cclass
class Counters(CharacterLoops):
    """The known facts about configurations with counters.

    Args:
        space: the space of the configurations.

    Attributes:
        any: whether the grammar has counters at all.
        known: for each configuration, the one with smaller counts, or itself (-1: not known yet); both read
            the same texts of fewer bytes than `reach`; and if the facts say that the configuration stays the
            same, it does so for fewer bytes than `loops`. Empty if there are no counters.
        room: the reach that is being computed.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.any = space.automaton.counted.shape[0] > 0
        self.known = zeros(KNOWN, 0)
        if self.any:
            self.grow()

    def with_smaller_count(self, configuration, height):
        """A configuration that reads the same texts of at most `height` bytes as this one."""
        if configuration >= self.known.shape[0]:
            with cython.gil:
                self.grow()
        if self.known[configuration].replaced == UNKNOWN:
            self.find_replacement(configuration)
        if height < self.known[configuration].reach:
            return self.known[configuration].replaced
        return configuration

    def find_replacement(self, configuration):
        """Find the replacement of a configuration."""
        self.room = ANY
        changed: cython.bint = False
        begin = self.space.configurations.starts[configuration]
        length = self.space.configurations.starts[configuration + 1] - begin
        at = self.space.configurations.room(length)
        first: cython.Py_ssize_t = 2 + self.space.configurations.pool[begin + 1]
        for k in range(length):
            value = self.space.configurations.pool[begin + k]
            if k > first and (k - first) & 1:
                tail = self.tail_with_smaller_count(value)
                if tail != value:
                    changed = True
                    value = tail
            self.space.configurations.pool[at + k] = value
        found = self.space.put(length) if changed else configuration
        if found >= self.known.shape[0]:
            with cython.gil:
                self.grow()
        self.known[configuration].replaced = cython.cast(cython.int, found)
        self.known[configuration].reach = cython.cast(cython.int, self.room)

    def tail_with_smaller_count(self, tail):
        """Return the tail with a smaller count, or the tail itself. If the count is smaller, reduce `room` to
        the reach below which both read the same.

        Each unit has at least one byte. So within a text of h bytes, a count c becomes at most c + h. Each
        value from c + 1 on is compared with the minimum (may the rule return?) and the maximum (may it go
        on?).
        """
        where = self.space.stacks.tails.starts[tail]
        if self.space.stacks.tails.starts[tail + 1] != where + 1:
            return tail
        frame = self.space.stacks.tails.pool[where]
        if frame == 0 or self.space.stacks.frames[frame].state >= 0:
            return tail
        state = self.space.stacks.frames[frame].state
        if relative_of(state):  # counted from an unknown number
            return tail
        unit = unit_of(state)
        count = self.space.stacks.frames[frame].count
        least = self.space.automaton.counted[unit].least
        most = self.space.automaton.counted[unit].most
        fewer = smaller_count(count, least, most, 1)
        if fewer == count:
            return tail
        self.room = min(self.room, room_of(count, least, most))
        return self.space.stacks.frame(state, fewer, self.space.stacks.frames[frame].tail)

    def is_back(self, following, configuration):
        """See `CharacterLoops`. A configuration that differs only in its counts is the same."""
        if following == configuration:
            return True
        if not self.any or self.with_smaller_count(following, 0) != configuration:
            return False
        loops = min(self.known[configuration].loops, self.known[following].reach)
        self.known[configuration].loops = loops
        return True

    def grow(self):
        """Make room for as many configurations as the space has room for."""
        old: cython.Py_ssize_t = self.known.shape[0]
        size: cython.Py_ssize_t = max(FIRST_ROWS, self.space.steps.shape[0], 2 * old)
        known: Known[::1] = self.space.account.bigger(self.known, size)
        for i in range(old, size):
            known[i].replaced = UNKNOWN
            known[i].reach = known[i].loops = ANY
        self.known = known
