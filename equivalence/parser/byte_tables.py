# cython: language_level=3
# mypy: ignore-errors
"""Byte classes: sets of bytes that no state of a grammar distinguishes, and which of them each state can
read.

What: `ByteTables` is the data about bytes that a `Space` and classifiers need. `call_ranks` orders states so
that callers come after the states that they call.
When: once for each network, before it is explored, and for each classifier that is read from a file.
Limits: no rule calls itself before it has read a byte. `equivalence.network` ensures that. For classifiers
from files, the ranks of the file are checked instead, and `call_ranks` is not used.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.records import zeros
from cython.cimports.equivalence.parser.automaton import Automaton, begin_of
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.libc.string import memset
from numpy.typing import NDArray

from equivalence.arrays.records import Kind

check_source(__name__)

Integers = NDArray[np.int64]

FEW_STATES = cython.declare(cython.Py_ssize_t, 1_000)
"""The tables of fewer states are made with the interpreter's lock held: the ranks of 100 states take a
microsecond, what they can read first takes 10, and waiting for the lock again takes longer if threads compete
for it."""


BYTE_CLASS = Kind("byte word_0 word_1")


@cython.final
@cython.no_gc
@cython.cclass
class ByteTables:
    """The byte classes of a network with S states; there are B of them. No edge distinguishes bytes of one
    class.

    Args:
        automaton: the states of the network.
        rank: int64[S], the ranks of the states (`call_ranks`), less than S.
        stop: an `equivalence.deadline.deadline.Stop`; None: nothing stops the computation.

    Attributes:
        class_of_byte: int64[256], ascending.
        first_bits: uint64[S, ceil(B / 64)], a bit for each class that a state can read next, also by a call.
        n_classes: B.
        rows: for each class its first byte, and its ASCII bytes as two words of 64 bits.
        class_row, bits: `class_of_byte` and `first_bits` for kernels.

    Raises:
        BudgetExceeded: the computation was stopped.
    """

    def __init__(self, automaton: Automaton, rank: Integers, stop: Any = None) -> None:
        # arrays are kept, not views of views, which the garbage collector would visit as long as they live
        self.class_of_byte = np.empty(256, np.int64)
        classes: cython.Py_ssize_t[::1] = self.class_of_byte
        self.class_row = classes
        self.n_classes = divide_bytes(automaton, classes)
        self.rows = zeros(BYTE_CLASS, self.n_classes)
        self.fill_rows()
        self.first_bits = np.empty((automaton.n_states, (self.n_classes + 63) >> 6), np.uint64)
        bits: cython.ulonglong[:, ::1] = self.first_bits
        bits[:, :] = 0
        self.bits = bits
        ranks: cython.const[cython.Py_ssize_t][::1] = rank
        account: Account = Account(stop)
        room: cython.Py_ssize_t[::1] = account.new_integers(2 * automaton.n_states + 1)
        if automaton.n_states < FEW_STATES:
            fill_bits(automaton, self.class_row, ranks, bits, account, room)
        else:
            with cython.nogil:
                fill_bits(automaton, self.class_row, ranks, bits, account, room)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return self.class_of_byte.nbytes + self.first_bits.nbytes + BYTE_CLASS.size * self.n_classes

    @property
    def first(self) -> NDArray[np.uint8]:
        """uint8[S, B], a new array: whether a state can read a class next, also by a call."""
        octets = self.first_bits.astype("<u8", copy=False).view(np.uint8)
        return np.unpackbits(octets, axis=1, count=self.n_classes, bitorder="little")

    def fill_rows(self):
        """Find the first byte of each class, and its ASCII bytes."""
        byte: cython.Py_ssize_t
        for byte in range(255, -1, -1):
            self.rows[self.class_row[byte]].byte = byte
        for byte in range(128):
            bit: cython.ulonglong = 1
            bit <<= byte & 63
            if byte < 64:
                self.rows[self.class_row[byte]].word_0 |= cython.cast(cython.Py_ssize_t, bit)
            else:
                self.rows[self.class_row[byte]].word_1 |= cython.cast(cython.Py_ssize_t, bit)


def fill_bits(automaton, class_of_byte, ranks, bits, account, room):
    """Set the bits of `ByteTables`, which are 0; `room` is for 2 S + 1 numbers."""
    n: cython.Py_ssize_t = automaton.n_states
    order: cython.Py_ssize_t[::1] = room[:n]
    by_rank(ranks, order, room[n:])  # callees first
    ones: cython.ulonglong = 0
    ones = ~ones
    for i in range(n):
        state = order[i]
        account.check()
        for k in range(automaton.edge_starts[state], automaton.edge_starts[state + 1]):
            low = class_of_byte[automaton.edges[k].first]
            high = class_of_byte[automaton.edges[k].last]
            first: cython.Py_ssize_t = low >> 6
            last: cython.Py_ssize_t = high >> 6
            from_low: cython.ulonglong = ones << (low & 63)
            to_high: cython.ulonglong = ones >> (63 - (high & 63))
            if first == last:
                bits[state, first] |= from_low & to_high
            else:
                bits[state, first] |= from_low
                for w in range(first + 1, last):
                    bits[state, w] = ones
                bits[state, last] |= to_high
        for k in range(automaton.call_starts[state], automaton.call_starts[state + 1]):
            begin = begin_of(automaton, k)
            for w in range(bits.shape[1]):
                bits[state, w] |= bits[begin, w]


def divide_bytes(automaton, class_of_byte):
    """Fill in the class of each byte, and return the number of classes."""
    begins = cython.declare(cython.uchar[257])
    n: cython.Py_ssize_t = 0
    # with the interpreter's lock held: this takes a microsecond or two, and releasing the lock takes as long
    memset(cython.address(begins[0]), 0, 257)
    begins[0] = 1
    for k in range(automaton.edges.shape[0]):
        begins[automaton.edges[k].first] = 1
        begins[automaton.edges[k].last + 1] = 1
    for byte in range(256):
        n += begins[byte]
        class_of_byte[byte] = n - 1
    return n


def call_ranks(automaton: Automaton) -> Integers:
    """The rank of each state, int64[S]: 0 for states without calls, otherwise more than the ranks of all
    states with which its calls begin."""
    n: cython.Py_ssize_t = automaton.n_states
    ranks = np.empty(n, np.int64)
    rank: cython.Py_ssize_t[::1] = ranks
    rank[:] = 0
    room: cython.Py_ssize_t[::1] = np.empty(2 * n, np.int64)
    if n < FEW_STATES:
        find_ranks(automaton, rank, room[:n], room[n:])
    else:
        with cython.nogil:
            find_ranks(automaton, rank, room[:n], room[n:])
    return ranks


def find_ranks(automaton, rank, at, path):
    """Compute the ranks of all states, which must be 0 before. `at` and `path` have room for a number for
    each state."""
    n = automaton.n_states
    for state in range(n):  # the next call of each state
        at[state] = automaton.call_starts[state]
    for origin in range(n):
        path[0] = origin
        depth: cython.Py_ssize_t = 1
        while depth > 0:
            state = path[depth - 1]
            if at[state] == automaton.call_starts[state + 1]:
                depth -= 1
                continue
            begin = begin_of(automaton, at[state])
            if at[begin] < automaton.call_starts[begin + 1]:
                path[depth] = begin
                depth += 1
                continue
            rank[state] = max(rank[state], rank[begin] + 1)
            at[state] += 1


def by_rank(rank, order, places):
    """Sort the n states by rank; states of equal rank keep their order. Ranks are less than n, and `places`
    provides room for n + 1 numbers."""
    n: cython.Py_ssize_t = rank.shape[0]
    places[: n + 1] = 0
    for state in range(n):
        places[rank[state] + 1] += 1
    for state in range(n):
        places[state + 1] += places[state]
    for state in range(n):
        order[places[rank[state]]] = state
        places[rank[state]] += 1
