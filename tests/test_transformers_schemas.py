"""`adapters.transformers` with schemas and pydantic models instead of compiled grammars; complete texts."""

from __future__ import annotations

import json
from enum import Enum

import pytest
import torch
from pydantic import BaseModel

from adapters.grammars import compiled_grammars, compiler_of
from adapters.transformers import GrammarLogitsProcessor, HistoryError
from equivalence.errors import ArgumentError, BatchError, GrammarError, VocabularyError
from hybrid import GrammarCompiler, GrammarMatcher
from tests import generating
from tests.byte_tokenizer import byte_tokenizer
from tests.generating import COMPILER, EOS, JSON, PAD, SCHEMA, TOKENIZER, VOCABULARY, WORDS, ids


class Light(str, Enum):
    red = "red"
    green = "green"


class Crossing(BaseModel):
    light: Light
    open: bool


def _generate(model, processor) -> list[int]:
    """Sample a row after "so: "; return its ids, including the prompt."""
    torch.manual_seed(5)
    options = {"do_sample": True, "pad_token_id": PAD, "max_new_tokens": 20}
    [row] = model.generate(**ids("so: "), logits_processor=[processor], **options).tolist()
    return row


GIVEN = {
    "dict": (SCHEMA, TOKENIZER), "text": (json.dumps(SCHEMA), VOCABULARY), "model": (Crossing, COMPILER),
    "beside a compiled grammar": ((JSON, SCHEMA), TOKENIZER),
}  # fmt: skip


@pytest.mark.parametrize(("given", "compiled_for"), GIVEN.values(), ids=GIVEN)
def test_schemas_and_what_they_are_compiled_for(model, given, compiled_for):
    # without a limit, this model writes white space, which the schema does not bound
    processor = GrammarLogitsProcessor(given, compiled_for, max_new_tokens=60)
    prompts = ["so: "] * (len(given) if isinstance(given, tuple) else 1)
    rows = generating.generated(model, prompts, processor, max_new_tokens=60, do_sample=True)
    for text in map(TOKENIZER.decode, rows):
        if given is Crossing:
            Crossing.model_validate_json(text)
        else:
            assert json.loads(text).keys() == {"ok", "n"}


def test_whole_at_every_length(model):
    """Compare with a matcher that reads the generated ids from the start."""
    processor = GrammarLogitsProcessor(WORDS, pad_token_id=PAD)
    prompt = ids("so: ")["input_ids"].shape[1]
    row = _generate(model, processor)
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
    row = _generate(model, processor)
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
    tokenizer.pad_token = "<no token of the vocabulary>"
    assert tokenizer.pad_token_id is None and None in tokenizer.all_special_ids
    assert compiler_of(tokenizer).vocabulary.fingerprint == compiler.vocabulary.fingerprint
    assert isinstance(compiler_of(VOCABULARY), GrammarCompiler)


class Unreadable:
    """A tokenizer like transformers' for mistral-common."""

    def __len__(self):
        return 1

    def get_vocab(self):
        return {"a": 0}

    def added_tokens_decoder(self):
        raise NotImplementedError


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
        ((SCHEMA, Unreadable()), VocabularyError, "cannot read a tokenizer of type Unreadable"),
        (("{", TOKENIZER), GrammarError, "JSON"),
        (({"type": "thing"}, TOKENIZER), GrammarError, "thing"),
    ],
)
def test_what_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        GrammarLogitsProcessor(*arguments)


@pytest.mark.parametrize(
    "options", [{"semantics": "json-schema"}, {"max_whitespace_cnt": 1}, {"assert_formats": False}]
)
def test_settings_for_schemas_are_refused_where_all_grammars_are_compiled(options):
    (name,) = options
    for given in (JSON, [JSON, JSON]):
        with pytest.raises(ArgumentError, match=f"compiled already, so {name} cannot be chosen"):
            GrammarLogitsProcessor(given, COMPILER, **options)


def test_settings_for_schemas_change_schemas_beside_compiled_grammars():
    schema = {"type": "string", "pattern": "b"}  # XGrammar anchors it
    for semantics, is_exact in (("json-schema", True), ("xgrammar", False)):
        first, second = compiled_grammars([JSON, schema], COMPILER, semantics=semantics)
        assert first is JSON
        assert GrammarMatcher(second).accept_string('"abc"') == is_exact
