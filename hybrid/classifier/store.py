# cython: language_level=3
# mypy: ignore-errors
"""The tables of a classifier: stacks, summaries, and the masks of configurations.

What: a `Store` reads text with the stacks of sequences (`advance`), and finds the classes that may come next
(`class_mask`). Everything is interned, so that equal things have equal numbers and nothing is computed
twice. The tables grow as they fill.
When: one at a time for each compiled grammar. When the budget of bytes is used up, a new one replaces it,
and matchers move their configurations (`migrate_from`).
Limits: two threads must not use it at once: `hybrid.classifier.classifier` holds a lock around every call.
Long computations release the interpreter's lock.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.bits import has_bit
from cython.cimports.equivalence.arrays.hashing import mix
from cython.cimports.equivalence.parser.configurations import stacks_of
from cython.cimports.equivalence.parser.space import REJECT, Space, after
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.walks.token_texts import TokenTexts
from cython.cimports.hybrid.classifier.base_store import BaseStore
from cython.cimports.hybrid.classifier.reader import Reader
from cython.cimports.hybrid.classifier.summaries import Summaries

from equivalence.parser.migration import migrate_from
from hybrid.classifier.base_store import NO_BYTE
from hybrid.classifier.walk_tables import WalkTables

check_source(__name__)

LARGE_LIMIT = 1 << 25
"""A complete automaton of this many bytes gets large tables from the start. It was built to be used often,
and doubling its tables in the middle of a document took a tenth of the time of its steps and masks."""

FEW = 8
"""Configurations, frames, masks and so on that fit at first if masks come from walks. For the first mask of a
JSON schema, the median is 6 configurations, 4 frames and 2 masks; memory that is new to the process takes
3 us a page on a virtual machine."""


MOST_HASH = cython.declare(cython.Py_ssize_t, (1 << 30) - 1)
"""The bits of `top_hash`."""

MOST_FRAMES = cython.declare(cython.Py_ssize_t, 16)
"""`top_hash` reads at most this many frames of a tail: 4,096 in three levels."""


@cython.final
@cython.no_gc
@cython.cclass
class Store(BaseStore):
    """The growing tables of one classifier.

    Args:
        fixed: the constant data (`hybrid.classifier.tables.Fixed`).
        limit: bytes that all tables may take; the initial tables may exceed it.
        summaries: the initial summaries, which are copied. ``None``: there are none.

    Attributes:
        space: the stacks.
        summaries: the summaries.
        nbytes: bytes of the tables.
    """

    def __init__(self, fixed: Any, limit: cython.Py_ssize_t, summaries: Any = None) -> None:
        self.fixed = fixed
        large: cython.bint = summaries is not None and summaries.complete and limit >= LARGE_LIMIT
        walked: cython.bint = isinstance(fixed, WalkTables)
        frames: cython.Py_ssize_t = 8192 if large else FEW if walked else 4096
        configurations: cython.Py_ssize_t = 4096 if large else FEW if walked else 1024
        excess = (
            f"the classifier's tables have {{taken}} bytes and need more, but the limit is {limit}; "
            "raise Budget.table_bytes, or use strategy='representatives'"
        )
        self.account = Account(None, excess=excess)  # the limit does not apply to the initial tables
        self.space = Space(*fixed.parser, frames, configurations, account=self.account, excess=excess)
        if summaries is None:
            rows, lists, width = (FEW, FEW, 8) if walked else (2048, 128, 64)
            n_states = self.space.n_states
            self.summaries = Summaries(n_states, fixed.n_words, self.account, rows, lists, lists, width)
        else:
            self.summaries = summaries.copied(self.account, 2048 if large else 0)
        self.masks = self.summaries.masks
        self.walker = fixed.walker(self.space, self.summaries)
        reads: cython.Py_ssize_t = 16384 if large else 2 * FEW if walked else 4096
        self.reader = Reader(self.walker, reads)
        texts: TokenTexts = fixed.texts
        self.data, self.offsets = texts.data, texts.offsets
        self.account.most = limit

    def count(self) -> cython.Py_ssize_t:
        """See `BaseStore`."""
        return self.space.configurations.count

    @property
    def limit(self) -> int:
        """The maximum number of bytes of the tables."""
        return self.account.most

    def bound(self, limit: cython.Py_ssize_t) -> int:
        """Set a new limit of bytes, and return the former one."""
        before = self.account.most
        self.account.most = limit
        return before

    # ---------------------------------------------------------------- reading text

    def start(self) -> int:
        """The configuration before any text."""
        return self.space.bottom(self.fixed.start, self.fixed.start_final)

    def read_text(self, configuration, text, begin, end):
        """The configuration after the bytes between two places."""
        while begin < end and configuration != REJECT:
            configuration = after(self.space, configuration, self.space.class_of_byte[text[begin]])
            begin += 1
        return configuration

    def is_whole(self, configuration: cython.Py_ssize_t) -> bool:
        """Whether the text that leads to a configuration is a sentence of the grammar."""
        return self.space.facts[self.checked(configuration)].n_ports > 0

    def forced_byte(self, configuration: cython.Py_ssize_t, but: cython.Py_ssize_t = -1) -> int:
        """The only byte that can come next, not counting `but`. `NO_BYTE` if there are several or none, or
        if the text may end here."""
        none: cython.Py_ssize_t = NO_BYTE
        found: cython.Py_ssize_t = none
        if self.space.facts[self.checked(configuration)].n_ports > 0:
            return none
        begin = stacks_of(self.space, configuration)
        end = self.space.configurations.starts[configuration + 1]
        for byte in range(256):
            if byte == but:
                continue
            byte_class = self.space.class_of_byte[byte]
            for i in range(begin, end, 2):
                if has_bit(self.space.first_bits, self.space.configurations.pool[i], byte_class):
                    if found != none:
                        return none
                    found = byte
                    break
        return found

    def width(self, configuration: cython.Py_ssize_t) -> int:
        """How many stacks a configuration has, if each ended below its two topmost states: more than a few
        only after an ambiguous text."""
        self.checked(configuration)
        end = self.space.configurations.starts[configuration + 1]
        found: cython.Py_ssize_t = 0
        for i in range(stacks_of(self.space, configuration), end, 2):
            tail = self.space.configurations.pool[i + 1]
            found += self.space.stacks.tails.starts[tail + 1] - self.space.stacks.tails.starts[tail]
        return found

    def top_hash(self, configuration: cython.Py_ssize_t, depth: cython.Py_ssize_t) -> int:
        """A hash (30 bits) of the top `depth` states of a configuration's stacks. It depends only on states
        of the automata, so it is the same in every session of one grammar.

        Raises:
            IndexError: there is no such configuration.
        """
        self.checked(configuration)
        end = self.space.configurations.starts[configuration + 1]
        found: cython.Py_ssize_t = self.space.facts[configuration].n_ports != 0
        for i in range(stacks_of(self.space, configuration), end, 2):
            # a sum, because the order of stacks does not matter
            below = self.tail_hash(self.space.configurations.pool[i + 1], depth - 1)
            found += mix(mix(5, self.space.configurations.pool[i]), below)
        return found & MOST_HASH

    def tail_hash(self, tail, depth):
        """The same for a tail. For a tail with many frames, it is only their number."""
        begin: cython.Py_ssize_t = self.space.stacks.tails.starts[tail]
        end: cython.Py_ssize_t = self.space.stacks.tails.starts[tail + 1]
        if depth <= 0 or end - begin > MOST_FRAMES:
            return end - begin if depth > 0 else 0
        found: cython.Py_ssize_t = 0
        for i in range(begin, end):
            frame: cython.Py_ssize_t = self.space.stacks.tails.pool[i]
            if frame != 0:
                below = self.tail_hash(self.space.stacks.frames[frame].tail, depth - 1)
                found += mix(mix(7, self.space.stacks.frames[frame].state), below)
        return found & MOST_HASH

    def migrate_from(self, other: Store, configuration: cython.Py_ssize_t) -> int:
        """The configuration in these tables that equals one of an earlier session.

        Args:
            other: the tables of that session.
            configuration: a configuration of that session.

        Raises:
            BudgetExceeded: the tables are full.
        """
        return migrate_from(self.space, other.space, configuration)

    # ---------------------------------------------------------------- masks

    def known_mask(self, configuration: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """See `BaseStore`."""
        return self.reader.masks[configuration] if configuration < self.reader.masks.shape[0] else -1

    def mask_of(self, configuration: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """See `BaseStore`."""
        return self.reader.mask_of(configuration)
