"""Compilers with an operator's bounds, and the row of a request that has failed.

What: `BoundedCompiler`, and `allow_only_stops`.
When: by the adapters of serving engines.
Limits: those of `hybrid.Budget`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import xgrammar

import adapters.xgrammar
from adapters.engines.cores import usable
from adapters.engines.metrics import publish_as_told
from adapters.engines.settings import Settings
from hybrid import Budget

MOST_THREADS = 8
"""Of one compilation in XGrammar, as XGrammar has it and as both engines ask for it."""


class BoundedCompiler(adapters.xgrammar.GrammarCompiler):
    """Compiles grammars for an engine, in as many threads as it likes; the vocabulary is made at once.

    Args:
        tokenizer_info, **options: of `adapters.xgrammar.GrammarCompiler`; no more threads than there are
            cores.
        settings: where the operator's bounds are read.

    Raises:
        ValueError: what environment variables say cannot be read.
    """

    def __init__(self, tokenizer_info: xgrammar.TokenizerInfo, *, settings: Settings, **options: Any) -> None:
        folder = settings.cache_folder()
        bounds: dict[str, Any] = {
            "budget": Budget(seconds=settings.compile_seconds()), "cache_dir": folder,
            "semantics": settings.semantics(), "max_whitespace_cnt": settings.max_whitespace_cnt(),
            "assert_formats": settings.assert_formats(),
        }  # fmt: skip
        bounds["max_threads"] = min(options.pop("max_threads", MOST_THREADS), usable())
        super().__init__(tokenizer_info, **{**bounds, **options})
        self.hybrid.vocabulary.prepare(folder)
        publish_as_told(settings)


def allow_only_stops(bitmask: torch.Tensor, index: int, stops: Iterable[int]) -> None:
    """Overwrite a row of a bitmask with one that allows these tokens alone."""
    row = bitmask[index].numpy().view(np.uint32)
    row.fill(0)
    for stop in stops:
        row[stop >> 5] |= np.uint32(1 << (stop & 31))
