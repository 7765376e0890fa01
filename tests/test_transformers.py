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

from adapters.score_rows import unpack
from adapters.transformers import GrammarLogitsProcessor, NoAllowedToken, RejectedToken
from equivalence.errors import BatchError, VocabularyError
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
from tests import generating
from tests.generating import EOS, JSON, LETTERS, TOKENIZER, VOCABULARY, WORDS, call, expected_ids, ids, run

PAD = TOKENIZER.pad_token_id

pytestmark = pytest.mark.usefixtures("one_thread")

A, B, C, Z = (TOKENIZER.convert_tokens_to_ids(letter) for letter in "abcz")


def check(grammar, texts: list[str]) -> None:
    """Assert that every text is one of the grammar, and whole."""
    for text in texts:
        if grammar is JSON:
            generating.check_json(text)
        else:
            assert re.fullmatch("[ab]{3,6}c" if grammar is LETTERS else "yes|no|maybe", text)


# --- decoding methods ---

WAYS = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "num_return_sequences": 3, "top_k": 20, "top_p": 0.9},
    "beams": {"do_sample": False, "num_beams": 3, "num_return_sequences": 2},
    # if the grammar allows too few tokens, `torch.multinomial` adds tokens of probability zero
    "sampled beams": {"do_sample": True, "num_beams": 4},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("grammars", [[JSON], [LETTERS], [WORDS, LETTERS]], ids=["json", "letters", "two"])
def test_ways_of_decoding(model, grammars, way):
    """If there is a grammar for each prompt, it follows the repeated rows."""
    processor, prompts = GrammarLogitsProcessor(grammars), ["JSON: ", "a longer prompt"]
    for seed in range(3 if WAYS[way]["do_sample"] else 1):
        texts = run(model, processor, grammars, prompts, seed=seed, **WAYS[way])
        for at, text in enumerate(texts):
            check(grammars[at * len(grammars) // len(texts)], [text])


def test_equal_prompts_keep_their_own_grammars():
    grammars = [generating.COMPILER.compile_regex(regex) for regex in ("[ab]+c", "[ab]+d")]
    processor = GrammarLogitsProcessor(grammars)
    reordered = [[9, A, A], [9, B, A], [9, B, A], [9, A, A]]
    for rows in ([[9]] * 4, [[9, A], [9, B], [9, A], [9, B]], reordered):
        expected = [expected_ids(grammars[index // 2], row[1:]) for index, row in enumerate(rows)]
        assert call(processor, *rows) == expected


def test_more_beams_than_sentences_add_nothing_behind_a_sentence(model):
    """Beam search then continues with finished rows, for which only a stop token is allowed."""
    options = {"num_beams": 8, "num_return_sequences": 8, "do_sample": False, "max_new_tokens": 12}
    texts = run(model, GrammarLogitsProcessor(WORDS), [WORDS], ["Really?"], **options)
    assert set(texts) == {"yes", "no", "maybe"}


@pytest.mark.parametrize("do_sample", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_assisted_decoding(model, do_sample, seed):
    assistant = generating.make_model(7 + seed)
    assistant.generation_config.num_assistant_tokens = 4
    assistant.generation_config.assistant_confidence_threshold = 0.0
    options = {"do_sample": do_sample, "seed": seed}
    texts = run(model, GrammarLogitsProcessor(JSON), [JSON], ["assist"], assistant_model=assistant, **options)
    check(JSON, texts)
    if not do_sample:  # an assistant must not change what greedy search finds
        assert texts == run(model, GrammarLogitsProcessor(JSON), [JSON], ["assist"], **options)


def test_prompt_lookup(model):
    """Prompt lookup passes the same tensor of scores several times: in-place masks would accumulate."""
    processor = GrammarLogitsProcessor(LETTERS)
    for prompt in ("abababac abba ab", "aaabbbcaaaaac a", "bababc"):
        texts = run(model, processor, [LETTERS], [prompt], prompt_lookup_num_tokens=4, do_sample=False)
        check(LETTERS, texts)
        assert texts == run(model, processor, [LETTERS], [prompt], do_sample=False)


def test_drafts_that_nobody_masked():
    """Some draft models never call the processor: the model's own masks must reject their drafts."""
    processor = GrammarLogitsProcessor(LETTERS, on_masked_token="finish")
    for row in ([9], [9, A], [9, A, Z], [9, A, Z, A], [9, A, B], [9, A, B, Z], [9, A, B, B], [9, A, B, B, A]):
        assert call(processor, row) == [[EOS] if Z in row else expected_ids(LETTERS, row[1:])]


def test_an_encoder_decoder_model():
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(TOKENIZER), d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2,
        decoder_start_token_id=PAD, pad_token_id=PAD, eos_token_id=EOS,
    )  # fmt: skip
    t5 = T5ForConditionalGeneration(config).eval()
    processor = GrammarLogitsProcessor(JSON)
    for text, beams in (("translate this", 1), ("translate that", 1), ("and that", 3)):
        oracle = generating.Oracle(processor, [JSON], 1)
        output = t5.generate(**ids(text), logits_processor=[oracle], num_beams=beams, max_new_tokens=40)
        check(JSON, TOKENIZER.batch_decode(output, skip_special_tokens=True))


# --- rows that end, rows that cannot go on ---


def test_rows_ended_by_a_stop_string_are_left_alone(model):
    grammar = generating.COMPILER.compile_regex("[ab]{6}c")
    options = {"stop_strings": ["ba"], "tokenizer": TOKENIZER, "do_sample": True, "max_new_tokens": 20}
    processor = GrammarLogitsProcessor(grammar, pad_token_id=PAD)
    lengths = set()
    for seed in range(4):
        for text in run(model, processor, [grammar], ["a", "bb", "c"], seed=seed, **options):
            assert re.fullmatch("a*b+a|[ab]*ba?|[ab]{6}c", text)
            lengths.add(len(text))
    assert len(lengths) > 1


def test_a_finished_row_may_only_stop_again():
    processor = GrammarLogitsProcessor(LETTERS)
    rows = [[9, A, A, A, C, EOS, PAD, PAD], [9, A, A, A, A, A, A, C]]
    for length in range(1, 9):
        left = call(processor, *(row[:length] for row in rows))
    assert left[0] == [EOS]
    scores = torch.zeros(2, VOCABULARY.size)
    scores[:, EOS] = -torch.inf  # no token is left for a row that has ended: not an error
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
    with pytest.raises(NoAllowedToken, match=r"allows 1 token: 2\d\d \(a stop token\); .*min_new_tokens"):
        run(model, GrammarLogitsProcessor(WORDS), [WORDS], ["a"], min_new_tokens=10)


def test_a_grammar_that_no_token_can_go_on_with():
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b""], stop_token_ids=[2], special_token_ids=[2])
    processor = GrammarLogitsProcessor(GrammarCompiler(vocabulary).compile_regex("ax"))
    processor(torch.tensor([[1]]), torch.zeros(1, 3))
    with pytest.raises(NoAllowedToken, match="no token of the vocabulary"):
        processor(torch.tensor([[1, 0]]), torch.zeros(1, 3))


@pytest.mark.parametrize("on_masked_token", ["error", "finish"])
def test_a_token_chosen_against_the_mask(on_masked_token):
    processor = GrammarLogitsProcessor(LETTERS, on_masked_token=on_masked_token)
    call(processor, [9], [9])
    call(processor, [9, A], [9, A])
    if on_masked_token == "error":
        message = rf"row 1: token {Z} \(b'z'\) at position 1 .* after b'a'; expected "
        with pytest.raises(RejectedToken, match=message):
            call(processor, [9, A, A], [9, A, Z])
    else:
        assert call(processor, [9, A, A], [9, A, Z]) == [expected_ids(LETTERS, [A, A]), [EOS]]
        assert call(processor, [9, A, A, A], [9, A, A, Z])[1] == [EOS]


# --- scores ---


def test_grammars_that_do_not_fit_are_refused():
    with pytest.raises(BatchError, match="3 rows cannot be shared among 2 grammars"):
        call(GrammarLogitsProcessor([WORDS, LETTERS]), [1], [2], [3])
    size = VOCABULARY.size
    with pytest.raises(VocabularyError, match=f"have {size - 1} columns.*has {size} ids"):
        GrammarLogitsProcessor(JSON)(torch.tensor([[1]]), torch.zeros(1, size - 1))
    other = GrammarCompiler(Vocabulary.from_bytes([b"a", b""], stop_token_ids=[1])).compile_regex("a")
    with pytest.raises(VocabularyError, match="2 different vocabularies"):
        GrammarLogitsProcessor([WORDS, other])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_dtypes_and_strides_of_logits_wider_than_the_vocabulary(dtype):
    scores = torch.randn(2, 3, VOCABULARY.size + 5).to(dtype)[:, 1, :]  # as assisted decoding passes them
    masked = GrammarLogitsProcessor(WORDS)(torch.tensor([[1], [2]]), scores)
    allowed = expected_ids(WORDS, [])
    assert masked.dtype == dtype
    assert torch.equal(masked[:, allowed], scores[:, allowed])
    masked[:, allowed] = -torch.inf
    assert torch.isneginf(masked).all()


def test_a_long_row_costs_the_same_per_token(monkeypatch):
    """No step may read the row again: the matcher reads each token once and is never copied."""
    accept, read = GrammarMatcher.accept_token, []

    def counted(matcher, token):
        read.append(token)
        return accept(matcher, token)

    monkeypatch.setattr(GrammarMatcher, "accept_token", counted)
    monkeypatch.setattr(GrammarMatcher, "fork", None)
    rows = torch.cat([torch.tensor([[9], [8]]), torch.full((2, 300), A)], dim=1)
    processor = GrammarLogitsProcessor(generating.ANYTHING)
    for length in range(1, 302):
        processor(rows[:, :length], torch.zeros(2, VOCABULARY.size))
    assert len(read) == 600


def test_a_processor_that_was_used_in_inference_mode_works_outside_of_it():
    processor = GrammarLogitsProcessor(WORDS, pad_token_id=PAD)
    [prompt] = ids("so: ")["input_ids"].tolist()
    with torch.inference_mode():
        processor(torch.tensor([prompt]), torch.zeros(1, VOCABULARY.size))
    scores = torch.zeros(1, VOCABULARY.size)
    rows = torch.tensor([[*prompt, PAD]])  # a row that another criterion ended
    [allowed] = torch.nonzero(processor(rows, scores)[0] > -torch.inf).tolist()
    assert allowed == [EOS]


@pytest.mark.parametrize("options", [{}, {"opportunistic": 1.0}], ids=str)
def test_the_default_device_does_not_matter(options):
    """Programs set it to the device of their model; masks are made on the CPU."""
    [prompt], scores = ids("so: ")["input_ids"], torch.zeros(1, VOCABULARY.size)
    with torch.device("meta"):
        masked = GrammarLogitsProcessor(WORDS, **options)(prompt[None], scores)
        assert allocate_token_bitmask(1, 5).device.type == "cpu"
        assert unpack(torch.from_numpy(np.array([[5]], np.int32)), 3).tolist() == [[True, False, True]]
        for strategy in ("representatives", "engine"):
            compiled = GrammarCompiler(VOCABULARY, strategy=strategy).compile_regex("x")
            GrammarMatcher(compiled).fill_next_token_bitmask(allocate_token_bitmask(1, VOCABULARY.size))
    assert masked.device.type == "cpu" and (masked > -torch.inf).any()
