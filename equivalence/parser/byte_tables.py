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

from typing import Any, NamedTuple

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.parser.automaton import Automaton
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.libc.string import memset
from numpy.typing import NDArray

check_source(__name__)

Integers = NDArray[np.int64]

FEW_STATES = cython.declare(cython.Py_ssize_t, 10_000)
"""The ranks of fewer states are found with the interpreter's lock held: this takes a microsecond for 100
states, and waiting for the lock again takes longer if threads compete for it."""


class ByteTables(NamedTuple):
    """The byte classes of a network with S states; there are B of them.

    Attributes:
        class_of_byte: int64[256], ascending.
        example: int64[B], a byte of each class.
        first: uint8[S, B], whether a state can read a class next, also by a call.
    """

    class_of_byte: Integers
    example: Integers
    first: NDArray[np.uint8]


def byte_tables_of(automaton: Automaton, rank: Integers, stop: Any = None) -> ByteTables:
    """The byte classes of a network.

    Args:
        automaton: the states of the network.
        rank: int64[S], the ranks of the states (`call_ranks`).
        stop: an `equivalence.deadline.deadline.Stop`; None: nothing stops the computation.

    Raises:
        BudgetExceeded: it was stopped.
    """
    class_of_byte, example = byte_classes(automaton)
    first = first_classes(automaton, class_of_byte, len(example), rank, Account(stop))
    return ByteTables(class_of_byte, example, first)


def byte_classes(automaton: Automaton) -> tuple[Integers, Integers]:
    """The class of each byte, int64[256], and a byte of each class. No edge distinguishes bytes of one
    class."""
    begins = cython.declare(cython.uchar[257])
    # arrays are returned, not views of views, which the garbage collector would visit as long as they live
    classes, examples = np.empty(256, np.int64), np.empty(256, np.int64)
    class_of_byte: cython.Py_ssize_t[::1] = classes
    example: cython.Py_ssize_t[::1] = examples
    n: cython.Py_ssize_t = 0
    # with the interpreter's lock held: this takes a microsecond or two, and releasing the lock takes as long
    memset(cython.address(begins[0]), 0, 257)
    begins[0] = 1
    for k in range(automaton.edges.shape[0]):
        begins[automaton.edges[k].first] = 1
        begins[automaton.edges[k].last + 1] = 1
    for byte in range(256):
        if begins[byte]:
            example[n] = byte
            n += 1
        class_of_byte[byte] = n - 1
    return classes, examples[:n].copy()


def call_ranks(automaton: Automaton) -> Integers:
    """The rank of each state, int64[S]: 0 for states without calls, otherwise more than the ranks of all
    states with which its calls begin."""
    n: cython.Py_ssize_t = automaton.n_states
    ranks = np.zeros(n, np.int64)
    rank: cython.Py_ssize_t[::1] = ranks
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


def first_classes(
    automaton: Automaton,
    class_of_byte: cython.const[cython.Py_ssize_t][::1],
    n_classes: cython.Py_ssize_t,
    rank: Integers,
    account: Account,
) -> NDArray[np.uint8]:
    """Which classes each state can read next; see `ByteTables`.

    Args:
        automaton: the states; the edges of each are sorted and disjoint.
        class_of_byte: int64[256], from `byte_classes`.
        n_classes: number of classes.
        rank: int64[S], from `call_ranks`; less than S.
        account: provides memory, and may stop the computation.

    Raises:
        BudgetExceeded: it was stopped.
    """
    n: cython.Py_ssize_t = automaton.n_states
    firsts = np.empty((n, n_classes), np.uint8)
    first: cython.uchar[:, ::1] = firsts
    ranks: cython.const[cython.Py_ssize_t][::1] = rank
    room = account.new_integers(2 * n + 1)
    order: cython.Py_ssize_t[::1] = room[:n]
    with cython.nogil:
        by_rank(ranks, order, room[n:])  # callees first
        for i in range(n):
            state = order[i]
            account.check()
            memset(cython.address(first[state, 0]), 0, n_classes)
            for k in range(automaton.edge_starts[state], automaton.edge_starts[state + 1]):
                low = class_of_byte[automaton.edges[k].first]
                high = class_of_byte[automaton.edges[k].last]
                memset(cython.address(first[state, low]), 1, high + 1 - low)
            for k in range(automaton.call_starts[state], automaton.call_starts[state + 1]):
                begin = begin_of(automaton, k)
                for c in range(n_classes):
                    first[state, c] |= first[begin, c]
    return firsts


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


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def begin_of(automaton: Automaton, call: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The state with which a call begins."""
    callee = automaton.calls[call].callee
    return callee if callee >= 0 else automaton.counted[-1 - callee].start
