# cython: language_level=3
# mypy: ignore-errors
"""Cached steps: (configuration, token) and the configuration after it.

What: a hash table in which a known step is found with one look, into one line of a processor's cache. A
Python dictionary needs four.
When: one for each session of a classifier. Steps are added with the classifier's lock held, and found without
any lock, even in free-threaded Python.
Limits: nothing is deleted. A table that was replaced by a larger one is kept, because a thread may be reading
it. All of them together are smaller than the last one.

Rejected: a lock around each look-up, and counting the threads that read a table. Both write to memory that
all threads share, in each step.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import absent
from cython.cimports.equivalence.atomic import publish
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.step_cache import Step, following, put, slot_of

from equivalence.arrays.dynamic_arrays import array_of
from equivalence.arrays.records import Kind

check_source(__name__)


STEP = Kind("configuration token following unused", np.int32)

FEW = 64
"""Slots at first, for 32 steps: a kilobyte, which is new to the process with each new grammar."""


@cython.final
@cython.no_gc
@cython.cclass
class StepCache:
    """The cached steps.

    Attributes:
        table: records of 16 bytes; an empty one has configuration -1.
        address, last: where the table is, and its last slot, for readers.
        count: number of steps.
        former: the table that it replaced, linked to the one before that; None: there is none.
    """

    def __init__(self) -> None:
        self.former = None
        self.count = 0
        self.use(absent(STEP, FEW))

    def __len__(self) -> int:
        """Number of known steps."""
        return self.count

    @property
    def next_nbytes(self) -> int:
        """Bytes of the next table."""
        return 32 * self.table.shape[0]

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
        slot = slot_of(self.table, configuration, token)
        if self.table[slot].configuration < 0:
            self.count += 1
            put(cython.address(self.table[slot]), configuration, token, following)

    def _grow(self) -> None:
        """Double the room."""
        old = self.table
        table: Step[::1] = absent(STEP, 2 * old.shape[0])
        for i in range(old.shape[0]):
            if old[i].configuration >= 0:
                table[slot_of(table, old[i].configuration, old[i].token)] = old[i]
        self.former = (array_of(old), self.former)
        self.use(table)

    def use(self, table):
        """Show a table to readers."""
        self.table = table
        publish(cython.address(self.address), cython.cast(cython.Py_ssize_t, cython.address(table[0])))
        publish(cython.address(self.last), table.shape[0] - 1)
