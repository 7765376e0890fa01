"""Masks, or the model's own choice first: the time of a step of the logits processor for transformers.

What: logits along documents, in which the largest one is that of the document's next token or, in a given
share of steps, of a token that the grammar refuses. The calls of `GrammarLogitsProcessor` are timed with
masks and with ``opportunistic=0``.
When: ``python -m bench opportunistic --schema NAME=FILE --documents NAME=FOLDER --vocabulary FOLDER --json
FILE``.
Limits: one row; torch logits on the CPU, made before; one thread. The time of a model is not included.
"""

from __future__ import annotations

import random
from time import perf_counter
from typing import Annotated, Any

import torch
import typer

from adapters.transformers import GrammarLogitsProcessor
from bench import options
from bench.reference import DocumentsOption, LarksOption, SchemasOption, asked_for, opened
from bench.report import Spread
from bench.reporting.answers import publish


def command(
    vocabulary: options.VocabularyOption,
    documents: DocumentsOption,
    json: options.RecordOption,
    lark: LarksOption = [],  # noqa: B006 - of typer
    schema: SchemasOption = [],  # noqa: B006
    refused: Annotated[list[float], typer.Option(help="Shares of own choices.")] = [0, 0.1, 0.5, 1],  # noqa: B006
    count: Annotated[int, typer.Option(min=1, help="Documents of each grammar.")] = 10,
    seed: options.SeedOption = 0,
) -> None:
    """Time a step with masks, and with the model's own choice first."""
    arguments = dict(locals())
    torch.set_num_threads(1)  # beside other work, more threads take twenty times as long
    columns = ["masks", "own choice first"]
    rows: list[dict[str, Any]] = []
    console, used = opened(vocabulary)
    for kind in ("classifier", "engine"):
        for subject in asked_for(used, arguments, kind):
            for share in refused:
                times: dict[str, list[float]] = {}
                for _ in range(2):  # only the second round counts: all masks are cached then
                    times = {name: [] for name in columns}
                    for ids in subject.ids:  # in turns, so that both run under the same conditions
                        for name, temperature in zip(columns, (None, 0.0), strict=True):
                            rng = random.Random(f"{seed} {len(ids)}")
                            times[name] += along(subject.compiled, ids, share, temperature, rng)
                spreads = {name: Spread.of(values) for name, values in times.items()}
                row = {"grammar": subject.name, "strategy": kind, "refused": share}
                rows.append(row | spreads)
    publish(console, json, "choices", arguments, {"benchmark": "opportunistic", "rows": rows})


def along(
    compiled: Any, ids: list[int], share: float, temperature: float | None, rng: random.Random
) -> list[float]:
    """Return the seconds of each call along a document."""
    processor = GrammarLogitsProcessor(compiled, prompt_length=1, opportunistic=temperature)
    nothing = compiled.vocabulary.size  # an id beyond the vocabulary, as in padded logits: no mask allows it
    rows = torch.tensor([[0, *ids]])
    scores = torch.zeros((1, nothing + 1))
    found = []
    for at, token in enumerate(ids):
        best = nothing if rng.random() < share else token
        scores[0, best] = 1.0
        began = perf_counter()
        processor(rows[:, : at + 1], scores)  # type: ignore[arg-type]
        found.append(perf_counter() - began)
        scores[0, best] = 0.0
    return found
