# cython: language_level=3
# mypy: ignore-errors
"""Twins: suffixes that read the same on every symbol, so that one of them can represent all.

What: `twins_of` compares the results of walks over suffixes. `rewrite_outcomes` replaces each suffix by its
twin, which turns thousands of outcomes into some hundreds.
When: in explorations with many outcomes, between the walk over the vocabulary and the walks below it.
Limits: suffixes are compared exactly, by what all contexts of their first byte do with them. The account
pays for lists.

What an outcome leaves to be read is shorter, and a shorter suffix has a smaller number. So suffixes are
processed in the order of their numbers, and compared by outcomes that are already rewritten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.walks.outcomes import outcome_of
from numpy.typing import NDArray

from equivalence.arrays.grouping import grouped

check_source(__name__)

Integers = NDArray[np.int64]

NOTHING, OUTRIGHT = 0, 1
"""The outcomes that always exist."""

FIRST_LISTS = 4096
"""Lists of each kind that fit at first."""


class Rounds(NamedTuple):
    """R walks over suffixes, one after another, each with its own blocks and users.

    Attributes:
        suffixes: int32[n], the suffixes that were walked, each in one round.
        round_of: int64[n], their rounds.
        range_sets: int32[n], the blocks of its first byte that read a suffix completely, as a row of `words`.
        words: int64[sets, 1 + words], the first byte, then words of 32 bits: bit i stands for the i-th block.
        block_starts, user_starts: int64[R, 257], where the blocks, and the users, of each first byte start.
        users: int64[u, 2], rows (symbol, block).
        owners, events: int64[e] and int64[e, 2], the block of each event, and its row (place in `suffixes`,
            outcome).
    """

    suffixes: NDArray[np.int32]
    round_of: Integers
    range_sets: NDArray[np.int32]
    words: Integers
    block_starts: Integers
    user_starts: Integers
    users: Integers
    owners: Integers
    events: Integers


def twins_of(
    rounds: Rounds, first_byte: NDArray[np.uint8], outcomes: Interned, account: Account
) -> NDArray[np.int32]:
    """For each suffix, a suffix that reads the same on every symbol.

    Args:
        rounds: the walks; `outcomes` leave no suffixes to be read that were not walked.
        first_byte: uint8[S], the first byte of each suffix.
        outcomes: the outcomes that `rounds` refers to.
        account: pays for the result, which is kept, and for temporary lists.

    Returns:
        int32[S]; -1 for suffixes that were not walked.

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    taken = account.taken
    twin = np.full(len(first_byte), -1, np.int32)
    search = Twins(rounds, first_byte, Rewriting(outcomes, twin, account), account)
    search.find(np.argsort(rounds.suffixes))
    account.claim(0, account.taken - taken - twin.nbytes)
    return twin


def rewrite_outcomes(
    outcomes: Interned,
    twin: NDArray[np.int32],
    event_starts: cython.const[cython.Py_ssize_t][::1],
    events: cython.Py_ssize_t[:, ::1],
    account: Account,
) -> Interned:
    """Replace every suffix in outcomes by its twin, and intern the results.

    Args:
        outcomes: what is rewritten. They are not needed afterwards, and their bytes are returned to the
            account.
        twin: int32[S], the result of `twins_of`.
        event_starts: int64[B + 1], where the events of blocks begin.
        events: int64[n, 2], rows (group, outcome); they are changed, and may be more than the last start.
        account: pays for the result.

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    rewriting = Rewriting(outcomes, twin, account)
    rewriting.number_of(NOTHING)
    rewriting.number_of(OUTRIGHT)
    n: cython.Py_ssize_t = event_starts[event_starts.shape[0] - 1]
    with cython.nogil:
        for e in range(n):
            events[e, 1] = rewriting.number_of(events[e, 1])
    account.claim(0, rewriting.own_bytes() + outcomes.nbytes)
    return rewriting.fresh


@cython.final
@cython.cclass
class Rewriting:
    """Outcomes, and the same with twins instead of suffixes.

    Attributes:
        outcomes: the original outcomes.
        twin: the twins known so far.
        fresh: the rewritten outcomes.
        numbers: for each outcome, the number of the rewritten one; -1: not needed yet.
        pairs: what the current outcome leaves to be read.
    """

    def __init__(self, outcomes: Interned, twin: cython.int[::1], account: Account) -> None:
        n: cython.Py_ssize_t = outcomes.count
        widest: cython.Py_ssize_t = 2
        for i in range(n):
            widest = max(widest, outcomes.starts[i + 1] - outcomes.starts[i])
        self.outcomes = outcomes
        self.twin = twin
        self.account = account
        account.claim(8 * (n + widest))
        self.numbers = np.full(n, -1, np.int64)
        self.pairs = np.empty(widest, np.int64)
        self.fresh = Interned(min(n, FIRST_LISTS), 16, outcomes.most, account, outcomes.excess)

    def number_of(self, outcome):
        """The number of the rewritten outcome; the twins of its suffixes must be known."""
        if self.numbers[outcome] < 0:
            self.account.check()
            self.numbers[outcome] = self.rewritten(outcome)
        return self.numbers[outcome]

    def rewritten(self, outcome):
        """Rewrite an outcome: its label, and the twins of its suffixes in order of (port, twin)."""
        begin = self.outcomes.starts[outcome]
        end = self.outcomes.starts[outcome + 1]
        n: cython.Py_ssize_t = 0
        for k in range(begin + 1, end, 2):
            twin: cython.Py_ssize_t = self.twin[self.outcomes.pool[k + 1]]
            n = insert_sorted(self.pairs, 0, n, (self.outcomes.pool[k] << 30) + twin)
        return outcome_of(self.fresh, self.outcomes.pool[begin], self.pairs, n)

    def own_bytes(self):
        """Bytes that are useless once everything is rewritten."""
        return 8 * (self.numbers.shape[0] + self.pairs.shape[0])


@cython.final
@cython.cclass
class Twins:
    """The comparison of suffixes.

    Each suffix has two descriptions: one by the blocks of its first byte, which is short and mostly known
    already; and only if it is not known, one by all symbols, which decides whether suffixes of other bytes
    and rounds are equal.

    Attributes:
        event_starts, places: for each suffix the rows of its events, in the order of their blocks.
        by_block: lists [round and first byte, set of blocks that read it completely, (block, outcome) ...].
        class_of: for each of these, the number of its list in `full`.
        full: lists [(symbol, what it does) ...].
        example: for each of these, the suffix that represents all.
        value: what the blocks of the current first byte do: 0: they reject, 1: they read completely,
            otherwise 2 plus an outcome.
    """

    def __init__(self, rounds: Any, first_byte: Any, rewriting: Rewriting, account: Account) -> None:
        n = len(rounds.suffixes)
        widest = int(np.diff(rounds.block_starts, axis=1).max(initial=0))
        account.claim(20 * n + 4 * len(rounds.events) + 8 * widest)
        self.account = account
        self.rewriting = rewriting
        self.suffixes = rounds.suffixes
        self.first_byte = first_byte
        self.round_of = rounds.round_of
        self.range_sets = rounds.range_sets
        self.words = rounds.words
        self.block_starts = rounds.block_starts
        self.user_starts = rounds.user_starts
        self.users = rounds.users
        self.by_block = Interned(min(n, FIRST_LISTS), 16, account=account)
        self.full = Interned(min(n, FIRST_LISTS), 16, account=account)
        self.class_of = np.zeros(n, np.int64)
        self.example = np.zeros(n, np.int32)
        self.value = np.zeros(widest, np.int64)
        self.owners, self.events = rounds.owners, rounds.events
        self.event_starts, self.places = grouped(rounds.events[:, 0].astype(np.int32), n)

    def find(self, order):
        """Find the twin of each suffix, in the order of their numbers."""
        with cython.nogil:
            for i in range(order.shape[0]):
                self.account.check()
                place = order[i]
                n = self.by_block.count
                listed = self.list_by_block(place)
                if listed == n:
                    self.class_of[listed] = self.list_in_full(place)
                self.rewriting.twin[self.suffixes[place]] = self.example[self.class_of[listed]]

    def list_by_block(self, place):
        """The number of the list of what blocks do with a suffix."""
        begin = self.event_starts[place]
        n_own = self.event_starts[place + 1] - begin
        at = self.by_block.room(2 + 2 * n_own)
        byte: cython.Py_ssize_t = self.first_byte[self.suffixes[place]]
        self.by_block.pool[at] = 256 * self.round_of[place] + byte
        self.by_block.pool[at + 1] = self.range_sets[place]
        for k in range(n_own):
            event = self.places[begin + k]
            self.by_block.pool[at + 2 + 2 * k] = self.owners[event]
            self.by_block.pool[at + 3 + 2 * k] = self.rewriting.number_of(self.events[event, 1])
        return self.by_block.intern(2 + 2 * n_own)

    def list_in_full(self, place):
        """The number of the list of what all symbols do with a suffix. If it is new, the suffix represents
        it."""
        byte: cython.Py_ssize_t = self.first_byte[self.suffixes[place]]
        turn = self.round_of[place]
        first_block = self.block_starts[turn, byte]
        words = self.range_sets[place]
        for i in range(self.block_starts[turn, byte + 1] - first_block):
            self.value[i] = (self.words[words, 1 + (i >> 5)] >> (i & 31)) & 1
        for k in range(self.event_starts[place], self.event_starts[place + 1]):
            event = self.places[k]
            self.value[self.owners[event] - first_block] = 2 + self.rewriting.number_of(self.events[event, 1])
        begin = self.user_starts[turn, byte]
        end = self.user_starts[turn, byte + 1]
        start = self.full.room(2 * (end - begin))
        at = start
        for u in range(begin, end):
            value = self.value[self.users[u, 1] - first_block]
            if value:
                self.full.pool[at] = self.users[u, 0]
                self.full.pool[at + 1] = value
                at += 2
        n = self.full.count
        number = self.full.intern(at - start)
        if number == n:
            self.example[number] = self.suffixes[place]
        return number
