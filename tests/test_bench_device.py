"""The benchmark of masked logits runs on the CPU, and compares the results that it times."""

from __future__ import annotations

import pytest
import torch

from bench.device import measured
from bench.report import Spread
from hybrid import GrammarCompiler, Vocabulary
from hybrid.device import DeviceGather

BYTES = Vocabulary.from_bytes([bytes([byte]) for byte in range(256)] + [b""], stop_token_ids=[256])


def test_what_is_timed() -> None:
    compiled = GrammarCompiler(BYTES, strategy="classifier").compile_builtin_json_grammar()
    found = measured(compiled, 3, torch.float16, "cpu", 2)
    assert {name for name, value in found.items() if isinstance(value, Spread) and value.count == 2} == {
        "fill by class", "mask by class", "fill bitmasks", "send and mask", "copy logits",
    }  # fmt: skip
    assert found["bytes a row"] == 4 * (compiled.classes.n_classes // 32 + 1 + 3)


def test_logits_that_differ_are_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceGather, "apply", lambda gather, logits: gather.clear())
    compiled = GrammarCompiler(BYTES, strategy="classifier").compile_builtin_json_grammar()
    with pytest.raises(AssertionError, match="differ"):
        measured(compiled, 2, torch.float32, "cpu", 1)
