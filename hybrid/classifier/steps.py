# cython: language_level=3
# mypy: ignore-errors
"""Cached steps: (configuration, token) and the configuration after it.

What: a hash table in which a known step is found with one look, into one line of a processor's cache. A
Python dictionary needs four.
When: one for each session of a classifier; matchers look without any lock.
Limits: nothing is deleted. All methods hold the interpreter's lock, so that threads see the table before or
after it grew. Readers without the lock (`hybrid.classifier.lookup`) announce themselves: a table that was
replaced is kept until all readers are done, and they see a record completely or not at all.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import absent
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.hybrid.classifier.steps import following, put, slot_of

from equivalence import built
from equivalence.arrays.growing import array_of
from equivalence.arrays.records import Kind

built.check(__name__, EQUIMASK_SOURCE)


STEP = Kind("configuration token following unused", np.int32)


@cython.final
@cython.cclass
class Steps:
    """The cached steps.

    Attributes:
        table: records of 16 bytes; an empty one has configuration -1.
        count: number of steps.
        readers: how many threads are reading the table without the interpreter's lock.
        former: tables that were replaced while such threads were reading them.
    """

    def __init__(self) -> None:
        self.table = absent(STEP, 256)
        self.count = self.readers = 0
        self.former = []

    def __len__(self) -> int:
        """Number of known steps."""
        return self.count

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return 16 * self.table.shape[0]

    @property
    def is_full(self) -> bool:
        """Whether adding one more step makes the table grow."""
        return 2 * self.count >= self.table.shape[0]

    def get(self, configuration: cython.Py_ssize_t, token: cython.Py_ssize_t) -> int:
        """The configuration after a token, 0 if it is not accepted, or -1 if the step is not known."""
        return following(self, configuration, token)

    def add(
        self, configuration: cython.Py_ssize_t, token: cython.Py_ssize_t, following: cython.Py_ssize_t
    ) -> None:
        """Cache a step.

        Args:
            configuration, following: configurations of the session.
            token: an id of the vocabulary.
        """
        if 2 * self.count >= self.table.shape[0]:
            self._grow()
        slot = slot_of(self, configuration, token)
        if self.table[slot].configuration < 0:
            self.count += 1
        put(self, slot, configuration, token, following)

    def _grow(self) -> None:
        """Double the room."""
        old = self.table
        if self.readers:
            self.former.append(array_of(old))
        self.table = absent(STEP, 2 * old.shape[0])
        for i in range(old.shape[0]):
            if old[i].configuration >= 0:
                self.table[slot_of(self, old[i].configuration, old[i].token)] = old[i]
