"""`adapters.transformers` in `model.generate`, on a tiny random model, against matchers that read whole rows.

Every run of `generate` here goes through `Oracle` (`tests.generating`), which knows where the prompt ends and
compares each mask with that of a fresh matcher that has read the whole row; so the tests check more than the
texts. Several generations of one processor are tested in ``test_transformers_generations.py``.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

from adapters import transformers as adapter
from adapters.score_rows import bitmask_row, unpack
from adapters.transformers import GrammarLogitsProcessor, NoAllowedToken, RejectedToken
from equivalence.errors import BatchError, HybridError, VocabularyError
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary
from tests.generating import (
    ANYTHING,
    COMPILER,
    EOS,
    INF,
    JSON,
    LETTERS,
    PAD,
    TOKENIZER,
    VOCABULARY,
    WORDS,
    Oracle,
    call,
    check_json,
    expected_ids,
    ids,
    make_model,
    run,
)

pytestmark = pytest.mark.usefixtures("one_thread")


# --- decoding methods ---


def test_greedy(model):
    [text] = run(model, GrammarLogitsProcessor(JSON), [JSON], ["Give me JSON: "], do_sample=False)
    check_json(text)


@pytest.mark.parametrize("seed", range(4))
def test_sampling(model, seed):
    options = {"do_sample": True, "num_return_sequences": 3, "seed": seed, "top_k": 20, "top_p": 0.9}
    for text in run(
        model, GrammarLogitsProcessor(JSON), [JSON], ["JSON: ", "again, with a longer prompt"], **options
    ):
        check_json(text)


def test_batch_with_one_grammar_pads_on_the_left_and_finishes_at_different_times(model):
    processor = GrammarLogitsProcessor(LETTERS)
    prompts = ["a", "a much longer prompt", "ccc"]
    texts = [
        text
        for seed in range(4)
        for text in run(model, processor, [LETTERS], prompts, do_sample=True, seed=seed)
    ]
    assert len({len(text) for text in texts}) > 1, "no row finished before another: the test shows nothing"
    assert all(re.fullmatch("[ab]{3,6}c", text) for text in texts)


def test_batch_with_a_grammar_per_prompt(model):
    grammars = [WORDS, LETTERS]
    texts = run(model, GrammarLogitsProcessor(grammars), grammars, ["one", "two and more"], do_sample=True)
    assert re.fullmatch("yes|no|maybe", texts[0])
    assert re.fullmatch("[ab]{3,6}c", texts[1])


def test_a_grammar_per_prompt_follows_the_repeated_rows(model):
    grammars = [WORDS, LETTERS]
    for options in ({"do_sample": True}, {"do_sample": False, "num_beams": 3}):
        texts = run(
            model,
            GrammarLogitsProcessor(grammars),
            grammars,
            ["one", "two"],
            num_return_sequences=2,
            **options,
        )
        assert all(re.fullmatch("yes|no|maybe", text) for text in texts[:2])
        assert all(re.fullmatch("[ab]{3,6}c", text) for text in texts[2:])


def test_equal_prompts_keep_their_own_grammars():
    a, b = (TOKENIZER.convert_tokens_to_ids(letter) for letter in "ab")
    grammars = [COMPILER.compile_regex("[ab]+c"), COMPILER.compile_regex("[ab]+d")]
    processor = GrammarLogitsProcessor(grammars)
    reordered = [[9, a, a], [9, b, a], [9, b, a], [9, a, a]]
    for rows in ([[9]] * 4, [[9, a], [9, b], [9, a], [9, b]], reordered):
        expected = [expected_ids(grammars[index // 2], row[1:]) for index, row in enumerate(rows)]
        assert call(processor, *rows) == expected


def test_rows_that_no_grammar_belongs_to():
    with pytest.raises(BatchError, match="3 rows cannot be shared among 2 grammars"):
        call(GrammarLogitsProcessor([WORDS, LETTERS]), [1], [2], [3])
    with pytest.raises(BatchError, match="no grammar"):
        GrammarLogitsProcessor([])


@pytest.mark.parametrize("grammar", [JSON, LETTERS], ids=["json", "letters"])
def test_beam_search(model, grammar):
    processor = GrammarLogitsProcessor(grammar)
    options = {"num_beams": 3, "num_return_sequences": 2, "do_sample": False}
    texts = run(model, processor, [grammar], ["beams", "and more of them"], **options)
    assert len(set(texts)) == 4 or grammar is JSON
    for text in texts:
        check_json(text) if grammar is JSON else re.fullmatch("[ab]{3,6}c", text)[0]


def test_more_beams_than_sentences_add_nothing_behind_a_sentence(model):
    """Beam search then continues with finished rows, for which only a stop token is allowed."""
    options = {"num_beams": 8, "num_return_sequences": 8, "do_sample": False, "max_new_tokens": 12}
    texts = run(model, GrammarLogitsProcessor(WORDS), [WORDS], ["Really?"], **options)
    assert set(texts) == {"yes", "no", "maybe"}


@pytest.mark.parametrize("seed", range(3))
def test_sampled_beams(model, seed):
    """If the grammar allows too few tokens, `torch.multinomial` adds tokens of probability zero."""
    options = {"num_beams": 4, "do_sample": True, "seed": seed}
    for text in run(model, GrammarLogitsProcessor(JSON), [JSON], ["beams", "and more"], **options):
        check_json(text)


@pytest.mark.parametrize("do_sample", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_assisted_decoding(model, do_sample, seed):
    processor = GrammarLogitsProcessor(JSON)
    assistant = make_model(7 + seed)
    assistant.generation_config.num_assistant_tokens = 4
    assistant.generation_config.assistant_confidence_threshold = 0.0
    options = {"do_sample": do_sample, "seed": seed}
    [text] = run(model, processor, [JSON], ["assist"], assistant_model=assistant, **options)
    check_json(text)
    if not do_sample:  # an assistant must not change what greedy search finds
        assert [text] == run(model, GrammarLogitsProcessor(JSON), [JSON], ["assist"], **options)


def test_assisted_decoding_goes_back_and_forth(model):
    processor = GrammarLogitsProcessor(LETTERS)
    inputs = ids("ab")
    oracle = Oracle(processor, [LETTERS], inputs["input_ids"].shape[1])
    model.generate(
        **inputs, logits_processor=[oracle], assistant_model=make_model(3), max_new_tokens=12, do_sample=False
    )
    steps = np.diff(oracle.lengths)
    assert steps.min() < 0, "lengths never went back: the test shows nothing"


def test_prompt_lookup(model):
    """Prompt lookup passes the same tensor of scores several times: in-place masks would accumulate."""
    processor = GrammarLogitsProcessor(LETTERS)
    for prompt in ("abababac abba ab", "aaabbbcaaaaac a", "bababc"):
        [text] = run(model, processor, [LETTERS], [prompt], prompt_lookup_num_tokens=4, do_sample=False)
        assert re.fullmatch("[ab]{3,6}c", text)
        assert [text] == run(model, processor, [LETTERS], [prompt], do_sample=False)


def test_drafts_that_nobody_masked():
    """Some draft models never call the processor: the model's own masks must reject their drafts."""
    a, b, z = (TOKENIZER.convert_tokens_to_ids(letter) for letter in "abz")
    processor = GrammarLogitsProcessor(LETTERS, on_masked_token="finish")
    for row in ([9], [9, a], [9, a, z], [9, a, z, a], [9, a, b], [9, a, b, z], [9, a, b, b], [9, a, b, b, a]):
        legal = row[1 : row.index(z)] if z in row else row[1:]
        assert call(processor, row) == [[EOS] if z in row else expected_ids(LETTERS, legal)]


def test_an_encoder_decoder_model():
    torch.manual_seed(0)
    config = {
        "vocab_size": len(TOKENIZER),
        "d_model": 32,
        "d_kv": 16,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 2,
    }
    special = {"decoder_start_token_id": PAD, "pad_token_id": PAD, "eos_token_id": EOS}
    t5 = T5ForConditionalGeneration(T5Config(**config, **special)).eval()
    processor = GrammarLogitsProcessor(JSON)
    for text, beams in (("translate this", 1), ("translate that", 1), ("and that", 3)):
        oracle = Oracle(processor, [JSON], 1)
        output = t5.generate(**ids(text), logits_processor=[oracle], num_beams=beams, max_new_tokens=40)
        check_json(TOKENIZER.decode(output[0], skip_special_tokens=True))


# --- rows that end, rows that cannot go on ---


def test_rows_ended_by_a_stop_string_are_left_alone(model):
    grammar = COMPILER.compile_regex("[ab]{6}c")
    options = {"stop_strings": ["ba"], "tokenizer": TOKENIZER, "do_sample": True, "max_new_tokens": 20}
    processor = GrammarLogitsProcessor(grammar, pad_token_id=PAD)
    lengths = set()
    for seed in range(4):
        for text in run(model, processor, [grammar], ["a", "bb", "c"], seed=seed, **options):
            assert re.fullmatch("a*b+a|[ab]*ba?|[ab]{6}c", text)
            lengths.add(len(text))
    assert len(lengths) > 1


def test_a_finished_row_may_only_stop_again():
    a, c = (TOKENIZER.convert_tokens_to_ids(letter) for letter in "ac")
    processor = GrammarLogitsProcessor(LETTERS)
    rows = [[9, a, a, a, c, EOS, PAD, PAD], [9, a, a, a, a, a, a, c]]
    for length in range(1, 9):
        left = call(processor, *(row[:length] for row in rows))
    assert left[0] == [EOS]
    scores = torch.zeros(2, VOCABULARY.size)
    scores[:, EOS] = -INF  # no token is left for a row that has ended: not an error
    rows[1].append(EOS)
    rows[0].append(PAD)
    assert torch.equal(processor(torch.tensor(rows), scores), scores)


def test_another_stop_token(model):
    stop = TOKENIZER.convert_tokens_to_ids("yes")
    processor = GrammarLogitsProcessor(LETTERS, override_stop_tokens=stop)
    texts = run(model, processor, [LETTERS], ["a", "bcd"], do_sample=True, eos_token_id=stop, stops=(stop,))
    assert all(re.fullmatch("[ab]{3,6}c(yes)?", text) for text in texts)
    assert any(text.endswith("yes") for text in texts)


def test_min_new_tokens_against_the_grammar(model):
    with pytest.raises(NoAllowedToken, match=r"row 0: .*grammar allows 1: 2\d\d .*min_new_tokens"):
        run(model, GrammarLogitsProcessor(WORDS), [WORDS], ["a"], min_new_tokens=10)
    with pytest.raises(HybridError):
        run(model, GrammarLogitsProcessor(WORDS), [WORDS], ["a"], min_new_tokens=10)


def test_a_grammar_that_no_token_can_go_on_with():
    tokens = [b"a", b"b", b""]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[2], special_token_ids=[2])
    processor = GrammarLogitsProcessor(GrammarCompiler(vocabulary).compile_regex("ax"))
    processor(torch.tensor([[1]]), torch.zeros(1, 3))
    with pytest.raises(NoAllowedToken, match="no token of the vocabulary"):
        processor(torch.tensor([[1, 0]]), torch.zeros(1, 3))


def test_a_token_chosen_against_the_mask():
    a, z = (TOKENIZER.convert_tokens_to_ids(letter) for letter in "az")
    for on_masked_token in ("error", "finish"):
        processor = GrammarLogitsProcessor(LETTERS, on_masked_token=on_masked_token)
        call(processor, [9], [9])
        call(processor, [9, a], [9, a])
        if on_masked_token == "error":
            with pytest.raises(
                RejectedToken,
                match=rf"row 1: token {z} \(b'z'\) at position 1 .* after b'a'; expected ",
            ):
                call(processor, [9, a, a], [9, a, z])
        else:
            assert call(processor, [9, a, a], [9, a, z]) == [expected_ids(LETTERS, [a, a]), [EOS]]
            assert call(processor, [9, a, a, a], [9, a, a, z])[1] == [EOS]
    with pytest.raises(ValueError, match="on_masked_token"):
        GrammarLogitsProcessor(LETTERS, on_masked_token="ignore")  # type: ignore[arg-type]


# --- scores ---


def test_logits_wider_than_the_vocabulary():
    wide = make_model(1, len(TOKENIZER) + 37)
    for text in run(wide, GrammarLogitsProcessor(JSON), [JSON], ["a", "bb"], do_sample=True, num_beams=1):
        check_json(text)


def test_logits_narrower_than_the_vocabulary():
    narrow = torch.zeros(1, VOCABULARY.size - 1)
    with pytest.raises(
        VocabularyError, match=f"have {VOCABULARY.size - 1} columns.*has {VOCABULARY.size} ids"
    ):
        GrammarLogitsProcessor(JSON)(torch.tensor([[1]]), narrow)


def test_grammars_over_different_vocabularies():
    other = GrammarCompiler(Vocabulary.from_bytes([b"a", b""], stop_token_ids=[1])).compile_regex("a")
    with pytest.raises(VocabularyError, match="2 different vocabularies"):
        GrammarLogitsProcessor([WORDS, other])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dtypes_and_strides(dtype):
    scores = torch.randn(2, 3, VOCABULARY.size + 5).to(dtype)[:, 1, :]  # as assisted decoding passes them
    masked = GrammarLogitsProcessor(WORDS)(torch.tensor([[1], [2]]), scores)
    allowed = expected_ids(WORDS, [])
    assert masked.dtype == dtype
    assert torch.equal(masked[:, allowed], scores[:, allowed])
    masked[:, allowed] = -INF
    assert torch.isneginf(masked).all()


def test_bits_of_a_row():
    for chosen in ([], [0, 31, 32, 69]):
        row = bitmask_row(chosen, 70)
        assert row.shape == (3,)
        assert torch.nonzero(unpack(row, 70)).flatten().tolist() == (chosen or list(range(70)))


def test_not_for_continuous_batching():
    assert GrammarLogitsProcessor.supports_continuous_batching is False


def test_a_long_row_costs_the_same_per_token():
    """No step may read the row again: the matcher reads each token once and is never copied."""
    counts = {"accept": 0, "fork": 0}

    class Counting:
        def __init__(self, *args, **options) -> None:
            self.inner = GrammarMatcher(*args, **options)

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def accept_token(self, token):
            counts["accept"] += 1
            return self.inner.accept_token(token)

        def fork(self):
            counts["fork"] += 1
            return self.inner.fork()

    a = TOKENIZER.convert_tokens_to_ids("a")
    rows = torch.cat([torch.tensor([[9], [8]]), torch.full((2, 300), a)], dim=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapter, "GrammarMatcher", Counting)
        processor = GrammarLogitsProcessor(ANYTHING)
        for length in range(1, 302):
            processor(rows[:, :length], torch.zeros(2, VOCABULARY.size))
    assert counts == {"accept": 600, "fork": 0}
