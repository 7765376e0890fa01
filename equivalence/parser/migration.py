# cython: language_level=3
# mypy: ignore-errors
"""Moving configurations from one space to another.

What: `migrate_from` finds the configuration of a space that equals a configuration of another space.
When: when the tables of a classifier are full, the configurations of its matchers move to new tables
(`hybrid.classifier.store`).
Limits: both spaces must have the same automata.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.parser.configurations import stacks_of
from cython.cimports.equivalence.parser.space import Space
from cython.cimports.equivalence.parser.stacks import ABOVE_LABELS
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)


def migrate_from(space: Space, other: Space, configuration: cython.Py_ssize_t) -> int:
    """The configuration of a space that equals a configuration of another space.

    Args:
        space: the space.
        other: the other space, with the same automata.
        configuration: a configuration of the other space.

    Raises:
        ValueError: there is no such configuration, or the automata differ.
        BudgetExceeded: the space is full.
    """
    if not 0 <= configuration < other.configurations.count or other.n_states != space.n_states:
        raise ValueError(f"there is no configuration {configuration} to migrate")
    n_tails: cython.Py_ssize_t = other.stacks.tails.count
    found: cython.int[::1] = np.full(n_tails, -1, np.int32)
    begin: cython.Py_ssize_t = other.configurations.starts[configuration]
    end: cython.Py_ssize_t = other.configurations.starts[configuration + 1]
    tops: cython.Py_ssize_t = stacks_of(other, configuration)
    with cython.nogil:
        found[0] = 0
        needed_tails(space, other, tops, end, found)
        for i in range(1, n_tails):  # a tail has a greater number than all that lie below it
            if found[i] == -2:
                migrate_tail(space, other, i, found)
        at = space.configurations.room(end - begin)
        for i in range(begin, end):
            space.configurations.pool[at + i - begin] = other.configurations.pool[i]
        for i in range(tops + 1, end, 2):
            space.configurations.pool[at + i - begin] = found[other.configurations.pool[i]]
        number = space.put(end - begin)
    return number  # noqa: RET504 - an object that is read while the lock is held


def needed_tails(space, other, begin, end, found):
    """Mark the tails of some states of a configuration, and all tails below them, with -2."""
    n: cython.Py_ssize_t = 0
    for i in range(begin + 1, end, 2):
        n = mark(space, other.configurations.pool[i], found, n)
    while n > 0:
        n -= 1
        tail = space.returning[n]
        for i in range(other.stacks.tails.starts[tail], other.stacks.tails.starts[tail + 1]):
            n = mark(space, other.stacks.frames[other.stacks.tails.pool[i]].tail, found, n)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-1, check=False)
def mark(
    space: Space, tail: cython.Py_ssize_t, found: cython.int[::1], n: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Add a tail to a list of n tails, unless it was added before. Return the new length."""
    if found[tail] != -1:
        return n
    found[tail] = -2
    if n >= space.returning.shape[0]:
        with cython.gil:
            space.grow_returning()
    space.returning[n] = tail
    return n + 1


def migrate_tail(space, other, tail, found):
    """Find the tail of this space that equals a tail of another one, given the tails below it."""
    begin = other.stacks.tails.starts[tail]
    length = other.stacks.tails.starts[tail + 1] - begin
    while length > space.returning.shape[0]:
        with cython.gil:
            space.grow_returning()
    label: cython.Py_ssize_t = ABOVE_LABELS
    for i in range(length):
        frame = other.stacks.tails.pool[begin + i]
        singleton: cython.Py_ssize_t = 0
        if frame != 0:
            singleton = space.stacks.frame(
                other.stacks.frames[frame].state,
                other.stacks.frames[frame].count,
                found[other.stacks.frames[frame].tail],
            )
        space.returning[i] = space.stacks.tails.pool[space.stacks.tails.starts[singleton]]
        label = min(label, space.stacks.label[singleton])
    at = space.stacks.tails.room(length)
    n: cython.Py_ssize_t = 0
    for i in range(length):
        n = insert_sorted(space.stacks.tails.pool, at, n, space.returning[i])
    found[tail] = cython.cast(cython.int, space.stacks.tail_of(n, label))
