"""The grammar part of SGLang's scheduler: its own manager, batches and draft trees, around either backend.

What: `Scheduler` gives requests their grammars, and computes masks as SGLang's sampling does.
When: where SGLang can be imported (docs/sglang.md); neither its kernels nor a model run.
Limits: the parts of the configuration that SGLang reads are patched where it reads them.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import sglang
import torch
from sglang.srt.constrained import base_grammar_backend, grammar_manager
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo

from adapters.sglang import backend_factory
from adapters.sglang.drafts import NAME, PARAMETERS, WALK, at_once
from hybrid.testing.mask_comparison import bits_of

KINDS = ("json_schema", "regex", "ebnf", "structural_tag")

SERVING = {
    "constrained_json_disable_any_whitespace": False,
    "constrained_json_max_whitespace_cnt": None,
    "enable_strict_thinking": False,
    "reasoning_parser": None,
    "skip_tokenizer_init": False,
}


class Request(SimpleNamespace):
    """The attributes of a request that the manager reads."""

    grammar: Any
    error: str

    def __init__(
        self, kind: str, text: str, reasoning: bool, prompt: Sequence[int], custom: Any, **sampling: Any
    ) -> None:
        params: dict[str, Any] = {**dict.fromkeys(KINDS), "max_new_tokens": 128, **sampling}
        params[kind] = text
        super().__init__(
            sampling_params=SimpleNamespace(**params, ebnf_full_assistant=False, custom_params=custom),
            origin_input_ids=[*prompt], require_reasoning=reasoning, grammar=None, grammar_key=None,
            grammar_wait_ct=0, rid="request", error="", customized_info=None, finished_reason=None,
        )  # fmt: skip

    def finished(self) -> bool:
        return bool(self.error)

    def set_finish_with_abort(self, error: str) -> None:
        self.error = error
        self.grammar = None


class Scheduler:
    """SGLang's `GrammarManager` and the objects that it needs.

    Args:
        backend: the name of a grammar backend.
        tokenizer, size, stops: the tokenizer, vocabulary size and stop ids of the model.
        tp_size: the number of ranks; without a group, only the server's option has this value.
        group: a torch process group, with one process for each rank.
        **serving: options that replace those of `SERVING`.
    """

    def __init__(
        self,
        backend: str,
        tokenizer: Any,
        size: int,
        stops: set[int],
        tp_size: int = 1,
        group: Any = None,
        **serving: Any,
    ) -> None:
        self.size = size
        self._serving = SimpleNamespace(**{**SERVING, **serving})
        self._backend = backend
        ends = None
        if self._serving.reasoning_parser:
            parser = ReasoningParser(
                model_type=self._serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer
            )
            ends = parser.detector.get_think_end_token_ids(tokenizer)
        model = SimpleNamespace(vocab_size=size, hf_eos_token_id=stops, think_end_ids=ends)
        ranks = SimpleNamespace(world_size=tp_size if group else 1, first_rank=0, is_first_rank=True)
        around = SimpleNamespace(
            server_args=SimpleNamespace(tp_size=tp_size, pp_size=1), tokenizer=tokenizer, model_config=model,
            dp_tp_cpu_group=group, dp_tp_group=ranks, pp_group=None,
        )  # fmt: skip
        with self._configured():
            self.manager = grammar_manager.GrammarManager(around)

    @property
    def backend(self) -> Any:
        return self.manager.grammar_backend

    @contextlib.contextmanager
    def _configured(self) -> Iterator[None]:
        execution = SimpleNamespace(kernel=SimpleNamespace(grammar_backend=self._backend))
        with contextlib.ExitStack() as stack:
            for module in (base_grammar_backend, grammar_manager, backend_factory):
                stack.enter_context(mock.patch.object(module, "get_serving", return_value=self._serving))
            stack.enter_context(mock.patch.object(base_grammar_backend, "get_exec", return_value=execution))
            parallel = SimpleNamespace(pp_rank=0, pp_size=1)
            stack.enter_context(mock.patch.object(grammar_manager, "get_parallel", return_value=parallel))
            yield

    def request(
        self,
        kind: str,
        text: str,
        reasoning: bool = False,
        prompt: Sequence[int] = (),
        custom: Any = None,
        **sampling: Any,
    ) -> Request:
        """A request whose grammar is ready, or that has an error."""
        request = Request(kind, text, reasoning, prompt, custom, **sampling)
        end = time.monotonic() + 60
        if self.manager.process_req_with_grammar(request):
            while request not in self.manager.get_ready_grammar_requests() and time.monotonic() < end:
                pass
        return request

    def rows(self, requests: Sequence[Request | None], apply: bool = True) -> torch.Tensor:
        """Return the mask of a batch, one row for each request (None: no grammar), after checking the logits
        masked by it."""
        batch = SimpleNamespace(
            grammars=[request and request.grammar for request in requests], device="cpu", grammar_mask=None,
            temperatures=[1.0] * len(requests), vocab_size=self.size,
        )  # fmt: skip
        SamplingBatchInfo.update_regex_vocab_mask(batch)
        mask = batch.grammar_mask.vocab_mask
        if not apply:
            return mask
        logits = torch.zeros(len(requests), self.size)
        batch.grammar_mask.apply(logits)
        for row, row_logits in zip(mask, logits, strict=True):
            assert np.array_equal(bits_of(row, self.size), np.isfinite(row_logits.numpy()))
        return mask

    def tree_rows(
        self,
        requests: Sequence[Request],
        trees: Sequence[tuple[list[int], list[int], list[int]]],
        by_sglang: bool = False,
    ) -> torch.Tensor:
        """Return the mask of a tree of drafts for each request; with `by_sglang`, node by node."""
        tensors = [torch.tensor([tree[i] for tree in trees]) for i in range(3)]
        generate = SPECULATION[NAME]
        if not by_sglang:
            generate = at_once(generate, SPECULATION[WALK])
        return generate(requests, *tensors, self.size)[0]


def from_source(module: str, *names: str, methods: Collection[str] = ()) -> dict[str, Any]:
    """Return functions and classes from the source of a module of SGLang's speculation, which cannot be
    imported without a device. Classes have no bases, and these methods only."""
    source = Path(sglang.__path__[0]) / "srt" / "speculative" / f"{module}.py"
    found = [node for node in ast.parse(source.read_text()).body if getattr(node, "name", "") in names]
    assert len(found) == len(names)
    for node in found:
        if isinstance(node, ast.ClassDef):
            node.bases = []
            node.body = [one for one in node.body if getattr(one, "name", "") in methods]
    code = ast.Module([*ast.parse("from __future__ import annotations").body, *found], [])
    space: dict[str, Any] = {"np": np, "torch": torch, "time": time, "TREE_TRAVERSE_TIME_THRESHOLD": 60}
    exec(compile(code, str(source), "exec"), space)
    return space


SPECULATION = from_source("spec_utils", NAME, WALK)
assert {name: [*inspect.signature(SPECULATION[name]).parameters] for name in PARAMETERS} == PARAMETERS
