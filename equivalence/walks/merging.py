# cython: language_level=3
# mypy: ignore-errors
"""Merging: equal numbers for strings that all contexts treat alike.

What: a `Merging` describes each string by a list of (context, feature), and gives equal lists equal numbers.
Feature 1 means that the context reads the string completely. Subclasses say what other features there are.
When: for pending suffixes (`equivalence.walks.suffix_twins`), and for the runs of a vocabulary
(`equivalence.classes.class_merging`).
Limits: lists are compared exactly. The account pays for them, and is checked for each string.

Each string is first described by what the blocks of its first byte do with it. This list is short, and mostly
known already. Only if it is not known, the contexts of these blocks are listed, so that strings with other
first bytes can be equal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.grouping import grouped

check_source(__name__)

Integers = NDArray[np.int64]

FIRST_LISTS = 4096
"""Lists of each kind that fit at first."""

NOTHING = cython.declare(cython.Py_ssize_t, 0)
OUTRIGHT = cython.declare(cython.Py_ssize_t, 1)
OUTCOMES = cython.declare(cython.Py_ssize_t, 2)  # other values of a block: this plus an outcome


class Rounds(NamedTuple):
    """R walks, one after another, each over other strings, with its own blocks and users.

    Attributes:
        first_byte: uint8[n], the first byte of each string.
        round_of: int64[n], their rounds.
        range_sets: int32[n], the blocks of its first byte that read a string completely, as a row of `words`.
        words: int64[sets, 1 + words], the first byte, then words of 32 bits: bit i stands for the i-th block.
        block_starts, user_starts: int64[R, 257], where the blocks, and the users, of each first byte start.
        users: int64[u, 2], rows (context, block).
        owners, events: int64[e] and int64[e, 2], the block of each event, and its row (string, outcome).
    """

    first_byte: NDArray[np.uint8]
    round_of: Integers
    range_sets: NDArray[np.int32]
    words: Integers
    block_starts: Integers
    user_starts: Integers
    users: Integers
    owners: Integers
    events: Integers


@cython.cclass
class Merging:
    """The lists that describe strings.

    Args:
        rounds: what blocks do with the strings.
        account: pays for the lists.

    Attributes:
        event_starts, places: for each string the rows of its events, in the order of their blocks.
        by_block: lists [round and first byte, set of blocks that read it completely, (block, outcome) ...].
        number_of_list: for each of these, the number of its list in `full`.
        full: lists [(context, feature) ...]; list 0 is empty.
        value: what the blocks of the current first byte do: `NOTHING`, `OUTRIGHT`, or `OUTCOMES` plus an
            outcome.
    """

    def __init__(self, rounds: Any, account: Account) -> None:
        n = len(rounds.first_byte)
        widest = int(np.diff(rounds.block_starts, axis=1).max(initial=0))
        account.claim(16 * n + 4 * len(rounds.events) + 8 * widest)
        self.account = account
        (
            self.first_byte, self.round_of, self.range_sets, self.words, self.block_starts, self.user_starts,
            self.users, self.owners, self.events,
        ) = rounds  # fmt: skip
        self.event_starts, self.places = grouped(rounds.events[:, 0].astype(np.int32), n)
        self.by_block = Interned(min(n, FIRST_LISTS), 16, account=account)
        self.full = Interned(min(n, FIRST_LISTS) + 1, 16, account=account)
        self.full.intern(0)
        self.number_of_list = np.zeros(n, np.int64)
        self.value = np.zeros(widest, np.int64)

    @cython.final
    def number(self, place):
        """The number of a string's list in `full`."""
        self.account.check()
        known = self.by_block.count
        listed = self.list_by_block(place)
        if listed == known:
            self.number_of_list[listed] = self.list_in_full(place)
        return self.number_of_list[listed]

    @cython.final
    def list_by_block(self, place):
        """The number of the list of what blocks do with a string."""
        begin = self.event_starts[place]
        n_own = self.event_starts[place + 1] - begin
        at = self.by_block.room(2 + 2 * n_own)
        self.by_block.pool[at] = 256 * self.round_of[place] + self.first_byte[place]
        self.by_block.pool[at + 1] = self.range_sets[place]
        for k in range(n_own):
            event = self.places[begin + k]
            self.by_block.pool[at + 2 + 2 * k] = self.owners[event]
            self.by_block.pool[at + 3 + 2 * k] = self.renamed(self.events[event, 1])
        return self.by_block.intern(2 + 2 * n_own)

    @cython.final
    def list_in_full(self, place):
        """The number of the list of what all contexts do with a string."""
        byte: cython.Py_ssize_t = self.first_byte[place]
        turn = self.round_of[place]
        first_block = self.block_starts[turn, byte]
        words = self.range_sets[place]
        for i in range(self.block_starts[turn, byte + 1] - first_block):
            is_read = (self.words[words, 1 + (i >> 5)] >> (i & 31)) & 1
            self.value[i] = OUTRIGHT if is_read else NOTHING
        for k in range(self.event_starts[place], self.event_starts[place + 1]):
            event = self.places[k]
            self.value[self.owners[event] - first_block] = OUTCOMES + self.renamed(self.events[event, 1])
        begin = self.user_starts[turn, byte]
        end = self.user_starts[turn, byte + 1]
        start = self.full.room(2 * (end - begin))
        at = start
        for u in range(begin, end):
            feature = self.value[self.users[u, 1] - first_block]
            if feature >= OUTCOMES:
                self.account.check()
                feature = self.feature(self.users[u, 0], feature - OUTCOMES)
            if feature != NOTHING:
                self.full.pool[at] = self.users[u, 0]
                self.full.pool[at + 1] = feature
                at += 2
        return self.full.intern(at - start)

    def renamed(self, outcome):
        """The number by which an outcome is compared."""
        return outcome

    def feature(self, context, outcome):
        """What an outcome, renamed, means in a context. 0: no stack accepts it; 1: every stack does."""
        return OUTCOMES + outcome
