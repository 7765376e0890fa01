"""The gather on a device: it stages masks of classes, and one kernel sets forbidden logits to -inf.

What: `DeviceGather` collects the class masks of a step's sequences, a few hundred bytes each. It sends them
in one copy, and masks the logits in place. The class of each token stays on the device
(`hybrid.device.maps`).
When: instead of a bitmask and `apply_token_bitmask_inplace`, if matchers and logits are in one process.
Limits: a row is sent as a whole bitmask if its mask has no class mask: on strategy "engine", while masks are
walked, and with more than 32,767 classes; also for the first masks of a grammar. All sequences have one
vocabulary. Only for one thread, and one stream of the device.

Rejected: keeping masks on the device, so that a row sends only the number of its mask. This would save 24 to
136 bytes a row, but 256 such rows take less than 2 us on a bus of 25 GB/s, and numbers are only valid during
one session of the classifier. Rejected: a list of stop ids for each row, instead of a map for each set of
them. All rows would need a loop in the kernel, and only a few would save 256 KiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NoReturn

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
from hybrid.values.arguments import one_of

MOST_CLASS_WORDS = MOST_CLASSES // 32 + 1


class DeviceGather:
    """Masks logits on a device by what matchers allow.

    In each step, call `fill` for the rows that have a matcher, `fill_bitmask` for each row whose mask comes
    from elsewhere, and then `apply` once. Rows for which neither was called are not constrained: `apply` does
    not change them.

    Args:
        vocab_size: number of ids of the vocabulary.
        device: where the logits are.
        max_rows: the maximum number of rows in a step. Page-locked memory is allocated for as many bitmasks.
        max_maps: how many class maps are kept on the device, one for each pair of a grammar and a set of stop
            ids; 2 bytes per token each.
        backend: "triton", or "torch", which is slower and runs on every device; "auto" chooses Triton on CUDA
            if it is installed.

    Attributes:
        device: as given.
        bytes_sent: bytes sent to the device so far.
        rows_by_class, rows_by_bitmask: how many rows were masked so far by a class mask, and by a whole
            bitmask.

    Raises:
        BitmaskError: an argument is not an integer, or too small.
        ArgumentError: there is no such backend.
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
        self.device = self._maps.table.device  # with the number of the device
        self._mask_rows = _backend(backend, self.device)
        self._width = (self._size + 31) // 32
        # A class mask also has a bit for the stop ids: if each class has one token, it is one word longer.
        n_words = self._max_rows * (self._width + 1 + ENTRY)
        on_cuda = self.device.type == "cuda"
        self._staged = torch.empty(n_words, dtype=torch.int32, device="cpu", pin_memory=on_cuda)
        self._words: NDArray[np.uint32] = self._staged.numpy().view(np.uint32)
        self._sent = torch.cuda.Event() if on_cuda else None  # type: ignore[no-untyped-call]
        self._entries = np.empty((self._max_rows, ENTRY), np.int32)
        self._rows: frozenset[int] = frozenset()
        self._taken = 0, 0  # words and entries in use
        self._n_words_sent = self.rows_by_class = self.rows_by_bitmask = 0

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ArgumentError(  # a copy would write masks to one array, and send another one
            "a DeviceGather cannot be copied or pickled; make a new one with the same arguments"
        )

    @property
    def bytes_sent(self) -> int:
        """Bytes sent to the device so far, class maps included."""
        return 4 * self._n_words_sent + self._maps.bytes_sent

    def fill(self, matchers: Sequence[GrammarMatcher], indices: Iterable[int] | None = None) -> None:
        """Stage the mask of matcher i's next token for row ``indices[i]`` (default i) of the logits.

        If an error is raised, nothing was staged.

        Raises:
            ArgumentError: something is not one of our matchers, or has a vocabulary of another size.
            BitmaskError: there is not one row for each matcher, a row does not exist, or is filled already.
            MatcherError, BudgetExceeded: as `GrammarMatcher.fill_next_token_bitmask`.
        """
        matchers = checked(matchers)
        numbers = rows_of(matchers, indices)
        for matcher in matchers:
            if matcher._size != self._size:
                raise ArgumentError(
                    f"a matcher's vocabulary must have {self._size} ids (the vocab_size of this "
                    f"gather), but has {matcher._size}"
                )
        self._begin(numbers)
        before, rows, maps = self._taken, self._rows, self._maps
        filled = rows.union(numbers)
        try:
            n_words, n_rows, left = stage_classes(
                matchers,
                numbers,
                maps.lines,
                self._words,
                self._entries,
                before,
                maps.last_steps,
                maps.step,
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
        """Stage one mask whose class mask is not cached, or whose grammar has no class map on the device."""
        room = self._words[self._taken[0] :][: min(self._width + 1, MOST_CLASS_WORDS)]
        gather = matcher._fill_by_class(room)
        line = NO_LINE if gather is None else self._maps.line(gather, matcher._stops)
        if gather is not None and line != NO_LINE:
            self._add(row, line, gather.n_classes // 32 + 1)
            return
        if gather is None or isinstance(matcher._follower, ClassifierFollower):
            # it caches whole masks; copying takes a tenth of expanding
            matcher._fill(self._bitmask())
        else:  # ask an engine only once: filling a mask may change what a token budget allows
            can_stop = bool(int(room[gather.n_classes >> 5]) >> (gather.n_classes & 31) & 1)
            gather.expand(room.copy(), self._bitmask(), matcher._stops, can_stop)
        self._add(row, NO_LINE, self._width)

    def fill_bitmask(self, bitmask: Any, index: int) -> None:
        """Stage a whole bitmask of one row, as `hybrid.allocate_token_bitmask` makes it.

        Raises:
            BitmaskError: it has a wrong dtype, shape or device; or as `fill` for the row. Nothing was staged.
        """
        given = Rows(bitmask, self._width, self._size)
        if given.count != 1:
            raise BitmaskError(f"the bitmask must have one row, but has {given.count}")
        row = row_number(index)
        self._begin([row])
        filled = self._rows | {row}
        self._bitmask()[:] = given.words[0]
        self._add(row, NO_LINE, self._width)
        self._rows = filled

    def apply(self, logits: torch.Tensor) -> None:
        """Set the logits to -inf that the staged masks forbid, and those of ids beyond the vocabulary. Begin
        a new step.

        Args:
            logits: (rows, ids), or (ids,) for row 0 alone: float32, float16 or bfloat16, on the device, with
                any strides.

        Raises:
            BitmaskError: logits have another type, are on another device, are narrower than the vocabulary,
                have fewer rows than were filled, or have rows that share memory. Nothing was changed.
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
        """Drop everything that was staged, and begin a new step."""
        self._taken = 0, 0
        self._rows = frozenset()
        self._maps.step += 1

    def _begin(self, numbers: Sequence[int]) -> None:
        """Check rows that are about to be filled, and wait until the staged words of the last step were
        copied."""
        for row in (min(numbers), max(numbers)) if numbers else ():
            if not 0 <= row < self._max_rows:
                raise BitmaskError(
                    f"index must be a row from 0 to {self._max_rows - 1} (max_rows), but is {row}"
                )
        if not self._rows.isdisjoint(numbers):
            row = min(self._rows.intersection(numbers))
            raise BitmaskError(
                f"row {row} has already been filled in this step; apply or clear begins a new step"
            )
        if not self._rows and self._sent is not None:
            self._sent.synchronize()

    def _bitmask(self) -> NDArray[np.uint32]:
        """Return the free words after the staged ones, as many as a whole bitmask has."""
        return self._words[self._taken[0] :][: self._width]

    def _add(self, row: int, line: int, size: int) -> None:
        """Add an entry for words that were written after the staged ones."""
        n_words, n_rows = self._taken
        self._entries[n_rows] = row, line, n_words
        self._taken = n_words + size, n_rows + 1

    def _checked(self, logits: Any) -> torch.Tensor:
        """Check the logits, and return them as rows."""
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
                "logits must be float32, float16 or bfloat16 with one or two dimensions, strided, on "
                f"{self.device}, but are {kind}"
            )
        check_memory("logits", logits)
        rows = logits.detach()
        if rows.ndim == 1:
            rows = rows[None, :]
        (n_rows, n_ids), (between_rows, between_ids) = rows.shape, rows.stride()
        if n_ids < self._size:
            raise BitmaskError(f"logits must have at least {self._size} ids, but have {n_ids}")
        if self._rows and max(self._rows) >= n_rows:
            raise BitmaskError(
                f"logits have only {n_rows} rows, but row {max(self._rows)} was filled; pass the logits of "
                "all filled rows"
            )
        by_rows = between_ids > 0 and (n_rows < 2 or between_rows > (n_ids - 1) * between_ids)
        by_ids = between_rows > 0 and (n_ids < 2 or between_ids > (n_rows - 1) * between_rows)
        if n_rows and not by_rows and not by_ids and n_ids > 1:
            raise BitmaskError(
                "the logits overlap in memory (for example, because of expand); pass logits.clone()"
            )
        return rows


def _backend(name: Any, device: torch.device) -> Any:
    """Return the function that masks rows."""
    one_of(("auto", "triton", "torch"), name, "backend")
    if name == "torch" or (name == "auto" and (device.type != "cuda" or not has_triton())):
        return mask_in_torch
    if not has_triton():
        raise ArgumentError(
            "backend='triton' needs Triton, which is not installed: pip install 'equimask[gpu]'"
        )
    from hybrid.device.kernel import mask_in_triton

    return mask_in_triton
