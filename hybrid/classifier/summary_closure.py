# cython: language_level=3
# mypy: ignore-errors
"""Compute summaries ahead of time: read each pending set on each symbol that the network allows below it.

What: `SummaryClosure` goes through the contexts of a network and what may lie below them, and fills the
tables of a store. `run` does a part of the work and continues where the last call stopped.
When: used by `hybrid.classifier.promotion`, in pieces, between which matchers use the same tables.
Limits: below sets allow more stacks than occur.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.parser.frames import counting
from cython.cimports.equivalence.parser.space import Space
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.counter_abstraction import room_of
from cython.cimports.hybrid.classifier.store import Store
from cython.cimports.hybrid.classifier.summaries import Summaries
from cython.cimports.hybrid.classifier.walker import Walker

check_source(__name__)


@cython.final
@cython.cclass
class SummaryClosure:
    """The computation of all summaries of a store.

    Args:
        store: the store whose tables are filled; nothing else may use them during `run`.
        below: what may lie below each state of its network (`Network.below`).

    Attributes:
        queue: pairs [pending set, below set] to read, each once, including those already read.
        n_contexts: how many contexts are done.
        head: the pair that is being read. `run` begins again with it: what is known takes 20 ns a summary.
        most: the number of pairs at which `run` returns.
    """

    walker: Walker
    summaries: Summaries
    space: Space
    contexts: cython.const[cython.Py_ssize_t][::1]
    context_starts: cython.const[cython.Py_ssize_t][::1]
    context_below: cython.const[cython.Py_ssize_t][::1]
    below_symbols: cython.const[cython.Py_ssize_t][::1]
    below_of_symbol: cython.const[cython.Py_ssize_t][::1]
    below_starts: cython.const[cython.Py_ssize_t][::1]
    queue: Interned
    n_contexts: cython.Py_ssize_t
    head: cython.Py_ssize_t
    most: cython.Py_ssize_t

    def __init__(self, store: Store, below: Any) -> None:
        self.walker = store.walker
        self.summaries = store.summaries
        self.space = store.space
        self.contexts, self.context_starts = below.contexts, below.context_starts
        self.context_below, self.below_starts = below.context_below, below.below_starts
        self.below_symbols, self.below_of_symbol = below.below_symbols, below.below_of_symbol
        self.queue = Interned(512, 2)
        self.n_contexts = self.head = self.most = 0

    def run(self, states: cython.Py_ssize_t, contexts: cython.Py_ssize_t) -> bool:
        """Do some more of the work.

        Args:
            states: how many summaries may be added.
            contexts: how many contexts of the network may be begun.

        Returns:
            Whether work is left.

        Raises:
            BudgetExceeded: the store's bytes are used up; results so far are kept.
        """
        done: cython.bint = False
        self.most = self.summaries.pairs.count + states
        end: cython.Py_ssize_t = min(self.n_contexts + contexts, self.contexts.shape[0])
        with cython.nogil:
            if self.begin_contexts(end) and self.read_queue():
                done = end == self.contexts.shape[0]
        return not done

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def begin_contexts(self, end: cython.Py_ssize_t) -> cython.int:
        """Queue what contexts leave pending. Return whether all contexts before `end` are done."""
        while self.n_contexts < end:
            symbol = self.contexts[self.n_contexts]
            state: cython.Py_ssize_t = symbol
            if symbol < 0:  # a counter frame on which the next unit begins
                state = self.space.automaton.counted[-1 - symbol].start
            if self.summaries.first[state].mask < 0:
                self.walker.read_top(state)
            pending: cython.Py_ssize_t = self.summaries.first[state].pending
            begin = self.context_starts[self.n_contexts]
            end_of_context = self.context_starts[self.n_contexts + 1] if pending != 0 else begin
            for k in range(begin, end_of_context):
                if symbol >= 0:
                    self.queue.pair(pending, self.context_below[k])
                elif not self.push_through(pending, symbol, self.context_below[k]):
                    return 0
            self.n_contexts += 1
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def read_queue(self) -> cython.int:
        """Read the queue. Return whether it is empty."""
        while self.head < self.queue.count:
            pending = self.queue.pool[2 * self.head]
            below = self.queue.pool[2 * self.head + 1]
            for k in range(self.below_starts[below], self.below_starts[below + 1]):
                if not self.push_through(pending, self.below_symbols[k], self.below_of_symbol[k]):
                    return 0
            self.head += 1
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def push_through(
        self, pending: cython.Py_ssize_t, symbol: cython.Py_ssize_t, below: cython.Py_ssize_t
    ) -> cython.int:
        """Read a pending set on a symbol of a below set, and queue what is left. Return 0 if that must wait.

        A counter frame is read at every count that tokens distinguish.
        """
        if symbol >= 0:
            return self.push_left(pending, symbol, below)
        unit = -1 - symbol
        least = self.space.automaton.counted[unit].least
        most = self.space.automaton.counted[unit].most
        reach = self.walker.longest + 1
        count: cython.Py_ssize_t = 0
        while count <= least or count < most:
            if not self.push_left(pending, self.walker.symbol_of(counting(unit, 0), count), below):
                return 0
            count += max(1, room_of(count, least, most) - reach)
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def push_left(
        self, pending: cython.Py_ssize_t, symbol: cython.Py_ssize_t, below: cython.Py_ssize_t
    ) -> cython.int:
        """Read a pending set on a symbol and queue what is left. Return 0 if there would be too many
        states."""
        self.space.account.check()
        pair = self.summaries.pairs.number(pending, symbol)
        if self.summaries.pairs.rows[pair].result < 0:
            if self.summaries.pairs.count > self.most:
                return 0
            self.walker.read_below(pair)
        if self.summaries.pairs.rows[pair].rest != 0:
            self.queue.pair(self.summaries.pairs.rows[pair].rest, below)
        return 1
