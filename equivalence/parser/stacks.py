# cython: language_level=3
# mypy: ignore-errors
"""Sets of stacks: frames, and tails, which are sets of frames.

What: a frame is (state, count, tail): what is on top, and the set of stacks below it. A tail is a set of
stacks: the interned list of their top frames. So stacks share their common parts, and equal sets have equal
numbers.
When: owned by a `Space`; frames and tails are added while text is read.
Limits: they are never removed. There are at most `most_frames`, and the account counts their bytes.

The state of a frame is a state to return to, or a counted rule (`equivalence.parser.frames`) of which `count`
units have been read. Frame 0, alone in tail 0, is the unknown rest of the stack. `label` is 0 if the text
that was read did not depend on a counter below the known part; c > 0 means that the text could only be read
if a relative counter had c units left.

Source: graph structured stacks (Tomita 1985), with sets of frames in place of nodes.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.hashing import mix, table_size
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.records import zeros
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.parser.automaton import Automaton
from cython.cimports.equivalence.parser.frames import relative_of, unit_of
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import bigger, filled
from equivalence.arrays.records import Kind
from equivalence.errors import BudgetExceeded

check_source(__name__)

FRAME = Kind("state count tail singleton label")

ABOVE_LABELS = 1 << 40


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def hash_of(state: cython.Py_ssize_t, count: cython.Py_ssize_t, tail: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The hash of a frame."""
    return mix(mix(mix(5, state + 1048576), count), tail)


@cython.final
@cython.no_gc
@cython.cclass
class Stacks:
    """Frames and tails, by number.

    Args:
        automaton: the automaton whose states the frames have.
        absorbing: uint8[states], the absorbing states (`equivalence.parser.absorption`).
        capacity: initial room for frames.
        most_frames: the maximum number of frames.
        account: counts bytes.
        excess: the message of the error if there are more frames.

    Attributes:
        frames: also has, for each frame, its `label`, and the tail of only this frame (`singleton`).
        n_frames: number of frames, with frame 0.
        tails: the lists of frames.
        label: for each tail, the least label of its frames.
        seen: for each tail, a stamp of the last traversal that visited it.
    """

    def __init__(
        self,
        automaton: Automaton,
        absorbing: Any,
        capacity: cython.Py_ssize_t,
        most_frames: cython.Py_ssize_t,
        account: Account,
        excess: str,
    ) -> None:
        self.automaton = automaton
        self.absorbing = absorbing
        self.most_frames = most_frames
        self.account = account
        self.excess = excess
        size = table_size(capacity)
        account.claim(40 * capacity + 4 * size + 16 * (capacity + 2))
        self.frames = zeros(FRAME, capacity)
        self.table = account.new_ints(size)
        self.table[:] = -1
        self.n_frames = 1
        self.tails = Interned(capacity, 3, account=account)
        self.label = account.new_integers(capacity + 2)
        self.label[:] = 0
        self.seen = account.new_integers(capacity + 2)
        self.seen[:] = 0
        self.tails.pool[self.tails.room(1)] = 0
        self.tails.intern(1)

    # ---------------------------------------------------------------- finding and adding frames

    def find(self, state, count, tail):
        """The tail with only this frame; -1 if there is none yet."""
        last: cython.Py_ssize_t = self.table.shape[0] - 1
        slot = hash_of(state, count, tail) & last
        i: cython.Py_ssize_t = self.table[slot]
        while i >= 0:
            if self.frames[i].state == state and self.frames[i].tail == tail:
                if self.frames[i].count == count:
                    return self.frames[i].singleton
            slot = (slot + 1) & last
            i = self.table[slot]
        return -1

    def frame(self, state, count, tail):
        """The tail with only this frame. It is added if there is none yet."""
        found = self.find(state, count, tail)
        return found if found >= 0 else self.new_frame(state, count, tail)

    def plain(self, state, count, tail):
        """Like `frame`, for a state that absorbs no frame of the tail."""
        found = self.find(state, count, tail)
        return found if found >= 0 else self.new_plain(state, count, tail)

    def new_frame(self, state, count, tail):
        """Add a new frame, and return the tail with only this frame.

        An absorbing state is not pushed on frames with the same state: these frames stay, and the rest of the
        tail goes below a frame of its own. The result is recorded as a frame that is in no tail."""
        if state >= 0 and self.absorbing[state]:
            number = self.absorb(state, tail)
            if number >= 0:
                self.note(state, count, tail, number)
                return number
        return self.new_plain(state, count, tail)

    def new_plain(self, state, count, tail):
        """Add a frame unchanged, and return the tail with only this frame."""
        begin = self.tails.room(1)
        self.tails.pool[begin] = self.n_frames
        number = self.tail_of(1, 0)
        self.note(state, count, tail, number)
        self.label[number] = self.frames[self.n_frames - 1].label
        return number

    def note(self, state, count, tail, number):
        """Record the tail that results from pushing a frame on a tail, as the next frame."""
        i = self.n_frames
        if i >= self.frames.shape[0]:
            with cython.gil:
                self.grow_frames()
        self.n_frames = i + 1
        self.frames[i].state = state
        self.frames[i].count = count
        self.frames[i].tail = tail
        self.frames[i].singleton = number
        self.frames[i].label = self.label[tail]
        if state < 0 and relative_of(state):
            self.frames[i].label = count + 1 if self.automaton.counted[unit_of(state)].relative >= 0 else 0
        self.enter(i)

    def enter(self, i):
        """Add a frame to the hash table."""
        last: cython.Py_ssize_t = self.table.shape[0] - 1
        slot = hash_of(self.frames[i].state, self.frames[i].count, self.frames[i].tail) & last
        while self.table[slot] >= 0:
            slot = (slot + 1) & last
        self.table[slot] = cython.cast(cython.int, i)

    def absorb(self, state, tail):
        """The tail that results from pushing an absorbing state on a tail with frames of the same state; -1
        if there are none."""
        begin = self.tails.starts[tail]
        end = self.tails.starts[tail + 1]
        label: cython.Py_ssize_t = ABOVE_LABELS
        least: cython.Py_ssize_t = ABOVE_LABELS
        n_kept: cython.Py_ssize_t = 0
        n_rest: cython.Py_ssize_t = 0
        top: cython.Py_ssize_t = -1
        at = self.tails.room(end - begin + 1)
        for k in range(begin, end):
            frame = self.tails.pool[k]
            if frame != 0 and self.frames[frame].state == state:
                n_kept += 1
                least = min(least, self.frames[frame].label)
            else:
                self.tails.pool[at + n_rest] = frame
                n_rest += 1
                label = min(label, self.frames[frame].label)
        if n_kept == 0:
            return -1
        if n_rest > 0:
            below = self.tail_of(n_rest, label)
            top = self.plain(state, 0, below)
            top = self.tails.pool[self.tails.starts[top]]
            least = min(least, label)
        at = self.tails.room(end - begin + 1)
        n_kept = 0
        for k in range(begin, end):
            frame = self.tails.pool[k]
            if frame != 0 and self.frames[frame].state == state:
                self.tails.pool[at + n_kept] = frame
                n_kept += 1
        if top >= 0:
            n_kept = insert_sorted(self.tails.pool, at, n_kept, top)
        return self.tail_of(n_kept, least)

    # ---------------------------------------------------------------- tails

    def tail_of(self, length, label):
        """The tail of the frames that were written, in order, to the end of the pool of tails."""
        if self.tails.count >= self.label.shape[0]:  # before the tail gets a number
            with cython.gil:
                self.grow_tails()
        number = self.tails.intern(length)
        self.label[number] = label
        return number

    # ---------------------------------------------------------------- room

    def grow_frames(self):
        """Make room for more frames. After an error, nothing has changed."""
        old: cython.Py_ssize_t = self.frames.shape[0]
        size: cython.Py_ssize_t = min(2 * old, self.most_frames)
        if size <= old:
            raise BudgetExceeded(self.excess)
        slots: cython.Py_ssize_t = self.table.shape[0]
        more = 2 * slots if slots < 2 * size else slots
        self.account.claim(40 * size + 4 * more, 40 * old + 4 * slots)
        frames = bigger(self.frames, size, self.n_frames)
        if more > slots:
            self.table = filled(more, -1, np.int32)
            for i in range(1, self.n_frames):
                self.enter(i)
        self.frames = frames

    def grow_tails(self):
        """Make room for the data of more tails. After an error, nothing has changed."""
        old: cython.Py_ssize_t = self.label.shape[0]
        self.account.claim(32 * old, 16 * old)
        seen: cython.Py_ssize_t[::1] = np.zeros(2 * old, np.int64)
        seen[:old] = self.seen
        self.label = bigger(self.label, 2 * old)
        self.seen = seen

    # ---------------------------------------------------------------- from Python

    def frames_of(self, tail: cython.Py_ssize_t) -> list:
        """The frames of a tail as (number, state, count, tail below).

        Raises:
            IndexError: there is no such tail.
        """
        if not 0 <= tail < self.tails.count:
            raise IndexError(f"there is no tail {tail}")
        found: list = []
        for k in range(self.tails.starts[tail], self.tails.starts[tail + 1]):
            frame = self.tails.pool[k]
            found.append((frame, self.frames[frame].state, self.frames[frame].count, self.frames[frame].tail))
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        own = 40 * self.frames.shape[0] + 4 * self.table.shape[0] + 16 * self.label.shape[0]
        return own + self.tails.nbytes
