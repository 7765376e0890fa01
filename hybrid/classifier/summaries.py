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
from cython.cimports.equivalence.arrays.hashing import table_size
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.records import absent
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.summaries import Summary, slot_in
from numpy.typing import NDArray

from equivalence.arrays.records import Kind

check_source(__name__)

Integers = NDArray[np.int64]

FIRST = Kind("mask pending", np.int32)
SUMMARY = Kind("pending symbol mask below", np.int32)  # 16 bytes: four to a cache line


@cython.final
@cython.no_gc
@cython.cclass
class Summaries:
    """The automaton, as far as it is known.

    Args:
        n_states: states of the network.
        n_words: words of 32 bits of a mask of classes.
        account: the account that growth is charged to; ``None``: nothing is counted.
        rows, pendings, masks: initial room for each.

    Attributes:
        first: for each state on top, its mask and its pending set; -1: not known yet.
        rows: a hash table of (pending set, symbol) with the mask, and the pending set below the symbol; an
            unused row has pending set -1.
        n_known: number of rows in use.
        pendings: sets of suffix * classes + class. Number 0 is the empty set, here and in `masks`.
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
        self._begin(n_states, n_words, account, rows)
        self.pendings = Interned(pendings, width, account=self.account)
        self.masks = Interned(masks, n_words, account=self.account)
        self.units = Interned(min(masks, 64), 2, account=self.account)
        self.pendings.room(0)
        self.pendings.intern(0)
        begin = self.masks.room(n_words)
        self.masks.pool[begin : begin + n_words] = 0
        self.masks.intern(n_words)

    def _begin(self, n_states: int, n_words: int, account: Any, rows: int) -> None:
        """Make the arrays that are not interned lists, empty."""
        self.account = Account() if account is None else account
        self.n_states = n_states
        self.n_words = n_words
        self.n_known = 0
        self.complete = False
        size = table_size(rows)
        self.account.claim(8 * n_states + 16 * size)
        self.first = absent(FIRST, n_states)
        self.rows = absent(SUMMARY, size)

    # ---------------------------------------------------------------- rows

    def slot(self, pending, symbol):
        """The slot of the row of a pending set on a symbol, or the empty slot where it would be."""
        return slot_in(self.rows, pending, symbol)

    def add(self, pending, symbol, mask, below):
        """Add a new row, and return its place."""
        if 2 * self.n_known >= self.rows.shape[0]:
            with cython.gil:
                self.rows = doubled(self.rows, self.account)
        slot = self.slot(pending, symbol)
        self.rows[slot].symbol = cython.cast(cython.int, symbol)
        self.rows[slot].mask = cython.cast(cython.int, mask)
        self.rows[slot].below = cython.cast(cython.int, below)
        self.rows[slot].pending = cython.cast(cython.int, pending)
        self.n_known += 1
        return slot

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

    def used_rows(self) -> tuple[Integers, Integers]:
        """The rows in use, sorted by pending set and symbol, and where those of each pending set begin.

        Returns:
            (int64[n_known, 4], int64[pending sets + 1]).
        """
        rows = np.frombuffer(self.rows, np.int32).reshape(-1, 4)
        rows = rows[rows[:, 0] >= 0].astype(np.int64)
        rows = np.ascontiguousarray(rows[np.lexsort((rows[:, 1], rows[:, 0]))])
        starts = np.searchsorted(rows[:, 0], np.arange(self.pendings.count + 1))
        return rows, starts.astype(np.int64)

    def copied(self, account: Account = None, masks: cython.Py_ssize_t = 0) -> Summaries:
        """A copy of the summaries in new arrays.

        Args:
            account: the account that they are charged to.
            masks: room for this many more masks than are in use.
        """
        copy: Summaries = Summaries.__new__(Summaries)
        copy._begin(self.n_states, self.n_words, account, self.rows.shape[0] // 2)
        copy.complete = self.complete
        copy.n_known = self.n_known
        copy.first[:] = self.first
        copy.rows[:] = self.rows
        copy.pendings = self.pendings.copied(0, copy.account)
        copy.masks = self.masks.copied(masks, copy.account)
        copy.units = self.units.copied(0, copy.account)
        return copy

    def completed(self) -> Summaries:
        """The same summaries without spare room, if they are all that stacks can need."""
        lists = self.pendings.lists(), self.masks.lists(), self.units.lists()
        return summaries_of(self.first_rows(), self.used_rows()[0], *lists, self.n_words, True)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        lists = self.pendings.nbytes + self.masks.nbytes + self.units.nbytes
        return 8 * self.first.shape[0] + 16 * self.rows.shape[0] + lists


def doubled(old, account):
    """The same rows in a hash table with twice the room."""
    account.claim(32 * old.shape[0], 16 * old.shape[0])
    rows: Summary[::1] = absent(SUMMARY, 2 * old.shape[0])
    with cython.nogil:
        for i in range(old.shape[0]):
            if old[i].pending >= 0:
                rows[slot_in(rows, old[i].pending, old[i].symbol)] = old[i]
    return rows


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
        rows: int64[n, 4], like that of `Summaries.used_rows`, in any order.
        pendings, masks, units: like those of `Interned.lists`.
        n_words: words of a mask.
        complete: see `Summaries`.

    Raises:
        ValueError: there are two rows for one pending set and symbol, or malformed lists.
    """
    found: Summaries = Summaries.__new__(Summaries)
    found._begin(len(first), n_words, None, len(rows) if complete else max(1024, len(rows)))
    if len(first):
        np.frombuffer(found.first, np.int32).reshape(-1, 2)[:] = first
    values: cython.const[cython.Py_ssize_t][:, ::1] = np.ascontiguousarray(rows)
    for i in range(values.shape[0]):
        slot = found.slot(values[i, 0], values[i, 1])
        if found.rows[slot].pending >= 0:
            raise ValueError("two rows have the same pending set and symbol")
        found.add(values[i, 0], values[i, 1], values[i, 2], values[i, 3])
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
