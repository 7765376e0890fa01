"""End to end: tokens per second of transformers' `generate`: unconstrained, with plain XGrammar, and with
ours.

What: a small model with random weights and a real vocabulary generates greedily: without a grammar, with the
processor that comes with XGrammar, and with ours. Both use the built-in JSON grammar.
When: ``python -m bench generating --vocabulary SPEC --json FILE``.
Limits: on the CPU, with torch's own threads. A random model writes no sensible text, which does not matter to
the grammar. XGrammar's tokens are compared with ours, and there are no times if they differ. The model is
small: the larger it is, the smaller the share of any processor. Times do not include compiling.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Annotated, Any

import typer

from bench import options, report, workloads
from bench.reporting.answers import publish


def command(
    vocabulary: options.VocabularyOption,
    json: options.RecordOption,
    batch: Annotated[int, typer.Option(min=1, help="Rows that are generated at once.")] = 4,
    tokens: Annotated[int, typer.Option(min=2, help="Tokens of each row.")] = 64,
    repeats: Annotated[
        int, typer.Option(min=1, help="Runs of each, in turn, after one that does not count.")
    ] = 3,
    seed: options.SeedOption = 0,
) -> None:
    """Measure tokens per second of `generate`: unconstrained, with plain XGrammar, and with ours."""
    arguments = dict(locals())
    import torch
    from xgrammar.contrib.hf import LogitsProcessor

    from adapters.demo import random_model
    from adapters.transformers import GrammarLogitsProcessor

    console = report.make_console()
    with workloads.usage_errors():
        own = workloads.load_vocabulary(vocabulary)
    torch.manual_seed(seed)
    model = random_model(own)
    plain = workloads.plain_compiler(own, None).compile_builtin_json_grammar()
    ours = workloads.hybrid_compiler(own, "auto", None).compile_builtin_json_grammar()
    ways: dict[str, Callable[[], list[Any]]] = {
        "unconstrained": list,
        "XGrammar": lambda: [LogitsProcessor(plain)],
        "ours": lambda: [GrammarLogitsProcessor(ours)],
    }
    generator = torch.Generator().manual_seed(seed)
    prompt = torch.randint(1, own.size, (batch, 4), generator=generator)
    stops = sorted(own.stop_token_ids)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    written: dict[str, Any] = {}
    for number in range(repeats + 1):
        for name, processors in ways.items():
            made = processors()
            began = perf_counter()
            with torch.inference_mode():
                rows = model.generate(
                    prompt, attention_mask=torch.ones_like(prompt), logits_processor=made, do_sample=False,
                    max_new_tokens=tokens, eos_token_id=stops, pad_token_id=stops[0],
                )  # fmt: skip
            if number:
                seconds[name].append((perf_counter() - began) / (rows.numel() - prompt.numel()))
            written[name] = rows[:, prompt.shape[1] :].tolist()
    equal = written["XGrammar"] == written["ours"]
    rows = {name: report.Spread.of(values) for name, values in seconds.items()} if equal else {}
    report.say(console, f"tokens of XGrammar and ours: {'equal' if equal else 'DIFFERENT'}")
    publish(console, json, "generating", arguments, {"equal": equal, "rows": rows}, equal)
