# cython: language_level=3
# mypy: ignore-errors
"""Reading a stack from the top: the classes that may come next on some stack of a configuration.

What: the states on top name the classes that they read alone, and the pending sets that they leave. These are
read on the frames below, and so on. What a pending set reads on the stacks of a tail is cached: stacks share
their tails, and a step changes only a few frames.
When: once for each configuration whose mask is needed (`hybrid.classifier.store`).
Limits: nothing is deleted. Growth is charged to the account.

Rejected: numbers for all unions that lead to a mask. Those for the stacks of one configuration hardly ever
occur again, so they are computed word by word. Only further down, where tails are shared, unions of two masks
are looked up.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.pairs import Pairs
from cython.cimports.equivalence.arrays.records import zeros
from cython.cimports.equivalence.parser.configurations import stacks_of
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.walker import Walker

from equivalence.arrays.records import Kind

check_source(__name__)

LEVEL = Kind("read next mask")

FIRST_UNIONS = 64
"""Unions of two masks that fit at first: a first mask needs hardly any."""


@cython.final
@cython.no_gc
@cython.cclass
class Reader:
    """Reads the stacks of a space.

    Args:
        walker: reads single states and frames.
        reads: initial room for what pending sets read on tails, a power of two.

    Attributes:
        reads: pairs (pending set, tail), and for each the mask of what the set reads on the tail's stacks.
        unions: pairs of masks, and for each the union of both.
        levels: the numbers of the pairs that are being read, the deepest last; for each, which frame is next,
            and the mask so far.
        masks: for each configuration, twice the number of its mask, plus 1 if the text may end there; -1:
            not known yet.
        only, row: the mask that is being computed: its number while it equals the mask of one part, later
            -1; and its words.
    """

    def __init__(self, walker: Walker, reads: cython.Py_ssize_t) -> None:
        self.walker = walker
        self.space = walker.space
        self.summaries = walker.summaries
        configurations: cython.Py_ssize_t = self.space.steps.shape[0]
        self.space.account.claim(4 * configurations + 8 * self.summaries.n_words)
        self.reads = Pairs(reads, self.space.account)
        self.unions = Pairs(FIRST_UNIONS, self.space.account)
        self.levels = zeros(LEVEL, 16)
        account: Account = self.space.account
        self.masks = account.new_ints(configurations)
        self.masks[:] = -1
        self.row = account.new_integers(self.summaries.n_words)
        self.row[:] = 0

    # ---------------------------------------------------------------- configurations

    def mask_of(self, configuration):
        """Twice the number of the mask of classes that some stack of a configuration can read, plus 1 if
        the text so far is complete."""
        if configuration < self.masks.shape[0] and self.masks[configuration] >= 0:
            return self.masks[configuration]
        return self.find(configuration)

    def find(self, configuration):
        """Compute and store the mask of a configuration."""
        end = self.space.configurations.starts[configuration + 1]
        self.only = 0
        for i in range(stacks_of(self.space, configuration), end, 2):
            state = self.space.configurations.pool[i]
            if self.summaries.first[state].mask < 0:
                self.walker.read_top(state)
            self.add(self.mask_on(state, self.space.configurations.pool[i + 1]))
            self.add(self.summaries.first[state].mask)
        mask = self.only
        if mask < 0:
            at = self.summaries.masks.room(self.summaries.n_words)
            for w in range(self.summaries.n_words):
                self.summaries.masks.pool[at + w] = self.row[w]
            mask = self.summaries.masks.intern(self.summaries.n_words)
        found = 2 * mask + (1 if self.space.facts[configuration].n_ports > 0 else 0)
        if configuration >= self.masks.shape[0]:
            with cython.gil:
                self.grow_masks()
        self.masks[configuration] = cython.cast(cython.int, found)
        return found

    def add(self, mask):
        """Add another mask to the mask that is being computed."""
        if mask == 0 or mask == self.only:
            return
        if self.only == 0:
            self.only = mask
            return
        if self.only > 0:
            for w in range(self.row.shape[0]):
                self.row[w] = 0
            self.add_row(self.only)
            self.only = -1
        self.add_row(mask)

    def add_row(self, mask):
        """Add the words of another mask to those of the mask that is being computed."""
        begin = self.summaries.masks.starts[mask]
        for w in range(self.row.shape[0]):
            self.row[w] |= self.summaries.masks.pool[begin + w]

    def mask_on(self, state, tail):
        """The mask of what a state leaves pending, on the stacks of the tail below it."""
        pending: cython.Py_ssize_t = self.summaries.first[state].pending
        if pending == 0 or tail == 0:
            return 0
        number = self.reads.number(pending, tail)
        mask: cython.Py_ssize_t = self.reads.rows[number].result
        return mask if mask >= 0 else self.read(number)

    # ---------------------------------------------------------------- tails

    def read(self, number):
        """The mask of what a pending set reads on the stacks of a tail, given the number of the pair.

        Tails get strictly smaller at each level, so this ends.
        """
        depth: cython.Py_ssize_t = 0
        self.enter(0, number)
        while True:
            at = self.levels[depth].next
            number = self.levels[depth].read
            if at == self.space.stacks.tails.starts[self.reads.rows[number].second + 1]:
                mask = self.levels[depth].mask
                self.reads.rows[number].result = cython.cast(cython.int, mask)
                if depth == 0:
                    return mask
                depth -= 1
                self.levels[depth].mask = self.united(self.levels[depth].mask, mask)
                continue
            self.levels[depth].next = at + 1
            frame = self.space.stacks.tails.pool[at]
            if frame != 0:
                depth = self.read_frame(depth, frame)

    def read_frame(self, depth, frame):
        """Read the set of a level on one of its tail's frames. Return the next level."""
        pending: cython.Py_ssize_t = self.reads.rows[self.levels[depth].read].first
        symbol = self.space.stacks.frames[frame].state
        if symbol < 0:
            symbol = self.walker.symbol_of(symbol, self.space.stacks.frames[frame].count)
        pair = self.walker.summary(pending, symbol)
        mask: cython.Py_ssize_t = self.summaries.pairs.rows[pair].result
        left: cython.Py_ssize_t = self.summaries.pairs.rows[pair].rest
        if mask != 0:
            self.levels[depth].mask = self.united(self.levels[depth].mask, mask)
        deeper = self.space.stacks.frames[frame].tail
        if left == 0 or deeper == 0:
            return depth
        number = self.reads.number(left, deeper)
        mask = self.reads.rows[number].result
        if mask < 0:
            self.enter(depth + 1, number)
            return depth + 1
        self.levels[depth].mask = self.united(self.levels[depth].mask, mask)
        return depth

    def enter(self, depth, number):
        """Start reading a pending set on a tail, given the number of the pair."""
        if depth == self.levels.shape[0]:
            with cython.gil:
                self.levels = self.space.account.bigger(self.levels, 2 * depth)
        self.levels[depth].read = number
        self.levels[depth].next = self.space.stacks.tails.starts[self.reads.rows[number].second]
        self.levels[depth].mask = 0

    # ---------------------------------------------------------------- unions

    def united(self, first, second):
        """The number of the union of two masks.

        Stacks that differ far below need the same unions again: to look up a pair takes 5 ns, to unite and
        intern 50 words 200 ns.
        """
        if second == 0 or first == second:
            return first
        if first == 0:
            return second
        pair = self.unions.number(first, second)
        if self.unions.rows[pair].result < 0:
            mask = self.summaries.united(first, second)
            self.unions.rows[pair].result = cython.cast(cython.int, mask)
        return self.unions.rows[pair].result

    # ---------------------------------------------------------------- room

    def grow_masks(self):
        """Make room for the masks of as many configurations as the space has room for."""
        old: cython.Py_ssize_t = self.masks.shape[0]
        self.masks = self.space.account.bigger(self.masks, self.space.steps.shape[0])
        self.masks[old:] = -1
