# cython: language_level=3
# mypy: ignore-errors
"""Items: the rests of tokens that must be read below the known part of a stack.

What: an item is (set of suffixes, below set): a stack of the below set must read one of the suffixes.
`read_items` expresses queries (outcome, below set) by items, and each item, on each symbol of its below set,
by further items. The outcome of a set of suffixes on a symbol, which lists the suffixes that are still
pending, is computed once.
When: once for each exploration, after the walk. `equivalence.classes.colors` compares the results.
Limits: the number of items is bounded; rows and lists are charged to the account. Two threads must not use
the same items at once, because they share the space.

A row is (tag, value). With tag -1, the value is a label, or -1 at the end of a symbol's rows. A tag of 0 or
more is a port; the value is the item of the suffixes that can continue there (without such suffixes, there is
no row). A tag of -2 or less is a final configuration.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.pairs import Pairs
from cython.cimports.equivalence.arrays.records import zeros
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.parser.space import REJECT, Space, after
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.walks.outcomes import outcome_of
from numpy.typing import NDArray

from equivalence.arrays.records import Kind
from equivalence.errors import BudgetExceeded

check_source(__name__)

Integers = NDArray[np.int64]

ROW = Kind("tag value")

FIRST_ITEMS = 1024
"""Initial room for items."""

FIRST_ROWS = 8192

FIRST_OUTCOMES = 1024
"""Sets on symbols that fit at first."""

OUTRIGHT = cython.declare(cython.Py_ssize_t, 1)

ROWS_AN_ITEM = cython.declare(cython.Py_ssize_t, 64)
"""The maximum number of rows, as a multiple of that of items."""


class ItemRows(NamedTuple):
    """Queries and items, as rows.

    Attributes:
        rows: int64[n, 2], rows (tag, value).
        query_starts: int64[Q + 1], where the rows of each query begin.
        item_starts: int64[I + 1], where the rows of each item begin.
        below_of_item: int64[I], the below set of each item.
    """

    rows: Integers
    query_starts: Integers
    item_starts: Integers
    below_of_item: Integers


def read_items(queries: Integers, items: Items) -> ItemRows:
    """Express all queries by items, and read all items on all symbols of their below sets.

    Args:
        queries: int64[Q, 2], rows (outcome, below set), of the outcomes and the network of `items`.
        items: has no items yet.

    Raises:
        BudgetExceeded: more items, outcomes, configurations or bytes than allowed, or told to stop.
    """
    query_starts = items.ask(queries)
    items.read()
    n = items.items.count
    # not `np.asarray`, which parses the names of the fields in Python, and hides Ctrl-C that comes meanwhile
    rows = np.frombuffer(items.rows, np.int64)[: 2 * items.n_rows].reshape(-1, 2)
    found = ItemRows(
        rows, query_starts,
        np.array(items.item_starts[: n + 1]), np.asarray(items.items.pool)[1 : 2 * n : 2].copy(),
    )  # fmt: skip
    items.release()
    return found


@cython.final
@cython.cclass
class Items:
    """The items found so far, and their rows.

    Args:
        space: the configurations.
        below: what may lie below each state (`Network.below`). Below set i contains the symbols
            ``below_symbols[k]``, for k from ``below_starts[i]`` on; below each of them lies the set
            ``below_of_symbol[k]``.
        follow: the bytes that can come next in it (`equivalence.walks.follow.Follow`).
        suffixes: for each suffix, the suffix without its first byte, int32[S], and that byte, uint8[S].
        outcomes: the outcomes of tokens; those of suffixes on symbols are added.
        displacement: also distinguish what tokens leave on the stack.
        most: the maximum number of items.

    Attributes:
        first, symbol_first: the byte classes that can come next on each below set, and on each symbol.
        return_first: the byte classes that can come next after each symbol has returned.
        symbol_start: the configuration of each distinct symbol.
        sets: the sets of suffixes.
        memo: pairs (set, symbol), and the outcome of each.
        pairs: the pending suffixes of the current set, with their ports; and its final configurations.
        items: the items as pairs (set of suffixes, below set).
        rows: the rows of queries, then those of items; `n_rows` of them.
        item_starts: where the rows of each item begin.
        leads: the byte classes with which the current suffixes begin.
        lead_stamp: for each byte class, the last item with a suffix that begins with it.
    """

    def __init__(
        self,
        space: Space,
        below: Any,
        follow: Any,
        suffixes: tuple[NDArray[np.int32], NDArray[np.uint8]],
        outcomes: Interned,
        displacement: cython.bint,
        most: cython.Py_ssize_t,
    ) -> None:
        self.space = space
        self.account = space.account
        self.outcomes = outcomes
        self.displacement = displacement
        self.most = most
        self.below_starts = below.below_starts
        self.below_of_symbol = below.below_of_symbol
        self.symbol_index = follow.symbol_index
        self.first = follow.below
        self.symbol_first = follow.on_symbols
        self.return_first = follow.returns
        self.suffix_parent, self.suffix_byte = suffixes
        room: cython.Py_ssize_t = min(FIRST_ITEMS, most)
        self.sets = Interned(room, 16, most, self.account, outcomes.excess)
        self.memo = Pairs(FIRST_OUTCOMES, self.account)
        self.pairs = np.empty(256, np.int64)
        self.items = Interned(room, 2, most, self.account, outcomes.excess)
        self.leads = np.empty(space.n_classes, np.int64)
        self.lead_stamp = np.full(space.n_classes, -1, np.int64)
        self.rows = zeros(ROW, FIRST_ROWS)
        self.n_rows = 0
        self.item_starts = np.empty(room + 1, np.int64)
        self.account.claim(self.own_bytes())
        self.find_starts(follow.symbols)

    def find_starts(self, symbols):
        """Find the configuration of each distinct symbol."""
        self.symbol_start = np.empty(symbols.shape[0], np.int64)
        with cython.nogil:
            for i in range(symbols.shape[0]):
                self.symbol_start[i] = self.space.context(symbols[i])

    # ---------------------------------------------------------------- from Python

    def ask(self, queries: cython.const[cython.Py_ssize_t][:, ::1]) -> Integers:
        """Write the rows of queries, before those of items. Return where each query's begin, int64[Q + 1]."""
        n: cython.Py_ssize_t = queries.shape[0]
        self.account.claim(8 * (n + 1))
        starts: cython.Py_ssize_t[::1] = np.zeros(n + 1, np.int64)
        with cython.nogil:
            for q in range(n):
                self.add_rows(queries[q, 0], queries[q, 1])
                starts[q + 1] = self.n_rows
        return np.asarray(starts)

    def read(self) -> None:
        """Read all items, including those that are found on the way."""
        item: cython.Py_ssize_t = 0
        with cython.nogil:
            self.item_starts[0] = self.n_rows
            while item < self.items.count:
                self.account.check()
                self.read_item(item)
                item += 1
                if item >= self.item_starts.shape[0]:
                    with cython.gil:
                        self.grow_item_starts()
                self.item_starts[item] = self.n_rows

    def release(self) -> None:
        """Release all data that the result does not need. Nothing can be read afterwards."""
        size = self.rows.shape[0]
        n: cython.Py_ssize_t = self.items.count
        freed = self.own_bytes() + self.sets.nbytes + self.memo.nbytes + self.items.nbytes
        self.sets = self.items = self.memo = None
        self.account.claim(0, freed - 16 * size - 8 * (2 * n + 1))

    # ---------------------------------------------------------------- one item

    def read_item(self, item):
        """Write the rows of an item on each symbol of its below set."""
        suffixes = self.items.pool[2 * item]
        below = self.items.pool[2 * item + 1]
        n_leads = self.find_leads(suffixes, item)
        for k in range(self.below_starts[below], self.below_starts[below + 1]):
            symbol = self.symbol_index[k]
            for i in range(n_leads):
                if self.symbol_first[symbol, self.leads[i]]:
                    self.add_rows(self.outcome_on(suffixes, symbol), self.below_of_symbol[k])
                    break
            self.add_row(-1, -1)

    def find_leads(self, suffixes, item):
        """Find the byte classes with which the suffixes of a set begin. Return their number."""
        n: cython.Py_ssize_t = 0
        for k in range(self.sets.starts[suffixes], self.sets.starts[suffixes + 1]):
            c = self.space.class_of_byte[self.suffix_byte[self.sets.pool[k]]]
            if self.lead_stamp[c] != item:
                self.lead_stamp[c] = item
                self.leads[n] = c
                n += 1
        return n

    # ---------------------------------------------------------------- a set of suffixes on a symbol

    def outcome_on(self, suffixes, symbol):
        """The outcome of a set of suffixes on a symbol, computed once."""
        number = self.memo.number(suffixes, symbol)
        if self.memo.rows[number].result < 0:
            self.memo.rows[number].result = cython.cast(cython.int, self.read_symbol(suffixes, symbol))
        return self.memo.rows[number].result

    def read_symbol(self, suffixes, symbol):
        """Compute the outcome of a set of suffixes on a symbol."""
        n: cython.Py_ssize_t = 0
        label: cython.Py_ssize_t = -1
        for k in range(self.sets.starts[suffixes], self.sets.starts[suffixes + 1]):
            suffix = self.sets.pool[k]
            configuration = self.symbol_start[symbol]
            while suffix != 0 and configuration != REJECT:
                c = self.space.class_of_byte[self.suffix_byte[suffix]]
                if self.space.facts[configuration].n_ports > 0 and self.return_first[symbol, c]:
                    n = self.leave(configuration, suffix, n)
                configuration = after(self.space, configuration, c)
                suffix = self.suffix_parent[suffix]
            if configuration == REJECT:
                continue
            if self.displacement:
                n = self.add_pair(n, (-2 - configuration) << 30)  # a negative port is a final configuration
            elif label < 0 or self.space.facts[configuration].label < label:
                label = self.space.facts[configuration].label
        return OUTRIGHT if label == 0 else outcome_of(self.outcomes, label, self.pairs, n)

    def leave(self, configuration, suffix, n):
        """Record that a suffix is pending at each port of a configuration. Return the number of pairs."""
        at = self.space.configurations.starts[configuration] + 2
        for k in range(at, at + self.space.facts[configuration].n_ports):
            n = self.add_pair(n, ((-1 - self.space.configurations.pool[k]) << 30) + suffix)
        return n

    def add_pair(self, n, pair):
        """Insert a pair into the sorted pairs. Return their number."""
        if n >= self.pairs.shape[0]:
            with cython.gil:
                self.pairs = self.account.bigger(self.pairs, 2 * n)
        return insert_sorted(self.pairs, 0, n, pair)

    # ---------------------------------------------------------------- rows

    def add_rows(self, outcome, below):
        """Write the rows of an outcome over a below set."""
        i = self.outcomes.starts[outcome]
        end = self.outcomes.starts[outcome + 1]
        if self.outcomes.pool[i] >= 0:
            self.add_row(-1, self.outcomes.pool[i])
        i += 1
        while i < end:
            port = self.outcomes.pool[i]
            if port < 0:
                self.add_row(port, 0)
                i += 2
                continue
            begin = self.sets.room((end - i) >> 1)
            n: cython.Py_ssize_t = 0
            while i < end and self.outcomes.pool[i] == port:
                suffix = self.outcomes.pool[i + 1]
                if self.first[below, self.space.class_of_byte[self.suffix_byte[suffix]]]:
                    self.sets.pool[begin + n] = suffix
                    n += 1
                i += 2
            if n > 0:
                suffixes = self.sets.intern(n)
                self.add_row(port, self.items.pair(suffixes, below))

    def add_row(self, tag, value):
        """Write a row."""
        n = self.n_rows
        if n >= self.rows.shape[0]:
            with cython.gil:
                self.grow_rows()
        self.rows[n].tag = tag
        self.rows[n].value = value
        self.n_rows = n + 1

    # ---------------------------------------------------------------- room

    def own_bytes(self):
        """Bytes of the arrays that grow, without interned lists."""
        return 16 * self.rows.shape[0] + 8 * (self.item_starts.shape[0] + self.pairs.shape[0])

    def grow_rows(self):
        """Make room for more rows."""
        old: cython.Py_ssize_t = self.rows.shape[0]
        if old > ROWS_AN_ITEM * self.most:
            raise BudgetExceeded(self.outcomes.excess)
        self.rows = self.account.bigger(self.rows, 2 * old)

    def grow_item_starts(self):
        """Make room for the rows of more items."""
        self.item_starts = self.account.bigger(self.item_starts, 2 * self.item_starts.shape[0])
