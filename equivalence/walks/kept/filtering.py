# cython: language_level=3
# mypy: ignore-errors
"""Restricting events: from walks with more bytes that can follow to the bytes that really can.

What: a `Filter` translates events from one set of outcomes to another, without the suffixes that cannot
follow. An outcome that is left with nothing to read is a rejection, and has no event.
When: by `equivalence.walks.kept`, for cached walks, and for walks that are made for other grammars, too.
Limits: events and outcomes come from walks, or were checked (`equivalence.walks.kept.stored`).
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from numpy.typing import NDArray

from equivalence import built
from equivalence.walks.kept.masks import in_order_of_masks

built.check(__name__, EQUIMASK_SOURCE)

NOTHING = cython.declare(cython.Py_ssize_t, 0)


@cython.final
@cython.cclass
class Filter:
    """Outcomes of walks without the suffixes that cannot follow.

    Args:
        source: the outcomes of the walks.
        outcomes: the outcomes that the new events use.
        suffix_byte: uint8[S], the first byte of each suffix of the trie.

    Attributes:
        number, number_of_mask: the last new number of each outcome of `source`, and the mask for which it
            got it.
        masks: int64[blocks, 8].
    """

    source: Interned
    outcomes: Interned
    suffix_byte: cython.const[cython.uchar][::1]
    number: cython.Py_ssize_t[::1]
    number_of_mask: cython.Py_ssize_t[::1]
    masks: cython.const[cython.Py_ssize_t][:, ::1]

    def __init__(self, source: Interned, outcomes: Interned, suffix_byte: Any) -> None:
        self.source = source
        self.outcomes = outcomes
        self.suffix_byte = suffix_byte
        self.number = np.empty(source.count, np.int64)
        self.number_of_mask = np.full(source.count, -1, np.int64)

    def events(
        self, masks: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64], rows: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Compute the events of some blocks.

        Args:
            masks: int64[n, 8], the bytes that can follow.
            begins, ends: int64[n], the rows of each block.
            rows: int32[m, 2], rows (group, outcome).

        Returns:
            Where the events of each block begin and end, int64[n] each, and rows (group, outcome), int64[k,
            2].

        Raises:
            BudgetExceeded: more outcomes than allowed.
        """
        lengths = ends - begins
        chosen, numbers = in_order_of_masks(masks, np.flatnonzero(lengths))
        self.masks = masks
        places = np.zeros((len(lengths), 2), np.int64)
        events = np.empty((int(lengths.sum()), 2), np.int64)
        ordered = np.stack([chosen, numbers, begins[chosen], ends[chosen]], axis=1)
        n = self._write(ordered, rows, places, events)
        return places[:, 0], places[:, 1], events[:n]

    def _write(
        self,
        ordered: cython.const[cython.Py_ssize_t][:, ::1],
        rows: cython.const[cython.int][:, ::1],
        places: cython.Py_ssize_t[:, ::1],
        events: cython.Py_ssize_t[:, ::1],
    ) -> int:
        """Write the events of blocks in order of their masks, given rows (block, number of its mask, begin,
        end). Return their number."""
        n: cython.Py_ssize_t = 0
        with cython.nogil:
            for i in range(ordered.shape[0]):
                block = ordered[i, 0]
                mask = ordered[i, 1]
                places[block, 0] = n
                for e in range(ordered[i, 2], ordered[i, 3]):
                    outcome: cython.Py_ssize_t = rows[e, 1]
                    if self.number_of_mask[outcome] != mask:
                        self.number[outcome] = self.filtered(outcome, block)
                        self.number_of_mask[outcome] = mask
                    if self.number[outcome] != NOTHING:
                        events[n, 0] = rows[e, 0]
                        events[n, 1] = self.number[outcome]
                        n += 1
                places[block, 1] = n
        return n

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def filtered(self, outcome: cython.Py_ssize_t, block: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The number of an outcome without the suffixes that cannot follow a block."""
        begin = self.source.starts[outcome]
        end = self.source.starts[outcome + 1]
        first = self.outcomes.room(end - begin)
        self.outcomes.pool[first] = self.source.pool[begin]
        at = first + 1
        for k in range(begin + 1, end, 2):
            byte: cython.Py_ssize_t = self.suffix_byte[self.source.pool[k + 1]]
            if (self.masks[block, byte >> 5] >> (byte & 31)) & 1:
                self.outcomes.pool[at] = self.source.pool[k]
                self.outcomes.pool[at + 1] = self.source.pool[k + 1]
                at += 2
        return self.outcomes.intern(at - first)
