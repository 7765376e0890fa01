# cython: language_level=3, embedsignature=True, embedsignature.format=clinic
# mypy: ignore-errors
"""The two calls of every step, `fill_next_token_bitmask` and `accept_token`, with a fast path in compiled
code.

What: `CheckedBitmask` records a bitmask as it was when it was checked. `Calls` holds the record of the last
bitmask, and the follower. If the bitmask has not changed and the answer is cached, the call ends here;
otherwise it goes to a method of `hybrid.GrammarMatcher`, the subclass.
When: a server does other work between two masks, so the processor's caches are cold at each call: every cache
line that depends on another one costs 100 ns or more. Therefore everything that a call needs lies together in
memory, and its code is in this module.
Limits: whether a tensor was changed in place is read from its memory (`hybrid.api.tensor_layout`); if torch
has an unknown layout, torch is asked instead.
"""

from __future__ import annotations

from typing import Any

import cython
import torch
from cython.cimports.equivalence.atomic import count, published
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.api.calls import number_of
from cython.cimports.hybrid.classifier.cached_sequence import CachedSequence, mask_of, take
from cython.cimports.hybrid.classifier.rows import copy_row, fetch_row

from equivalence import forks
from hybrid.api.bitmask import WORDS, Rows
from hybrid.api.tensor_layout import find_layout

check_source(__name__)


LAYOUT = find_layout()

OF_OBJECT = cython.declare(cython.Py_ssize_t, -1 if LAYOUT is None else LAYOUT.of_object)
OF_STORAGE = cython.declare(cython.Py_ssize_t, -1 if LAYOUT is None else LAYOUT.of_storage)
OF_GEOMETRY = cython.declare(cython.Py_ssize_t, -1 if LAYOUT is None else LAYOUT.of_geometry)
OF_MEMORY = cython.declare(cython.Py_ssize_t, -1 if LAYOUT is None else LAYOUT.of_memory)


COUNTERS = cython.declare(cython.Py_ssize_t, 64)
COUNTER_STRIDE = cython.declare(cython.Py_ssize_t, 16)
FILLED = cython.declare(cython.Py_ssize_t[1024])
"""The masks that the matchers of this process have filled: the sum of 64 counters. Each matcher adds to one
of them. Threads that add to the same memory wait for one another, so the counters are 128 bytes apart. With
16 threads of free-threaded Python, this took a third off the time of a known mask and token."""

NEXT = cython.declare(cython.Py_ssize_t, 0)
"""Number of matchers so far."""

MOST_SHARED_BYTES = 1 << 26
"""Larger bitmasks are not remembered for all matchers: what is remembered stays alive until the next
check."""


@cython.cclass
class CheckedBitmask:
    """The rows of a bitmask, and what shows whether they are still valid.

    The rows keep the storage of the tensor alive, but that is not enough: `share_memory_` frees the memory of
    a storage that is in use. The tensor itself is not kept alive.

    Attributes:
        rows: the rows when the tensor was checked; `None` if none was.
        address, row_stride, count: address of the first row, bytes from one row to the next, number of rows.
        shape: the tensor's shape; `None` if it was not contiguous, so that it is always checked again unless
            `shows_changes` is true.
        shows_changes: whether a change of the tensor can be seen in its memory.
        impl, storage, geometry: the tensor's C++ object, its storage, and the words read there.
    """

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def record(self, bitmask: object, rows: object) -> cython.int:
        """Record a tensor whose rows were just checked."""
        self.rows = rows
        self.address, self.row_stride = rows.place
        self.count = rows.count
        self.shape = bitmask.shape if bitmask.is_contiguous() else None
        self.shows_changes = False
        if OF_OBJECT > 0 and type(bitmask) is torch.Tensor and 0 < bitmask.ndim <= 2:
            self.impl = word(cython.cast(cython.Py_ssize_t, cython.cast(cython.p_void, bitmask)) + OF_OBJECT)
            self.storage = word(self.impl + OF_STORAGE)
            for i in range(14):
                self.geometry[i] = word(self.impl + OF_GEOMETRY + 8 * i)
            offset: cython.Py_ssize_t = 4 * self.geometry[11]
            self.shows_changes = word(self.storage + OF_MEMORY) + offset == self.address
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def copy_from(self, other: CheckedBitmask) -> cython.int:
        """Copy another record."""
        self.rows, self.shape = other.rows, other.shape
        self.address, self.row_stride, self.count = other.address, other.row_stride, other.count
        self.shows_changes, self.impl, self.storage = other.shows_changes, other.impl, other.storage
        for i in range(14):
            self.geometry[i] = other.geometry[i]
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def is_same(self, bitmask: object) -> cython.bint:
        """Whether a tensor still has the memory, shape, strides and type that were recorded.

        If `shows_changes` is false, `bitmask` must be the recorded tensor itself.
        """
        if not self.shows_changes:
            return (
                bitmask.data_ptr() == self.address
                and bitmask.shape == self.shape
                and bitmask.is_contiguous()
                and bitmask.dtype is WORDS
            )
        # Each address is read only after it was compared with a valid one. It is still valid, because the
        # tensor keeps it alive, or, for another tensor, because our rows keep the same storage alive.
        if (
            word(cython.cast(cython.Py_ssize_t, cython.cast(cython.p_void, bitmask)) + OF_OBJECT) != self.impl
            or word(self.impl + OF_STORAGE) != self.storage
            or word(self.storage + OF_MEMORY) + 4 * self.geometry[11] != self.address
        ):
            return False
        for i in range(14):  # noqa: SIM110 - without the interpreter
            if word(self.impl + OF_GEOMETRY + 8 * i) != self.geometry[i]:
                return False
        return True


LAST: list = [None]
"""The last record of any tensor. A server fills one bitmask for all requests, each with its own matcher, and
checking a tensor through torch takes 200 us with cold caches. The rows keep the tensor's storage alive, so
that its address cannot be reused. They hold neither the tensor nor a weak reference to it, because torch's
`swap_tensors` refuses tensors that have one."""


@cython.cclass
class Calls(CheckedBitmask):
    """Base class of `GrammarMatcher`: the two calls of every step, and their data.

    Attributes:
        sequence: the follower, if it runs on a classifier; else `None`.
        bitmask: the tensor of the last mask; `None` if the next one must be checked.
        filled: place of its count among `FILLED`.
        follower: follows the sequence.
    """

    def __cinit__(self) -> None:
        count(cython.address(NEXT), 1)
        self.filled = published(cython.address(NEXT)) % COUNTERS * COUNTER_STRIDE

    @property
    def _follower(self) -> Any:
        return self.follower

    @_follower.setter
    def _follower(self, follower: Any) -> None:
        self.sequence = follower if isinstance(follower, CachedSequence) else None
        self.follower = follower

    def remember(self, bitmask: Any, rows: Rows | None) -> None:
        """Remember a tensor, so that the next call need not check it again unless it changed.

        Args:
            bitmask: the checked tensor.
            rows: its rows; ``None`` forgets the last tensor.
        """
        self.bitmask = self.rows = None
        if rows is None:
            return
        self.record(bitmask, rows)
        self.bitmask = bitmask
        if self.shows_changes and self.count * self.row_stride <= MOST_SHARED_BYTES:
            shared = CheckedBitmask()
            shared.copy_from(self)
            LAST[0] = shared

    def remembered(self, bitmask: object) -> Rows | None:
        """The rows of the tensor if this matcher, or any other, used it last and it has not changed; else
        None."""
        if bitmask is None:
            return None
        if bitmask is self.bitmask:
            return self.rows if self.is_same(bitmask) else None
        last: CheckedBitmask = LAST[0]
        if (
            last is None
            or type(bitmask) is not torch.Tensor
            or last.rows.words.shape[1] != self._width
            or not last.is_same(bitmask)
        ):
            return None
        self.copy_from(last)
        self.bitmask = bitmask
        return self.rows

    @cython.annotation_typing(False)  # what callers give may be of any type
    def fill_next_token_bitmask(
        self, bitmask: torch.Tensor, index: int = 0, *, debug_print: bool = False
    ) -> bool:
        """Overwrite row `index` with the mask of the next token: a bit is 1 if and only if `accept_token`
        takes it.

        Args:
            bitmask: int32 on the CPU with shape (rows, ceil(V / 32)), or one row of it. A torch tensor or a
                numpy array.
            index: the row.
            debug_print: let XGrammar print its state.

        Returns:
            Whether the mask forbids any token; if not, it need not be applied.

        Raises:
            BitmaskError: the dtype, shape, device or row is wrong; nothing was written.
            MatcherError: the matcher has terminated. It is a `RuntimeError`, as in XGrammar.
            BudgetExceeded: the mask took longer than `Budget.mask_seconds`, or needs more memory than
                allowed.
        """
        if (
            self.sequence is not None
            and type(index) is int
            and bitmask is not None
            and (bitmask is self.bitmask or self.remembered(bitmask) is not None)
        ):
            row = number_of(index)
            source = mask_of(self.sequence)
            if source == 0:
                if not self.sequence.compute_mask():
                    self._find_mask()
                # Python code ran, and may have changed everything: check again
                source = (
                    mask_of(self.sequence) if self.sequence is not None and bitmask is self.bitmask else 0
                )
            if source != 0 and 0 <= row < self.count:
                address = self.address + row * self.row_stride
                n_bytes = self.sequence.rows.n_bytes
                fetch_row(source, address, n_bytes)
                if self.is_same(self.bitmask):
                    copy_row(source, address, n_bytes)
                    count(cython.address(FILLED[self.filled]), 1)
                    return (source & 1) == 1
        return self._fill_row(bitmask, index, debug_print)

    @cython.annotation_typing(False)  # callers may pass any type
    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Advance by a token, or return False and stay in place if the grammar does not allow it here.

        Raises:
            ArgumentError: `token_id` is not an integer. Integers of numpy and 0-dimensional tensors are
                allowed, bools are not.
            BudgetExceeded: it took longer than `Budget.mask_seconds`.
        """
        if type(token_id) is int and self.sequence is not None:
            token = number_of(token_id)
            taken = take(self.sequence, token)
            if taken < 0 <= token:
                taken = self.sequence.compute_step(token)
            if taken >= 0:
                return taken == 1
        return self._accept(token_id, debug_print)


def count_masks(masks: cython.Py_ssize_t) -> None:
    """Count masks that were filled outside `Calls`."""
    count(cython.address(FILLED[0]), masks)


def forget_masks() -> None:
    """Start counting from 0: in a forked process the masks so far are the parent's."""
    for i in range(COUNTERS):
        FILLED[i * COUNTER_STRIDE] = 0


forks.in_child(forget_masks)


def masks_filled() -> int:
    """How many masks the matchers of this process have filled since it started or was forked."""
    masks: cython.Py_ssize_t = 0
    for i in range(COUNTERS):
        masks += FILLED[i * COUNTER_STRIDE]
    return masks


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def word(address: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The word of memory at a valid address."""
    return cython.cast(cython.pointer(cython.Py_ssize_t), address)[0]
