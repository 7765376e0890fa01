"""Masking logits on a device: by class masks, by XGrammar's kernel after sending its bitmask; and copying
them.

What: seconds from filled masks to masked logits, including launches and transfers; and seconds to fill the
masks.
When: ``python -m bench.device --vocabulary SPEC --json FILE``, on a quiet machine with a GPU.
Limits: one grammar, whose masks are cached. The first step, which sends the class map, is not timed. Copying
the logits is a lower bound for everything that reads and writes all of them.
"""

from __future__ import annotations

from itertools import product
from time import perf_counter
from typing import Annotated, Any

import torch
import typer

from bench import options
from bench.report import Spread, make_console
from bench.reporting.answers import publish
from hybrid import BatchGrammarMatcher, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid import apply_token_bitmask_inplace as apply_bitmask
from hybrid.cli.vocabulary_spec import load_vocabulary
from hybrid.device import DeviceGather

TEXT = '{"name": ["a", 1.5e3, true], "other": {"": null, "text": "\\u00e9 and more"}, "last": -12}'


def measured(compiled: Any, batch: int, dtype: torch.dtype, device: str, repeats: int) -> dict[str, Any]:
    """Measure one number of rows. Return the spreads of seconds by kind of work, and the bytes sent for a
    row."""
    matchers = [GrammarMatcher(compiled) for _ in range(batch)]
    assert all(matcher.accept_string(TEXT[: i % len(TEXT)]) for i, matcher in enumerate(matchers))
    size, on_cuda = compiled.vocabulary.size, device != "cpu"
    logits = torch.randn((batch, size), device=device).to(dtype)
    bitmask, gather = allocate_token_bitmask(batch, size), DeviceGather(size, device, max_rows=batch)
    bitmask, masked, plain = bitmask.pin_memory() if on_cuda else bitmask, logits.clone(), logits.clone()
    wait, batches = torch.cuda.synchronize if on_cuda else lambda: None, BatchGrammarMatcher()
    steps = {
        "fill by class": lambda: gather.fill(matchers),
        "mask by class": lambda: gather.apply(masked),
        "fill bitmasks": lambda: batches.batch_fill_next_token_bitmask(matchers, bitmask),
        "send and mask": lambda: apply_bitmask(plain, bitmask.to(device, non_blocking=True)),
        "copy logits": lambda: masked.copy_(logits) is plain.copy_(logits),  # calls both
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(-20, repeats):
        sent = gather.bytes_sent
        for name, step in steps.items():
            if name == "copy logits":
                assert torch.equal(masked, plain), "the logits differ"
            wait()
            began = perf_counter()
            step()
            wait()
            if repeat >= 0:
                times[name].append((perf_counter() - began) / (2 if name == "copy logits" else 1))
    found: dict[str, Any] = {name: Spread.of(values) for name, values in times.items()}
    return found | {"bytes a row": (gather.bytes_sent - sent) / batch}


def command(
    vocabulary: options.VocabulariesOption,
    json: options.OptionalRecordOption = None,
    batch: Annotated[list[int], typer.Option(help="Rows.")] = [1, 4, 16, 64, 256],  # noqa: B006 - of typer
    device: Annotated[str, typer.Option(help="Of torch.")] = "cuda",
    repeats: Annotated[int, typer.Option(min=1)] = 200,
) -> None:
    """Time masks of the builtin JSON grammar on a device."""
    arguments = dict(locals())
    name = torch.cuda.get_device_name(device) if device != "cpu" else "cpu"
    rows: list[dict[str, Any]] = []
    for spec in vocabulary:
        compiled = GrammarCompiler(
            load_vocabulary(spec), strategy="classifier"
        ).compile_builtin_json_grammar()
        for dtype, count in product((torch.bfloat16, torch.float32), batch):
            row = {"ids": compiled.vocabulary.size, "dtype": str(dtype), "batch": count}
            rows.append(row | measured(compiled, count, dtype, device, repeats))
    publish(make_console(), json, "device", arguments, {"device": name, "rows": rows})


if __name__ == "__main__":
    typer.run(command)
