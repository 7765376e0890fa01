# cython: language_level=3
# mypy: ignore-errors
"""Rows of finished masks, by configuration: a cached mask is copied.

What: `Rows` holds the masks over the vocabulary that a session has computed for some stop ids.
Configurations with the same mask of classes share a row. Each finds the address of its row with one look
into an array.
When: one for each session and set of stop ids. Rows are added with the classifier's lock held, and copied
without any lock, even in free-threaded Python.

The row of a mask with few tokens, or with one large class and few others, is stored as a *patch*: the words
in which it differs from an empty row, or from that class's row. Nearly all masks of JSON documents are
patches: a patch takes a few hundred bytes. A row takes 16 KB of memory, which is new for each mask, and may
cost a page fault for each 4 KB.

Rejected: patches of rows that were written before. Comparing a new row with others took longer than writing
it, and saved a tenth of the memory of a C-like grammar.

Limits: rows are never changed or deleted. An array of addresses that was replaced by a larger one is kept,
because a thread may be reading it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.atomic import publish
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.rows import (
    address_of_bytes,
    address_of_words,
    bytes_of_patch,
    copy_row,
    source_of,
    word_of,
)
from cython.cimports.hybrid.values.gather import Gather
from numpy.typing import NDArray

check_source(__name__)

ROW_BYTES = 200
"""The memory that a mask needs besides its words: that of the array object."""

PATCHED = cython.declare(cython.Py_ssize_t, 4)
"""A patch may change this fraction (1 / PATCHED) of a row's words. If more change, copying a row is
faster."""

WORD = cython.declare(cython.Py_ssize_t, (1 << 32) - 1)
IS_PATCH = cython.declare(cython.Py_ssize_t, 2)

MOST_STOPS = cython.declare(cython.Py_ssize_t, 64)
"""With more stop ids than this, rows are not patches."""

_spare: dict[int, list[Any]] = {}
"""A `Spare` for each size of row: a new one would cost page faults. It belongs to one user at a time."""


@cython.final
@cython.cclass
class Spare:
    """Scratch space for the patch of a mask.

    Args:
        n_words: words of a row.

    Attributes:
        marks: uint32[n_words]; zeros, except while a patch is made.
        pairs: a patch, with room for as many words as it may change, and for stop ids.
        places: the part of it for words with tokens.
        words: uint32, words of a mask of classes.
    """

    def __init__(self, n_words: cython.Py_ssize_t) -> None:
        most: cython.Py_ssize_t = max(1, n_words // PATCHED)
        self.marks = np.zeros(n_words, np.uint32)
        self.pairs = np.empty(2 + most + MOST_STOPS, np.int64)
        self.places = self.pairs[2 : 2 + most]
        self.words = np.empty(64, np.uint32)


def spare_of(n_words):
    """A `Spare` that only the caller uses."""
    unused: list = _spare.setdefault(n_words, [])
    try:
        return unused.pop()
    except IndexError:
        return Spare(n_words)


def give_back(spare, n_words):
    """Return a `Spare` for the next caller; not after an error, which may leave it in any state."""
    unused: list = _spare[n_words]
    if not unused:
        unused.append(spare)


@cython.final
@cython.no_gc
@cython.cclass
class Rows:
    """The masks that were computed for some stop ids.

    Args:
        gather: expands masks of classes.
        stops: the stop ids, which are ids of the vocabulary. They are allowed where the text may end, and
            only there.

    Attributes:
        of_configuration: for each configuration, the address of its row's words, plus 1 if the row forbids
            any id, plus 2 if it is a patch; 0: not known. Everything that a copy needs to know is in one
            place.
        of_mask: the same for each result of `Store.class_mask`.
        rows: the rows and patches; this keeps them in memory.
        address, size: where this array is, and its size, for readers.
        former: the array that it replaced, linked to the one before that; None: there is none.
        nbytes: bytes of memory.
    """

    def __init__(self, gather: Gather, stops: Sequence[int]) -> None:
        self.gather = gather
        self.n_bytes = 4 * gather.n_words
        self.stops = np.array(stops, np.int64)
        if any(not 0 <= stop < gather.vocab_size for stop in stops):
            raise ValueError(f"the stop ids are {tuple(stops)}, the vocabulary has {gather.vocab_size} ids")
        both: cython.Py_ssize_t[::1] = np.empty(128, np.int64)
        both[:] = 0
        self.use(both[:64])
        self.of_mask = both[64:]
        self.rows = []
        self.former = None
        self.nbytes = 0

    def knows(self, configuration: cython.Py_ssize_t) -> bool:
        """Whether the row of a configuration is known."""
        return source_of(self, configuration) != 0

    def copy(self, configuration: cython.Py_ssize_t, words: cython.uint[::1]) -> int:
        """Copy the row of a configuration, if it is known.

        Args:
            configuration: any number.
            words: uint32, as many as a row has.

        Returns:
            Whether the row forbids any id; -1 if the row is not known. Then nothing was written.
        """
        if words.shape[0] != self.gather.n_words:
            raise ValueError(f"a row has {self.gather.n_words} words, not {words.shape[0]}")
        source = source_of(self, configuration)
        if source == 0:
            return -1
        copy_row(source, address_of_words(words), self.n_bytes)
        return source & 1

    def shares(self, configuration: cython.Py_ssize_t, mask: cython.Py_ssize_t) -> cython.bint:
        """Whether another configuration has the same mask. If so, they share the row from now on.

        Args:
            configuration: a configuration of the session.
            mask: its result of `Store.class_mask`.
        """
        if mask >= self.of_mask.shape[0] or self.of_mask[mask] == 0:
            return False
        self.note(configuration, self.of_mask[mask])
        return True

    def make(
        self, configuration: cython.Py_ssize_t, number: cython.Py_ssize_t, mask: cython.Py_ssize_t,
        masks: Interned, kept: object = None, more: object = None,
    ) -> cython.int:  # fmt: skip
        """Make and store the row of a mask that has none.

        Args:
            configuration: a configuration of the session.
            number: the number by which `shares` will look for the row; odd if the text may end here.
            mask: the result of `Store.class_mask`.
            masks: the masks of the same store.
            kept, more: uint32[words of a row]: the bits of the classes' row that are kept, and the bits
                that are added; ``None``: the row is unchanged.
        """
        spare = spare_of(self.gather.n_words)
        if not 0 <= mask >> 1 < masks.count or number < 0:
            raise ValueError(f"there is no mask {mask}")
        begin = masks.starts[mask >> 1]
        n: cython.Py_ssize_t = masks.starts[(mask >> 1) + 1] - begin
        if n < (self.gather.n_classes + 31) // 32:
            raise ValueError(f"a mask of {n} words is too short")
        if spare.words.shape[0] < n:
            spare.words = np.empty(n, np.uint32)
        words: cython.uint[::1] = spare.words[:n]  # after them may be old words of another grammar's masks
        for w in range(n):
            words[w] = cython.cast(cython.uint, masks.pool[begin + w] & WORD)
        whole: cython.bint = number & 1
        needed: cython.Py_ssize_t = self.patch(words, whole, spare) if kept is None else -1
        source: cython.Py_ssize_t
        size: cython.Py_ssize_t
        if needed >= 0:
            made = bytes_of_patch(spare.pairs)
            size = len(made)
            source = address_of_bytes(made) | IS_PATCH | needed
        else:
            made = np.empty(self.gather.n_words, np.uint32)
            out: cython.uint[::1] = made
            self.gather.fill(words, out)
            if kept is not None:
                change_row(out, kept, more)
            needed = self.finish(out, whole)
            size = self.n_bytes
            source = address_of_words(out) | needed
        if number >= self.of_mask.shape[0]:
            self.nbytes += 8 * (2 * number - self.of_mask.shape[0])
            self.of_mask = _longer(self.of_mask, 2 * number)
        self.rows.append(made)
        self.of_mask[number] = source
        self.nbytes += size + ROW_BYTES
        self.note(configuration, source)
        give_back(spare, self.gather.n_words)
        return 0

    def patch(self, given, whole, spare):
        """Write the patch of a mask with few tokens, or with one large class and few others, without its row.

        Args:
            given: the words of the mask of classes.
            whole: whether the stop ids are allowed.
            spare: gets the patch.

        Returns:
            Whether the row forbids any id; -1 if the mask is not of this kind.
        """
        base: cython.Py_ssize_t = 0
        n: cython.Py_ssize_t = 0 if self.stops.shape[0] <= MOST_STOPS else -1
        marks, pairs, places = spare.marks, spare.pairs, spare.places
        last: cython.Py_ssize_t = (self.gather.n_classes + 31) // 32
        word: cython.Py_ssize_t
        for word in range(last):
            bits: cython.uint = given[word]
            number: cython.Py_ssize_t = 32 * word
            while bits and n >= 0 and number < self.gather.n_classes:
                if bits & 1:
                    row = self.gather.row_of(number)
                    if row == 0:
                        n = self.gather.mark(number, marks, places, n)
                    elif base == 0:
                        base = row
                    else:
                        n = -1
                bits >>= 1
                number += 1
        needed: cython.Py_ssize_t = -1
        if n >= 0:
            n = self.mark_stops(base, whole, marks, pairs, n)
            needed = (not whole and self.stops.shape[0] > 0) or not self.is_full(base, marks)
            pairs[0] = base
            pairs[1] = n
            self.write_pairs(base, whole, marks, pairs)
            for k in range(2, 2 + n):
                marks[pairs[k] >> 32] = 0
        else:
            marks[:] = 0
        return needed

    def mark_stops(self, base, whole, marks, pairs, n):
        """Set the bits of the stop ids, or record the words in which a bit must be cleared. `n` words were
        recorded before; return how many are now."""
        one: cython.uint = 1
        for i in range(self.stops.shape[0]):
            w = self.stops[i] >> 5
            bit = one << (self.stops[i] & 31)
            if whole:
                if marks[w] == 0:
                    pairs[2 + n] = w
                    n += 1
                marks[w] |= bit
            elif marks[w] == 0 and word_of(base, w) & bit:
                pairs[2 + n] = w
                n += 1
        return n

    def write_pairs(self, base, whole, marks, pairs):
        """Write the words after their places."""
        one: cython.uint = 1
        k: cython.Py_ssize_t
        for k in range(2, 2 + pairs[1]):
            place: cython.longlong = pairs[k]
            word: cython.uint = marks[place] | word_of(base, place)
            if not whole:
                for i in range(self.stops.shape[0]):
                    if self.stops[i] >> 5 == place:
                        word &= ~(one << (self.stops[i] & 31))
            pairs[k] = place << 32 | cython.cast(cython.longlong, word)

    def is_full(self, base, marks):
        """Whether a base and some more bits allow every id."""
        one: cython.uint = 1
        full: cython.Py_ssize_t = self.gather.vocab_size >> 5
        for w in range(full):
            if cython.cast(cython.uint, ~(marks[w] | word_of(base, w))):
                return False
        rest: cython.uint = 0
        if self.gather.vocab_size & 31:
            rest = ~(marks[full] | word_of(base, full)) & ((one << (self.gather.vocab_size & 31)) - 1)
        return rest == 0

    def note(self, configuration, source):
        """Store where a configuration's row is."""
        if configuration >= self.of_configuration.shape[0]:
            longer = _longer(self.of_configuration, 2 * configuration)
            self.former = (np.asarray(self.of_configuration), self.former)
            self.use(longer)
            self.nbytes += 8 * self.of_configuration.shape[0]
        publish(cython.address(self.of_configuration[configuration]), source)

    def use(self, of_configuration):
        """Show an array of addresses to readers."""
        self.of_configuration = of_configuration
        address = cython.cast(cython.Py_ssize_t, cython.address(of_configuration[0]))
        publish(cython.address(self.address), address)
        publish(cython.address(self.size), of_configuration.shape[0])

    def finish(self, out, whole):
        """Set the stop ids of a row if and only if the text may end. Return whether the row forbids any
        id."""
        one: cython.uint = 1
        i: cython.Py_ssize_t
        for i in range(self.stops.shape[0]):
            if whole:
                out[self.stops[i] >> 5] |= one << (self.stops[i] & 31)
            else:
                out[self.stops[i] >> 5] &= ~(one << (self.stops[i] & 31))
        return not self.is_full(0, out)


def change_row(
    row: cython.uint[::1], kept: cython.const[cython.uint][::1], more: cython.const[cython.uint][::1]
) -> None:
    """Keep some bits of a row, and add others.

    Raises:
        ValueError: arrays of different lengths.
    """
    if kept.shape[0] != row.shape[0] or more.shape[0] != row.shape[0]:
        raise ValueError(f"a row has {row.shape[0]} words")
    for w in range(row.shape[0]):
        row[w] = row[w] & kept[w] | more[w]


def _longer(numbers: Any, size: int) -> NDArray[np.int64]:
    """A copy with room for more numbers; new ones are 0."""
    return np.concatenate([np.asarray(numbers), np.zeros(size - len(numbers), np.int64)])
