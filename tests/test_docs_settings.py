"""What docs/settings.md says about options is true: the texts in its table are accepted, or not.

What: each row of the table, on a schema with one property; control tokens in strings.
When: after a change of that page, or of XGrammar's options.
Limits: the options of engines are not tested.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from transformers import AddedToken

from adapters.transformers import GrammarLogitsProcessor
from bench.cases import CHECKOUT
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
from tests.byte_tokenizer import byte_tokenizer

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


@pytest.mark.parametrize("is_added", [False, True])
def test_a_processor_never_allows_control_tokens_in_strings(is_added: bool) -> None:
    tokenizer = byte_tokenizer("<|end|>", [] if is_added else ["<|im_start|>"])
    if is_added:  # as in Llama 3's tokenizer, where no list of special tokens names it
        tokenizer.add_tokens([AddedToken("<|im_start|>", special=True)])
        assert "<|im_start|>" not in tokenizer.all_special_tokens
    control = tokenizer.convert_tokens_to_ids("<|im_start|>")
    prompt = torch.tensor([tokenizer.encode("a", add_special_tokens=False)])
    text = torch.tensor([tokenizer.encode('a"', add_special_tokens=False)])
    as_text = GrammarCompiler(Vocabulary.from_huggingface(tokenizer)).compile_json_schema({"type": "string"})
    scores = torch.zeros(1, len(tokenizer))
    for given, is_allowed in (({"type": "string"}, False), (as_text, True)):
        processor = GrammarLogitsProcessor(given, tokenizer)
        processor(prompt, scores.clone())
        masked = processor(text, scores.clone())[0]
        assert bool(masked[control] > -math.inf) is is_allowed
        assert masked[tokenizer.convert_tokens_to_ids("t")] > -math.inf
    GrammarLogitsProcessor([{"type": "string"}, as_text], tokenizer)  # of one tokenizer


def test_a_tag_of_a_token_allows_it_where_it_stands() -> None:
    """The control token's bytes are known to the vocabulary, as a tag needs them."""
    compiler = GrammarCompiler(Vocabulary.from_bytes(TOKENS, stop_token_ids=[STOP]))
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": [
        {"type": "token", "token": CONTROL}, {"type": "json_schema", "json_schema": SCHEMA}]}}  # fmt: skip
    matcher = GrammarMatcher(compiler.compile_structural_tag(tag))
    assert not matcher.accept_token(ord("{"))
    assert matcher.accept_token(CONTROL) and not matcher.accept_token(CONTROL)
    assert matcher.accept_string(b'{"a": true}')
