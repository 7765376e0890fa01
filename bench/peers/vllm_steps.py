"""vLLM's own manager of structured outputs, around compiled grammars, to measure steps.

What: `Managers` runs it over matchers of XGrammar and over ours, with vLLM's loop, and with the call that the
adapter puts in its place. It is the real class, with only those parts of the configuration that a step reads.
When: in `bench.steps`, if vLLM's Python files can be imported (docs/vllm.md).
Limits: only releases whose loop the adapter knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import torch
import xgrammar


class Managers:
    """The manager's class, and a function that makes grammars for it.

    Raises:
        ImportError: vLLM cannot be imported, or its loop is not known.
    """

    def __init__(self) -> None:
        os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
        from vllm.v1 import structured_output
        from vllm.v1.structured_output import backend_xgrammar

        from adapters.vllm import steps

        self.kind: Any = structured_output.StructuredOutputManager
        self.grammar: Any = backend_xgrammar.XgrammarGrammar
        digest = steps.digest(self.kind, self.grammar)
        if digest not in steps.KNOWN:
            raise ImportError(f"the loop of this release of vLLM ({digest}) is not known")
        self.loop = self.kind.grammar_bitmask
        self.one_call = steps.in_one_call(self.loop, self.grammar, steps.KNOWN[digest])

    def ours(self, compiled: Any, vocabulary: Any) -> Any:
        """Make a matcher of our compiled grammar, as the adapter does."""
        from adapters.vllm.compiler import GrammarMatcher
        from adapters.xgrammar.compiled import CompiledGrammar

        return GrammarMatcher(CompiledGrammar(compiled, vocabulary.tokenizer_info))

    def step(
        self, matchers: Sequence[Any], drafts: Sequence[list[int]], size: int, cores: int, is_ours: bool
    ) -> tuple[Callable[[], Any], torch.Tensor]:
        """Make a manager. Return a function that fills all rows of a step, and the bitmask that it fills.

        Args:
            matchers, drafts: the matcher and the draft of each request; all drafts have the same length.
            size: number of ids of the vocabulary.
            cores: number of cores; vLLM's pool for masks has half as many threads.
            is_ours: whether our call replaces vLLM's loop.
        """
        n_drafts = len(drafts[0])
        made = self.kind.__new__(self.kind)
        bitmask = xgrammar.allocate_token_bitmask(len(matchers) * (1 + n_drafts), size)
        vars(made).update(
            _grammar_bitmask=bitmask, _full_mask=torch.tensor(-1, dtype=torch.int32), reasoner_cls=None,
            enable_in_reasoning=False, fill_bitmask_parallel_threshold=128,
            fill_bitmask_parallel_batch_size=16,
            executor_for_fillmask=ThreadPoolExecutor(max(1, min(cores // 2, 8))),
            vllm_config=SimpleNamespace(
                num_speculative_tokens=n_drafts, model_config=SimpleNamespace(is_diffusion=False),
                scheduler_config=SimpleNamespace(max_num_seqs=len(matchers)),
                speculative_config=SimpleNamespace(num_speculative_tokens=n_drafts) if n_drafts else None,
            ),
        )  # fmt: skip
        names = [str(number) for number in range(len(matchers))]
        requests = {
            name: SimpleNamespace(
                request_id=name,
                structured_output_request=SimpleNamespace(
                    reasoning_ended=True, grammar=self.grammar(vocab_size=size, matcher=matcher, ctx=None)
                ),
            )
            for name, matcher in zip(names, matchers, strict=True)
        }
        scheduled = dict(zip(names, drafts, strict=True)) if n_drafts else {}
        ask = self.one_call if is_ours else self.loop
        return lambda: ask(made, requests, names, scheduled), bitmask
