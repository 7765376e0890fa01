"""Many tools in one request, as servers get them: what do a first mask, a call and memory cost?

What: tools with random parameters are compiled as a tool choice (one JSON schema, a list of calls, as vLLM
and SGLang make it from ``tool_choice="required"``) and as tags (free text in which a call may begin, as for
``"auto"``). This is done by equimask with both meanings of schemas, XGrammar and llguidance.
When: ``python -m bench tools --vocabulary SPEC --json FILE``.
Limits: parameters are artificial, but resemble real ones. Each engine has its own process
(`bench.peers.alone`), and goes through one call after its first mask. Our masks are compared with XGrammar's
along calls; those of llguidance and of JSON Schema have another meaning.
"""

from __future__ import annotations

import json as json_format
import random
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import track

from bench import options, report, workloads
from bench.peers import alone
from bench.peers.alone import Asked
from bench.report import Spread
from bench.reporting.answers import publish
from bench.request import Request, run_document
from hybrid.testing.comparison import Comparison
from hybrid.testing.segmentation import tokenize_greedy

TRIGGER = "<tool_call>"

NOUNS = ("user", "invoice", "ticket", "city", "file", "branch", "order", "event", "report", "message")
VERBS = ("get", "list", "create", "update", "delete", "search", "send", "close")


def tool(number: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the name of a tool, the schema of its parameters, and arguments that are valid under it."""
    rng = random.Random(number)
    noun = rng.choice(NOUNS)
    kinds: Sequence[tuple[str, dict[str, Any], Any]] = (
        (f"{noun}_id", {"type": "string"}, f"{noun}-{number}"),
        ("limit", {"type": "integer", "minimum": 1, "maximum": 100}, 20),
        ("ratio", {"type": "number"}, 0.25),
        ("dry_run", {"type": "boolean"}, True),
        ("order", {"type": "string", "enum": ["asc", "desc", "none"]}, "desc"),
        ("labels", {"type": "array", "items": {"type": "string"}}, ["new", "open"]),
        ("title", {"type": "string"}, f"About a {noun}"),
        ("since", {"type": "string", "format": "date"}, "2026-02-01"),
        (f"{noun}_filter", {
            "type": "object", "additionalProperties": False, "required": ["field"],
            "properties": {"field": {"type": "string"}, "value": {"type": ["string", "null"]}},
        }, {"field": "name", "value": None}),
    )  # fmt: skip
    chosen = sorted(rng.sample(range(len(kinds)), rng.randint(2, 6)))
    properties = {kinds[i][0]: {**kinds[i][1], "description": f"Of the {noun}."} for i in chosen}
    needed = [kinds[i][0] for i in chosen if rng.random() < 0.6]
    schema = {
        "type": "object", "properties": properties, "required": needed, "additionalProperties": False,
    }  # fmt: skip
    return f"{rng.choice(VERBS)}_{noun}_{number}", schema, {kinds[i][0]: kinds[i][2] for i in chosen}


def tool_choice(count: int) -> Asked:
    """Return a schema for one or more calls of this many tools."""
    calls = [
        {
            "type": "object", "required": ["name", "parameters"], "additionalProperties": False,
            "properties": {"name": {"type": "string", "enum": [name]}, "parameters": schema},
        }
        for name, schema, _ in map(tool, range(count))
    ]  # fmt: skip
    return Asked(schema={"type": "array", "minItems": 1, "items": {"type": "object", "anyOf": calls}})


def tags(count: int) -> Asked:
    """Return structural tags: free text in which this many tools may be called."""
    found = [
        {
            "begin": f'{TRIGGER}\n{{"name": "{name}", "arguments": ', "end": "}\n</tool_call>",
            "content": {"type": "json_schema", "json_schema": schema}, "type": "tag",
        }
        for name, schema, _ in map(tool, range(count))
    ]  # fmt: skip
    content = {"type": "triggered_tags", "triggers": [TRIGGER], "tags": found}
    return Asked(tags={"type": "structural_tag", "format": content}, lark=_lark(found))


def _lark(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the same tags for llguidance; "" if it is not installed."""
    try:
        from llguidance import StructTag
    except ImportError:
        return ""
    own = [
        StructTag(trigger=TRIGGER, begin=one["begin"], end=one["end"], grammar=one["content"]["json_schema"])
        for one in found
    ]
    return str(StructTag.to_grammar(own, assume_special=False))


def call(shape: str, number: int) -> bytes:
    """Return a text with one call."""
    name, _, arguments = tool(number)
    written = json_format.dumps(arguments)
    if shape == "tool choice":
        return f'[{{"name": "{name}", "parameters": {written}}}]'.encode()
    return (
        f'I will look.\n{TRIGGER}\n{{"name": "{name}", "arguments": {written}}}\n</tool_call> Done.'.encode()
    )


SHAPES: Mapping[str, Callable[[int], Asked]] = {"tool choice": tool_choice, "tags": tags}


def _once(way: alone.Begin, asked: Asked, ids: Sequence[int]) -> dict[str, Any]:
    """Measure one request on one engine. Return the seconds, or its refusal."""
    begun = way(asked)
    request = Request.of(begun)
    if begun.calls is None:
        return alone.refusal_of(begun)
    taken = run_document(request, begun.calls, ids)
    return {
        "compile": begun.compile_seconds, "first_mask": request.first_mask,
        "first_mask_cpu": request.first_mask_cpu, "document": request.document,
        "document_cpu": request.document_cpu, "masks": list(request.mask), "taken": taken,
    }  # fmt: skip


def middle(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the medians over runs of one engine; if it refuses, its refusal."""
    if (bad := next((one for one in runs if "refusal" in one), None)) is not None:
        return dict(bad)
    names = ("compile", "first_mask", "first_mask_cpu", "document", "document_cpu", "bytes")
    found: dict[str, Any] = {"taken": all(one["taken"] for one in runs)}
    for name in names:
        numbers = [one[name] for one in runs if one[name] is not None]
        found[name] = float(np.median(numbers)) if numbers else None
    found["mask"] = Spread.of(array("d", [value for one in runs for value in one["masks"]]))
    return found


def measure(vocabulary: Any, shape: str, count: int, runs: int, seconds: float) -> dict[str, Any]:
    """Return one row: a shape with a number of tools, on every engine."""
    asked = SHAPES[shape](count)
    numbers = (0, count // 2, count - 1)
    texts = [tokenize_greedy(vocabulary, call(shape, number)) for number in numbers]
    engines: dict[str, Any] = {}
    compared = alone.compared(vocabulary, asked, texts, seconds) or Comparison()
    wrong = compared.difference_count + (not compared.complete)
    for engine in alone.engines():
        found: list[dict[str, Any]] = []
        while len(found) < runs and (not found or sum(one.get("document") or 0 for one in found) < 20):
            found.append(alone.alone(engine, vocabulary, lambda way: _once(way, asked, texts[1]), seconds))
            if "refusal" in found[-1]:
                break
        engines[engine] = middle(found)
    return {"shape": shape, "tools": count, "engines": engines, "masks": compared.masks, "differences": wrong}


def command(
    vocabulary: options.VocabularyOption,
    json: options.RecordOption,
    tools: Annotated[list[int] | None, typer.Option(help="A number of tools; repeatable.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Of each engine, in new processes.")] = 3,
    seconds: Annotated[float, typer.Option(help="After which an engine is ended.")] = 240.0,
) -> None:
    """Measure many tools in one request: first masks, a call and memory, compared with XGrammar and
    llguidance."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        loaded = workloads.load_vocabulary(vocabulary).prepare()
    work = [(shape, count) for count in tools or (128, 400) for shape in SHAPES]
    asked = track(work, "tools", console=console, transient=True)
    rows = [measure(loaded, shape, count, runs, seconds) for shape, count in asked]
    exact = all(row["masks"] and not row["differences"] for row in rows)
    publish(console, json, "tools", arguments, {"rows": rows}, exact)
