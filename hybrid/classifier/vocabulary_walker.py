# cython: language_level=3
# mypy: ignore-errors
"""Walks over the vocabulary's trie, which are shared with other grammars if they are long.

What: a `VocabularyWalker` is a `Walker` without classes. Its masks have a bit for each piece of the
vocabulary: what one walk has read.
When: for all masks of a grammar that has no classes. A walk that turns out to be long is shared with other
grammars, because its result depends only on what the state can do (`hybrid.classifier.canonical_form`).
Limits: those of `Walker`. It trusts the tokens of its groups.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.bits import has_bit
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.parser.space import Space
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.walks.token_texts import TokenTexts
from cython.cimports.hybrid.classifier.canonical_form import CanonicalForm
from cython.cimports.hybrid.classifier.summaries import Summaries
from cython.cimports.hybrid.classifier.walk_output import WalkOutput
from cython.cimports.hybrid.classifier.walker import Walker

from equivalence.walks.read import Read
from hybrid.classifier.repeat_units import unit_reads, unit_table

check_source(__name__)

MOST_PIECES, FEW_PIECES = 2048, 512
"""The maximum number of pieces of one session, unless the grammar has more states than that. The documents of
480 real JSON schemas need 26 pieces at the median, and 340 at most. Each mask has a bit for each piece.
"""

FIRST_PIECES, FIRST_WIDTH = 8, 16
"""Initial room for pieces, and for the numbers of each: most are cached walks or a few ranges."""

MANY_NODES = cython.declare(cython.Py_ssize_t, 20_000)
"""What may follow is computed when walks have entered this many nodes, which takes 1 ms. Most JSON schemas
never enter so many; computing it at once would make their first masks 7% slower. For C-like documents it
saves a quarter of the time."""

ALL_BYTES = cython.declare(cython.Py_ssize_t, -1)

WIDE_BYTES = cython.declare(cython.Py_ssize_t, 10)
WIDE_NODES = cython.declare(cython.Py_ssize_t, 64)
"""A walk is probably long if a state can read this many bytes, or if this many nodes are read on a symbol.
The smallest common set of bytes of this kind is a digit."""

TOO_LONG = cython.declare(cython.Py_ssize_t, -2)
ANY_LENGTH = cython.declare(cython.Py_ssize_t, 1 << 62)


@cython.no_gc
@cython.cclass
class VocabularyWalker(Walker):
    """Reads the tokens of a vocabulary.

    Args:
        space: the stacks.
        summaries: the summaries that are extended; their masks have a bit for each piece.
        fixed: the trie, and what may follow (`hybrid.classifier.walk_tables.WalkTables`), which is only
            computed when walks have entered enough nodes to make it worthwhile.

    Attributes:
        ranges: see `WalkOutput`; or only -1 - the number of a cached walk.
        pieces: the ranges of each piece.
        filters: whether it is known what may follow below each state.
        token_starts, tokens: the ids of each group (`equivalence.runs.ByteOrder`).
        walk_cache: the cached walks of other grammars' states and frames (`equivalence.walks.walk_cache`).
        contents: makes the keys of the cache; None until it is needed.
        reads, number_of_read: the cached walks that this walker uses, and the number of each.
        key: the key of the current long walk.
        unit_tables: the automata of the units of counted rules, by the state with which each begins.
    """

    def __init__(self, space: Space, summaries: Summaries, fixed: Any) -> None:
        texts: TokenTexts = fixed.texts
        Walker.__init__(self, space, summaries, texts, None)
        self.fixed = fixed
        self.filters = False
        most: cython.Py_ssize_t = 32 * summaries.n_words
        excess = f"a mask needs more than {most} pieces of walks at a time"
        self.pieces = Interned(FIRST_PIECES, FIRST_WIDTH, most, space.account, excess)
        self.token_starts = texts.token_starts
        self.tokens = texts.tokens
        self.walk_cache = fixed.walk_cache
        self.few_nodes = fixed.walk_cache.few_nodes
        self.wide_bytes = min(WIDE_BYTES, self.few_nodes + 1)
        self.contents = None
        self.reads: list[Read] = []
        self.number_of_read: dict[Read, int] = {}
        self.key: Any = None
        self.unit_tables: dict[int, Any] = {}

    def read_from(self, pending, symbol):
        """See `Walker`."""
        self.set_follow(self.own_of(symbol))
        n: cython.Py_ssize_t = -1
        is_new: cython.bint = self.is_wide(pending, symbol)
        if is_new:
            with cython.gil:
                if symbol >= self.n_states:
                    n = self.from_units(pending, symbol, False)
                if n < 0:
                    n = self.from_cache(pending, symbol)
        if n >= 0:
            n = self.keep_followed(n)
        else:
            self.most_entered = self.n_entered + self.few_nodes
            n = self.walk_from(pending, symbol)
            n = self.read_long(pending, symbol, is_new) if n == TOO_LONG else self.sorted_nodes(n)
        self.mask = self.mask_of_ranges()
        return self.pending_set(n)

    def mask_of_ranges(self):
        """The number of the mask with one piece: the recorded groups."""
        one: cython.Py_ssize_t = 1
        if self.n_ranges == 0:
            return 0
        at = self.pieces.room(self.n_ranges)
        for k in range(self.n_ranges):
            self.pieces.pool[at + k] = self.ranges[k]
        piece = self.pieces.intern(self.n_ranges)
        at = self.empty_mask()
        self.summaries.masks.pool[at + (piece >> 5)] = one << (piece & 31)
        return self.summaries.masks.intern(self.summaries.n_words)

    # ---------------------------------------------------------------- what may follow

    def set_follow(self, own):
        """See `WalkOutput`. All bytes can follow, until walks have entered many nodes."""
        if not self.filters:
            if self.n_entered < MANY_NODES:
                self.follow_all()
                return 0
            with cython.gil:
                self.load_follow_sets()
        return WalkOutput.set_follow(self, own)

    def load_follow_sets(self):
        """Compute what may follow."""
        self.follow_sets = self.fixed.follow_sets()
        self.filters = True

    @cython.final
    def follow_all(self):
        """Allow any byte to follow."""
        self.own = -1
        self.follow_0 = self.follow_1 = ALL_BYTES
        self.follow_others = True

    # ---------------------------------------------------------------- long walks

    def is_wide(self, pending, symbol):
        """Whether a walk is probably long. Then it is looked up in the cache before it begins: that takes 5
        us, and saves 50 if it is found."""
        if pending >= 0:
            return (
                self.summaries.pendings.starts[pending + 1] - self.summaries.pendings.starts[pending]
                >= WIDE_NODES
            )
        if symbol >= self.n_states:
            return False
        n: cython.Py_ssize_t = 0
        for byte in range(256):
            n += has_bit(self.space.first_bits, symbol, self.space.class_of_byte[byte])
        return n >= self.wide_bytes

    def read_long(self, pending, symbol, is_new):
        """`read_from` with the cache. The walk is taken from the cache, unless it is known to be new.
        Otherwise it is walked regardless of what may follow below, and stored. Return the number of pending
        nodes.
        """
        n: cython.Py_ssize_t = -1
        if not is_new:
            with cython.gil:
                n = self.from_cache(pending, symbol)
        if n < 0 and symbol >= self.n_states:
            with cython.gil:
                n = self.from_units(pending, symbol, True)
        if n < 0:
            self.follow_all()
            self.most_entered = ANY_LENGTH
            n = self.sorted_nodes(self.walk_from(pending, symbol))
            with cython.gil:
                self.keep(n)
            self.set_follow(self.own_of(symbol))
        return self.keep_followed(n)

    def from_cache(self, pending, symbol):
        """Take a walk from the cache, its ranges and pending nodes. Return the number of nodes, or -1 if
        there is none."""
        if self.contents is None:
            self.contents = CanonicalForm(self.space.automaton)
        if symbol < self.n_states:
            content = self.contents.of_state(symbol)
        else:
            at = self.unit_at(symbol)
            content = self.contents.of_unit(self.summaries.units.pool[at], self.summaries.units.pool[at + 1])
        self.key = None
        if content is None:
            return -1
        nodes = b""
        if pending >= 0:
            first, end = self.summaries.pendings.starts[pending], self.summaries.pendings.starts[pending + 1]
            nodes = np.asarray(self.summaries.pendings.pool)[first:end].tobytes()
        self.key = (content, nodes)
        read = self.walk_cache.find(self.key)
        if read is None:
            return -1
        return self.use_cached(read, read.nodes)

    def from_units(self, pending, symbol, is_long):
        """The same for the frame of a counted rule, computed from the cached number of units that each
        string begins, which serves all counts. -1 if the units do not allow that, or if not all strings below
        a unit are pending and the walk is not known to be long."""
        at = self.unit_at(symbol)
        unit = self.summaries.units.pool[at]
        if self.space.automaton.is_limited(unit) or self.longest >= 1 << 15:
            return -1
        counted = self.space.automaton.counted[unit]
        begun = self.summaries.units.pool[at + 1] + 1  # one unit has been read when the frame is on top
        most: cython.Py_ssize_t = ANY_LENGTH if counted.most < 0 else counted.most - begun
        if counted.start not in self.unit_tables:
            table = unit_table(self.space.automaton, counted.start)
            self.unit_tables[counted.start] = table, None if table is None else (table.tobytes(), b"")
        table, key = self.unit_tables[counted.start]
        if table is None:
            return -1
        trie = self.fixed.texts.nodes
        units = self.walk_cache.find(key)
        if units is None:
            units = unit_reads(self.fixed.texts, table)
            self.walk_cache.keep(key, units)
        first, end = self.summaries.pendings.starts[pending], self.summaries.pendings.starts[pending + 1]
        nodes = np.asarray(self.summaries.pendings.pool)[first:end]
        if not self.filters:
            # 0.1 ms, once; without it, some 20,000 nodes are read on the next frame of a limited string
            self.load_follow_sets()
        self.set_follow(self.own_of(symbol))
        followers = np.asarray(self.follow_sets)[self.own][np.asarray(self.space.class_of_byte)]
        found = units.read(trie, nodes, counted.least - begun, most, followers, only_all=not is_long)
        return -1 if found is None else self.use_cached(found[0], found[1])

    def use_cached(self, read, nodes):
        """Use a cached walk and its pending nodes; the walk itself takes the place of its ranges. Return the
        number of nodes."""
        self.record_read(read)
        found: cython.const[cython.Py_ssize_t][::1] = nodes
        while self.nodes.shape[0] < found.shape[0]:
            self.nodes = self.space.account.bigger(self.nodes, 2 * self.nodes.shape[0])
        k: cython.Py_ssize_t
        for k in range(found.shape[0]):
            self.nodes[k] = found[k]
        return found.shape[0]

    def record_read(self, read):
        """Record a cached walk in place of its ranges, because a long walk has thousands of them."""
        number = self.number_of_read.get(read)
        if number is None:
            number = len(self.reads)
            self.reads.append(read)  # first: after an error, no other read may get this number
            self.number_of_read[read] = number
        self.n_ranges = 0 if read.is_empty else 1
        self.ranges[0] = -1 - cython.cast(cython.Py_ssize_t, number)

    def keep(self, n):
        """Cache the results of a walk with n pending nodes for other grammars."""
        if self.key is not None:
            ranges = np.array(np.asarray(self.ranges)[: self.n_ranges])
            read = Read(ranges, np.array(np.asarray(self.nodes)[:n]))
            self.walk_cache.keep(self.key, read)
            self.record_read(read)
