"""The parts of a tensor that can change in place are found in its memory; `test_misuse` changes them."""

from __future__ import annotations

import pytest
import torch

from hybrid.api import tensor_layout
from hybrid.api.tensor_layout import Layout, _seen, find_layout

pytestmark = pytest.mark.kernels


def test_the_torch_that_the_tests_run_on_has_the_known_layout() -> None:
    """With an unknown layout, masks are still exact, but take 20 us longer with cold caches."""
    tensor = torch.zeros((6, 5), dtype=torch.int32)[2:, :3]
    impl, storage, memory, *geometry = _seen(find_layout(), tensor)
    assert (impl, storage) == (tensor._cdata, tensor.untyped_storage()._cdata)
    assert memory + 4 * geometry[11] == tensor.data_ptr()
    assert geometry[:3] == [2, 4, 3] and geometry[6:8] == [5, 1] and geometry[11:13] == [10, 12]


@pytest.mark.parametrize("field", Layout._fields)
def test_another_layout_is_not_taken_for_the_known_one(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate that one of its numbers is elsewhere in one of the three tensors."""
    place, met = tensor_layout._place, iter(range(100))
    wrong = 4 + Layout._fields.index(field)  # of the second tensor
    monkeypatch.setattr(
        tensor_layout, "_place", lambda *arguments: place(*arguments) + 8 * (next(met) == wrong)
    )
    assert find_layout() is None


def test_a_change_that_is_not_seen_refuses_the_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tensor_layout._seen
    monkeypatch.setattr(
        tensor_layout, "_seen", lambda *arguments: seen(*arguments)[1:2] + seen(*arguments)[-1:]
    )
    assert find_layout() is None
