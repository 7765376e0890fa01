"""Checks of bitmasks, and XGrammar's functions for them.

What: `Rows` gives access to the words of a bitmask after its type, shape, strides and memory were checked.
The functions that allocate and apply bitmasks check what XGrammar's own functions pass to their kernels
unchecked.
When: every method that fills masks uses `Rows`.
Limits: masks are filled on the CPU. Torch knows how much memory a tensor has; for a numpy array made by
`as_strided` this cannot be checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import torch
import xgrammar
from numpy.typing import NDArray

from equivalence import BitmaskError
from equivalence.arguments import integer, integer_from, integers, shown
from hybrid.api.logits import mask_logits

WORDS = torch.int32
LOGITS = {
    torch.float32: (torch.int32, -0x800000), torch.float16: (torch.int16, -0x400),
    torch.bfloat16: (torch.int16, -0x80),
}  # fmt: skip
"""The types that XGrammar's own kernels can write: an integer of the same width, and the bits of -inf."""


class Rows:
    """The rows of one bitmask, checked.

    Args:
        bitmask: int32 on the CPU with shape (rows, width), or one row; a tensor or a numpy array.
        width: words of a row.
        size: number of ids of the vocabulary, for messages.

    Attributes:
        count: number of rows.
        words: uint32[count, width], the same memory.

    Raises:
        BitmaskError: the type, width or device is wrong; the rows are read-only, share memory or are not
            contiguous; or the memory does not exist.
    """

    def __init__(self, bitmask: Any, width: int, size: int) -> None:
        array = _array_of_tensor(bitmask) if isinstance(bitmask, torch.Tensor) else _array(bitmask)
        if array.ndim == 1:
            array = array[None, :]
        if array.ndim != 2 or array.shape[1] != width:
            raise BitmaskError(
                f"the bitmask must have the shape (rows, {width}) for {size} ids, but has "
                f"{tuple(bitmask.shape)}; hybrid.allocate_token_bitmask(rows, {size}) makes one"
            )
        self.count: int = array.shape[0]
        between, inside = array.strides
        if (width > 1 and inside != 4) or not array.flags.writeable or not array.flags.aligned:
            raise BitmaskError(
                "the rows of the bitmask must be contiguous, aligned and writable; pass a contiguous copy"
            )
        if self.count > 1 and abs(between) < 4 * width:
            raise BitmaskError(
                f"the rows of the bitmask overlap in memory: they start {between} bytes apart and have "
                f"{4 * width} bytes (for example, because of expand or as_strided); pass "
                "bitmask.clone(), or a new bitmask from hybrid.allocate_token_bitmask"
            )
        self.words: NDArray[np.uint32] = array.view(np.uint32)

    @property
    def place(self) -> tuple[int, int]:
        """The address of the first row, and the bytes from a row to the next."""
        return int(self.words.ctypes.data), int(self.words.strides[0])

    def row(self, index: int) -> NDArray[np.uint32]:
        """The words of a row.

        Raises:
            BitmaskError: there is no such row.
        """
        return self.words[self.checked(index)]

    def checked(self, index: int) -> int:
        """The row's number itself, an `int`.

        Raises:
            BitmaskError: there is no such row.
        """
        if not 0 <= index < self.count:
            many = f"{self.count} row{'s' * (self.count != 1)}"
            why = f"; the bitmask has {many}, and each matcher needs one" if index >= self.count else ""
            raise BitmaskError(f"index must be a row from 0 to {self.count - 1}, but is {index}{why}")
        return index


def row_number(index: Any) -> int:
    """The number of a row as an `int`.

    Raises:
        BitmaskError: it is not an integer.
    """
    return integer(index, "index", BitmaskError)


def _array_of_tensor(bitmask: torch.Tensor) -> NDArray[Any]:
    if bitmask.dtype != WORDS or bitmask.device.type != "cpu" or bitmask.layout != torch.strided:
        raise BitmaskError(
            f"the bitmask must be a strided torch.int32 tensor on the CPU, but is {bitmask.dtype} on "
            f"{bitmask.device}, {bitmask.layout}; hybrid.allocate_token_bitmask makes one"
        )
    try:
        if not bitmask.numel():
            return np.empty(bitmask.shape, np.int32)
        check_memory("the bitmask", bitmask)
        return np.asarray(bitmask.detach().numpy())
    except BitmaskError:
        raise
    except Exception as error:  # nested, batched, fake and other tensors raise errors of many types
        raise BitmaskError(
            f"the bitmask must have plain memory ({error}); hybrid.allocate_token_bitmask makes one"
        ) from error


def check_memory(name: str, tensor: torch.Tensor) -> None:
    """Raise `BitmaskError` if a tensor is larger than its memory, as after a resize that failed in torch."""
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    held = tensor.untyped_storage().nbytes()
    if tensor.numel() and tensor.element_size() * (tensor.storage_offset() + last + 1) > held:
        raise BitmaskError(
            f"{name} of shape {tuple(tensor.shape)} has only {held} bytes of memory (for example, "
            "because a resize_ failed); make a new one"
        )


def _array(bitmask: Any) -> NDArray[Any]:
    if isinstance(bitmask, np.ndarray) and bitmask.dtype == np.int32:
        return np.asarray(bitmask)  # a matrix would have matrices for rows
    kind = getattr(bitmask, "dtype", type(bitmask).__name__)
    raise BitmaskError(f"the bitmask must be an int32 tensor or array on the CPU, but is {kind}")


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """`xgrammar.get_bitmask_shape`: (batch_size, ceil(vocab_size / 32)).

    Raises:
        BitmaskError: a number is not an integer, or too small.
    """
    rows = integer_from(0, batch_size, "batch_size", BitmaskError)
    return rows, (integer_from(1, vocab_size, "vocab_size", BitmaskError) + 31) // 32


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> torch.Tensor:
    """`xgrammar.allocate_token_bitmask`: a bitmask on the CPU in which every bit is set.

    Raises:
        BitmaskError: a number is not an integer, or too small.
    """
    return torch.full(get_bitmask_shape(batch_size, vocab_size), -1, dtype=WORDS, device="cpu")


def reset_token_bitmask(bitmask: Any) -> None:
    """`xgrammar.reset_token_bitmask`: set every bit.

    Raises:
        BitmaskError: it is not an int32 tensor.
    """
    if not isinstance(bitmask, torch.Tensor) or bitmask.dtype != WORDS:
        kind = getattr(bitmask, "dtype", type(bitmask).__name__)
        raise BitmaskError(f"the bitmask must be an int32 tensor, but is {kind}")
    xgrammar.reset_token_bitmask(bitmask)


def apply_token_bitmask_inplace(
    logits: Any,
    bitmask: Any,
    *,
    vocab_size: int | None = None,
    indices: Iterable[int] | None = None,
    backend: Literal["auto", "cpu", "cuda", "triton", "torch_compile", "torch_native"] = "auto",
) -> None:
    """`xgrammar.apply_token_bitmask_inplace`: set the logits of ids whose bit is 0 to -inf.

    Args:
        logits: (rows, ids) or (ids,), float32, float16 or bfloat16, on any device.
        bitmask: (rows, words) or (words,), int32, on the same device.
        vocab_size: number of ids to mask; None means as many as both have. Logits of ids beyond them stay.
        indices: the rows of both to mask; None means all, and both must have the same number.
        backend: XGrammar's kernel; "auto" and "cpu" are our own for logits on the CPU.

    Raises:
        BitmaskError: an argument with which XGrammar's kernels would read or write outside the tensors: a
            row that does not exist, a `vocab_size` wider than a row, columns that are not contiguous, another
            type.
    """
    for name, given in (("logits", logits), ("bitmask", bitmask)):
        if not isinstance(given, torch.Tensor) or given.layout != torch.strided or given.ndim not in (1, 2):
            raise BitmaskError(
                f"{name} must be a strided tensor with one or two dimensions, but is {shown(given)}"
            )
    in_torch = str(backend).startswith("torch_") and logits.dtype.is_floating_point
    if bitmask.dtype != WORDS or not (in_torch or logits.dtype in LOGITS):
        raise BitmaskError(
            "logits must be float32, float16 or bfloat16, and the bitmask must be int32, but they are "
            f"{logits.dtype} and {bitmask.dtype}"
        )
    if bitmask.device != logits.device:
        raise BitmaskError(
            f"logits are on {logits.device}, but the bitmask is on {bitmask.device}; move the bitmask "
            f"to {logits.device}"
        )
    _check_layout(logits, bitmask)
    most = min(logits.shape[-1], 32 * bitmask.shape[-1])
    if vocab_size is not None:
        vocab_size = integer_from(1, vocab_size, "vocab_size", BitmaskError, most)
    counts = [1 if tensor.ndim == 1 else tensor.shape[0] for tensor in (logits, bitmask)]
    rows = None
    if indices is not None:
        rows = integers(indices, "indices", BitmaskError)
        for row in rows:
            integer_from(0, row, "an index", BitmaskError, min(counts) - 1)
    elif counts[0] != counts[1]:
        raise BitmaskError(
            f"logits have {counts[0]} rows, but the bitmask has {counts[1]}; to mask only some rows, "
            "pass indices"
        )
    if logits.device.type == "cpu" and backend in ("auto", "cpu"):
        _mask_on_cpu(logits, bitmask, most if vocab_size is None else vocab_size, rows)
    elif most and (rows is None or rows):
        xgrammar.apply_token_bitmask_inplace(
            logits, bitmask, vocab_size=vocab_size, indices=rows, backend=backend
        )


def _mask_on_cpu(logits: torch.Tensor, bitmask: torch.Tensor, size: int, rows: list[int] | None) -> None:
    """Mask some rows of two tensors, or all."""
    width, infinity = LOGITS[logits.dtype]
    try:
        bits = np.atleast_2d(logits.detach().view(width).numpy())
        words = np.atleast_2d(bitmask.numpy())
    except RuntimeError as error:  # fake tensors, negated views
        raise BitmaskError(f"logits and bitmask must have plain memory ({error}); pass clones") from error
    for row in range(len(bits)) if rows is None else rows:
        mask_logits(bits[row], words[row], size, infinity)


def _check_layout(logits: torch.Tensor, bitmask: torch.Tensor) -> None:
    """Check what XGrammar's kernels do not: the stride of columns, and the size of the memory."""
    for name, tensor in (("logits", logits), ("bitmask", bitmask)):
        check_memory(name, tensor)
        if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
            raise BitmaskError(
                f"the elements of each row of {name} must be contiguous, but their stride is "
                f"{tensor.stride(-1)}; pass a contiguous tensor"
            )
    if logits.ndim == 2 and logits.shape[0] > 1 and logits.stride(0) < logits.shape[1]:
        raise BitmaskError(
            "the rows of logits overlap in memory (for example, because of expand); pass logits.clone()"
        )
