# cython: language_level=3
# mypy: ignore-errors
"""The walk along a trie that turns byte strings into strings of byte classes.

What: `string_keys` gives byte strings equal keys if they are equally long and, position by position, their
bytes are of one UTF-8 kind and do the same in every state that may be there.
When: once per grammar that needs classes of byte strings (`equivalence.classes.byte_strings.classes`).
Limits: `TooManySets`, where positions are told apart by more sets of states than allowed.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.hashing import mix
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.equivalence.classes.byte_strings.columns import Columns
from numpy.typing import NDArray

from equivalence import built
from equivalence.arrays.growing import bigger
from equivalence.classes.byte_strings.automata import Automata
from equivalence.trie import Trie

built.check(__name__, EQUIMASK_SOURCE)


class TooManySets(Exception):
    """Positions are told apart by more sets of states than allowed."""


def string_keys(
    trie: Trie, automata: Automata, account: Account, most: cython.Py_ssize_t = 0
) -> tuple[NDArray[np.int64], int, int]:
    """Keys of the groups of a trie: numbers of their strings of byte classes.

    Args:
        trie: of the byte strings.
        automata: whose states read them.
        account: looked at for the word to stop.
        most: sets of states that the bytes of a position may be parted by; 0: bytes are parted by all states,
            whatever the position.

    Returns:
        (key of each group int64[G], -1 where no state reads one of its bytes; a bound of the keys; how many
        sets of states were met).

    Raises:
        TooManySets: more of them than `most`.
        BudgetExceeded: somebody has said stop.
    """
    byte: cython.const[cython.uchar][::1] = trie.byte
    depth: cython.const[cython.int][::1] = trie.depth
    skip: cython.const[cython.int][::1] = trie.skip
    group: cython.const[cython.int][::1] = trie.group
    columns = Columns(automata.starts, automata.rows, account)
    sets = StateSets(columns, automata.reach, max(most, 1), account)
    strings = Interned(1024, 2)  # nodes of a trie of classes, as (parent, class), from 1
    result = np.full(trie.n_groups, -1, np.int64)
    keys: cython.Py_ssize_t[::1] = result
    node_at: cython.Py_ssize_t[::1] = np.zeros(trie.longest + 1, np.int64)
    set_at: cython.Py_ssize_t[::1] = np.zeros(trie.longest + 1, np.int64)
    in_context: cython.bint = most > 0
    i: cython.Py_ssize_t = 1
    d: cython.Py_ssize_t
    with cython.nogil:
        while i < byte.shape[0]:
            account.look()
            d = depth[i]
            current = set_at[d - 1]
            c = sets.byte_class[current, byte[i]]
            if c < 0:
                i = skip[i]
                continue
            set_at[d] = sets.step(current, byte[i]) if in_context else 0
            begin = strings.room(2)
            strings.pool[begin] = node_at[d - 1]
            strings.pool[begin + 1] = c
            node_at[d] = strings.intern(2) + 1
            if group[i + 1] > group[i]:
                keys[group[i]] = node_at[d]
            i += 1
    return result, strings.count + 1, sets.count


@cython.final
@cython.cclass
class StateSets:
    """Sets of states that may be at a position, and how each parts the bytes; set 0 has all states.

    Args:
        columns: what bytes do in the states.
        reach: uint64[entries, words], the states that each entry leads to, one bit each.
        most: sets that there may be.
        account: looked at for the word to stop.

    Attributes:
        members: uint64[sets, words], the states of each set; a new one is written behind the last.
        byte_class: int64[sets, 256], the class of each byte, dense from 0; -1 where no state reads it.
        following: int64[sets, 256], the next set by class, -1 = not known yet.
        count: sets.
        seen: of each part of the columns the last set that was parted by it, plus 1.
        head, next: the classes that a class was parted into so far, as linked lists.
        first: of each such class its first byte.
        live: of each byte whether some state reads it.
    """

    columns: Columns
    reach: cython.const[cython.ulonglong][:, ::1]
    most: cython.Py_ssize_t
    account: Account
    members: cython.ulonglong[:, ::1]
    byte_class: cython.Py_ssize_t[:, ::1]
    following: cython.Py_ssize_t[:, ::1]
    count: cython.Py_ssize_t
    table: cython.int[::1]
    seen: cython.Py_ssize_t[::1]
    head: cython.Py_ssize_t[::1]
    next: cython.Py_ssize_t[::1]
    first: cython.Py_ssize_t[::1]
    live: cython.uchar[::1]

    def __init__(
        self,
        columns: Columns,
        reach: cython.const[cython.ulonglong][:, ::1],
        most: cython.Py_ssize_t,
        account: Account,
    ) -> None:
        self.columns = columns
        self.reach = reach
        self.most = most
        self.account = account
        states = np.arange(columns.n_states)
        members = np.zeros((16, reach.shape[1]), np.uint64)
        np.bitwise_or.at(members[0], states >> 6, np.uint64(1) << (states & 63).astype(np.uint64))
        self.members = members
        self.byte_class = np.zeros((16, 256), np.int64)
        self.following = np.full((16, 256), -1, np.int64)
        self.table = np.full(64, -1, np.int32)
        self.seen = np.zeros(len(columns.example), np.int64)
        self.head = np.zeros(256, np.int64)
        self.next = np.zeros(256, np.int64)
        self.first = np.zeros(256, np.int64)
        self.live = np.zeros(256, np.uint8)
        self.part(0)
        self.count = 1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def step(self, current: cython.Py_ssize_t, byte: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The set behind a byte that some state of a set reads.

        Raises:
            TooManySets: it would be one more than allowed.
        """
        c = self.byte_class[current, byte]
        if self.following[current, c] < 0:
            if self.count == self.members.shape[0]:
                with cython.gil:
                    self.grow()
            self.reach_from(current, byte)
            self.following[current, c] = self.keep()
        return self.following[current, c]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def reach_from(self, current: cython.Py_ssize_t, byte: cython.Py_ssize_t) -> cython.void:
        """Write the states that may come behind a byte to where the next set goes."""
        made = self.count
        s: cython.Py_ssize_t
        for v in range(self.members.shape[1]):
            self.members[made, v] = 0
        for w in range(self.members.shape[1]):
            word = cython.cast(cython.ulonglong, self.members[current, w])
            state = 64 * w
            while word:
                if word & 1:
                    s = self.columns.columns[state, byte]
                    for k in range(self.columns.set_starts[s], self.columns.set_starts[s + 1]):
                        for v in range(self.members.shape[1]):
                            self.members[made, v] |= self.reach[self.columns.entries[k], v]
                word >>= 1
                state += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def keep(self) -> cython.Py_ssize_t:
        """The number of the set that was written behind the last one, which stays there if it is new."""
        made = self.count
        slot = self.slot(made)
        if self.table[slot] >= 0:
            return self.table[slot]
        if made >= self.most:
            with cython.gil:
                raise TooManySets
        self.part(made)
        self.table[slot] = cython.cast(cython.int, made)
        self.count = made + 1
        return made

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def slot(self, number: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The place in the table of the set with the states of this one, or an empty one."""
        h: cython.Py_ssize_t = 7
        for v in range(self.members.shape[1]):
            word = cython.cast(cython.ulonglong, self.members[number, v])
            h = mix(h, cython.cast(cython.Py_ssize_t, word & 0x3FFFFFFF))
            h = mix(h, cython.cast(cython.Py_ssize_t, word >> 30))
        last: cython.Py_ssize_t = self.table.shape[0] - 1
        h &= last
        while self.table[h] >= 0:
            other = cython.cast(cython.Py_ssize_t, self.table[h])
            v = 0
            while v < self.members.shape[1] and self.members[other, v] == self.members[number, v]:
                v += 1
            if v == self.members.shape[1]:
                return h
            h = (h + 1) & last
        return h

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self) -> cython.int:
        """Make room for twice as many sets."""
        size = 2 * self.count
        self.members = bigger(self.members, size)
        self.byte_class = bigger(self.byte_class, size)
        following = np.full((size, 256), -1, np.int64)
        following[: self.count] = self.following
        self.following = following
        if 2 * size > self.table.shape[0]:
            self.table = np.full(4 * size, -1, np.int32)
            number: cython.Py_ssize_t
            for number in range(1, self.count):  # set 0 is not found: bytes lead to one of their own
                self.table[self.slot(number)] = cython.cast(cython.int, number)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def part(self, number: cython.Py_ssize_t) -> cython.int:
        """Part the bytes by UTF-8 kind, and by what every state of a set does on them."""
        for b in range(256):
            self.byte_class[number, b] = utf8_kind(b)
            self.live[b] = 0
        for w in range(self.members.shape[1]):
            word = cython.cast(cython.ulonglong, self.members[number, w])
            state = 64 * w
            while word:
                if word & 1:
                    part = self.columns.part_of_state[state]
                    if self.seen[part] <= number:
                        self.seen[part] = number + 1
                        self.account.look()
                        self.refine(number, self.columns.example[part])
                word >>= 1
                state += 1
        self.number_live(number)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def refine(self, number: cython.Py_ssize_t, state: cython.Py_ssize_t) -> cython.void:
        """Let bytes stay together if they were and if a state does the same on them."""
        n: cython.Py_ssize_t = 0
        k: cython.Py_ssize_t
        for b in range(256):
            self.head[b] = -1
        for b in range(256):
            entries = self.columns.columns[state, b]
            if entries > 0:
                self.live[b] = 1
            c = self.byte_class[number, b]
            k = self.head[c]
            while k >= 0 and self.columns.columns[state, self.first[k]] != entries:
                k = self.next[k]
            if k < 0:
                k = n
                n += 1
                self.first[k] = b
                self.next[k] = self.head[c]
                self.head[c] = k
            self.byte_class[number, b] = k

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def number_live(self, number: cython.Py_ssize_t) -> cython.void:
        """Number the classes on which something is read from 0, in the order of their first bytes."""
        n: cython.Py_ssize_t = 0
        for b in range(256):
            self.head[b] = -1
        for b in range(256):
            c = self.byte_class[number, b]
            if not self.live[b]:
                self.byte_class[number, b] = -1
                continue
            if self.head[c] < 0:
                self.head[c] = n
                n += 1
            self.byte_class[number, b] = self.head[c]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def utf8_kind(byte: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """0 ASCII, 1 continuation, 2 to 4 lead of a character of so many bytes, 5 never in UTF-8."""
    if byte < 0x80:
        return 0
    if byte < 0xC0:
        return 1
    if byte < 0xE0:
        return 2
    if byte < 0xF0:
        return 3
    return 4 if byte < 0xF8 else 5


def number_keys(
    keys: cython.const[cython.Py_ssize_t][::1],
    n_keys: cython.Py_ssize_t,
    lengths: cython.const[cython.Py_ssize_t][::1],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Dense classes from keys.

    Args:
        keys: int64[V], the key of each token, below `n_keys`; -1 = none.
        lengths: int64[V], bytes of each token.

    Returns:
        (class of each token int32[V], -1 = none; representatives int32[classes]). Classes are numbered in the
        order of their first ids; a representative is the shortest token, the lowest id among equals.
    """
    number: cython.Py_ssize_t[::1] = np.full(n_keys + 1, -1, np.int64)
    classes = np.full(keys.shape[0], -1, np.int32)
    class_of: cython.int[::1] = classes
    representatives: cython.int[::1] = np.zeros(min(n_keys, keys.shape[0]) + 1, np.int32)
    n: cython.Py_ssize_t = 0
    with cython.nogil:
        for t in range(keys.shape[0]):
            if keys[t] < 0:
                continue
            c = number[keys[t]]
            if c < 0:
                c = n
                number[keys[t]] = c
                representatives[c] = cython.cast(cython.int, t)
                n += 1
            class_of[t] = cython.cast(cython.int, c)
            if lengths[t] < lengths[representatives[c]]:
                representatives[c] = cython.cast(cython.int, t)
    return classes, np.array(representatives[:n])
