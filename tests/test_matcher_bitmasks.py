"""Bitmasks and batches: which rows are written, which are left alone, and which arguments are refused.

What: rows of bitmasks of every layout, on every strategy.
When: after any change of the matcher, the batch matcher or the gather.
Limits: small synthetic vocabularies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from equivalence import BitmaskError
from hybrid import allocate_token_bitmask, apply_token_bitmask_inplace
from hybrid.api.logits import empty_rows
from hybrid.testing.mask_comparison import bits_of
from tests.matchers import AB, ABC, SIZE, WORDS, A, Sides

pytestmark = pytest.mark.kernels

FIRST = [1 << A | 1 << AB | 1 << ABC, 0]
"""The mask of the first token."""


def test_one_row_and_arrays_are_bitmasks(strategy: str) -> None:
    row = np.zeros(WORDS, np.int32)
    bitmasks: tuple[Any, ...] = (torch.zeros(WORDS, dtype=torch.int32), row, row[None].copy())
    for bitmask in bitmasks:
        assert Sides.of(strategy).ours.fill_next_token_bitmask(bitmask)
        assert bitmask.reshape(-1).tolist() == FIRST


@pytest.mark.parametrize("grammar", ["root ::= [^z]*", 'root ::= "a" | "z"'])
def test_bits_after_the_last_id_are_zero(strategy: str, grammar: str) -> None:
    """XGrammar leaves them set if its mask is a list of tokens that are forbidden."""
    matcher = Sides.of(strategy, grammar).ours
    bitmask = allocate_token_bitmask(1, SIZE)
    matcher.fill_next_token_bitmask(bitmask)
    assert SIZE % 32 and int(bitmask[0, -1]) >> SIZE % 32 == 0


VIEWS: dict[str, Callable[[Any], Any]] = {
    "left columns": lambda whole: whole[:, :WORDS],
    "right columns": lambda whole: whole[:, WORDS:],
    "every other row": lambda whole: whole[::2, :WORDS],
    "rows from the second": lambda whole: whole[1:, :WORDS],
    "reversed rows": lambda whole: whole[::-1, :WORDS],
}


@pytest.mark.parametrize(
    ("view", "kind"),
    [
        pytest.param(view, kind, id=f"{name}, {kind.__name__}")
        for name, view in VIEWS.items()
        for kind in (torch.from_numpy, np.asarray)
        if (name, kind) != ("reversed rows", torch.from_numpy)  # which torch does not have
    ],
)
def test_a_row_of_a_view_is_written_where_it_lies(
    strategy: str, view: Callable[[Any], Any], kind: Callable[[Any], Any]
) -> None:
    """A row of a view is written in place or refused; plain XGrammar ignores strides and would write
    elsewhere."""
    whole = np.full((6, 2 * WORDS), 7, np.int32)
    expected = whole.copy()
    view(expected)[1] = FIRST
    try:
        Sides.of(strategy).ours.fill_next_token_bitmask(view(kind(whole)), 1)
    except BitmaskError:
        expected[:] = 7
    assert (whole == expected).all()


DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)


@DTYPES
@pytest.mark.parametrize("size", [32, 95, 96, 300])
def test_masked_logits_are_those_of_the_definition(size: int, dtype: torch.dtype) -> None:
    random = np.random.default_rng(size)
    words = random.integers(-(2**31), 2**31, (40, -(-size // 32))).astype(np.int32)
    words |= np.roll(words, 1, 0) | np.roll(words, 2, 0)  # with few zeros
    words[::2] = random.integers(-(2**31), 2**31, words[::2].shape)  # with many
    words[random.random(words.shape) < 0.3] = 0
    words[random.random(words.shape) < 0.3] = -1
    logits = torch.randn(40, size + 3).to(dtype)
    expected = logits.clone()
    expected[:, :size][torch.from_numpy(~bits_of(words, size))] = -torch.inf
    apply_token_bitmask_inplace(logits, torch.from_numpy(words), vocab_size=size)
    assert torch.equal(logits, expected)


@DTYPES
@pytest.mark.parametrize("size", [1, 31, 33, 71])
def test_a_row_that_allows_all_leaves_the_next_one_alone(size: int, dtype: torch.dtype) -> None:
    """XGrammar's kernel (0.2.8) writes to the id after the last one if its bits are 0."""
    room = torch.zeros(2 * size + 1, dtype=dtype)
    logits = room[: 2 * size].view(2, size)
    bitmask = allocate_token_bitmask(2, size)
    bitmask[:, -1] = (1 << (size & 31)) - 1
    before = bitmask.clone()
    apply_token_bitmask_inplace(logits, bitmask)
    assert not room.any() and torch.equal(bitmask, before)
    bitmask[0, 0] &= ~1
    apply_token_bitmask_inplace(logits, bitmask, vocab_size=size, indices=[0])
    assert room.isinf().nonzero().flatten().tolist() == [0]


def test_rows_without_a_token_are_found() -> None:
    bitmask = np.zeros((4, 5), np.int32)
    bitmask[1, 4], bitmask[2, 0] = 1, -1
    assert empty_rows(bitmask, [3, 2, 1, 0]) == [3, 0] and empty_rows(bitmask, []) == []
    for row in (-1, 4):
        with pytest.raises(IndexError, match=f"no row {row}"):
            empty_rows(bitmask, [0, row])
