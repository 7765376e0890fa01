# cython: language_level=3
# mypy: ignore-errors
"""Moving stacks from one space to another: a copy of a whole space, or one configuration.

What: `copied` copies a space, for a computation that continues from what another one has found. `bring` finds
the configuration of a space that equals one of another space.
When: by classifiers (`hybrid.classifier.store`). They begin with the configurations that exploring has found,
and when their tables are full, the configurations of matchers move to new ones.
Limits: both spaces have the same automata.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.records import zeros
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.equivalence.parser.space import Space

from equivalence import built
from equivalence.arrays.growing import bigger
from equivalence.parser.space import BY_STATE, FIRST_PORTS, LINK

built.check(__name__, EQUIMASK_SOURCE)

FAR = cython.declare(cython.Py_ssize_t, 1 << 40)
"""Above every label."""


def copied(
    space: Space, frames: cython.Py_ssize_t, configurations: cython.Py_ssize_t, account: Account
) -> Space:
    """The same space in arrays of its own, paid for by another account.

    Args:
        space: what is copied.
        frames, configurations: rows that there is room for beyond those in use.

    Raises:
        BudgetExceeded: the account does not pay for it.
    """
    copy: Space = Space.__new__(Space)
    rows: cython.Py_ssize_t = space.configurations.count
    used: cython.Py_ssize_t = max(rows, space.configurations.used // 12)
    configurations += used
    copy.automaton = space.automaton
    copy.account = account
    copy.class_of_byte = space.class_of_byte
    copy.byte_classes = space.byte_classes
    copy.n_states = space.n_states
    copy.n_classes = space.n_classes
    account.claim((configurations + 2) * (4 * space.n_classes + 64) + 24 * frames + 8 * FIRST_PORTS)
    account.claim((2 * space.n_states + 41) * space.n_classes + 64 * (space.n_states + 1))
    excess = space.configurations.excess
    copy.stacks = space.stacks.copied(frames, account, excess)
    most = space.configurations.most
    lists = Interned(configurations, 12, most, account, excess)
    copy.configurations = lists.fill(*space.configurations.lists())
    copy.steps = bigger(space.steps, configurations + 2, rows)
    copy.facts = bigger(space.facts, configurations + 2, rows)
    copy.first, copy.alike = space.first, space.alike
    copy.same = np.empty(space.n_classes, np.uint8)
    copy.by_state = zeros(BY_STATE, space.n_states + 1)
    for i in range(space.n_states):
        copy.by_state[i].rank = space.by_state[i].rank
    copy.links = zeros(LINK, frames)
    copy.returning = np.empty(frames + 2, np.int64)
    copy.ports = np.empty(FIRST_PORTS, np.int64)
    copy.n_links = 0
    copy.stamp = 0
    return copy


def bring(space: Space, other: Space, configuration: cython.Py_ssize_t) -> int:
    """The configuration that is in a space what one is in another.

    Args:
        space: the space.
        other: the other space, of the same automata.
        configuration: one of the other space.

    Raises:
        ValueError: there is no such configuration, or the automata have other states.
        BudgetExceeded: there is no room for it.
    """
    if not 0 <= configuration < other.configurations.count or other.n_states != space.n_states:
        raise ValueError(f"there is no configuration {configuration} to be brought")
    n_tails: cython.Py_ssize_t = other.stacks.tails.count
    found: cython.int[::1] = np.full(n_tails, -1, np.int32)
    begin: cython.Py_ssize_t = other.configurations.starts[configuration]
    end: cython.Py_ssize_t = other.configurations.starts[configuration + 1]
    tops: cython.Py_ssize_t = begin + 2 + other.configurations.pool[begin + 1]
    i: cython.Py_ssize_t
    with cython.nogil:
        found[0] = 0
        needed_tails(space, other, tops, end, found)
        for i in range(1, n_tails):  # a tail has a greater number than all that lie below it
            if found[i] == -2:
                bring_tail(space, other, i, found)
        at = space.configurations.room(end - begin)
        for i in range(begin, end):
            space.configurations.pool[at + i - begin] = other.configurations.pool[i]
        for i in range(tops + 1, end, 2):
            space.configurations.pool[at + i - begin] = found[other.configurations.pool[i]]
        number = space.put(end - begin)
    return number  # noqa: RET504 - an object, with the lock held


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def needed_tails(
    space: Space, other: Space, begin: cython.Py_ssize_t, end: cython.Py_ssize_t, found: cython.int[::1]
) -> cython.int:
    """Mark by -2 the tails of some tops of a configuration, and all that lie below."""
    n: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(begin + 1, end, 2):
        n = mark(space, other.configurations.pool[i], found, n)
    while n > 0:
        n -= 1
        tail = space.returning[n]
        for i in range(other.stacks.tails.starts[tail], other.stacks.tails.starts[tail + 1]):
            n = mark(space, other.stacks.frames[other.stacks.tails.pool[i]].tail, found, n)
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(-1, check=False)
def mark(
    space: Space, tail: cython.Py_ssize_t, found: cython.int[::1], n: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """List a tail, unless it was, behind n others; how many are listed."""
    if found[tail] != -1:
        return n
    found[tail] = -2
    if n >= space.returning.shape[0]:
        with cython.gil:
            space.grow_returning()
    space.returning[n] = tail
    return n + 1


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def bring_tail(
    space: Space, other: Space, tail: cython.Py_ssize_t, found: cython.int[::1]
) -> cython.Py_ssize_t:
    """Note what a tail of another space is in this one, given those below."""
    begin = other.stacks.tails.starts[tail]
    length = other.stacks.tails.starts[tail + 1] - begin
    i: cython.Py_ssize_t
    while length > space.returning.shape[0]:
        with cython.gil:
            space.grow_returning()
    label: cython.Py_ssize_t = FAR
    for i in range(length):
        frame = other.stacks.tails.pool[begin + i]
        alone: cython.Py_ssize_t = 0
        if frame != 0:
            alone = space.stacks.frame(
                other.stacks.frames[frame].state,
                other.stacks.frames[frame].count,
                found[other.stacks.frames[frame].tail],
            )
        space.returning[i] = space.stacks.tails.pool[space.stacks.tails.starts[alone]]
        label = min(label, space.stacks.label[alone])
    at = space.stacks.tails.room(length)
    n: cython.Py_ssize_t = 0
    for i in range(length):
        n = space.stacks.insert(at, n, space.returning[i])
    found[tail] = cython.cast(cython.int, space.stacks.tail_of(n, label))
    return 0
