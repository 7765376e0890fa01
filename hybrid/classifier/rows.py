# cython: language_level=3
# mypy: ignore-errors
"""Rows of finished masks, by configuration: what was asked before is copied.

What: `Rows` holds the masks over the vocabulary that a session has met under some stop ids. Configurations
with the same mask of classes share one; each finds its own by one look into an array.
When: one for each session and set of stop ids; matchers copy known rows without any lock.
Limits: rows are never changed or forgotten. All methods hold the interpreter's lock from beginning to end
where they look or write, so that threads see arrays before or after they grew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cython
import numpy as np
from numpy.typing import NDArray

from equivalence import built
from equivalence.arrays.growing import bigger

if cython.compiled:
    from cython.cimports.equivalence.built import EQUIMASK_SOURCE
    from cython.cimports.hybrid.representatives.gather import Gather
    from cython.cimports.libc.string import memcpy

    built.check(__name__, EQUIMASK_SOURCE)
else:
    from ctypes import memmove as memcpy

    from hybrid.representatives.gather import Gather

ROW_BYTES = 640
"""Memory of one mask besides its words: the tuple, its array and views."""


class Row(NamedTuple):
    """A mask over the vocabulary: its words (uint32, never changed), their address, whether it forbids any,
    and the words as memory.

    Whoever copies from the address holds the row meanwhile.
    """

    words: NDArray[np.uint32]
    address: int
    needed: bool
    memory: memoryview


@cython.final
@cython.cclass
class Rows:
    """The masks met under some stop ids.

    Args:
        gather: expands masks of classes.
        stops: the stop ids, which are allowed where the text may end, and only there; ids of the vocabulary.

    Attributes:
        of_configuration: of each configuration the number of its row; -1: not known.
        of_mask: of each number that `Store.class_mask` gives, the same.
        addresses, needed: of each row, where its words are, and whether it forbids any id.
        nbytes: memory held.
    """

    def __init__(self, gather: Gather, stops: Sequence[int]) -> None:
        self.gather = gather
        self.stops = np.array(stops, np.int64)
        if any(not 0 <= stop < gather.vocab_size for stop in stops):
            raise ValueError(f"the stop ids are {tuple(stops)}, the vocabulary has {gather.vocab_size} ids")
        self.of_configuration = np.full(64, -1, np.int32)
        self.of_mask = np.full(64, -1, np.int32)
        self.addresses = np.zeros(16, np.int64)
        self.needed = np.zeros(16, np.uint8)
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

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def number(self, configuration: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The number of a configuration's row; -1: not known."""
        if 0 <= configuration < self.of_configuration.shape[0]:
            return self.of_configuration[configuration]
        return -1

    def get(self, configuration: cython.Py_ssize_t) -> Row | None:
        """The row of a configuration, if it is known."""
        row = self.number(configuration)
        return None if row < 0 else self.rows[row]

    def copy(self, configuration: cython.Py_ssize_t, address: cython.Py_ssize_t) -> int:
        """Copy the row of a configuration, if it is known.

        Args:
            configuration: any number.
            address: where the words go; the caller vouches for the memory of a whole row.

        Returns:
            Whether the row forbids any id; -1: it is not known, and nothing was written.
        """
        row = self.number(configuration)
        if row < 0:
            return -1
        if cython.compiled:
            memcpy(
                cython.cast(cython.p_void, address),
                cython.cast(cython.p_void, self.addresses[row]),
                4 * self.gather.n_words,
            )
        else:
            memcpy(address, self.addresses[row], 4 * self.gather.n_words)
        return self.needed[row]

    def of(self, configuration: cython.Py_ssize_t, mask: cython.Py_ssize_t) -> Row | None:
        """The row of a configuration whose mask has a number, if another one's with that number is known.

        Args:
            configuration: one of the session.
            mask: what `Store.class_mask` says of it.
        """
        if mask >= self.of_mask.shape[0] or self.of_mask[mask] < 0:
            return None
        return self.note(configuration, self.of_mask[mask])

    def make(self, configuration: cython.Py_ssize_t, mask: cython.Py_ssize_t, words: Any) -> Row:
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
        address = made.ctypes.data
        row = Row(made, address, needed, made.data)
        number: cython.Py_ssize_t = len(self.rows)
        if number == self.addresses.shape[0]:
            addresses = bigger(self.addresses, 2 * number)
            self.needed = bigger(self.needed, 2 * number)
            self.addresses = addresses
        if mask >= self.of_mask.shape[0]:
            self.nbytes += 4 * (2 * mask - self.of_mask.shape[0])
            self.of_mask = _longer(self.of_mask, 2 * mask)
        self.addresses[number] = address
        self.needed[number] = needed
        self.rows.append(row)
        self.of_mask[mask] = cython.cast(cython.int, number)
        self.nbytes += 4 * self.gather.n_words + ROW_BYTES
        self.note(configuration, number)
        return row

    @cython.cfunc
    def note(self, configuration: cython.Py_ssize_t, row: cython.Py_ssize_t) -> object:
        """Note which row a configuration has; the row."""
        size: cython.Py_ssize_t = self.of_configuration.shape[0]
        if configuration >= size:
            self.of_configuration = _longer(self.of_configuration, 2 * configuration)
            self.nbytes += 4 * (self.of_configuration.shape[0] - size)
        if self.of_configuration[configuration] < 0:
            self.n_configurations += 1
        self.of_configuration[configuration] = cython.cast(cython.int, row)
        return self.rows[row]

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


def _longer(numbers: Any, size: int) -> NDArray[np.int32]:
    """A copy with room for so many numbers; -1 where there were none."""
    old = np.asarray(numbers)
    longer = np.full(size, -1, np.int32)
    longer[: len(old)] = old
    return longer


def copy_rows(
    sources: cython.const[cython.Py_ssize_t][::1],
    targets: cython.const[cython.Py_ssize_t][::1],
    n_words: cython.Py_ssize_t,
) -> None:
    """Copy rows of mask words between addresses; the caller vouches for their memory.

    Args:
        sources, targets: int64, as many of both.
        n_words: words of a row.
    """
    if sources.shape[0] != targets.shape[0]:
        raise ValueError(f"{sources.shape[0]} rows are to be copied to {targets.shape[0]} places")
    if cython.compiled:
        with cython.nogil:
            for i in range(sources.shape[0]):
                memcpy(
                    cython.cast(cython.p_void, targets[i]),
                    cython.cast(cython.p_void, sources[i]),
                    4 * n_words,
                )
    else:
        for source, target in zip(sources, targets, strict=True):
            memcpy(int(target), int(source), 4 * n_words)
