# cython: language_level=3
# mypy: ignore-errors
"""The two calls of every step, masks out and tokens in, where what is asked is known: without Python.

What: `Seen` is a bitmask as it was when it was looked at; `Calls` knows that of the last mask, and the
follower. A call that finds the same tensor unchanged, and whose answer is known, ends here; all others go to
the methods of `hybrid.GrammarMatcher`, which is made on top of it.
When: a server does other work between two masks, so that each call fetches anew what it reads, and what the
processor knows of pages: 100 ns and more for each line that depends on another. Hence what a call needs
stands together, and the code that it runs is in this module.
Limits: whether a tensor was changed in place is read from its memory (`hybrid.api.tensor_layout`); where
torch has another layout, it is asked.
"""

from __future__ import annotations

from typing import Any

import cython
import torch

from equivalence import built, forking
from hybrid.api.bitmask import TensorRows
from hybrid.api.tensor_layout import find_layout
from hybrid.classifier.meeting import Meeting

if cython.compiled:
    from cython.cimports.equivalence.built import EQUIMASK_SOURCE
    from cython.cimports.hybrid.classifier.known import mask_of, take
    from cython.cimports.hybrid.classifier.meeting import Meeting
    from cython.cimports.hybrid.classifier.rows import copy_row, fetch_row

    built.check(__name__, EQUIMASK_SOURCE)
else:
    from hybrid.classifier.known import mask_of, take
    from hybrid.classifier.rows import copy_row, fetch_row

    def number_of(value: int) -> int:
        """The value of an int that is not negative; else -1."""
        return value if 0 <= value < 1 << 30 else -1


LAYOUT = find_layout() if cython.compiled else None

OF_OBJECT = cython.declare(cython.Py_ssize_t, -1 if LAYOUT is None else LAYOUT.of_object)
OF_STORAGE = cython.declare(cython.Py_ssize_t, -1 if LAYOUT is None else LAYOUT.of_storage)
OF_GEOMETRY = cython.declare(cython.Py_ssize_t, -1 if LAYOUT is None else LAYOUT.of_geometry)
OF_MEMORY = cython.declare(cython.Py_ssize_t, -1 if LAYOUT is None else LAYOUT.of_memory)


FILLED = cython.declare(cython.Py_ssize_t, 0)
"""Masks that matchers of this process have filled. Without the interpreter's lock some may be missed."""

MOST_SHARED_BYTES = 1 << 26
"""Of a bitmask that is remembered for all matchers: its memory is held until another one is looked at."""


@cython.cclass
class Seen:
    """A bitmask's rows, and what tells whether they are there still.

    Attributes:
        rows: as they were when the tensor was looked at; `None` where none was.
        address, between, count: where its first row is, bytes from a row to the next, and rows.
        is_seen: whether the tensor's memory tells if it changed.
        impl, storage, geometry: its C++ object, its storage, and what was read there.
    """

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def look(self, bitmask: object, rows: object) -> cython.int:
        """Note a tensor whose rows were just found."""
        self.rows = rows
        self.address = rows.pointer
        self.between = 4 * rows.stride
        self.count = rows.count
        self.is_seen = False
        if cython.compiled:
            if OF_OBJECT > 0 and type(bitmask) is torch.Tensor and 0 < bitmask.ndim <= 2:
                self.impl = word(
                    cython.cast(cython.Py_ssize_t, cython.cast(cython.p_void, bitmask)) + OF_OBJECT
                )
                self.storage = word(self.impl + OF_STORAGE)
                for i in range(14):
                    self.geometry[i] = word(self.impl + OF_GEOMETRY + 8 * i)
                offset: cython.Py_ssize_t = 4 * self.geometry[11]
                self.is_seen = word(self.storage + OF_MEMORY) + offset == self.address
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def take_from(self, other: Seen) -> cython.int:
        """Note what another one has seen."""
        self.rows = other.rows
        self.address, self.between, self.count = other.address, other.between, other.count
        self.is_seen, self.impl, self.storage = other.is_seen, other.impl, other.storage
        for i in range(14):
            self.geometry[i] = other.geometry[i]
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def is_same(self, bitmask: object) -> cython.bint:
        """Whether a tensor has the memory, shape, strides and type that were noted.

        Where `is_seen` is false, it has to be the tensor that was noted.
        """
        if not self.is_seen:
            return self.rows.is_current(bitmask)
        if cython.compiled:
            # each address is read only after it was found to be the one that was valid: the tensor holds it
            # or, where it is another tensor, its storage is the one that our rows hold
            if (
                word(cython.cast(cython.Py_ssize_t, cython.cast(cython.p_void, bitmask)) + OF_OBJECT)
                != self.impl
                or word(self.impl + OF_STORAGE) != self.storage
                or word(self.storage + OF_MEMORY) + 4 * self.geometry[11] != self.address
            ):
                return False
            for i in range(14):
                if word(self.impl + OF_GEOMETRY + 8 * i) != self.geometry[i]:
                    return False
        return True


LAST: list = [None]
"""What was seen last of any tensor. A server fills one bitmask for all requests, each by a matcher of its
own, and to look at a tensor by torch takes 200 us with cold caches. Its rows hold the tensor's storage, so
that no other one can be at its address; not the tensor, and no weak reference, which torch's `swap_tensors`
would refuse."""


@cython.cclass
class Calls(Seen):
    """What a matcher's two calls of every step need at hand.

    Attributes:
        known: the follower, if it is one of a classifier.
        bitmask: the tensor of the last mask; `None`: it has to be looked at.
        follower: follows the sequence.
    """

    @property
    def _follower(self) -> Any:
        return self.follower

    @_follower.setter
    def _follower(self, follower: Any) -> None:
        self.known = follower if isinstance(follower, Meeting) else None
        self.follower = follower

    def remember(self, bitmask: Any, rows: TensorRows | None) -> None:
        """Remember the tensor of the next masks, as long as nobody changes it in place.

        Args:
            bitmask: it was looked at.
            rows: its rows; ``None``: it has to be looked at the next time too.
        """
        self.bitmask = self.rows = None
        if rows is None:
            return
        self.look(bitmask, rows)
        self.bitmask = bitmask
        if self.is_seen and self.count * self.between <= MOST_SHARED_BYTES:
            shared = Seen()
            shared.take_from(self)
            LAST[0] = shared

    def remembered(self, bitmask: object) -> TensorRows | None:
        """The rows of a tensor that is the last one still, unchanged; of this matcher, or of any."""
        if bitmask is None:
            return None
        if bitmask is self.bitmask:
            return self.rows if self.is_same(bitmask) else None
        last: Seen = LAST[0]
        if (
            last is None
            or type(bitmask) is not torch.Tensor
            or last.rows.words.shape[1] != self._width
            or not last.is_same(bitmask)
        ):
            return None
        self.take_from(last)
        self.bitmask = bitmask
        return self.rows

    @cython.annotation_typing(False)  # what callers give may be of any type
    def fill_next_token_bitmask(
        self, bitmask: torch.Tensor, index: int = 0, *, debug_print: bool = False
    ) -> bool:
        """Overwrite row `index` with the mask of the next token: bit 1 iff `accept_token` would take it.

        Args:
            bitmask: int32, on the CPU, shape (rows, ceil(V / 32)), or one such row: a tensor, or an array of
                numpy.
            index: the row.
            debug_print: let XGrammar print its state.

        Returns:
            Whether the mask forbids anything, that is, needs to be applied.

        Raises:
            BitmaskError: wrong dtype, shape, device or row; nothing was written.
            MatcherError: the matcher has terminated. It is a `RuntimeError`, as XGrammar's.
            BudgetExceeded: the mask took longer than `Budget.mask_seconds`, or than the budget has room for.
        """
        global FILLED
        if (
            self.known is not None
            and type(index) is int
            and bitmask is not None
            and (bitmask is self.bitmask or self.remembered(bitmask) is not None)
        ):
            row = number_of(index)
            source = mask_of(self.known)
            if source == 0:
                if not self.known.meet_mask():
                    self._find_mask()
                # Python ran: what is asked below is asked anew
                source = mask_of(self.known) if self.known is not None and bitmask is self.bitmask else 0
            if source != 0 and 0 <= row < self.count:
                address = self.address + row * self.between
                n_bytes = self.known.rows.n_bytes
                fetch_row(source, address, n_bytes)
                if self.is_same(self.bitmask):
                    copy_row(source, address, n_bytes)
                    FILLED += 1
                    return (source & 1) == 1
        return self._fill_row(bitmask, index, debug_print)

    @cython.annotation_typing(False)  # what callers give may be of any type
    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Advance by a token; False, with nothing changed, if the grammar does not take it here.

        Raises:
            ArgumentError: it is no integer (those of numpy and tensors without dimensions are), or a bool.
        """
        if type(token_id) is int and self.known is not None:
            token = number_of(token_id)
            taken = take(self.known, token)
            if taken < 0 <= token:
                taken = self.known.meet_step(token)
            if taken >= 0:
                return taken == 1
        return self._accept(token_id, debug_print)


def count_masks(masks: cython.Py_ssize_t) -> None:
    """Add masks that were filled elsewhere than in `Calls`."""
    global FILLED
    FILLED += masks


def forget_masks() -> None:
    """Begin to count anew: in a forked process the masks are the parent's."""
    global FILLED
    FILLED = 0


forking.in_child(forget_masks)


def masks_filled() -> int:
    """How many masks matchers of this process have filled, since it began or was forked."""
    return FILLED


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def word(address: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The word of memory at an address, which is valid."""
    return cython.cast(cython.pointer(cython.Py_ssize_t), address)[0]
