"""`GrammarLogitsProcessor(max_new_tokens=...)`: `generate` ends with whole text within the limit."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import torch

from adapters.transformers import GrammarLogitsProcessor, RejectedToken
from equivalence.errors import ArgumentError, BudgetExceeded, UnsupportedGrammar
from hybrid import GrammarMatcher
from hybrid.completion.completion import Completion
from tests.generating import ANYTHING, COMPILER, EOS, JSON, PAD, TOKENIZER, WORDS, call, ids
from tests.test_transformers import WAYS

DEEP = COMPILER.compile_grammar('root ::= "[" (item ("," item)*)? "]"\nitem ::= root | [a-f]{2,30}')
LEAST = len(GrammarMatcher(JSON).shortest_completion())

MODES = {**WAYS, "prompt lookup": {"do_sample": False, "prompt_lookup_num_tokens": 3}}

pytestmark = pytest.mark.usefixtures("one_thread")


def _rows(model, processor, limit, **options):
    options |= {"logits_processor": [processor], "max_new_tokens": limit, "pad_token_id": PAD}
    return model.generate(**ids("Give me JSON: "), **options)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("grammar", "limit"),
    [(JSON, LEAST), (JSON, LEAST + 2), (DEEP, 5), (DEEP, 9)],
    ids=["shortest", "two more", "nested", "deeper"],
)
def test_every_row_is_whole(model, mode, grammar, limit):
    processor = GrammarLogitsProcessor(grammar, max_new_tokens=limit)
    for seed in range(2):
        torch.manual_seed(seed)
        rows = _rows(model, processor, limit, **MODES[mode])
        assert all(processor.is_complete(row) for row in rows)
        assert all(len(row) <= len(TOKENIZER("Give me JSON: ")["input_ids"]) + limit for row in rows)


def test_a_limit_that_no_text_fits_into_is_refused_at_once():
    message = f"max_new_tokens={LEAST - 1} is too small: .* needs {LEAST} tokens"
    with pytest.raises(ArgumentError, match=message):
        GrammarLogitsProcessor([ANYTHING, JSON], max_new_tokens=LEAST - 1)
    endless = COMPILER.compile_grammar('root ::= "a" root')
    with pytest.raises(ArgumentError, match="no tokens of the vocabulary complete a text"):
        GrammarLogitsProcessor(endless, max_new_tokens=10)
    with pytest.raises(UnsupportedGrammar, match="Lark"):
        GrammarLogitsProcessor(COMPILER.compile_lark('start: "a"'), max_new_tokens=10)
    for wrong in (0, -3, 2.5, True):
        with pytest.raises(ArgumentError, match="max_new_tokens"):
            GrammarLogitsProcessor(WORDS, max_new_tokens=wrong)


def test_a_limit_that_is_far_too_small_is_refused_soon(monkeypatch):
    """Each number of tokens in between may need a search: for a text of 2,000 tokens, they took 28 s."""
    asked, can_complete = [], GrammarMatcher.can_complete_within

    def counted(matcher, tokens_left):
        asked.append(tokens_left)
        return can_complete(matcher, tokens_left)

    monkeypatch.setattr(GrammarMatcher, "can_complete_within", counted)
    with pytest.raises(ArgumentError, match="needs 1000 tokens"):
        GrammarLogitsProcessor(COMPILER.compile_regex("(~z){500}"), max_new_tokens=10)
    assert len(asked) < 15


def test_the_last_tokens_close_what_is_open():
    opening, closing, letter = (TOKENIZER.convert_tokens_to_ids(one) for one in "[]a")
    processor = GrammarLogitsProcessor(DEEP, max_new_tokens=4, prompt_length=1)
    assert opening in call(processor, [9])[0]
    assert opening in call(processor, [9, opening])[0]
    row = [9, opening, opening]
    for only in (closing, closing, EOS):  # the last one after the limit: plain
        assert call(processor, row) == [[only]]
        row.append(only)
    # an unmasked draft leaves no room: it will be rejected, and what follows it does not count
    assert letter in call(processor, [9, opening, opening, opening])[0]
    with pytest.raises(RejectedToken):
        call(processor, [9, closing])


def test_a_row_whose_completion_takes_too_much_goes_on_with_plain_masks(monkeypatch):
    opening, closing = (TOKENIZER.convert_tokens_to_ids(one) for one in "[]")
    processor = GrammarLogitsProcessor(DEEP, max_new_tokens=2, prompt_length=1)
    call(processor, [9])
    assert call(processor, [9, opening]) == [[closing]]
    error = BudgetExceeded("a token limit needs more than 9 bytes")
    monkeypatch.setattr(Completion, "restrict", Mock(side_effect=error))
    with pytest.warns(UserWarning, match="row 0 may be cut off: a token limit needs more than 9 bytes"):
        assert opening in call(processor, [9, opening])[0]
