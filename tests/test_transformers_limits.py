"""`GrammarLogitsProcessor(max_new_tokens=...)`: `generate` ends with whole text within the limit."""

from __future__ import annotations

import pytest
import torch
from transformers import pipeline

from adapters.transformers import GrammarLogitsProcessor, RejectedToken
from equivalence.errors import ArgumentError, UnsupportedGrammar
from hybrid import GrammarMatcher
from tests.generating import (
    ANYTHING,
    COMPILER,
    EOS,
    JSON,
    PAD,
    TOKENIZER,
    WORDS,
    call,
    check_json,
    ids,
)

DEEP = COMPILER.compile_grammar('root ::= "[" (item ("," item)*)? "]"\nitem ::= root | [a-f]{2,30}')
LEAST = len(GrammarMatcher(JSON).shortest_completion())

MODES = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "num_return_sequences": 4, "top_k": 0},
    "beams": {"do_sample": False, "num_beams": 3, "num_return_sequences": 3},
    "sampled beams": {"do_sample": True, "num_beams": 3},
    "prompt lookup": {"do_sample": False, "prompt_lookup_num_tokens": 3},
}


pytestmark = pytest.mark.usefixtures("one_thread")


def _rows(model, processor, limit, prompt="Give me JSON: ", **options):
    return model.generate(
        **ids(prompt), logits_processor=[processor], max_new_tokens=limit, pad_token_id=PAD, **options
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", [LEAST, LEAST + 2])
def test_every_row_is_whole(model, mode, limit):
    processor = GrammarLogitsProcessor(JSON, max_new_tokens=limit)
    for seed in range(2):
        torch.manual_seed(seed)
        rows = _rows(model, processor, limit, **MODES[mode])
        assert all(processor.is_complete(row) for row in rows)
        assert all(len(row) <= len(TOKENIZER("Give me JSON: ")["input_ids"]) + limit for row in rows)


def test_without_it_texts_are_cut_off_where_they_need_not_be(model):
    limits, cut = range(2, 20, 3), 0
    for limit in limits:
        torch.manual_seed(limit)
        plain = GrammarLogitsProcessor(DEEP)
        [row] = _rows(model, plain, limit, do_sample=True, top_k=0, temperature=9.0)
        cut += not plain.is_complete(row)
        torch.manual_seed(limit)
        closing = GrammarLogitsProcessor(DEEP, max_new_tokens=limit)
        [row] = _rows(model, closing, limit, do_sample=True, top_k=0, temperature=9.0)
        assert closing.is_complete(row)
    assert cut, "no text was cut off: the test shows nothing"


def test_a_limit_far_away_changes_nothing(model):
    found = []
    for processor in (GrammarLogitsProcessor(WORDS), GrammarLogitsProcessor(WORDS, max_new_tokens=100)):
        torch.manual_seed(3)
        found.append(_rows(model, processor, 20, do_sample=True, num_return_sequences=4).tolist())
    assert found[0] == found[1]


def test_a_limit_that_no_text_fits_into_is_refused_at_once():
    with pytest.raises(
        ArgumentError, match=f"max_new_tokens={LEAST - 1} is too small: .* needs {LEAST} tokens"
    ):
        GrammarLogitsProcessor([ANYTHING, JSON], max_new_tokens=LEAST - 1)
    endless = COMPILER.compile_grammar('root ::= "a" root')
    with pytest.raises(ArgumentError, match="no tokens of the vocabulary complete a text"):
        GrammarLogitsProcessor(endless, max_new_tokens=10)
    with pytest.raises(UnsupportedGrammar, match="Lark"):
        GrammarLogitsProcessor(COMPILER.compile_lark('start: "a"'), max_new_tokens=10)
    for wrong in (0, -3, 2.5, True):
        with pytest.raises(ArgumentError, match="max_new_tokens"):
            GrammarLogitsProcessor(WORDS, max_new_tokens=wrong)


def test_the_last_tokens_close_what_is_open():
    opening, closing, letter = (TOKENIZER.convert_tokens_to_ids(one) for one in "[]a")
    processor = GrammarLogitsProcessor(DEEP, max_new_tokens=4, prompt_length=1)
    assert opening in call(processor, [9])[0]
    assert opening in call(processor, [9, opening])[0]
    assert call(processor, [9, opening, opening]) == [[closing]]
    assert call(processor, [9, opening, opening, closing]) == [[closing]]
    assert call(processor, [9, opening, opening, closing, closing]) == [[EOS]]  # after the limit: plain
    # an unmasked draft leaves no room: it will be rejected, and what follows it does not count
    assert letter in call(processor, [9, opening, opening, opening])[0]
    with pytest.raises(RejectedToken):
        call(processor, [9, closing])


def test_a_pipeline(model):
    generate = pipeline("text-generation", model=model, tokenizer=TOKENIZER)
    processor = GrammarLogitsProcessor(JSON, max_new_tokens=20)
    torch.manual_seed(1)
    [answer] = generate(
        "so: ", logits_processor=[processor], max_new_tokens=20, do_sample=True, return_full_text=False
    )
    check_json(answer["generated_text"])
