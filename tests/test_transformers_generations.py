"""Several generations of one `GrammarLogitsProcessor`: where prompts end, where generations start, errors.

Every run of `generate` here goes through `Oracle` (`tests.generating`), so the tests check more than the
texts.
"""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.transformers import GrammarLogitsProcessor, HistoryError, RejectedToken
from tests import generating
from tests.generating import ANYTHING, EOS, JSON, LETTERS, TOKENIZER, call, check_json, expected_ids, ids, run

pytestmark = pytest.mark.usefixtures("one_thread")

a, b, c = (TOKENIZER.convert_tokens_to_ids(letter) for letter in "abc")


@pytest.mark.parametrize("user", ["\nUser: more\n", "!?"])
def test_chat_continuation(model, user):
    processor, prompt = GrammarLogitsProcessor(JSON), "User: JSON\n"
    for _ in range(3):
        [text] = run(model, processor, [JSON], ids(prompt), do_sample=True)
        check_json(text)
        prompt += text + "<eos>" + user


def test_edited_prompts_are_prompts(model):
    """They have one illegal token more, or are shorter than the answer before."""
    processor = GrammarLogitsProcessor(JSON)
    for edit in ("", "!", "! ", "", " quickly", " slowly"):
        [text] = run(model, processor, [JSON], ids(f"Give JSON{edit}"), do_sample=False)
        check_json(text)


def test_an_ambiguous_prompt_is_an_error_and_reset_or_prompt_length_decide(model):
    prompt, edited = ids("tell"), ids("tell me now")
    processor = GrammarLogitsProcessor(ANYTHING)
    long = {"do_sample": True, "max_new_tokens": 20, "min_new_tokens": 20}
    run(model, processor, [ANYTHING], prompt, **long)
    with pytest.raises(HistoryError, match=r"call reset\(\)"):
        run(model, processor, [ANYTHING], edited)
    run(model, processor, [ANYTHING], prompt, **long)
    processor.reset()
    run(model, processor, [ANYTHING], edited)
    run(model, processor, [ANYTHING], prompt, **long)
    processor.prompt_length = edited["input_ids"].shape[1]
    run(model, processor, [ANYTHING], edited)


def test_a_prompt_too_long_for_a_step_is_new_however_well_it_fits(model):
    processor = GrammarLogitsProcessor(ANYTHING)
    for prompt in (ids("tell"), ids("tell me now all that you know about this")):
        run(model, processor, [ANYTHING], prompt, max_new_tokens=4, do_sample=True)


def test_generating_on_from_ones_own_output_needs_a_word(model):
    """Generated text that is passed as a prompt looks like the next step, unless `reset` is called."""
    processor = GrammarLogitsProcessor(LETTERS)
    prompt = ids("x")
    [text] = run(model, processor, [LETTERS], prompt, do_sample=False, max_new_tokens=2)
    longer = TOKENIZER("x" + text[:1])["input_ids"]
    assert call(processor, longer) == [expected_ids(LETTERS, TOKENIZER(text[:1])["input_ids"])]
    processor.reset()
    assert call(processor, longer) == [expected_ids(LETTERS, [])]


def test_interleaved_generations_are_noticed():
    processor = GrammarLogitsProcessor(LETTERS)
    call(processor, [5, 6])
    call(processor, [5, 6, a])
    call(processor, [9])
    with pytest.raises(HistoryError, match="two generations use this processor at the same time"):
        call(processor, [5, 6, a, b])
    assert call(processor, [5, 6, a, b]) == [expected_ids(LETTERS, [])]  # an error starts a new generation
    processor.reset()
    for prompt in ([5, 6], [9], [5, 6, 7], [9], [5, 6, 7, 8]):  # similar prompts, not steps of one generation
        assert call(processor, prompt) == [expected_ids(LETTERS, [])]
    processor.reset()


def test_a_generation_keeps_its_number_of_rows():
    processor = GrammarLogitsProcessor(LETTERS)
    call(processor, [5], [6])
    call(processor, [5, a], [6, a])
    assert call(processor, [6, a, 7]) == [expected_ids(LETTERS, [])]
    processor.reset()
    call(processor, [5], [6])
    call(processor, [5, a], [6, a])
    with pytest.raises(HistoryError, match="1 rows continue a generation of 2 rows"):
        call(processor, [6, a, a])


def test_prompt_length_takes_any_rows_at_any_time():
    processor = GrammarLogitsProcessor(LETTERS, prompt_length=1)
    whole = [6, a, a, a, c, EOS, generating.PAD]
    for row in ([5, a, b], [5, a, b, b], [5, b, b, b, c], [5], [6, a], whole, [6, b, a]):
        assert call(processor, row) == [expected_ids(LETTERS, row[1:])]
    with pytest.raises(RejectedToken, match="Check prompt_length"):
        call(processor, [6, a, c, a, c])
    with pytest.raises(HistoryError, match="prompt_length is 1"):
        call(processor, [])
    call(processor, [6, a])
    call(processor, [6, a, b])
    processor.prompt_length = 3  # between two calls that would otherwise be steps of one generation
    assert call(processor, [6, a, b, b]) == [expected_ids(LETTERS, [b])]


def test_an_empty_prompt_begins_again(model):
    """With `inputs_embeds` and no ids, every generation begins with zero columns."""
    processor = GrammarLogitsProcessor(LETTERS)
    embeddings = model.get_input_embeddings()(ids("hello")["input_ids"])
    for _ in range(2):
        oracle = generating.Oracle(processor, [LETTERS], 0)
        output = model.generate(inputs_embeds=embeddings, logits_processor=[oracle], max_new_tokens=9)
        assert re.fullmatch("[ab]{3,6}c", TOKENIZER.decode(output[0], skip_special_tokens=True))
        for row in ([], [a], [a, a]):
            assert call(processor, row) == [expected_ids(LETTERS, row)]


def test_the_groups_of_a_diverse_beam_search_take_turns():
    processor = GrammarLogitsProcessor(LETTERS)
    rows: list[list[int]] = [[9], [9], [9]]
    tokens = random.Random(1)
    for _ in range(4):
        for index, row in enumerate(rows):
            assert call(processor, row) == [expected_ids(LETTERS, row[1:])]
            rows[index] = [*row, tokens.choice([a, a, b])]


@settings(max_examples=75, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 3), st.sampled_from([JSON, LETTERS]))
def test_any_loop_that_asks_before_it_chooses(seed, prompts, beams, grammar):
    """Rows are reordered, duplicated and rolled back by several tokens; generations start again."""
    chance = random.Random(seed)
    processor = GrammarLogitsProcessor(grammar)
    for _ in range(2):
        start = [[chance.randrange(40, 60) for _ in range(3)] for _ in range(prompts)]
        length = len(start[0])
        rows = [list(start[index // beams]) for index in range(prompts * beams)]
        for _ in range(12):
            got = call(processor, *rows)
            assert got == [expected_ids(grammar, row[length:]) for row in rows]
            back = chance.randrange(3) if prompts * beams == 1 else 0
            parents = [index // beams * beams + chance.randrange(beams) for index in range(len(rows))]
            rows = [[*rows[parent], chance.choice(got[parent])] for parent in parents]
            if back and len(rows[0]) > length + back:
                kept = rows[0][: len(rows[0]) - back]
                rows = [[*kept[:-1], chance.choice(expected_ids(grammar, kept[length:-1]))]]
