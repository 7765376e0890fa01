# cython: language_level=3
# mypy: ignore-errors
"""Rows of finished masks, by configuration: what was asked before is copied.

What: `Rows` holds the masks over the vocabulary that a session has met under some stop ids. Configurations
with the same mask of classes share one; each finds the address of its own by one look into an array.
When: one for each session and set of stop ids; matchers copy known rows without any lock.
Limits: rows are never changed or forgotten. All methods hold the interpreter's lock from beginning to end
where they look or write, so that threads see arrays before or after they grew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cython
import numpy as np
from numpy.typing import NDArray

from equivalence import built

if cython.compiled:
    from cython.cimports.equivalence.built import EQUIMASK_SOURCE
    from cython.cimports.hybrid.representatives.gather import Gather
    from cython.cimports.libc.string import memcpy

    built.check(__name__, EQUIMASK_SOURCE)
else:
    from ctypes import memmove as memcpy

    from hybrid.representatives.gather import Gather

    def source_of(rows: Rows, configuration: int) -> int:
        """Where a configuration's row is, plus 1 where it forbids any id; 0: not known."""
        return (
            int(rows.of_configuration[configuration])
            if 0 <= configuration < len(rows.of_configuration)
            else 0
        )

    def fetch_row(source: int, address: int, n_bytes: int) -> None:
        """Ask the processor for the beginnings of the pages that a copy reads and writes, all at once.

        A row is 16 KB, on five pages of 4 KB on each side, and processors fetch ahead within a page: with
        cold caches a copy takes 2.1 us so, else 2.6.
        """


ROW_BYTES = 200
"""Memory of one mask besides its words: the array that holds them."""


@cython.final
@cython.cclass
class Rows:
    """The masks met under some stop ids.

    Args:
        gather: expands masks of classes.
        stops: the stop ids, which are allowed where the text may end, and only there; ids of the vocabulary.

    Attributes:
        of_configuration: of each configuration the address of its row's words, plus 1 where the row forbids
            any id; 0: not known. What a copy needs to know stands in one place.
        of_mask: of each number that `Store.class_mask` gives, the same.
        rows: the words of the rows, which keep them in memory.
        nbytes: memory held.
    """

    def __init__(self, gather: Gather, stops: Sequence[int]) -> None:
        self.gather = gather
        self.n_bytes = 4 * gather.n_words
        self.stops = np.array(stops, np.int64)
        if any(not 0 <= stop < gather.vocab_size for stop in stops):
            raise ValueError(f"the stop ids are {tuple(stops)}, the vocabulary has {gather.vocab_size} ids")
        self.of_configuration = np.zeros(64, np.int64)
        self.of_mask = np.zeros(64, np.int64)
        self.rows = []
        self.n_configurations = 0
        self.nbytes = 0

    def __len__(self) -> int:
        """How many configurations have their row."""
        return self.n_configurations

    @property
    def n_rows(self) -> int:
        """How many different masks there are."""
        return len(self.rows)

    def knows(self, configuration: cython.Py_ssize_t) -> bool:
        """Whether the row of a configuration is known."""
        return source_of(self, configuration) != 0

    def copy(self, configuration: cython.Py_ssize_t, words: cython.uint[::1]) -> int:
        """Copy the row of a configuration, if it is known.

        Args:
            configuration: any number.
            words: uint32, as many as a row has.

        Returns:
            Whether the row forbids any id; -1: it is not known, and nothing was written.
        """
        if words.shape[0] != self.gather.n_words:
            raise ValueError(f"{words.shape[0]} words are no row, which has {self.gather.n_words}")
        source = source_of(self, configuration)
        if source == 0:
            return -1
        if cython.compiled:
            memcpy(
                cython.cast(cython.p_void, cython.address(words[0])),
                cython.cast(cython.p_void, source & ~1),
                self.n_bytes,
            )
        else:
            memcpy(words.ctypes.data, source & ~1, self.n_bytes)
        return source & 1

    def of(self, configuration: cython.Py_ssize_t, mask: cython.Py_ssize_t) -> bool:
        """Whether another configuration has the mask; its row is this one's too then.

        Args:
            configuration: one of the session.
            mask: the number that `Store.class_mask` says of it.
        """
        if mask >= self.of_mask.shape[0] or self.of_mask[mask] == 0:
            return False
        self.note(configuration, self.of_mask[mask])
        return True

    def make(self, configuration: cython.Py_ssize_t, mask: cython.Py_ssize_t, words: Any) -> None:
        """Make and keep the row of a mask that has none.

        Args:
            configuration, mask: as `of` takes them.
            words: uint32, the words of the mask of classes.
        """
        given: cython.const[cython.uint][::1] = words
        if given.shape[0] < (self.gather.n_classes + 31) // 32 or mask < 0:
            raise ValueError(f"a mask of {given.shape[0]} words has not enough of them")
        whole: cython.bint = mask & 1
        made = np.empty(self.gather.n_words, np.uint32)
        out: cython.uint[::1] = made
        with cython.nogil:
            self.gather.fill(given, out)
            needed = self.finish(out, whole)
        source: cython.Py_ssize_t = made.ctypes.data
        source |= needed
        if mask >= self.of_mask.shape[0]:
            self.nbytes += 8 * (2 * mask - self.of_mask.shape[0])
            self.of_mask = _longer(self.of_mask, 2 * mask)
        self.rows.append(made)
        self.of_mask[mask] = source
        self.nbytes += self.n_bytes + ROW_BYTES
        self.note(configuration, source)

    @cython.cfunc
    def note(self, configuration: cython.Py_ssize_t, source: cython.Py_ssize_t) -> cython.void:
        """Note where a configuration's row is."""
        size: cython.Py_ssize_t = self.of_configuration.shape[0]
        if configuration >= size:
            self.of_configuration = _longer(self.of_configuration, 2 * configuration)
            self.nbytes += 8 * (self.of_configuration.shape[0] - size)
        if self.of_configuration[configuration] == 0:
            self.n_configurations += 1
        self.of_configuration[configuration] = source

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def finish(self, out: cython.uint[::1], whole: cython.bint) -> cython.bint:
        """Set the stop ids of a row iff the text so far is whole; whether the row forbids any id."""
        one: cython.uint = 1
        both: cython.uint = 0
        i: cython.Py_ssize_t
        for i in range(self.stops.shape[0]):
            if whole:
                out[self.stops[i] >> 5] |= one << (self.stops[i] & 31)
            else:
                out[self.stops[i] >> 5] &= ~(one << (self.stops[i] & 31))
        full = self.gather.vocab_size >> 5
        for i in range(full):
            both |= ~out[i]
        if self.gather.vocab_size & 31:
            both |= ~out[full] & ((one << (self.gather.vocab_size & 31)) - 1)
        return both != 0


def _longer(numbers: Any, size: int) -> NDArray[np.int64]:
    """A copy with room for so many numbers; 0 where there were none."""
    longer = np.zeros(size, np.int64)
    longer[: len(numbers)] = np.asarray(numbers)
    return longer
