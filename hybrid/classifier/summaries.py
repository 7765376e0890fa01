# cython: language_level=3
# mypy: ignore-errors
"""Summaries: the known results of pending sets on any stack. They form the automaton that reads stacks.

What: for each state on top, the classes that it reads and the pending set that it leaves; for each pending
set on each symbol, the same. Pending sets, masks of classes and counter frames are interned lists.
When: owned by the code that extends them (`hybrid.classifier.store`). If they are computed ahead of time,
they are kept with a classifier, written to files, and copied by each session that starts with them.
Limits: nothing is deleted. Growth is charged to the account. A complete automaton must not be extended.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.pairs import Pairs
from cython.cimports.equivalence.arrays.records import absent
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.records import Kind

check_source(__name__)

Integers = NDArray[np.int64]

FIRST = Kind("mask pending", np.int32)


@cython.final
@cython.no_gc
@cython.cclass
class Summaries:
    """The automaton, as far as it is known.

    Args:
        n_states: states of the network.
        n_words: words of 32 bits of a mask of classes.
        account: the account that growth is charged to; ``None``: nothing is counted.
        rows, pendings, masks: initial room for each; `rows` is a power of two.

    Attributes:
        first: for each state on top, its mask and its pending set; -1: not known yet.
        pairs: pairs (pending set, symbol), and for each the mask, and the pending set below the symbol.
        pendings: sets of nodes of a trie. Number 0 is the empty set, here and in `masks`.
        masks: sets of classes, as words of 32 bits.
        units: counter frames: (counted rule, the count, of which only what a token can distinguish is kept).
        complete: whether everything that stacks can need is known, so that nothing may be added any more.
    """

    def __init__(
        self,
        n_states: cython.Py_ssize_t,
        n_words: cython.Py_ssize_t,
        account: Account = None,
        rows: cython.Py_ssize_t = 2048,
        pendings: cython.Py_ssize_t = 512,
        masks: cython.Py_ssize_t = 512,
        width: cython.Py_ssize_t = 64,
    ) -> None:
        self._begin(n_states, n_words, account)
        self.pairs = Pairs(rows, self.account)
        self.pendings = Interned(pendings, width, account=self.account)
        self.masks = Interned(masks, n_words, account=self.account)
        self.units = Interned(min(masks, 64), 2, account=self.account)
        self.pendings.room(0)
        self.pendings.intern(0)
        begin = self.masks.room(n_words)
        self.masks.pool[begin : begin + n_words] = 0
        self.masks.intern(n_words)

    def _begin(self, n_states: int, n_words: int, account: Any) -> None:
        """Set what is neither pairs nor lists."""
        self.account = Account() if account is None else account
        self.n_states = n_states
        self.n_words = n_words
        self.complete = False
        self.account.claim(8 * n_states)
        self.first = absent(FIRST, n_states)

    @property
    def n_pairs(self) -> int:
        """Number of pairs. Those whose computation was stopped have no result."""
        return self.pairs.count - 1

    def note(self, pair, mask, below):
        """Store what a pending set reads on a symbol, and what it leaves."""
        self.pairs.rows[pair].rest = cython.cast(cython.int, below)
        self.pairs.rows[pair].result = cython.cast(cython.int, mask)
        return 0

    def united(self, one, other):
        """The number of the union of two masks."""
        at = self.masks.room(self.n_words)
        a = self.masks.starts[one]
        b = self.masks.starts[other]
        for w in range(self.n_words):
            self.masks.pool[at + w] = self.masks.pool[a + w] | self.masks.pool[b + w]
        return self.masks.intern(self.n_words)

    # ---------------------------------------------------------------- as arrays, and back

    def first_rows(self) -> Integers:
        """A copy of the mask and the pending set of each state on top, int64[states, 2]; -1: not known."""
        # by bytes: numpy takes 0.1 ms to read the names of a structure's fields
        flat = np.frombuffer(self.first, np.int32) if self.n_states else np.empty(0, np.int32)
        return flat.reshape(-1, 2).astype(np.int64)

    def known_rows(self) -> Integers:
        """The pairs with a result, sorted: pending set, symbol, mask, pending set below; int64[n, 4]."""
        rows = np.frombuffer(self.pairs.rows, np.int32).reshape(-1, 4)[1 : self.pairs.count]
        rows = rows[rows[:, 2] >= 0].astype(np.int64)
        return np.ascontiguousarray(rows[np.lexsort((rows[:, 1], rows[:, 0]))])

    def copied(self, account: Account = None, masks: cython.Py_ssize_t = 0) -> Summaries:
        """A copy of the summaries in new arrays.

        Args:
            account: the account that they are charged to.
            masks: room for this many more masks than are in use.
        """
        copy: Summaries = Summaries.__new__(Summaries)
        copy._begin(self.n_states, self.n_words, account)
        copy.complete = self.complete
        copy.first[:] = self.first
        copy.pairs = self.pairs.copied(copy.account)
        copy.pendings = self.pendings.copied(0, copy.account)
        copy.masks = self.masks.copied(masks, copy.account)
        copy.units = self.units.copied(0, copy.account)
        return copy

    def completed(self) -> Summaries:
        """The same summaries without spare room, if they are all that stacks can need."""
        lists = self.pendings.lists(), self.masks.lists(), self.units.lists()
        return summaries_of(self.first_rows(), self.known_rows(), *lists, self.n_words, True)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        lists = self.pendings.nbytes + self.masks.nbytes + self.units.nbytes
        return 8 * self.first.shape[0] + self.pairs.nbytes + lists


def summaries_of(
    first: Integers,
    rows: Integers,
    pendings: tuple[Integers, Integers],
    masks: tuple[Integers, Integers],
    units: tuple[Integers, Integers],
    n_words: int,
    complete: bool,
) -> Summaries:
    """Make summaries from arrays, with hardly any spare room.

    Args:
        first: int64[states, 2], like the result of `Summaries.first_rows`.
        rows: int64[n, 4], like that of `Summaries.known_rows`, in any order.
        pendings, masks, units: like those of `Interned.lists`.
        n_words: words of a mask.
        complete: see `Summaries`.

    Raises:
        ValueError: there are two rows for one pending set and symbol, or malformed lists.
    """
    found: Summaries = Summaries.__new__(Summaries)
    found._begin(len(first), n_words, None)
    room = len(rows) + 1 if complete else max(1024, len(rows) + 1)
    found.pairs = Pairs(1 << (room - 1).bit_length(), found.account)
    if len(first):
        np.frombuffer(found.first, np.int32).reshape(-1, 2)[:] = first
    values: cython.const[cython.Py_ssize_t][:, ::1] = np.ascontiguousarray(rows)
    for i in range(values.shape[0]):
        pair = found.pairs.number(values[i, 0], values[i, 1])
        if pair <= i:
            raise ValueError("two rows have the same pending set and symbol")
        found.note(pair, values[i, 2], values[i, 3])
    found.pendings = _interned(*pendings, 16)
    # every running classifier adds masks
    found.masks = _interned(*masks, max(512, 2 * (len(masks[0]) - 1)))
    found.units = _interned(*units, 64)
    found.complete = complete
    return found


def _interned(starts: Integers, pool: Integers, room: int) -> Interned:
    """Interned lists with room for at least `room` lists."""
    capacity = max(len(starts) - 1, room)
    width = max(-(-len(pool) // capacity), 1)
    return Interned(capacity, width).fill(starts, pool)
