"""What the tests of the adapters of vLLM and SGLang ask for: a small vocabulary, grammars and schemas.

When: in tests with a stand-in for an engine (`tests.vllm_stand_in`, `tests.sglang_stand_in`).
"""

from __future__ import annotations

import json
from typing import Any

import torch

from tests.matchers import ids_of

TEXTS = [bytes([byte]) for byte in range(256)] + [b"</s>", b"<tool>", b"</tool>", b'{"', b'":', b"<eot>", b""]
STOP, TOOL, UNTOOL, EOT, SIZE = 256, 257, 258, 261, 288
DIGITS = [*range(ord("0"), ord("9") + 1)]

EBNF = 'root ::= "a" root "b" | [0-9]{1,3}'
SCHEMA = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
TAG = json.dumps({
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags", "triggers": ["<tool>"],
        "tags": [{"begin": "<tool>", "content": {"type": "json_schema", "json_schema": json.loads(SCHEMA)},
                  "end": "</tool>"}],
    },
})  # fmt: skip
TWO = json.dumps({
    "type": "object", "required": ["a", "b"],
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
})  # fmt: skip
SHORTEST = len('{"a":"","b":[]}') - 2
"""Tokens of the shortest text of `TWO`: '{"' and '":' are tokens."""

LOOSE = json.dumps({"type": "object", "properties": {"a": {"type": "integer", "not": {"const": 1}}}})
TIGHT = json.dumps({"type": "object", "properties": {"a": {"type": "string", "pattern": "[0-9]"}}})


def bits(row) -> list[int]:
    """The allowed ids of a row of a mask."""
    return ids_of(row, SIZE)


def mask_of(asked: Any) -> list[int]:
    """The ids that a matcher allows, or a grammar object of SGLang."""
    rows = torch.zeros((2, SIZE // 32), dtype=torch.int32)
    fill = getattr(asked, "fill_vocab_mask", None) or asked.fill_next_token_bitmask
    fill(rows, 1)
    return bits(rows[1])
