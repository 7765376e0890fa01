"""`adapters.transformers` with schemas and pydantic models instead of compiled grammars; complete texts."""

from __future__ import annotations

import json
from enum import Enum

import pytest
import torch
from pydantic import BaseModel

from adapters.grammars import compiler_of
from adapters.transformers import GrammarLogitsProcessor, HistoryError
from equivalence.errors import ArgumentError, BatchError, GrammarError
from hybrid import GrammarCompiler, GrammarMatcher
from tests.byte_tokenizer import byte_tokenizer
from tests.generating import COMPILER, EOS, JSON, PAD, SCHEMA, TOKENIZER, VOCABULARY, WORDS, check_json, ids


class Light(str, Enum):
    red = "red"
    green = "green"


class Crossing(BaseModel):
    light: Light
    open: bool


def _generate(model, processor, seed: int, most: int) -> tuple[list[int], str]:
    """Sample a row after "so: "; return its ids with the prompt, and the text behind it."""
    torch.manual_seed(seed)
    options = {"do_sample": True, "pad_token_id": PAD, "max_new_tokens": most}
    [row] = model.generate(**ids("so: "), logits_processor=[processor], **options).tolist()
    return row, TOKENIZER.decode(row, skip_special_tokens=True).removeprefix("so: ")


@pytest.mark.parametrize("given", [SCHEMA, json.dumps(SCHEMA)], ids=["dict", "text"])
def test_a_schema_and_a_tokenizer(model, given):
    processor = GrammarLogitsProcessor(given, TOKENIZER)
    row, text = _generate(model, processor, 1, 200)
    check_json(text)
    assert processor.is_complete(row)


def test_a_pydantic_model_and_a_compiler(model):
    # without a limit, this model writes white space, which the schema does not bound
    processor = GrammarLogitsProcessor(Crossing, COMPILER, max_new_tokens=60)
    for seed in range(2):
        row, text = _generate(model, processor, seed, 60)
        assert processor.is_complete(row)
        Crossing.model_validate_json(text)


def test_schemas_for_each_prompt_beside_compiled_grammars(model):
    torch.manual_seed(3)
    processor = GrammarLogitsProcessor([SCHEMA, JSON], VOCABULARY)
    GrammarLogitsProcessor((JSON, WORDS))
    rows = model.generate(
        **TOKENIZER(["a", "b"], return_tensors="pt", return_token_type_ids=False),
        logits_processor=[processor], do_sample=True, max_new_tokens=200, pad_token_id=PAD,
    )  # fmt: skip
    assert all(json.loads(text[1:]) for text in TOKENIZER.batch_decode(rows, skip_special_tokens=True))


def test_whole_at_every_length(model):
    """Compare with a matcher that reads the generated ids from the start."""
    processor = GrammarLogitsProcessor(WORDS, pad_token_id=PAD)
    prompt = ids("so: ")["input_ids"].shape[1]
    row, _ = _generate(model, processor, 5, 20)
    assert row[-1] == EOS
    for length in range(prompt, len(row) + 1):
        matcher = GrammarMatcher(WORDS)
        assert all(matcher.accept_token(token) for token in row[prompt:length])
        is_whole = matcher.is_terminated() or matcher.is_completed()
        assert processor.is_complete(row[:length]) == is_whole
        assert processor.is_complete(torch.tensor(row[:length])) == is_whole
    assert processor.is_complete([*row, PAD, PAD])
    assert processor.is_complete([*row[:-1], PAD])
    assert not processor.is_complete([*row[:-1], VOCABULARY.tokens.index(b"y")])


def test_rows_of_no_prompt(model):
    processor = GrammarLogitsProcessor(WORDS)
    with pytest.raises(HistoryError, match="does not begin with a prompt of the processor's last"):
        processor.is_complete([1, 2, 3])
    row, _ = _generate(model, processor, 6, 20)
    for wrong in (row[1:], []):
        with pytest.raises(HistoryError, match="does not begin with a prompt"):
            processor.is_complete(wrong)
    for wrong in ([row], None, "text", [*row, 0.5], torch.tensor([row])):
        with pytest.raises(ArgumentError, match="row must be"):
            processor.is_complete(wrong)
    with pytest.raises(ArgumentError, match="index must be"):
        processor.is_complete(row, "0")


def test_the_number_of_a_row_of_beam_search_does_not_matter_for_its_own_prompt(model):
    processor = GrammarLogitsProcessor(WORDS, prompt_length=2)
    prompts = torch.tensor([[30, 40], [50, 60]])
    rows = model.generate(
        input_ids=prompts, attention_mask=torch.ones_like(prompts), logits_processor=[processor],
        num_beams=4, max_new_tokens=30, pad_token_id=PAD,
    )  # fmt: skip
    assert len(rows) == 2
    for number, row in enumerate(rows):
        assert processor.is_complete(row, number) == processor.is_complete(row)


def test_equal_prompts_with_different_grammars():
    compiler = GrammarCompiler(VOCABULARY)
    processor = GrammarLogitsProcessor([compiler.compile_regex("xy"), compiler.compile_regex("x")])
    prompt, x = (VOCABULARY.tokens.index(one) for one in (b"s", b"x"))
    processor(torch.tensor([[prompt], [prompt]]), torch.zeros(2, VOCABULARY.size))
    assert [processor.is_complete([prompt, x], index) for index in (0, 1, None)] == [False, True, True]
    with pytest.raises(HistoryError, match="does not begin with a prompt"):
        processor.is_complete([prompt, x], 2)


def test_one_compiler_for_a_tokenizer_until_it_changes():
    tokenizer = byte_tokenizer("<eos>", ["<end>"])
    compiler = compiler_of(tokenizer)
    assert compiler_of(tokenizer) is compiler
    assert compiler_of(compiler) is compiler
    tokenizer.add_tokens(["<more>"])
    assert compiler_of(tokenizer) is not compiler
    assert compiler_of(tokenizer).vocabulary.size == len(tokenizer)
    tokenizer.eos_token = "<end>"
    assert compiler_of(tokenizer).vocabulary.stop_token_ids == (tokenizer.eos_token_id,)
    compiler = compiler_of(tokenizer)
    tokenizer.pad_token = "a"
    assert tokenizer.pad_token_id in compiler_of(tokenizer).vocabulary.special_token_ids
    assert tokenizer.pad_token_id not in compiler.vocabulary.special_token_ids
    assert isinstance(compiler_of(VOCABULARY), GrammarCompiler)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((SCHEMA,), ArgumentError, "there is no tokenizer to compile it for"),
        (([JSON, SCHEMA],), ArgumentError, r"compiled\[1\] is of type dict"),
        ((3, TOKENIZER), ArgumentError, "compiled must be a .*, but is 3"),
        ((Light, TOKENIZER), ArgumentError, "a pydantic model class"),
        (([], TOKENIZER), BatchError, "no grammar was given"),
        ((SCHEMA, "llama"), ArgumentError, "tokenizer must be"),
        ((SCHEMA, type(TOKENIZER)), ArgumentError, "tokenizer must be"),
        (("{", TOKENIZER), GrammarError, "JSON"),
        (({"type": "thing"}, TOKENIZER), GrammarError, "thing"),
    ],
)
def test_what_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        GrammarLogitsProcessor(*arguments)
