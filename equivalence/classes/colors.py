# cython: language_level=3
# mypy: ignore-errors
"""Colors: numbers for items and queries; equal colors mean that the same stacks accept them.

What: on each symbol that may lie below, an item or a query is read completely ("outright"), or leads to
further items. Color 0: no stack accepts it. Color 1: every stack accepts it. The other colors come from
Moore's partition refinement: all other items begin with the same color, and are separated until a round
changes nothing.
When: once for each exploration, after all items were read.
Limits: none of its own. Memory is charged to an `Account`, which is checked for each item in each round.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)

TAG = cython.declare(cython.Py_ssize_t, 1 << 31)  # a row is packed as tag * TAG + value
OUTRIGHT = cython.declare(cython.Py_ssize_t, -1 << 31)  # the packed row (-1, 0)
SYMBOL_END = cython.declare(cython.Py_ssize_t, (-1 << 31) - 1)


@cython.final
@cython.cclass
class Coloring:
    """Items and their colors, which are computed in rounds.

    Rows are pairs (tag, value). The rows of each symbol end with (-1, -1). A row (-1, label) with a label of
    0 or more, or with a tag below -1, says that the item is read completely; label 0 means without any
    condition. All other rows lead to the item `value`.
    """

    def __init__(self, rows, starts, below, bottom, account) -> None:
        self.rows = rows
        self.starts = starts
        self.below = below
        self.bottom = bottom
        self.account = account
        self.n_items = self.below.shape[0]
        self.color = np.zeros(self.n_items, np.int64)
        self.renewed = np.empty(self.n_items, np.int64)

    def make_keys(self, n_lists, n_rows):
        """Start without keys, with room for `n_lists` keys that have `n_rows` rows in total."""
        self.keys = Interned(n_lists, n_rows // max(n_lists, 1) + 2, account=self.account)

    def color_items(self, displacement):
        """Compute the colors of all items."""
        n_items = self.n_items
        self.make_keys(n_items, self.starts[n_items] if n_items else 0)
        with cython.nogil:
            while self.find_passable():
                pass
            while not displacement and self.find_sure():
                pass
            n_colors: cython.Py_ssize_t = 0
            while True:
                n = self.refine()
                if n == n_colors:
                    break
                n_colors = n

    def find_passable(self):
        """Change color 0 to 2 for items that some stack accepts, as far as known. Return whether any was
        found.

        This is one round of a least fixed point. Items that keep color 0 are its complement: no stack accepts
        them.
        """
        found: cython.int = 0
        for k in range(self.n_items):
            i = self.n_items - 1 - k
            if self.color[i]:
                continue
            self.account.check()
            for r in range(self.starts[i], self.starts[i + 1]):
                tag = self.rows[r, 0]
                value = self.rows[r, 1]
                if tag < -1 or (value >= 0 if tag == -1 else self.color[value] != 0):
                    self.color[i] = 2
                    found = 1
                    break
        return found

    def find_sure(self):
        """Change color 2 to 1 for items that every stack accepts, as far as known. Return whether any was
        found.

        This is one round of a least fixed point.
        """
        found: cython.int = 0
        for k in range(self.n_items):
            i = self.n_items - 1 - k
            if self.color[i] != 2 or self.bottom[self.below[i]]:
                continue
            self.account.check()
            if self.is_sure(i):
                self.color[i] = 1
                found = 1
        return found

    def is_sure(self, item):
        """Whether an item, on every symbol, is read without condition or leads to an item of color 1."""
        here: cython.bint = False
        for r in range(self.starts[item], self.starts[item + 1]):
            tag = self.rows[r, 0]
            value = self.rows[r, 1]
            if tag == -1 and value == -1:
                if not here:
                    return False
                here = False
            elif (tag == -1 and value == 0) or (tag == 0 and self.color[value] == 1):
                here = True
        return True

    def refine(self):
        """Separate items by the colors that they lead to. Return the number of colors above 1."""
        self.keys.count = 0
        self.keys.used = 0
        self.keys.table[:] = -1
        for i in range(self.n_items):
            if self.color[i] < 2:
                self.renewed[i] = self.color[i]
                continue
            self.account.check()
            length = self.write_key(self.below[i], self.starts[i], self.starts[i + 1])
            self.renewed[i] = 2 + self.keys.intern(length)
        self.color[:] = self.renewed
        return self.keys.count

    def write_key(self, first, begin, end):
        """Write a key to the end of the pool of keys. Return its length.

        A key is a number, then rows with colors instead of items, sorted for each symbol. Rows that lead to
        color 0 are left out. If a symbol reads completely without condition, its other rows are left out. An
        unconditional pop to color 1 reads completely, too, because everything below is accepted.
        """
        at: cython.Py_ssize_t = self.keys.room(end - begin + 1)
        symbol: cython.Py_ssize_t = at + 1
        value: cython.Py_ssize_t
        start = at
        self.keys.pool[at] = first
        at += 1
        outright: cython.bint = False
        for r in range(begin, end):
            tag = self.rows[r, 0]
            value = self.rows[r, 1]
            if tag == -1 and value == -1:
                if outright:
                    self.keys.pool[symbol] = OUTRIGHT
                    at = symbol + 1
                self.keys.pool[at] = SYMBOL_END
                at += 1
                symbol = at
                outright = False
                continue
            if tag < -1:
                value = 0
            elif tag == -1:
                outright = outright or value == 0
            else:
                value = self.color[value]
                if value == 0:
                    continue
                outright = outright or (tag == 0 and value == 1)
            at = symbol + insert_sorted(self.keys.pool, symbol, at - symbol, tag * TAG + value)
        if outright:
            self.keys.pool[symbol] = OUTRIGHT
            at = symbol + 1
        return at - start

    def color_queries(self, queries, starts, displacement, colors):
        """Color queries by the colors of items. `colors` must contain zeros."""
        n_queries: cython.Py_ssize_t = queries.shape[0]
        self.make_keys(n_queries, starts[n_queries] - starts[0])
        with cython.nogil:
            for q in range(n_queries):
                self.account.check()
                length = self.write_key(queries[q, 1], starts[q], starts[q + 1])
                if length == 1:
                    continue
                if not displacement and length == 2 and self.keys.pool[self.keys.used + 1] == OUTRIGHT:
                    colors[q] = 1
                else:
                    colors[q] = 2 + self.keys.intern(length)


def color_queries(
    rows: cython.const[cython.Py_ssize_t][:, ::1],
    queries: cython.const[cython.Py_ssize_t][:, ::1],
    query_starts: cython.const[cython.Py_ssize_t][::1],
    item_starts: cython.const[cython.Py_ssize_t][::1],
    below_of_item: cython.const[cython.Py_ssize_t][::1],
    bottom: NDArray[np.bool_],
    displacement: cython.bint,
    account: Account,
) -> NDArray[np.int64]:
    """Compute the color of each query. Queries with equal colors are accepted by the same stacks.

    Args:
        rows: int64[n, 2], rows (tag, value) of queries and items, see `Coloring`.
        queries: int64[Q, 2], rows (outcome, below set).
        query_starts: int64[Q + 1], where the rows of each query begin.
        item_starts: int64[I + 1], where the rows of each item begin.
        below_of_item: int64[I], the below set of each item.
        bottom: bool, whether each below set may be the empty stack.
        displacement: also distinguish what tokens leave on the stack.
        account: is charged for the colors, which are kept, and for temporary tables.

    Returns:
        int64[Q]; 0: no stack; 1: every stack (only for acceptance).

    Raises:
        BudgetExceeded: no bytes left, or told to stop.
    """
    taken = account.taken
    n_items: cython.Py_ssize_t = below_of_item.shape[0]
    kept: cython.Py_ssize_t = 8 * queries.shape[0]
    account.claim(kept + 16 * n_items)
    colors = np.zeros(queries.shape[0], np.int64)
    coloring = Coloring(rows, item_starts, below_of_item, flags_of(bottom), account)
    coloring.color_items(displacement)
    account.claim(0, coloring.keys.nbytes)
    coloring.color_queries(queries, query_starts, displacement, colors)
    account.claim(0, account.taken - taken - kept)
    return colors


def flags_of(array: Any) -> NDArray[np.uint8]:
    """Booleans as an array of bytes."""
    return np.ascontiguousarray(array, np.bool_).view(np.uint8)
