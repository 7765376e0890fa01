# cython: language_level=3
# mypy: ignore-errors
"""The two calls of every step, masks out and tokens in, where what is asked is known: without Python.

What: `Calls` knows the bitmask of the last mask and the follower. A call that finds the same tensor
unchanged, and whose answer is known, ends here; all others go to the methods of `hybrid.GrammarMatcher`,
which is made on top of it.
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

from equivalence import built
from hybrid.api.bitmask import TensorRows
from hybrid.api.tensor_layout import find_layout
from hybrid.classifier.known import Known

if cython.compiled:
    from cython.cimports.equivalence.built import EQUIMASK_SOURCE
    from cython.cimports.hybrid.classifier.known import Known, mask_of, take
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


@cython.cclass
class Calls:
    """What a matcher's two calls of every step need at hand.

    Attributes:
        known: the follower, if it is one of a classifier.
        bitmask: the tensor of the last mask; `None`: it has to be looked at.
        address, between, count: where its first row is, bytes from a row to the next, and rows.
        is_seen: whether the tensor's memory tells if it changed.
        impl, storage, geometry: its C++ object, its storage, and what was read there.
        follower: follows the sequence.
        rows: of `bitmask`.
    """

    @property
    def _follower(self) -> Any:
        return self.follower

    @_follower.setter
    def _follower(self, follower: Any) -> None:
        self.known = follower if isinstance(follower, Known) else None
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
        self.address = rows.pointer
        self.between = 4 * rows.stride
        self.count = rows.count
        self.rows = rows
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
        self.bitmask = bitmask

    def remembered(self, bitmask: object) -> TensorRows | None:
        """The rows of a tensor that is the last one still, unchanged."""
        return self.rows if bitmask is self.bitmask and bitmask is not None and self.is_unchanged() else None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def is_unchanged(self) -> cython.bint:
        """Whether nobody changed the remembered tensor's memory, shape, strides or type in place."""
        if not self.is_seen:
            return self.rows.is_current(self.bitmask)
        if cython.compiled:
            # each address is read only after it was found to be the one that was valid: the tensor holds it
            if (
                word(cython.cast(cython.Py_ssize_t, cython.cast(cython.p_void, self.bitmask)) + OF_OBJECT)
                != self.impl
                or word(self.impl + OF_STORAGE) != self.storage
                or word(self.storage + OF_MEMORY) + 4 * self.geometry[11] != self.address
            ):
                return False
            for i in range(14):
                if word(self.impl + OF_GEOMETRY + 8 * i) != self.geometry[i]:
                    return False
        return True

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
        if bitmask is self.bitmask and type(index) is int and self.known is not None and bitmask is not None:
            row = number_of(index)
            source = mask_of(self.known)
            if source == 0:
                self._find_mask()
                # Python ran: what is asked below is asked anew
                source = mask_of(self.known) if self.known is not None and bitmask is self.bitmask else 0
            if source != 0 and 0 <= row < self.count:
                address = self.address + row * self.between
                n_bytes = self.known.rows.n_bytes
                fetch_row(source, address, n_bytes)
                if self.is_unchanged():
                    copy_row(source, address, n_bytes)
                    return (source & 1) == 1
        return self._fill_row(bitmask, index, debug_print)

    @cython.annotation_typing(False)  # what callers give may be of any type
    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Advance by a token; False, with nothing changed, if the grammar does not take it here.

        Raises:
            ArgumentError: it is no integer (those of numpy and tensors without dimensions are), or a bool.
        """
        if type(token_id) is int and self.known is not None:
            taken = take(self.known, number_of(token_id))
            if taken >= 0:
                return taken == 1
        return self._accept(token_id, debug_print)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def word(address: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The word of memory at an address, which is valid."""
    return cython.cast(cython.pointer(cython.Py_ssize_t), address)[0]
