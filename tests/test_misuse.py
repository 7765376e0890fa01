"""Invalid bitmasks and rows raise a clear error, and nothing is written, on every strategy.

What: tables of wrong layouts, of changes to a tensor after its first use, and of wrong rows. Bitmasks are
views of larger buffers filled with a pattern, so that a word written anywhere else is detected.
When: after any change of `hybrid.api.bitmask`, or of code that fills masks.
Limits: memory outside the buffers is not watched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided

from equivalence import BitmaskError
from hybrid import (
    BatchGrammarMatcher,
    GrammarMatcher,
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    get_bitmask_shape,
    reset_token_bitmask,
)
from tests.misuse import FIRST, PATTERN, SIZE, WORDS, buffer, untouched

pytestmark = pytest.mark.kernels


# Bitmasks.

NO_ROWS: dict[str, Any] = {
    "True": True, "False": False, "numpy's True": np.True_, "tensor of True": torch.tensor(True), "0.0": 0.0,
    "numpy's 0.0": np.float64(0), "text": "0", "None": None, "a list": [0], "a tensor": torch.tensor([0]),
    "an array": np.array([0]), "a slice": slice(0, 1), "...": ..., "-1": -1, "numpy's -1": np.int8(-1),
    "4": 4, "2 ** 40": 1 << 40, "2 ** 64": 1 << 64, "the address of nothing": 1 << 61,
}  # fmt: skip


@pytest.mark.parametrize("kind", [torch.Tensor.detach, torch.Tensor.numpy], ids=["torch", "numpy"])
@pytest.mark.parametrize("index", NO_ROWS.values(), ids=NO_ROWS)
def test_what_is_no_row_is_refused(matcher: GrammarMatcher, index: Any, kind: Callable[[Any], Any]) -> None:
    """`array[True]` is a copy with three dimensions: a kernel took its rows for words, and wrote past its
    end."""
    guard = buffer()
    for rows in (1, 4):
        bitmask = kind(guard[10 * WORDS : (10 + rows) * WORDS].view(rows, WORDS))
        for _ in range(2):  # first unknown, then known
            with pytest.raises(BitmaskError, match="index must be"):
                matcher.fill_next_token_bitmask(bitmask, index)
            with pytest.raises(BitmaskError, match=r"index|indices"):
                BatchGrammarMatcher().batch_fill_next_token_bitmask([matcher, matcher], bitmask, [0, index])
            assert untouched(guard)
            matcher.fill_next_token_bitmask(bitmask, 0)
            guard[10 * WORDS : 11 * WORDS] = PATTERN


@pytest.mark.parametrize("index", [2, np.uint8(2), torch.tensor(2), np.array(2)])
def test_integers_of_all_kinds_are_rows(matcher: GrammarMatcher, index: Any) -> None:
    bitmask = buffer(4 * WORDS).view(4, WORDS)
    matcher.fill_next_token_bitmask(bitmask, index)
    matcher.fill_next_token_bitmask(bitmask.numpy(), index)
    assert bitmask[2].tolist() == FIRST and bitmask[[0, 1, 3]].eq(PATTERN).all()


NO_BITMASKS: dict[str, Callable[[torch.Tensor], Any]] = {
    "rows in one place": lambda guard: guard[:WORDS].expand(4, WORDS),
    "rows that overlap": lambda guard: guard.as_strided((4, WORDS), (WORDS - 1, 1)),
    "words in one place": lambda guard: guard[:4].view(4, 1).expand(4, WORDS),
    "columns apart": lambda guard: guard[: 8 * WORDS].view(4, 2 * WORDS)[:, ::2],
    "transposed": lambda guard: guard[: 4 * WORDS].view(WORDS, 4).T,
    "too narrow": lambda guard: guard[: 4 * (WORDS - 1)].view(4, WORDS - 1),
    "three dimensions": lambda guard: guard[: 4 * WORDS].view(1, 4, WORDS),
    "no dimensions": lambda guard: guard[0],
    "float32": lambda guard: guard[: 4 * WORDS].view(torch.float32).view(4, WORDS),
    "int64": lambda guard: guard[: 8 * WORDS].view(torch.int64).view(4, WORDS),
    "no rows": lambda guard: guard[:0].view(0, WORDS),
    "None": lambda guard: None,
    "sparse": lambda guard: torch.ones(4, WORDS, dtype=torch.int32).to_sparse(),
    "on no device": lambda guard: torch.empty(4, WORDS, dtype=torch.int32, device="meta"),
    "nested": lambda guard: torch.nested.nested_tensor([guard[:WORDS]] * 4, dtype=torch.int32),
    "zeros of no memory": lambda guard: torch._efficientzerotensor((4, WORDS), dtype=torch.int32),
    "negated when read": lambda guard: torch._neg_view(guard[: 4 * WORDS].view(4, WORDS)),
    "a class": lambda guard: torch.Tensor,
    "a list": lambda guard: [[0] * WORDS] * 4,
    "bytes": lambda guard: bytearray(16 * WORDS),
    "rows that overlap backwards": lambda guard: as_strided(guard.numpy()[99:], (4, WORDS), (-4, 4)),
    "words backwards": lambda guard: guard[: 4 * WORDS].view(4, WORDS).numpy()[:, ::-1],
    "read-only": lambda guard: as_strided(guard[: 4 * WORDS].view(4, WORDS).numpy(), writeable=False),
    "uint32": lambda guard: guard[: 4 * WORDS].view(4, WORDS).numpy().view(np.uint32),
    "not aligned": lambda guard: np.ndarray((4, WORDS), np.int32, guard.numpy(), 1),
    "rows not aligned": lambda guard: as_strided(guard.numpy(), (4, WORDS), (4 * WORDS + 1, 4)),
    "objects": lambda guard: np.zeros((4, WORDS), object),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("make", NO_BITMASKS.values(), ids=NO_BITMASKS)
def test_what_is_no_bitmask_is_refused(matcher: GrammarMatcher, make: Callable[[Any], Any]) -> None:
    guard = buffer()
    bitmask = make(guard)
    for _ in range(2):
        for index in (0, 1, 3):
            with pytest.raises(BitmaskError, match=r"the bitmask|index must be a row from 0 to -1"):
                matcher.fill_next_token_bitmask(bitmask, index)
        with pytest.raises(BitmaskError, match="the bitmask"):
            BatchGrammarMatcher().batch_fill_next_token_bitmask([matcher, matcher.fork()], bitmask)
        assert untouched(guard)
        matcher.fill_next_token_bitmask(allocate_token_bitmask(4, SIZE), 3)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_the_rows_of_a_matrix_are_rows(matcher: GrammarMatcher) -> None:
    """A row of `np.matrix` has two dimensions: a kernel took its words for rows."""
    guard = buffer()
    matcher.fill_next_token_bitmask(np.asmatrix(guard[10 * WORDS : 12 * WORDS].view(2, WORDS).numpy()), 1)
    assert guard[11 * WORDS : 12 * WORDS].tolist() == FIRST
    guard[11 * WORDS : 12 * WORDS] = PATTERN
    assert untouched(guard)


# Changes to a tensor after its first use, and the rows that it has then (None: no longer a bitmask).

CHANGES: dict[str, tuple[Callable[[torch.Tensor], Any], int | None]] = {
    "fewer rows": (lambda t: t.resize_(2, WORDS), 2),
    "one row": (lambda t: t.resize_(WORDS), 1),
    "half as many, twice as wide": (lambda t: t.resize_(2, 2 * WORDS), None),
    "half as wide": (lambda t: t.resize_(4, WORDS // 2), None),
    "more rows, which fails": (lambda t: _fails(t.resize_, 64, WORDS), None),
    "freed, which fails": (lambda t: _fails(t.untyped_storage().resize_, 0), 4),
    "transposed": (lambda t: t.transpose_(0, 1), None),
    "rows that overlap": (lambda t: t.as_strided_((4, WORDS), (1, 1)), None),
    "every other row": (lambda t: t.as_strided_((2, WORDS), (2 * WORDS, 1)), 2),
    "another beginning": (lambda t: t.as_strided_((3, WORDS), (WORDS, 1), WORDS), 3),
    "squeezed": (lambda t: t.squeeze_(), 4),
    "set anew": (lambda t: t.set_(t.untyped_storage(), 0, (2, WORDS), (WORDS, 1)), 2),
    "another storage": (lambda t: t.set_(buffer().untyped_storage(), 0, (2, WORDS), (WORDS, 1)), 2),
    "a small storage": (lambda t: t.set_(buffer(WORDS).untyped_storage()), 1),
    "other data": (lambda t: setattr(t, "data", buffer(2 * WORDS).view(2, WORDS)), 2),
    "a view as data": (lambda t: setattr(t, "data", t.detach()[:2]), 2),
    "int64 as data": (lambda t: setattr(t, "data", torch.zeros(4, WORDS, dtype=torch.int64)), None),
    "swapped": (lambda t: torch.utils.swap_tensors(t, buffer(1)), None),
    "shared memory": (lambda t: t.share_memory_(), 4),
}  # fmt: skip


def _fails(call: Callable[..., Any], *arguments: Any) -> None:
    with pytest.raises(RuntimeError, match="not resizable"):
        call(*arguments)


@pytest.mark.parametrize("seen", ["by itself", "by another matcher", "as one of another class"])
@pytest.mark.parametrize(("change", "rows"), CHANGES.values(), ids=CHANGES)
def test_a_tensor_that_changed_after_it_was_seen_is_looked_at_again(
    matcher: GrammarMatcher, change: Callable[[torch.Tensor], Any], rows: int | None, seen: str
) -> None:
    """The fields of a plain tensor are read from its memory; torch is asked about those of other classes."""
    bitmask, by_another = buffer(4 * WORDS).view(4, WORDS), seen == "by another matcher"
    if seen == "as one of another class":
        bitmask = torch.nn.Parameter(bitmask, False)
    old = bitmask.detach()
    matcher.fill_next_token_bitmask(bitmask, 3)
    if by_another:
        matcher.fork().fill_next_token_bitmask(bitmask, 2)  # as it was
        assert bitmask[2].tolist() == bitmask[3].tolist() == FIRST
    old.fill_(PATTERN)
    change(bitmask)
    is_other = bitmask.dtype == torch.int64 or bitmask.numel() == 1  # it has other memory

    def filler() -> GrammarMatcher:
        return matcher.fork() if by_another else matcher

    def all_untouched() -> bool:  # no tensor in an assertion: torch crashes when it prints some of these
        return untouched(old) and (is_other or untouched(bitmask))

    for index in range(rows or 0, 4):
        with pytest.raises(BitmaskError, match=r"the bitmask|index must be"):
            filler().fill_next_token_bitmask(bitmask, index)
    with pytest.raises(BitmaskError, match=r"the bitmask|index"):
        BatchGrammarMatcher().batch_fill_next_token_bitmask([filler(), filler()], bitmask, [0, rows or 3])
    assert all_untouched()
    for index in range(rows or 0):
        filler().fill_next_token_bitmask(bitmask, index)
        row = bitmask if bitmask.ndim == 1 else bitmask[index]
        assert row.tolist() == FIRST
        row.fill_(PATTERN)
        assert all_untouched()


def test_a_new_tensor_in_the_place_of_one_that_was_seen_has_its_own_memory(matcher: GrammarMatcher) -> None:
    for rows in (1, 2, 1, 4, 1, 1, 2):
        bitmask = allocate_token_bitmask(rows, SIZE)
        matcher.fork().fill_next_token_bitmask(bitmask, rows - 1)
        assert bitmask[rows - 1].tolist() == FIRST
        assert (bitmask[: rows - 1] == -1).all()
        with pytest.raises(BitmaskError, match="index must be"):
            matcher.fork().fill_next_token_bitmask(bitmask, rows)
        del bitmask


def test_an_array_that_changed_in_place_is_looked_at_again(matcher: GrammarMatcher) -> None:
    array = np.full((4, WORDS), PATTERN, np.int32)
    matcher.fill_next_token_bitmask(array, 3)
    array.resize((2, WORDS), refcheck=False)
    with pytest.raises(BitmaskError, match="a row from 0 to 1"):
        matcher.fill_next_token_bitmask(array, 3)
    array.shape = (1, 2 * WORDS)
    with pytest.raises(BitmaskError, match="shape"):
        matcher.fill_next_token_bitmask(array, 0)
    array.shape = (2, WORDS)
    array.flags.writeable = False
    with pytest.raises(BitmaskError, match="writable"):
        matcher.fill_next_token_bitmask(array, 0)
    assert (array == PATTERN).all()


# XGrammar's functions.

Change = Callable[[dict[str, Any]], None]


def _set(**arguments: Any) -> Change:
    return lambda given: given.update(arguments)


NO_APPLICATION: dict[str, Change] = {
    "a row too many": _set(indices=[0, 4]),
    "row -1": _set(indices=[-1]),
    "rows in text": _set(indices="0"),
    "one row": _set(indices=0),
    "too wide": _set(vocab_size=SIZE + 1),
    "vocab_size 0": _set(vocab_size=0),
    "vocab_size -1": _set(vocab_size=-1),
    "more masks than logits": lambda given: given.update(logits=given["logits"][:3]),
    "more logits than masks": lambda given: given.update(bitmask=given["bitmask"][:3]),
    "transposed logits": lambda given: given.update(logits=given["logits"].T.contiguous().T),
    "transposed masks": lambda given: given.update(bitmask=given["bitmask"].T.contiguous().T),
    "logits in one place": lambda given: given.update(logits=given["logits"][:1].expand(4, SIZE)),
    "one word for all": lambda given: given.update(bitmask=given["bitmask"][:, :1].expand(4, WORDS)),
    "int32 logits": lambda given: given.update(logits=given["logits"].int()),
    "three dimensions": lambda given: given.update(logits=given["logits"][None]),
    "logits that are negated when they are read": lambda given: given.update(
        logits=torch._neg_view(given["logits"])
    ),
    "an array": lambda given: given.update(logits=given["logits"].numpy()),
    "no masks": _set(bitmask=None),
    "masks on no device": lambda given: given.update(bitmask=given["bitmask"].to("meta")),
    "masks that could not be resized": lambda given: _fails(given["bitmask"].resize_, 1 << 20, WORDS),
}


@pytest.mark.parametrize("change", NO_APPLICATION.values(), ids=NO_APPLICATION)
def test_masks_that_cannot_be_applied_change_no_logits(change: Change) -> None:
    """XGrammar's kernel accepts rows that do not exist, and ignores the strides of columns."""
    guard = torch.zeros(40 * SIZE)
    bitmask = torch.zeros(4, WORDS, dtype=torch.int32)
    bitmask.numpy()  # memory with other users cannot be resized
    given: dict[str, Any] = {"logits": guard[10 * SIZE : 14 * SIZE].view(4, SIZE), "bitmask": bitmask}
    change(given)
    with pytest.raises(BitmaskError):
        apply_token_bitmask_inplace(given.pop("logits"), given.pop("bitmask"), **given)
    assert guard.eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("indices", [None, [0, 2], (0, 2), np.array([0, 2]), torch.tensor([2, 0]), []])
def test_masks_are_applied_as_in_xgrammar(dtype: torch.dtype, indices: Any) -> None:
    whole = torch.zeros(4, 2 * SIZE, dtype=dtype)
    bitmask = torch.tensor(FIRST, dtype=torch.int32).expand(4, WORDS)
    apply_token_bitmask_inplace(whole[:, :SIZE], bitmask, indices=indices, vocab_size=np.int64(SIZE))
    rows = range(4) if indices is None else [int(row) for row in indices]
    for row in range(4):
        finite = torch.isfinite(whole[row, :SIZE]).nonzero().flatten().tolist()
        assert finite == ([0, 2, 200] if row in rows else list(range(SIZE)))
    assert whole[:, SIZE:].eq(0).all()


NO_SIZES: list[tuple[Any, Any]] = [
    *((rows, 40) for rows in (True, 1.5, -1, "1", None, [1])),
    *((1, ids) for ids in (True, 40.5, 0, -5, None)),
]


@pytest.mark.parametrize(("rows", "ids"), NO_SIZES)
def test_sizes_that_are_none_are_refused(rows: Any, ids: Any) -> None:
    with pytest.raises(BitmaskError, match="size must be"):
        allocate_token_bitmask(rows, ids)
    with pytest.raises(BitmaskError, match="size must be"):
        get_bitmask_shape(rows, ids)


def test_sizes_of_all_kinds() -> None:
    bitmask = allocate_token_bitmask(np.uint8(3), torch.tensor(33))  # type: ignore[arg-type]
    assert bitmask.shape == (3, 2) and bitmask.dtype == torch.int32 and bitmask.eq(-1).all()
    assert allocate_token_bitmask(0, 40).shape == (0, 2)
    bitmask.fill_(0)
    reset_token_bitmask(bitmask)
    assert bitmask.eq(-1).all()
    for other in (bitmask.long(), bitmask.numpy(), None):
        with pytest.raises(BitmaskError, match="must be an int32 tensor"):
            reset_token_bitmask(other)
