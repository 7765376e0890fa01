"""Values that must not repeat, in texts whose layout is fixed, and in texts that are cut in many ways.

What: at each byte of valid texts, the mask is what `accept_token` accepts, and the text goes on.
When: after a change of `hybrid.remembering`.
Limits: some texts; `tests.robustness.schema_walks` walks through others.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from equivalence import Vocabulary
from hybrid import GrammarCompiler, GrammarMatcher
from hybrid import allocate_token_bitmask as allocate
from tests.test_remembering import BYTES, COMPILERS, UNIQUE, VOCABULARY, allowed

LAYOUTS: list[dict[str, Any]] = [
    {"any_whitespace": False},
    {"any_whitespace": False, "separators": (",", ":")},
    *({"any_whitespace": False, "indent": indent} for indent in (0, 1, 2)),
    {"any_whitespace": False, "separators": (" , ", ":")},
    {"any_whitespace": False, "indent": 0, "separators": (" ,", ":")},
    {"any_whitespace": False, "indent": 2, "separators": (" ,  ", " : ")},
    {"max_whitespace_cnt": 1},
    {"max_whitespace_cnt": 2},
]
LAID_OUT: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "arrays": (
        {"type": "array", "uniqueItems": True, "items": {"type": "array", "items": {"type": "integer"}}},
        [[], [1]],
    ),
    "objects": (
        {
            "type": "array", "uniqueItems": True,
            "items": {
                "type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False
            },
        },
        [{}, {"a": 1}],
    ),
    "several kinds": (
        {
            "type": "array", "uniqueItems": True,
            "prefixItems": [{"type": "integer"}], "items": {"type": "null"},
        },
        [1, None],
    ),
    "other letters": (
        {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "\u00e9", "\n", " b"]}},
        ["a", "\u00e9", "\n", " b"],
    ),
    "under conditions": (
        {"not": {"uniqueItems": True}, "type": "array", "items": {"type": "integer"}},
        [0, 1, 0],
    ),
    "strings under conditions": (
        {
            "type": "array", "items": {"type": "string", "pattern": "^[ab]+$"},
            "oneOf": [{"uniqueItems": True, "maxItems": 4}, {"minItems": 2, "maxItems": 3}],
        },
        ["b", "a", "b"],
    ),
    "lists": (
        {
            "type": "array", "uniqueItems": True,
            "items": {"type": "array", "items": {"enum": [0, 1, "a"]}, "maxItems": 2},
        },
        [["a"], ["a", 0], [], [0, "a"]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", LAID_OUT)
def test_unique_items_in_fixed_layouts(name: str, layout: dict[str, Any]) -> None:
    schema, value = LAID_OUT[name]
    compiled = COMPILERS["auto"].compile_json_schema(schema, strict_mode=False, **layout)
    separators = layout.get("separators") or ((", ", ": ") if layout.get("indent") is None else (",", ": "))
    text = json.dumps(value, indent=layout.get("indent"), separators=separators, ensure_ascii=False)
    if layout.get("indent") is not None:
        text = text.replace("[\n" + " " * 2 * layout["indent"] + "]", "[]")
    matcher = GrammarMatcher(compiled)
    for byte in text.encode():
        ids = allowed(matcher)
        assert ids and ids == [
            token for token in range(VOCABULARY.size) if matcher.fork().accept_token(token)
        ], text
        assert matcher.accept_string(bytes([byte])), (text, byte)
    assert matcher.is_completed()


SPLIT = [b"d8", b"d83", b"d83d", b"\\ud8", b"\\ud83d", b"\\u", b"ud83", b'"\n', b'" ', b'"\n]']


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (UNIQUE["anything"], '[{"a":1},{"\\ud83d\\ude00":1},{"\\ud83d\\ude01":1}]'),
        (UNIQUE["anything"], '[["a"],["\\ud83d\\ude00"]]'),
        (
            {"propertyNames": {"pattern": "^[a-z].?$"}, "minProperties": 2},
            '{"ab":1,"a\\ud83d\\ude00":2}',
        ),
        (
            {
                "type": "array", "uniqueItems": True,
                "items": {"type": "number", "minimum": -1, "maximum": 3, "multipleOf": 0.5},
            },
            "[-1.0,-0.5,0,0.5,1.0,1.5,2.0,3,2.5]",
        ),
    ],
)  # fmt: skip
def test_what_looks_like_an_earlier_item_for_long(schema: dict[str, Any], text: str) -> None:
    """Escapes that are read byte by byte, and zeros without end."""
    tokens = [*BYTES, *SPLIT]
    vocabulary = Vocabulary.from_bytes([*tokens, b""], stop_token_ids=len(tokens))
    compiler = GrammarCompiler(vocabulary, semantics="json-schema")
    matcher = GrammarMatcher(compiler.compile_json_schema(schema, strict_mode=False))
    bitmask = allocate(1, vocabulary.size)
    for byte in text.encode():
        matcher.fill_next_token_bitmask(bitmask)
        bits = np.unpackbits(bitmask.numpy().view(np.uint8)[0], bitorder="little")
        ids = [token for token in range(len(tokens)) if bits[token]]
        assert ids == [token for token in range(len(tokens)) if matcher.fork().accept_token(token)]
        assert matcher.accept_string(bytes([byte]))
    assert matcher.is_completed()
