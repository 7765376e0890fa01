# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Edges of byte automata: a growing table, and characters as edges.

What: `Edges` owns the edges and counts the states of all automata of a network; characters become chains of
byte ranges. `Ordered` has them by source.
When: while a network is built; `equivalence.network.automata` fills the table.
Limits: the automata are not deterministic, and states have no order.

Every index is always checked, because edges come from the text of a grammar. All of this takes a thirtieth
of the time of a network.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import of_array
from cython.cimports.equivalence.built import check_source
from cython.cimports.equivalence.network.edge_types import BYTES
from numpy.typing import NDArray

from equivalence.arrays.growing import record_type
from equivalence.arrays.records import Kind
from equivalence.errors import GrammarError, UnsupportedGrammar
from equivalence.network import dialect

check_source(__name__)

FIELDS = "source type a b target"
"""Columns of an edge; `equivalence.network.edge_types` says what it does."""

EDGE, ROWS = record_type(FIELDS), Kind(FIELDS)

LAST = cython.declare(cython.Py_ssize_t, 0x10FFFF)  # the last code point
LOOSE = cython.declare(cython.bint, dialect.LOOSE)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def utf8_length(code: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Bytes of a code point."""
    if code < 0x80:
        return 1
    if code < 0x800:
        return 2
    return 3 if code < 0x10000 else 4


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def utf8_byte(code: cython.Py_ssize_t, length: cython.Py_ssize_t, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Byte i of a code point that has `length` bytes; also for surrogates."""
    rest = code >> (6 * (length - 1 - i))
    if i > 0:
        return 0x80 | (rest & 0x3F)
    if length == 1:
        return rest
    if length == 2:
        return 0xC0 | rest
    return 0xE0 | rest if length == 3 else 0xF0 | rest


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def last_of_length(length: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The last code point that has `length` bytes."""
    if length == 1:
        return 0x7F
    if length == 2:
        return 0x7FF
    return 0xFFFF if length == 3 else LAST


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def block_end(
    low: cython.Py_ssize_t, high: cython.Py_ssize_t, length: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """The last code point from `low` to `high` up to which every byte varies independently.

    All code points of the range must have `length` bytes. The range is cut into blocks with full trailing
    bytes, so that each block is one chain of byte ranges.
    """
    end = high
    bits: cython.Py_ssize_t = 0
    for _ in range(1, length):
        bits = (bits << 6) | 0x3F
        if low & ~bits != end & ~bits:
            if low & bits:
                return low | bits
            if end & bits != bits:
                end = (end & ~bits) - 1
    return end


@cython.final
@cython.cclass
class Edges:
    """Edges, and the states between them.

    Args:
        n_states: states that exist already.
        room: edges that fit at first.

    Attributes:
        array: int64[., 5], the edges, and room for more.
        rows: the same as records.
        count: number of edges.
        n_states: number of states.
    """

    def __init__(self, n_states: cython.Py_ssize_t, room: cython.Py_ssize_t) -> None:
        self.count = 0
        self.make_rows(room)
        self.n_states = n_states

    def make_rows(self, room):
        """Replace the table by a new one."""
        self.array = np.empty((room, 5), np.int64)
        self.rows = of_array(self.array, ROWS)

    def grow(self):
        """Double the room."""
        full = self.array
        self.make_rows(2 * len(full))
        self.array[: len(full)] = full

    def table(self) -> NDArray[np.int64]:
        """The edges, int64[count, 5], not copied."""
        return self.array[: self.count]

    def renew(self, n_states, room):
        """Delete all edges, set the number of states, and make room for `room` edges."""
        if room > self.rows.shape[0]:
            self.make_rows(room)
        self.count = 0
        self.n_states = n_states

    def put(self, ready: NDArray[np.int64], n_states: cython.Py_ssize_t) -> None:
        """Replace all edges, int64[n, 5]."""
        count: cython.Py_ssize_t = len(ready)
        self.renew(n_states, count + 1)
        self.array[:count] = ready
        self.count = count

    def state(self):
        """A new state."""
        self.n_states += 1
        return self.n_states - 1

    def add(self, source, edge_type, a, b, target):
        """Add an edge."""
        n = self.count
        if n == self.rows.shape[0]:
            with cython.gil:
                self.grow()
        self.rows[n].source = source
        self.rows[n].type = edge_type
        self.rows[n].a = a
        self.rows[n].b = b
        self.rows[n].target = target
        self.count = n + 1

    def characters(self, low, high, source, target):
        """Add edges for the code points low..high; code points with several bytes share their states.

        Raises:
            GrammarError: there are no such code points.
        """
        if low < 0:
            with cython.gil:
                raise GrammarError(f"a character class has the code point {low}")
        if LOOSE:
            return self.loose_code_points(low, high, source, target)
        if low <= 0x80 and high == LAST:
            if low < 0x80:
                self.add(source, BYTES, low, 0x7F, target)
            return self.several_bytes(source, target)
        return self.code_points(low, high, source, target)

    def code_points(self, low, high, source, target):
        """Add edges for the UTF-8 encodings of the code points low..high."""
        while low <= high:
            length = utf8_length(low)
            end = min(high, last_of_length(length))
            self.blocks(low, end, length, source, target)
            low = end + 1

    def loose_code_points(self, low, high, source, target):
        """Add edges like `code_points`, and for overlong encodings with more bytes than `low` has."""
        for length in range(1, 5):
            first = last_of_length(length - 1) + 1 if length > 1 else 0
            last = last_of_length(length)
            if low > last or high < first:
                continue
            begin = low if low >= first else 0
            end = min(high, last)
            if length > 2 and end & 0xFFF != 0xFFF and begin >> 12 != end >> 12:
                with cython.gil:
                    raise UnsupportedGrammar(
                        f"the grammar has a range of characters up to U+{high:04X}, which XGrammar before "
                        "0.2.8 reads with gaps"
                    )
            self.blocks(begin, end, length, source, target)

    def blocks(self, low, high, length, source, target):
        """Add edges for the encodings of low..high, which have `length` bytes."""
        while low <= high:
            end = block_end(low, high, length)
            current = source
            for i in range(length):
                following = self.state() if i + 1 < length else target
                self.add(current, BYTES, utf8_byte(low, length, i), utf8_byte(end, length, i), following)
                current = following
            low = end + 1

    def continuations(self, target):
        """Add three states from which one, two and three continuation bytes lead to another. Return the
        first."""
        one = self.n_states
        two, three = one + 1, one + 2
        self.n_states += 3
        self.add(one, BYTES, 0x80, 0xBF, target)
        self.add(two, BYTES, 0x80, 0xBF, one)
        self.add(three, BYTES, 0x80, 0xBF, two)
        return one

    def several_bytes(self, source, target):
        """Add edges for every character of several bytes; they share the states after the first byte."""
        one = self.continuations(target)
        two, three = one + 1, one + 2
        after_e0, after_f0, after_f4 = one + 3, one + 4, one + 5
        self.n_states += 3
        self.add(after_e0, BYTES, 0xA0, 0xBF, one)
        self.add(after_f0, BYTES, 0x90, 0xBF, two)
        self.add(after_f4, BYTES, 0x80, 0x8F, two)
        self.add(source, BYTES, 0xC2, 0xDF, one)
        self.add(source, BYTES, 0xE0, 0xE0, after_e0)
        self.add(source, BYTES, 0xE1, 0xEF, two)
        self.add(source, BYTES, 0xF0, 0xF0, after_f0)
        self.add(source, BYTES, 0xF1, 0xF3, three)
        self.add(source, BYTES, 0xF4, 0xF4, after_f4)

    def loosely(self, source, target):
        """Add edges for everything that has the first and later bytes of several-byte characters,
        well-formed or not."""
        one = self.continuations(target)
        self.add(source, BYTES, 0xC0, 0xDF, one)
        self.add(source, BYTES, 0xE0, 0xEF, one + 1)
        self.add(source, BYTES, 0xF0, 0xF7, one + 2)

    def others(self, ranges, source, target):
        """Add edges for all code points that are not in some ranges, each given as low << 21 | high."""
        following: cython.Py_ssize_t = 0
        for i in range(ranges.sort()):
            low = ranges.values[i] >> 21
            if low > following:
                self.characters(following, low - 1, source, target)
            following = max(following, (ranges.values[i] & 0x1FFFFF) + 1)
        if following <= LAST:
            self.characters(following, LAST, source, target)


@cython.final
@cython.cclass
class Ordered:
    """Edges sorted by source; edges of one source keep their order.

    Attributes:
        starts: where the edges of each state start, one entry more than there are states.
        rows: the edges.
    """

    def __init__(self) -> None:
        self.starts = self.starts_room = np.empty(0, np.int64)
        self.rows = self.rows_room = np.empty(0, EDGE)

    def prepare(self, n_edges, n_states):
        """Make room for `n_edges` edges between `n_states` states."""
        if n_states + 2 > self.starts_room.shape[0]:
            with cython.gil:
                self.starts_room = np.empty(n_states + n_states // 2 + 2, np.int64)
        if n_edges > self.rows_room.shape[0]:
            with cython.gil:
                self.rows_room = np.empty(n_edges + n_edges // 2, EDGE)
        self.starts = self.starts_room[: n_states + 1]
        self.rows = self.rows_room[:n_edges]

    @cython.boundscheck(False)  # possible violations are checked below
    def sort(self, edges):
        """Sort edges into this table.

        Raises:
            IndexError: a source or a target of an edge is not a state.
        """
        n_states: cython.Py_ssize_t = edges.n_states
        self.prepare(edges.count, n_states)
        starts: cython.Py_ssize_t[::1] = self.starts_room
        for s in range(n_states + 2):
            starts[s] = 0
        for i in range(edges.count):
            source, target = edges.rows[i].source, edges.rows[i].target
            if not (0 <= source < n_states and 0 <= target < n_states):
                with cython.gil:
                    raise IndexError(f"edge {i} is not between {n_states} states")
            starts[source + 2] += 1
        for s in range(n_states):
            starts[s + 2] += starts[s + 1]
        for i in range(edges.count):
            at = starts[edges.rows[i].source + 1]
            starts[edges.rows[i].source + 1] = at + 1
            self.rows[at] = edges.rows[i]

    def table(self) -> NDArray[np.int64]:
        """The edges, int64[n, 5], as a copy."""
        made = np.empty((self.rows.shape[0], 5), np.int64)
        view: cython.Py_ssize_t[:, ::1] = made
        for i in range(self.rows.shape[0]):
            view[i, 0], view[i, 1] = self.rows[i].source, self.rows[i].type
            view[i, 2], view[i, 3], view[i, 4] = self.rows[i].a, self.rows[i].b, self.rows[i].target
        return made
