# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Edges of byte automata: a growing table, and characters as edges.

What: `Edges` owns the edges and counts the states of all automata of a network; characters become chains of
byte ranges. `SortedEdges` has them by source.
When: while a network is built; `equivalence.network.automata` fills the table.
Limits: the automata are not deterministic, and states have no order.

Every index is always checked, because edges come from the text of a grammar. All of this takes a thirtieth
of the time of a network.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import empty, of_array
from cython.cimports.equivalence.network.edge_types import BYTES
from cython.cimports.equivalence.network.edges import Edge
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.records import Kind
from equivalence.errors import GrammarError, UnsupportedGrammar
from equivalence.network import dialect

check_source(__name__)

FIELDS = "source type a b target"
"""Columns of an edge; `equivalence.network.edge_types` says what it does."""

EDGE = Kind(FIELDS, np.int32)

LAST = cython.declare(cython.Py_ssize_t, 0x10FFFF)  # the last code point
FIRSTS = cython.declare(cython.Py_ssize_t[::1], np.array([0, 0x80, 0x800, 0x10000, 0x110000], np.int64))
LEADS = cython.declare(cython.Py_ssize_t[::1], np.array([0, 0, 0xC0, 0xE0, 0xF0], np.int64))
"""The first code points with more than 0 to 4 bytes, and the bits with which the first of so many begins."""

LOOSE = cython.declare(cython.bint, dialect.LOOSE)
SHARED = cython.declare(cython.Py_ssize_t, 8)  # targets whose states are shared at a time


@cython.final
@cython.cclass
class Edges:
    """Edges, and the states between them.

    Args:
        n_states: states that exist already.
        room: initial room for edges.

    Attributes:
        array: int32[., 5], the edges, and room for more.
        rows: the same as records.
        count: number of edges.
        n_states: number of states.
        shared: int64[8 * 5], for each of eight targets: the target, how many states it has, and the states
            from which one, two and three continuation bytes lead there. The last bits of a target decide its
            place. With one place, Unicode classes that alternate took half as many states again.
    """

    def __init__(self, n_states: cython.Py_ssize_t, room: cython.Py_ssize_t) -> None:
        self.shared = np.empty(SHARED * 5, np.int64)
        self.make_rows(room)
        self.renew(n_states, room)

    def make_rows(self, room):
        """Replace the table by a new one."""
        self.array = np.empty((room, 5), np.int32)
        self.rows = of_array(self.array, EDGE)

    def grow(self):
        """Double the room."""
        full: Edge[::1] = self.rows
        self.make_rows(2 * full.shape[0])
        self.rows[: full.shape[0]] = full

    def table(self) -> NDArray[np.int32]:
        """The edges, int32[count, 5], not copied."""
        return self.array[: self.count]

    def renew(self, n_states, room):
        """Delete all edges, set the number of states, and make room for `room` edges."""
        if room > self.rows.shape[0]:
            self.make_rows(room)
        self.count = 0
        self.n_states = n_states
        for place in range(SHARED):
            self.shared[5 * place] = -1

    def put(self, ready: NDArray[np.int64], n_states: cython.Py_ssize_t) -> None:
        """Replace all edges, int64[n, 5].

        Raises:
            IndexError: a number exceeds 32 bits.
        """
        count: cython.Py_ssize_t = len(ready)
        self.renew(n_states, count + 1)
        self.array[:count] = ready
        if (self.array[:count] != ready).any():
            raise IndexError("an edge refers to something that does not exist")
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
        """Add edges for the code points low..high, none if low > high; code points with several bytes share
        their states.

        Raises:
            GrammarError: there are no such code points.
        """
        if low < 0:
            with cython.gil:
                raise GrammarError(
                    f"the code points of a character class must be from 0 to {LAST}, but one is {low}"
                )
        if low > high:
            return 0
        if LOOSE:
            return self.loose_code_points(low, high, source, target)
        return self.code_points(low, high, source, target)

    def code_points(self, low, high, source, target):
        """Add edges for the UTF-8 encodings of the code points low..high, also of surrogates."""
        for length in range(1, 5):
            first, last = FIRSTS[length - 1], FIRSTS[length] - 1
            if low <= last and high >= first:
                self.encodings(max(low, first), min(high, last), length, LEADS[length], source, target)

    def loose_code_points(self, low, high, source, target):
        """Add edges like `code_points`, and for overlong encodings with more bytes than `low` has."""
        for length in range(1, 5):
            first, last = FIRSTS[length - 1], FIRSTS[length] - 1
            if low > last or high < first:
                continue
            begin = low if low >= first else 0
            end = min(high, last)
            if length > 2 and end & 0xFFF != 0xFFF and begin >> 12 != end >> 12:
                with cython.gil:
                    raise UnsupportedGrammar(
                        f"the grammar has a range of characters up to U+{high:04X}, which XGrammar before "
                        "0.2.8 reads with gaps; install XGrammar 0.2.8 or newer"
                    )
            self.encodings(begin, end, length, LEADS[length], source, target)

    def encodings(self, low, high, length, lead, source, target):
        """Add edges for numbers from low to high in `length` bytes of six bits each.

        The first byte also has the bits of `lead`. The range is cut at both ends, where its last bytes are
        restricted; between the cuts they are arbitrary.
        """
        one: cython.Py_ssize_t = 1
        bits = 6 * (length - 1)
        mask = (one << bits) - 1
        first, last = low >> bits, high >> bits
        if first == last and length > 1:
            return self.behind(lead | first, low & mask, high & mask, length - 1, source, target)
        if low & mask:
            self.behind(lead | first, low & mask, mask, length - 1, source, target)
            first += 1
        if high & mask != mask:
            self.behind(lead | last, 0, high & mask, length - 1, source, target)
            last -= 1
        if first <= last:
            self.add(source, BYTES, lead | first, lead | last, self.continued(length - 1, target))
        return 0

    def behind(self, byte, low, high, length, source, target):
        """Add an edge for one byte, and after it edges for `length` continuation bytes from low to high."""
        one: cython.Py_ssize_t = 1
        if low == 0 and high == (one << (6 * length)) - 1:
            return self.add(source, BYTES, byte, byte, self.continued(length, target))
        state = self.state()
        self.add(source, BYTES, byte, byte, state)
        return self.encodings(low, high, length, 0x80, state, target)

    def continued(self, length, target):
        """The state from which `length` arbitrary continuation bytes lead to a target; shared, if the target
        still has its place."""
        if length == 0:
            return target
        place = 5 * (target % SHARED)
        if self.shared[place] != target:
            self.shared[place] = target
            self.shared[place + 1] = 0
        for n in range(self.shared[place + 1], length):
            state = self.state()
            self.add(state, BYTES, 0x80, 0xBF, self.shared[place + 1 + n] if n else target)
            self.shared[place + 2 + n] = state
            self.shared[place + 1] = n + 1
        return self.shared[place + 1 + length]

    def loosely(self, source, target):
        """Add edges for everything that has the first and later bytes of several-byte characters,
        well-formed or not."""
        self.add(source, BYTES, 0xC0, 0xDF, self.continued(1, target))
        self.add(source, BYTES, 0xE0, 0xEF, self.continued(2, target))
        self.add(source, BYTES, 0xF0, 0xF7, self.continued(3, target))

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
class SortedEdges:
    """Edges sorted by source; edges of one source keep their order.

    Attributes:
        starts: where the edges of each state start, one entry more than there are states.
        rows: the edges.
    """

    def __init__(self) -> None:
        self.starts = self.starts_room = np.empty(0, np.int64)
        self.rows = self.rows_room = empty(EDGE, 0)

    def prepare(self, n_edges, n_states):
        """Make room for `n_edges` edges between `n_states` states."""
        if n_states + 2 > self.starts_room.shape[0]:
            with cython.gil:
                self.starts_room = np.empty(n_states + n_states // 2 + 2, np.int64)
        if n_edges > self.rows_room.shape[0]:
            with cython.gil:
                self.rows_room = empty(EDGE, n_edges + n_edges // 2)
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
