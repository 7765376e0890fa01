"""What docs/settings.md says about options is true: the texts in its table are accepted, or not.

What: each row of the table, on a schema with one property; control tokens in strings.
When: after a change of that page, or of XGrammar's options.
Limits: the options of engines are not tested.
"""

from __future__ import annotations

from typing import Any

import pytest

from bench.cases import CHECKOUT
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask

CONTROL, STOP = 256, 257
TOKENS = [*(bytes([value]) for value in range(256)), b"<|im_end|>", b"</s>"]
SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"],
          "additionalProperties": False}  # fmt: skip
TEXTS = {
    "compact": b'{"a":true}', "plain": b'{"a": true}', "wide": b'{  "a"  :  true  }',
    "lines": b'{\n  "a": true\n}', "endless": b"{" + b" " * 500,
}  # fmt: skip


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(
        Vocabulary.from_bytes(TOKENS, stop_token_ids=[STOP], special_token_ids=[CONTROL, STOP])
    )


@pytest.mark.parametrize(
    ("row", "options", "read"),
    [
        ("none", {}, {*TEXTS}),
        ("max_whitespace_cnt=2", {"max_whitespace_cnt": 2}, {"compact", "plain", "wide"}),
        ("any_whitespace=False", {"any_whitespace": False}, {"plain"}),
        (
            'any_whitespace=False, separators=(",", ":")',
            {"any_whitespace": False, "separators": (",", ":")},
            {"compact"},
        ),
        ("any_whitespace=False, indent=2", {"any_whitespace": False, "indent": 2}, {"lines"}),
    ],
)
def test_the_table_of_white_space(
    compiler: GrammarCompiler, row: str, options: dict[str, Any], read: set[str]
) -> None:
    page = (CHECKOUT / "docs" / "settings.md").read_text()
    assert f"| `{row}` |" in page or f"| {row} |" in page
    compiled = compiler.compile_json_schema(SCHEMA, **options)
    assert {name for name, text in TEXTS.items() if GrammarMatcher(compiled).accept_string(text)} == read


def test_control_tokens_are_no_text(compiler: GrammarCompiler) -> None:
    matcher = GrammarMatcher(compiler.compile_json_schema({"type": "string"}))
    assert matcher.accept_string(b'"<|im_end|>')
    bitmask = allocate_token_bitmask(1, compiler.vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask)
    words = bitmask[0].tolist()
    assert words[ord("x") // 32] >> ord("x") % 32 & 1 and not words[CONTROL // 32] >> CONTROL % 32 & 1
    assert not matcher.accept_token(CONTROL) and not matcher.accept_token(STOP)
    assert matcher.accept_token(ord('"')) and matcher.accept_token(STOP)


def test_a_tag_of_a_token_allows_it_where_it_stands() -> None:
    """The control token's bytes are known to the vocabulary, as a tag needs them."""
    compiler = GrammarCompiler(Vocabulary.from_bytes(TOKENS, stop_token_ids=[STOP]))
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": [
        {"type": "token", "token": CONTROL}, {"type": "json_schema", "json_schema": SCHEMA}]}}  # fmt: skip
    matcher = GrammarMatcher(compiler.compile_structural_tag(tag))
    assert not matcher.accept_token(ord("{"))
    assert matcher.accept_token(CONTROL) and not matcher.accept_token(CONTROL)
    assert matcher.accept_string(b'{"a": true}')
