"""Rows and steps of a `DeviceGather`, and the arguments that it refuses.

When: on any device; on the CPU if there is no other.
Limits: masks are tested in `tests.test_device`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from equivalence import ArgumentError, BitmaskError, MatcherError
from hybrid import GrammarMatcher, allocate_token_bitmask
from hybrid.device import DeviceGather
from hybrid.device.maps import MASKS_A_LINE
from hybrid.device.masking import mask_in_torch
from tests.matchers import SIZE, STOP, SUFFIXED, TEXT_STOPS, VOCABULARY, A, C, compiled_by
from tests.test_device import DEVICE


def filled(max_rows: int = 4) -> DeviceGather:
    return DeviceGather(SIZE, DEVICE, max_rows=max_rows, backend="torch")


def matcher_of(grammar: str = SUFFIXED) -> GrammarMatcher:
    return GrammarMatcher(compiled_by(VOCABULARY, "classifier", grammar))


def test_bitmasks_of_others_and_one_row_of_logits() -> None:
    gather, bitmask = filled(), allocate_token_bitmask(1, SIZE)
    bitmask.fill_(1 << C)
    gather.fill_bitmask(bitmask, 0)
    logits = torch.zeros(SIZE, device=DEVICE, requires_grad=True)
    gather.apply(logits)
    assert torch.isfinite(logits).nonzero().flatten().tolist() == [C, 32 + C]


def test_clear_forgets_and_nothing_is_a_step() -> None:
    gather = filled()
    gather.fill([matcher_of()], [1])
    gather.clear()
    logits = torch.zeros((1, SIZE), device=DEVICE)
    gather.apply(logits)
    assert not logits.any() and gather.bytes_sent == 0


def test_what_cannot_be_filled_leaves_nothing() -> None:
    gather, ended = filled(), matcher_of('root ::= "a"')
    assert ended.accept_token(A) and ended.accept_token(STOP)
    for _ in range(MASKS_A_LINE + 1):
        gather.fill([matcher_of()], [0])
        gather.clear()
    with pytest.raises(MatcherError, match="terminated"):
        gather.fill([matcher_of(), ended], [0, 1])
    narrow = GrammarMatcher(compiled_by(TEXT_STOPS, "engine", SUFFIXED))
    wrong: list[tuple[Any, Any, type[Exception], str]] = [
        ([matcher_of()], [4], BitmaskError, "a row from 0 to 3"),
        ([matcher_of()], [-1], BitmaskError, "a row from 0 to 3"),
        ([matcher_of()] * 2, [1, 1], BitmaskError, "twice"),
        ([matcher_of()], [0, 1], BitmaskError, "indices must have one element for each matcher"),
        ([None], [0], ArgumentError, "matchers"),
        (None, [0], ArgumentError, "matchers"),
        ([narrow], [0], ArgumentError, "must have 40 ids .*, but has 5"),
    ]
    for matchers, indices, error, message in wrong:
        with pytest.raises(error, match=message):
            gather.fill(matchers, indices)
    for bitmask in (allocate_token_bitmask(2, SIZE), allocate_token_bitmask(1, 64 + 1), None):
        with pytest.raises(BitmaskError):
            gather.fill_bitmask(bitmask, 0)
    logits = torch.zeros((4, SIZE), device=DEVICE)
    gather.apply(logits)
    assert not logits.any()
    gather.fill([matcher_of()], [0])
    with pytest.raises(BitmaskError, match="row 0 has already been filled"):
        gather.fill([matcher_of()], [0])
    with pytest.raises(BitmaskError, match="row 0 has already been filled"):
        gather.fill_bitmask(allocate_token_bitmask(1, SIZE), 0)


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (torch.zeros((2, SIZE), dtype=torch.float64), "float64"),
        (torch.zeros((2, SIZE), dtype=torch.int32), "int32"),
        (torch.zeros((1, 2, SIZE)), "dimensions"),
        (torch.zeros(()), "dimensions"),
        (torch.zeros((2, SIZE), device="meta"), "on meta"),
        (torch.zeros((2, SIZE)).to_sparse(), "sparse"),
        (np.zeros((2, SIZE), np.float32), "logits must be"),
        (None, "None"),
        (torch.zeros((2, SIZE - 1)), "at least 40 ids, but have 39"),
        (torch.zeros((1, SIZE)), "row 1 was filled"),
        (torch.zeros(SIZE), "row 1 was filled"),
        # on the device at once: a copy to another one would not share memory
        (torch.zeros((1, SIZE), device=DEVICE).expand(2, SIZE), "overlap in memory"),
        (torch.zeros((2, 1), device=DEVICE).expand(2, SIZE), "overlap in memory"),
        (torch.zeros(100, device=DEVICE).as_strided((2, SIZE), (SIZE - 1, 1)), "overlap in memory"),
    ],
    ids=str,
)
def test_what_are_no_logits_is_refused(logits: Any, message: str) -> None:
    gather = filled()
    gather.fill([matcher_of()], [1])
    given = logits.to(DEVICE) if isinstance(logits, torch.Tensor) and logits.device.type == "cpu" else logits
    with pytest.raises(BitmaskError, match=message):
        gather.apply(given)
    right = torch.zeros((2, SIZE), device=DEVICE)
    gather.apply(right)
    assert right[1].isinf().any() and not right[0].any(), "it is still staged"


def test_arguments() -> None:
    for wrong in ({"max_rows": 0}, {"max_maps": 0}, {"max_rows": 1.5}):
        with pytest.raises(BitmaskError, match=next(iter(wrong))):
            DeviceGather(SIZE, "cpu", **wrong)
    with pytest.raises(BitmaskError, match="vocab_size"):
        DeviceGather(0, "cpu")
    with pytest.raises(ArgumentError, match="'auto', 'triton' or 'torch'"):
        DeviceGather(SIZE, "cpu", backend="cuda")


def test_triton_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid.device.gather.has_triton", lambda: False)
    with pytest.raises(ArgumentError, match=r"equimask\[gpu\]"):
        DeviceGather(SIZE, "cpu", backend="triton")
    assert DeviceGather(SIZE, DEVICE)._mask_rows is mask_in_torch
