"""Compilers with an operator's bounds, and masks of requests that have failed.

What: `BoundedCompiler` and `allow_only_stops`.
When: used by the adapters of serving engines.
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
"""Threads of one compilation in XGrammar: the default of XGrammar and of both engines."""


IN_DRAFTS_ONLY = ", unless this was in drafts that are then refused"
"""What a log adds about an error while drafts are read: it is not known yet whether the drafts are kept."""


class BoundedCompiler(adapters.xgrammar.GrammarCompiler):
    """Compiles grammars for an engine; thread-safe. It makes the vocabulary at once.

    Args:
        tokenizer_info, **options: see `adapters.xgrammar.GrammarCompiler`. There are no more threads than
            cores. If it is `deterministic`, masks and tokens have no time limit.
        settings: the operator's settings.

    Raises:
        ValueError: an environment variable has a wrong value.
    """

    def __init__(self, tokenizer_info: xgrammar.TokenizerInfo, *, settings: Settings, **options: Any) -> None:
        mask_seconds = None if options.get("deterministic") else settings.mask_seconds()
        bounds: dict[str, Any] = {
            "budget": Budget(seconds=settings.compile_seconds(), mask_seconds=mask_seconds),
            "semantics": settings.semantics(), "max_whitespace_cnt": settings.max_whitespace_cnt(),
            "assert_formats": settings.assert_formats(),
        }  # fmt: skip
        bounds["max_threads"] = min(options.pop("max_threads", MOST_THREADS), usable())
        super().__init__(tokenizer_info, **{**bounds, **options})
        self.hybrid.vocabulary.prepare()
        publish_as_told(settings)


def allow_only_stops(bitmask: torch.Tensor, index: int, stops: Iterable[int]) -> None:
    """Overwrite a row of a bitmask with a mask that allows only these tokens."""
    row = bitmask[index].numpy().view(np.uint32)
    row.fill(0)
    for stop in stops:
        row[stop >> 5] |= np.uint32(1 << (stop & 31))
