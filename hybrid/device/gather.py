"""The gather on a device: masks of classes are staged, and one kernel writes -inf into the logits there.

What: `DeviceGather` takes the masks of a step's sequences, a few hundred bytes each, sends them in one piece,
and masks the logits in place. Which class a token has stays on the device (`hybrid.device.maps`).
When: in place of a bitmask and `apply_token_bitmask_inplace`, where matchers and logits are in one process.
Limits: a row goes as a whole bitmask where its mask is not decided by classes: on strategy "engine", where
masks are walked as yet, beyond 32,767 classes; and for the first masks of a grammar. All sequences have one
vocabulary. One thread, and one stream of the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from equivalence import ArgumentError, BitmaskError
from equivalence.arguments import integer_from, shown
from hybrid.api.batch import checked, rows_of
from hybrid.api.batch_steps import stage_classes
from hybrid.api.bitmask import LOGITS, Rows, check_memory, row_number
from hybrid.api.calls import count_masks
from hybrid.api.matcher import GrammarMatcher
from hybrid.classifier.follower import ClassifierFollower
from hybrid.device.maps import MOST_CLASSES, NO_LINE, ClassMaps
from hybrid.device.masking import ENTRY, has_triton, mask_in_torch
from hybrid.values.gather import Gather

MOST_CLASS_WORDS = MOST_CLASSES // 32 + 1


class DeviceGather:
    """Masks logits on a device by what matchers allow.

    In each step `fill` the rows that have a matcher, `fill_bitmask` those whose mask is known otherwise, and
    `apply` once. Rows that nothing was filled for are free: `apply` leaves them alone.

    Args:
        vocab_size: number of ids of the vocabulary.
        device: where the logits are.
        max_rows: most rows that are filled in a step; they have page-locked memory for as many bitmasks.
        max_maps: grammars (and sets of stop ids) whose class maps are kept on the device, 2 bytes a token.
        backend: "triton", or "torch", which is slower and runs on every device; "auto" takes Triton on CUDA
            where it is installed.

    Attributes:
        device: as given.
        bytes_sent: bytes sent to the device so far.
        rows_by_class, rows_by_bitmask: rows that were masked so far, by what was sent.

    Raises:
        BitmaskError: a number that is no integer, or too small. ArgumentError: no such backend.
    """

    def __init__(
        self,
        vocab_size: int,
        device: torch.device | str,
        *,
        max_rows: int = 256,
        max_maps: int = 64,
        backend: Literal["auto", "triton", "torch"] = "auto",
    ) -> None:
        self._size = integer_from(1, vocab_size, "vocab_size", BitmaskError)
        self._max_rows = integer_from(1, max_rows, "max_rows", BitmaskError, 1 << 16)
        n_lines = integer_from(1, max_maps, "max_maps", BitmaskError, 1 << 20)
        self._maps = ClassMaps(self._size, torch.device(device), n_lines)
        self.device = self._maps.table.device  # with its number
        self._mask_rows = _backend(backend, self.device)
        self._width = (self._size + 31) // 32
        # a mask of classes has a bit for the stop ids, too: with classes of one token each, one word more
        n_words = self._max_rows * (self._width + 1 + ENTRY)
        on_cuda = self.device.type == "cuda"
        self._staged = torch.empty(n_words, dtype=torch.int32, pin_memory=on_cuda)
        self._words: NDArray[np.uint32] = self._staged.numpy().view(np.uint32)
        self._sent = torch.cuda.Event() if on_cuda else None  # type: ignore[no-untyped-call]
        self._entries = np.empty((self._max_rows, ENTRY), np.int32)
        self._rows: frozenset[int] = frozenset()
        self._taken = 0, 0  # words and entries
        self._n_words_sent = self.rows_by_class = self.rows_by_bitmask = 0

    @property
    def bytes_sent(self) -> int:
        """Bytes sent to the device so far, class maps included."""
        return 4 * self._n_words_sent + self._maps.bytes_sent

    def fill(self, matchers: Sequence[GrammarMatcher], indices: Iterable[int] | None = None) -> None:
        """Stage the mask of matcher i's next token for row ``indices[i]`` (default i) of the logits.

        Raises:
            ArgumentError: no matchers of ours, or of vocabularies of another size.
            BitmaskError: not one row for each matcher, no such row, or one that is filled already.
            MatcherError, BudgetExceeded: as `GrammarMatcher.fill_next_token_bitmask`. Nothing was staged,
                whatever is raised.
        """
        matchers = checked(matchers)
        numbers = rows_of(matchers, indices)
        for matcher in matchers:
            if matcher._size != self._size:
                raise ArgumentError(
                    f"a matcher's vocabulary has {matcher._size} ids, allowed is this gather's vocab_size, "
                    f"{self._size}"
                )
        self._begin(numbers)
        before, rows, maps = self._taken, self._rows, self._maps
        filled = rows.union(numbers)
        try:
            n_words, n_rows, left = stage_classes(
                matchers, numbers, maps.known, self._words, self._entries, before, maps.last_steps, maps.step
            )
            self._taken = n_words, n_rows
            for i in left:
                self._fill_row(matchers[i], numbers[i])
            self._rows = filled
            count_masks(len(matchers))
        except BaseException:
            self._taken, self._rows = before, rows
            raise

    def _fill_row(self, matcher: GrammarMatcher, row: int) -> None:
        """Stage a mask that is not known by class, or of a grammar that has no line."""
        room = self._words[self._taken[0] :][: min(self._width + 1, MOST_CLASS_WORDS)]
        gather = matcher._fill_by_class(room)
        line = NO_LINE if gather is None else self._maps.line(gather, matcher._stops)
        follower = matcher._follower
        by_classifier = isinstance(follower, ClassifierFollower)
        if gather is not None and line != NO_LINE:
            self._add(row, line, gather.n_classes // 32 + 1)
            if by_classifier:
                self._maps.know(follower.session.class_rows, matcher._stops, line)
            return
        if gather is None or by_classifier:  # which keeps whole masks: a copy takes a tenth of expanding one
            matcher._fill(self._bitmask())
        else:  # an engine is asked once: a mask may change what a budget of tokens allows
            expand(gather, matcher._stops, room.copy(), self._bitmask())
        self._add(row, NO_LINE, self._width)

    def fill_bitmask(self, bitmask: Any, index: int) -> None:
        """Stage a whole bitmask of one row, as `hybrid.allocate_token_bitmask` makes it.

        Raises:
            BitmaskError: wrong dtype, shape or device; as `fill` for the row. Nothing was staged.
        """
        given = Rows(bitmask, self._width, self._size)
        if given.count != 1:
            raise BitmaskError(f"the bitmask has {given.count} rows, allowed is one")
        row = row_number(index)
        self._begin([row])
        filled = self._rows | {row}
        self._bitmask()[:] = given.words[0]
        self._add(row, NO_LINE, self._width)
        self._rows = filled

    def apply(self, logits: torch.Tensor) -> None:
        """Set to -inf what the staged masks forbid, and ids behind the vocabulary; a new step begins.

        Args:
            logits: (rows, ids), or (ids,) for row 0 alone: float32, float16 or bfloat16, on the device, of
                any strides.

        Raises:
            BitmaskError: logits of another type, on another device, narrower than the vocabulary, with fewer
                rows than were filled, or of rows that share memory. Nothing changed.
        """
        rows = self._checked(logits)
        n_words, n_rows = self._taken
        if n_rows:
            end = n_words + ENTRY * n_rows
            entries = self._entries[:n_rows]
            self._words[n_words:end] = entries.view(np.uint32).reshape(-1)
            staged = self._staged[:end].to(self.device, non_blocking=True)
            if self._sent is not None:
                self._sent.record(torch.cuda.current_stream(self.device))
            self._mask_rows(rows, self._size, self._maps.table, staged, torch.from_numpy(entries))
            self._n_words_sent += end
            by_bitmask = int((entries[:, 1] == NO_LINE).sum())
            self.rows_by_bitmask += by_bitmask
            self.rows_by_class += n_rows - by_bitmask
        self.clear()

    def clear(self) -> None:
        """Forget what was staged; a new step begins."""
        self._taken = 0, 0
        self._rows = frozenset()
        self._maps.step += 1

    def _begin(self, numbers: Sequence[int]) -> None:
        """Check rows that are about to be filled, and wait until the last step's words were read."""
        for row in (min(numbers), max(numbers)) if numbers else ():
            if not 0 <= row < self._max_rows:
                raise BitmaskError(f"index is {row}, allowed are rows 0 to {self._max_rows - 1} (max_rows)")
        if not self._rows.isdisjoint(numbers):
            row = min(self._rows.intersection(numbers))
            raise BitmaskError(f"row {row} is filled already; apply or clear begins a new step")
        if not self._rows and self._sent is not None:
            self._sent.synchronize()

    def _bitmask(self) -> NDArray[np.uint32]:
        """Room for the next row as a whole bitmask."""
        return self._words[self._taken[0] :][: self._width]

    def _add(self, row: int, line: int, size: int) -> None:
        """Add an entry for words that were written behind the others."""
        n_words, n_rows = self._taken
        self._entries[n_rows] = row, line, n_words
        self._taken = n_words + size, n_rows + 1

    def _checked(self, logits: Any) -> torch.Tensor:
        """The logits as rows."""
        if (
            not isinstance(logits, torch.Tensor)
            or logits.layout != torch.strided
            or logits.ndim not in (1, 2)
            or logits.dtype not in LOGITS
            or logits.device != self.device
        ):
            kind = shown(logits)
            if isinstance(logits, torch.Tensor):
                kind = f"{logits.dtype} of shape {tuple(logits.shape)} on {logits.device}, {logits.layout}"
            raise BitmaskError(
                f"logits are {kind}, allowed are float32, float16 or bfloat16 of one or two dimensions, "
                f"strided, on {self.device}"
            )
        check_memory("logits", logits)
        rows = logits.detach()
        if rows.ndim == 1:
            rows = rows[None, :]
        (n_rows, n_ids), (between_rows, between_ids) = rows.shape, rows.stride()
        if n_ids < self._size:
            raise BitmaskError(f"logits have {n_ids} ids, allowed are {self._size} or more")
        if self._rows and max(self._rows) >= n_rows:
            raise BitmaskError(f"logits have {n_rows} rows, and row {max(self._rows)} is filled")
        by_rows = between_ids > 0 and (n_rows < 2 or between_rows > (n_ids - 1) * between_ids)
        by_ids = between_rows > 0 and (n_ids < 2 or between_ids > (n_rows - 1) * between_rows)
        if n_rows and not by_rows and not by_ids and n_ids > 1:
            raise BitmaskError(
                "the logits share memory with each other, as after expand; pass logits.clone()"
            )
        return rows


def expand(
    gather: Gather, stops: tuple[int, ...], class_words: NDArray[np.uint32], row: NDArray[np.uint32]
) -> None:
    """Write a mask by class as a whole bitmask.

    Args:
        gather: of the classes.
        stops: the stop ids.
        class_words: as `Follower.fill_by_class` writes them.
        row: uint32, the words of a row.
    """
    gather.expand(class_words, row)
    last, rest = gather.n_classes >> 5, gather.n_classes & 31
    can_stop = bool(int(class_words[last]) >> rest & 1)
    for stop in stops:
        bit = np.uint32(1 << (stop & 31))
        if can_stop:
            row[stop >> 5] |= bit
        else:
            row[stop >> 5] &= ~bit


def _backend(name: Any, device: torch.device) -> Any:
    """The function that masks rows."""
    if name not in ("auto", "triton", "torch"):
        raise ArgumentError(f"backend is {shown(name)}, allowed are 'auto', 'triton' and 'torch'")
    if name == "torch" or (name == "auto" and (device.type != "cuda" or not has_triton())):
        return mask_in_torch
    if not has_triton():
        raise ArgumentError("backend is 'triton', which is not installed: pip install 'equimask[gpu]'")
    from hybrid.device.kernel import mask_in_triton

    return mask_in_triton
