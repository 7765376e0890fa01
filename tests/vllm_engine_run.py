"""Requests of every kind through vLLM with a small random model.

``python -m tests.vllm_engine_run DRAFTS [grammar]``.

What: makes model and tokenizer, starts `vllm.LLM` in this process, and prints what came out as JSON.
When: by `tests/test_vllm_engine.py`, with ``EQUIMASK_VLLM`` 0 and 1.
Limits: on the CPU; text without sense.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from bench.cases import CHECKOUT

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

SAMPLING = {
    "greedy": {"temperature": 0.0},
    "seeded": {"temperature": 1.0, "seed": 7},
    "narrow": {"temperature": 0.8, "top_p": 0.9, "top_k": 20, "seed": 3},
    "stops": {"temperature": 1.0, "seed": 5, "stop_token_ids": [60, 61]},
}
BY_NGRAMS = {"method": "ngram", "prompt_lookup_min": 1, "prompt_lookup_max": 2}
BY_GRAMMARS = {"method": "custom_class", "model": "adapters.vllm.drafts.GrammarDrafts"}
PROMPTS = ["abcabcabcabc", "1212121212"]
MOST_TOKENS = 40
"""Of an answer."""


def passes_of(executor: Any) -> list[int]:
    """Counts the passes of an executor's model from now on."""
    counted, execute = [0], executor.execute_model

    def execute_model(self: Any, scheduled: Any, *given: Any, **options: Any) -> Any:
        counted[0] += scheduled.total_num_scheduled_tokens > 0
        return execute(self, scheduled, *given, **options)

    executor.execute_model = execute_model
    return counted


def save_model(folder: str, tokenizer: Any = None, size: int = 0, n_layers: int = 1) -> None:
    """Write a small random model and its tokenizer; those of the tests of managers if none is given."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from tests.test_vllm_managers import SIZE, TOKENIZER

    tokenizer = tokenizer or TOKENIZER
    torch.manual_seed(0)
    settings = LlamaConfig(
        vocab_size=size or SIZE, hidden_size=64, intermediate_size=64, num_hidden_layers=n_layers,
        num_attention_heads=1, initializer_range=0.5, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    LlamaForCausalLM(settings).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextlib.contextmanager
def engine_with(
    n_drafts: int, drafting: dict[str, Any], model: tuple[Any, ...] = (), rows: int = 16, **options: Any
) -> Iterator[tuple[Any, list[int]]]:
    """Yield vLLM with the plugin and the small model, and a list with the number of the model's passes.

    Args:
        n_drafts: of a step; 0: no speculation.
        drafting: the method of speculation.
        model: other arguments of `save_model`.
        rows: most requests at once.
        **options: of structured outputs.
    """
    from vllm import LLM
    from vllm.v1.executor.uniproc_executor import UniProcExecutor

    import adapters.vllm

    adapters.vllm.register()  # as the plugin does, where the package is installed
    counted = passes_of(UniProcExecutor)
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, *model)
        engine = LLM(
            folder, max_model_len=256, max_num_seqs=rows, enforce_eager=True, dtype="float32",
            disable_log_stats=False, structured_outputs_config={"backend": "xgrammar", **options},
            speculative_config={**drafting, "num_speculative_tokens": n_drafts} if n_drafts else None,
        )  # fmt: skip
        yield engine, counted


def accepted_by(engine: Any) -> Any:
    """Return the number of drafts that the model has accepted."""
    name = "vllm:spec_decode_num_accepted_tokens"
    return sum(getattr(one, "value", 0) for one in engine.get_metrics() if one.name == name)


def run(*arguments: str, module: str = "tests.vllm_engine_run", **environment: str) -> Any:
    """Run this module, or another one, in another process; return the object that it printed."""
    command = [sys.executable, "-m", module, *arguments]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(next(line for line in reversed(done.stdout.splitlines()) if line.startswith('{"')))


def main(n_drafts: int, by_grammar: bool = False) -> None:
    """Print {"ours": ..., "ids": {"kind/sampling": [[id, ...], ...]}, "ends": the finish reasons likewise,
    "accepted": drafts, "passes": {"kind/sampling": passes of the model}}.

    Args:
        n_drafts: of a step; 0: no speculation.
        by_grammar: drafts come from grammars alone, in place of ngrams; white space is not free then.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    import adapters.vllm
    from tests.test_vllm_managers import TEXTS

    kinds = {**TEXTS, "repeated": ({"regex": "(abc)+|(12)+"}, "")}
    drafting = BY_GRAMMARS if by_grammar else BY_NGRAMS
    with engine_with(n_drafts, drafting, disable_any_whitespace=by_grammar) as (engine, counted):
        found, ends, passes = {}, {}, {}
        for name, (kind, _) in kinds.items():
            for how, sampling in SAMPLING.items():
                if (n_drafts or by_grammar) and sampling["temperature"]:
                    continue
                limits = StructuredOutputsParams(**kind)
                asked = SamplingParams(max_tokens=MOST_TOKENS, structured_outputs=limits, **sampling)
                before = counted[0]
                answers = engine.generate(PROMPTS, asked, use_tqdm=False)
                passes[f"{name}/{how}"] = counted[0] - before
                found[f"{name}/{how}"] = [[*one.outputs[0].token_ids] for one in answers]
                ends[f"{name}/{how}"] = [one.outputs[0].finish_reason for one in answers]
        accepted = accepted_by(engine)
        ours = adapters.vllm.is_registered()
        reasons = reasons_of(engine) if ours else []
    counts = {"accepted": accepted, "passes": passes, "ends": ends}
    print("\n" + json.dumps({"ours": ours, "ids": found, "reasons": reasons, **counts}))


def reasons_of(engine: Any) -> list[list[str]]:
    """Why requests ended, where masks, and then tokens, of one of them fail from the third on."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    import hybrid.api.draft_rows
    from adapters.vllm import steps
    from adapters.xgrammar import GrammarMatcher

    limits = [StructuredOutputsParams(regex=regex) for regex in ("[a-z]+", "[0-9]+x", "(abc)+")]
    asked = [SamplingParams(max_tokens=9, temperature=0, structured_outputs=one) for one in limits]
    masks: list[tuple[Any, str]] = [
        (GrammarMatcher, "fill_next_token_bitmask"), (hybrid.api.draft_rows, "fill_drafts"),
    ]  # fmt: skip
    tokens: list[tuple[Any, str]] = [(GrammarMatcher, "accept_token")]
    found = []
    for places in (masks, tokens):  # a mask is made alone, or with those of its step
        calls, real = itertools.count(), [getattr(place, name) for place, name in places]
        for (place, name), function in zip(places, real, strict=True):
            setattr(place, name, _broken(function, calls))
        steps._asked.cache_clear()
        answers = engine.generate(["abc"] * len(asked), asked, use_tqdm=False)
        for (place, name), function in zip(places, real, strict=True):
            setattr(place, name, function)
        steps._asked.cache_clear()
        found.append([str(one.outputs[0].finish_reason) for one in answers])
    return found


def _broken(real: Any, calls: Any) -> Any:
    """A function of a matcher, or of many, that fails from the third time on that it is asked for digits."""

    def broken(first: Any, *given: Any, **options: Any) -> Any:
        matchers = first if isinstance(first, list) else [first]
        if any("[0-9]" in str(one.compiled_grammar.grammar) for one in matchers) and next(calls) > 1:
            raise MemoryError("no room")
        return real(first, *given, **options)

    return broken


if __name__ == "__main__":
    main(int(sys.argv[1]), "grammar" in sys.argv[2:])
