"""Bursts of requests with new schemas in a real vLLM: our backend, stock XGrammar and guidance in one run.

What: serves a small random model over a real tokenizer in one process per backend, sends bursts of requests
with new JSON schemas, and with structural tags around them, measures the time to the first token of each and
to the last token of all, counts forward passes of the model, and compares the ids of our answers with stock
XGrammar's.
When: ``python -m tests.robustness.vllm_load --tokenizer FOLDER --schemas FOLDER``; docs/vllm.md has figures.
Limits: on the CPU, with vLLM's own Python environment. Requests that vLLM itself refuses are counted.
"""

from __future__ import annotations

import json
import random
import time
from collections import ChainMap
from pathlib import Path
from typing import Annotated, Any

import typer

from tests.vllm_engine_run import BY_GRAMMARS, engine_with, run

BACKENDS: dict[str, tuple[str, dict[str, str]]] = {
    "ours": ("xgrammar", {}),
    "free": ("xgrammar", {"EQUIMASK_VLLM_MAX_WHITESPACE": "-1"}),
    "drafts": ("xgrammar", {}),
    "exact": ("auto", {"EQUIMASK_VLLM_SEMANTICS": "json-schema"}),
    "xgrammar": ("xgrammar", {"EQUIMASK_VLLM": "0"}),
    "guidance": ("guidance", {"EQUIMASK_VLLM": "0"}),
}
"""Ways to serve: vLLM's name of the backend, and settings of our plugin. "free" does not
bound white space, "exact" gives schemas their own meaning, "drafts" has grammars draft tokens for vLLM's
speculation."""

MOST_CHARACTERS = 6000  # of a schema; longer ones are left out
ANSWER_TOKENS = 24


def drawn(folder: Path, count: int) -> list[str]:
    """The texts of some schemas of objects; always the same ones for a folder."""
    found = []
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        text = json.dumps(content.get("schema", content))
        if len(text) < MOST_CHARACTERS and '"properties"' in text:
            found.append(text)
    random.Random(5).shuffle(found)
    return found[:count]


def tag_of(schema: str) -> str:
    """A structural tag around a schema."""
    content = {"type": "json_schema", "json_schema": json.loads(schema)}
    form = {"type": "tag", "begin": "<call>", "content": content, "end": "</call>"}
    return json.dumps({"type": "structural_tag", "format": form})


def burst(
    engine: Any, name: str, schemas: list[str | None], *, in_tags: bool = False, greedy: bool = False
) -> dict[str, Any]:
    """Send requests at once, and serve them to the end.

    Args:
        engine: vLLM's engine.
        name: of the burst.
        schemas: one for each request; None for requests without a schema.
        in_tags: put each schema into a structural tag.
        greedy: take the likeliest token instead of a random one.
    """
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import StructuredOutputsParams

    began = time.perf_counter()
    first: dict[str, float] = {}
    ids: dict[str, list[int]] = {}
    refused = failed = passes = 0
    done = 0.0
    for number, schema in enumerate(schemas):
        limits = None
        if schema is not None:
            kind = {"structural_tag": tag_of(schema)} if in_tags else {"json": schema}
            limits = StructuredOutputsParams(**kind)
        how = {"temperature": 0.0} if greedy else {"temperature": 1.0, "seed": number}
        asked = SamplingParams(max_tokens=ANSWER_TOKENS, structured_outputs=limits, **how)
        try:
            engine.add_request(f"{name} {number}", "abc", asked)
        except (ValueError, VLLMValidationError):  # vLLM's own check of its backend's support
            refused += 1
    while engine.has_unfinished_requests():
        for answer in engine.step():
            now = time.perf_counter() - began
            first.setdefault(answer.request_id, now)
            passes += len(answer.outputs[0].token_ids) > len(ids.get(answer.request_id, ()))
            ids[answer.request_id] = [*answer.outputs[0].token_ids]
            if answer.finished:
                failed += answer.outputs[0].finish_reason not in ("stop", "length")
                done = now
    counts = {"refused": refused, "failed": failed, "passes": passes}
    return {"name": name, "first": sorted(first.values()), "done": done, "ids": ids, **counts}


def serve(backend: str, tokenizer_folder: Path, schemas: list[str], greedy: bool) -> list[dict[str, Any]]:
    """Serve all bursts on one backend, in this process."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    model = tokenizer, (len(tokenizer) + 511) // 512 * 512, 2
    half, n_drafts = len(schemas) // 2, 8 if backend == "drafts" else 0
    limits: dict[str, Any] = {
        "backend": BACKENDS[backend][0],
        "disable_any_whitespace": greedy,  # otherwise a model may write only white space
    }
    with engine_with(n_drafts, BY_GRAMMARS, model, half, **limits) as (vllm, _):
        engine = vllm.llm_engine
        burst(engine, "warm", [None] * 4)
        new, others = schemas[:half], schemas[half:]
        bursts = {"new": new, "again": new, "others": others, "tags": others}
        return [
            burst(engine, name, [*each], in_tags=name == "tags", greedy=greedy)
            for name, each in bursts.items()
        ]


def command(
    tokenizer: Annotated[Path, typer.Option(help="Folder of a Hugging Face tokenizer.")],
    schemas: Annotated[Path, typer.Option(help="Folder of JSON schemas.")],
    requests: Annotated[int, typer.Option(help="Of a burst.")] = 64,
    greedy: Annotated[bool, typer.Option(help="The likeliest tokens, and compact JSON.")] = False,
    ways: Annotated[str, typer.Option(help="Ways to serve.")] = "ours,xgrammar,guidance",
    only: Annotated[str, typer.Option(help="Serve one way, in this process.")] = "",
) -> None:
    """Bursts of new schemas in vLLM: ours, drafts, exact, stock xgrammar, guidance."""
    if only:
        found = serve(only, tokenizer, drawn(schemas, 2 * requests), greedy)
        print("\n" + json.dumps({"bursts": found}))
        return
    arguments = ["--tokenizer", str(tokenizer), "--schemas", str(schemas), "--requests", str(requests)]
    arguments += ["--greedy"] if greedy else []
    module = "tests.robustness.vllm_load"
    served = {
        way: run(*arguments, "--only", way, module=module, **BACKENDS[way][1])["bursts"]
        for way in ways.split(",")
    }
    print("way | burst | served | refused, failed | first token p50, p99, s | all done, s | tokens a pass")
    for backend, bursts in served.items():
        for one in bursts:
            first, ids = one["first"], one["ids"]
            middle, last = first[len(first) // 2], first[int(0.99 * (len(first) - 1))]
            print(
                f"{backend} | {one['name']} | {len(ids)} | {one['refused']}, {one['failed']} | {middle:.2f}, "
                f"{last:.2f} | {one['done']:.2f} | {sum(map(len, ids.values())) / one['passes']:.2f}"
            )
    answers = {way: dict(ChainMap(*(one["ids"] for one in bursts))) for way, bursts in served.items()}
    theirs = answers.get("xgrammar", {})
    # a bound on white space forbids text that plain XGrammar allows, except in compact JSON
    same = {"free", "ours", "drafts"} if greedy else {"free"}
    for way in set(answers) & same if theirs else ():
        equal = sum(answers[way].get(name) == ids for name, ids in theirs.items())
        print(f"{way}: {equal} of {len(theirs)} answers have the ids of stock XGrammar's")


if __name__ == "__main__":
    typer.run(command)
