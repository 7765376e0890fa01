"""Checking the model's own choice first gives the same output as masks alone.

What: greedy texts token by token; the distribution of one step over 100,000 draws; no mask is computed if no
choice is refused; prompts healed in `generate`; refused arguments.
When: after a change of `adapters.opportunistic`, or of the processor.
Limits: a tiny random model; ``python -m bench opportunistic`` measures the speed.
"""

from __future__ import annotations

from contextlib import nullcontext
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GenerationConfig

from adapters.opportunistic import Sampling, is_sure, missing, sampling_from
from adapters.transformers import GrammarLogitsProcessor, NoAllowedToken
from equivalence.errors import ArgumentError, BatchError, BudgetExceeded
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary
from hybrid.completion.completion import Completion
from hybrid.healing import HealingMatcher, heal
from tests.generating import ANYTHING, EOS, JSON, LETTERS, TOKENIZER, VOCABULARY, generated, make_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model():
    return make_model(11)


def bytes_of(row: list[int]) -> bytes:
    return b"".join(VOCABULARY.tokens[token] for token in row)


@pytest.mark.parametrize("strategy", ["classifier", "representatives", "engine"])
def test_greedy_texts_are_equal(model, strategy: str) -> None:
    compiler, asked, refused = GrammarCompiler(VOCABULARY, strategy=strategy), 0, 0
    for text in ('[a-z0-9 "]{2,20}', r"[^\"{]{5,25}", '"yes" | "no" | "ab"+ "true"'):
        grammar = compiler.compile_grammar(f"root ::= {text}")
        for prompts in (["a"], ["Give me", "something longer", "x"]):
            own = GrammarLogitsProcessor(grammar, opportunistic=0)
            expected = generated(model, prompts, GrammarLogitsProcessor(grammar))
            assert generated(model, prompts, own) == expected
            asked, refused = asked + own.asked, refused + own.refused
    assert 0 < refused < asked, "all choices were alike: the test shows nothing"


def test_no_mask_is_made_where_nothing_is_refused(monkeypatch) -> None:
    processor = GrammarLogitsProcessor(ANYTHING, opportunistic=0, prompt_length=1)
    monkeypatch.setattr(GrammarMatcher, "fill_next_token_bitmask", None)
    scores = torch.zeros(2, VOCABULARY.size)
    token = TOKENIZER.convert_tokens_to_ids("yes")
    scores[:, token] = 3.0
    rows = torch.tensor([[5], [6]])
    masked = processor(rows, scores)
    assert (masked[:, token] == 3).all() and (masked > -torch.inf).sum() == 2
    assert (scores[:, 0] == 0).all() and (processor.asked, processor.refused) == (2, 0)


SAMPLINGS = (
    Sampling(0.7), Sampling(1.0, top_k=3), Sampling(1.3, top_p=0.6), Sampling(0.9, min_p=0.3),
    Sampling(0.8, top_k=4, top_p=0.7, min_p=0.1), Sampling(1.0, top_k=1), Sampling(1.0, top_p=0.0),
)  # fmt: skip


def warped(masked: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The distribution from which `generate` draws after a mask is applied."""
    config = GenerationConfig(
        do_sample=True, temperature=sampling.temperature, top_k=sampling.top_k, top_p=sampling.top_p,
        min_p=sampling.min_p or None,
    )  # fmt: skip
    processors = make_model(1)._get_logits_processor(config)
    return torch.softmax(processors(None, masked.clone()), -1)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_both_choices_together_are_the_masked_distribution(sampling: Sampling, data: st.DataObject) -> None:
    # all draws of both choices with their probabilities, for logits with ties and any mask
    size = data.draw(st.integers(2, 9))
    values = st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.floats(-4, 4, width=32))
    logits = torch.tensor([data.draw(st.lists(values, min_size=size, max_size=size))])
    bits = data.draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(any))
    allowed = torch.tensor([bits])
    masked = logits.masked_fill(~allowed, -torch.inf)
    own = torch.softmax(logits / sampling.temperature, -1)
    every = torch.arange(size)[None]
    sure = is_sure(own, every, sampling)
    one_by_one = torch.cat([is_sure(own, every[:, at : at + 1], sampling) for at in range(size)], 1)
    assert torch.equal(sure, one_by_one)
    first = own * sure * allowed
    left = missing(logits, masked, sampling)
    together = first + (1 - first.sum()) * left / left.sum()
    assert torch.allclose(together, warped(masked, sampling), atol=2e-5)


@pytest.mark.parametrize("given", [0.7, *SAMPLINGS[1:5]], ids=str)
def test_the_distribution_of_a_step(given: float | Sampling) -> None:
    sampling = Sampling(given) if isinstance(given, float) else given
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"ab", b"c", b"d", b""], stop_token_ids=5)
    grammar = GrammarCompiler(vocabulary).compile_grammar('root ::= ("a" | "b" | "d")+')
    logits = torch.tensor([0.3, -0.5, 1.0, 1.5, 0.2, 0.1, 0.7])  # one more than the number of ids
    processor = GrammarLogitsProcessor(grammar, opportunistic=given, prompt_length=1)
    torch.manual_seed(4)
    # rows in one call share the processor's work; each draws for itself
    count, found = 20_000, np.zeros(7)
    for _ in range(10):
        masked = processor(torch.zeros(count // 10, 1, dtype=torch.long), logits.expand(count // 10, 7))
        assert ((masked > -torch.inf).sum(-1) == 1).all()
        found += np.bincount(masked.argmax(-1).numpy(), minlength=7)
        processor.reset()
    behind = logits.masked_fill(torch.tensor([False, False, False, True, False, True, True]), -torch.inf)
    expected = warped(behind[None], sampling)[0].double().numpy() * count
    kept = expected > 0
    assert 0 < processor.refused < processor.asked and not found[~kept].any()
    distance = ((found[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    half = torch.tensor((kept.sum() - 1) / 2, dtype=torch.float64)
    assert torch.special.gammaincc(half, torch.tensor(distance / 2, dtype=torch.float64)) > 1e-4


@pytest.mark.parametrize("strategy", ["classifier", "engine"])
def test_the_distribution_where_a_limit_cannot_be_kept(strategy: str) -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"ab", b"c", b"d", b""], stop_token_ids=5)
    grammar = GrammarCompiler(vocabulary, strategy=strategy).compile_grammar('root ::= "d" | "c" [ab]{9}')
    count, sampling = 2_000, Sampling(1.0, top_k=2)
    options = {"max_new_tokens": 3, "prompt_length": 1}
    rows = torch.tensor([[0, 3]]).expand(count, -1)  # a "c", which a mask would forbid
    logits = torch.tensor([[2.0, 0.0, -1.0, 1.5, 1.0, 0.0]])
    processor = GrammarLogitsProcessor(grammar, opportunistic=sampling, **options)
    torch.manual_seed(4)
    masked = processor(rows, logits.expand(count, -1))
    expected = warped(GrammarLogitsProcessor(grammar, **options)(rows[:1], logits), sampling)[0]
    found = (masked > -torch.inf).double().mean(0)
    assert 0 < processor.refused < processor.asked == count
    assert (found - expected).abs().max() < 0.05


@pytest.mark.parametrize("strategy", ["classifier", "engine"])
def test_a_completion_that_takes_too_much_ends_nothing(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", b""], stop_token_ids=3)
    grammar = GrammarCompiler(vocabulary, strategy=strategy).compile_grammar('root ::= "c" [ab]{2}')
    processor = GrammarLogitsProcessor(grammar, opportunistic=1.0, max_new_tokens=3, prompt_length=1)
    error = BudgetExceeded("a token limit needs more than 9 bytes")
    for name in ("can_complete", "restrict"):
        monkeypatch.setattr(Completion, name, Mock(side_effect=error))
    for row, wanted, expected in (([0], 2, [2]), ([0, 2], 2, [0, 1]), ([0, 2, 1], 0, [0])):
        scores = torch.full((1, 4), -99.0)
        scores[0, wanted] = 99.0
        with pytest.warns(UserWarning, match="row 0 may be cut off") if len(expected) > 1 else nullcontext():
            masked = processor(torch.tensor([row]), scores)
        assert torch.nonzero(masked[0] > -torch.inf).flatten().tolist() in [[one] for one in expected]


def test_what_generate_would_cut_has_no_effect(model) -> None:
    # a temperature alone changes nothing else; generate's top_k of 1 gets a single token to choose from
    torch.manual_seed(1)
    processor = GrammarLogitsProcessor(JSON, opportunistic=5.0)
    options = {"do_sample": True, "top_k": 1, "max_new_tokens": 6}
    assert len({tuple(generated(model, ["a"], processor, **options)[0]) for _ in range(12)}) > 1


def test_the_configuration_of_generate() -> None:
    assert sampling_from(GenerationConfig()) == Sampling(0.0)
    assert sampling_from(GenerationConfig(do_sample=True)) == Sampling(1.0, 50)
    config = GenerationConfig(do_sample=True, temperature=0.5, top_k=0, top_p=0.9, min_p=0.1)
    assert sampling_from(config) == Sampling(0.5, 0, 0.9, 0.1)
    for option in ({"typical_p": 0.5}, {"num_beams": 2}, {"epsilon_cutoff": 0.1}):
        with pytest.raises(ArgumentError, match=next(iter(option))):
            sampling_from(GenerationConfig(do_sample=True, **option))


@pytest.mark.parametrize("strategy", ["classifier", "representatives", "engine"])
@pytest.mark.parametrize("prefix", ["", 'a":'])
def test_limits_of_tokens(model, strategy: str, prefix: str) -> None:
    grammar = GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(
        'root ::= "{" ("\\"yes\\":" ("true" | root)) "}" | [a-z]{3,9} "x"'
    )
    matcher = GrammarLogitsProcessor(grammar, prefix=prefix).new_matcher()
    shortest = next(n for n in range(100) if matcher.can_complete_within(n))
    with pytest.raises(ArgumentError, match=f"needs {shortest} tokens"):
        GrammarLogitsProcessor(grammar, prefix=prefix, max_new_tokens=shortest - 1)
    for limit in (shortest, shortest + 1, shortest + 4):
        texts, options = [], {"max_new_tokens": limit, "prefix": prefix}
        for opportunistic in (None, 0):
            processor = GrammarLogitsProcessor(grammar, opportunistic=opportunistic, **options)
            texts.append(generated(model, ["a", "Give me"], processor, max_new_tokens=limit))
            for row in texts[-1]:
                matcher = HealingMatcher(grammar, prefix)
                assert all(matcher.accept_token(token) for token in row) and matcher.is_completed()
        assert texts[0] == texts[1]


def test_no_token_at_all() -> None:
    scores = torch.full((1, VOCABULARY.size), -torch.inf)
    for opportunistic in (0, 1.0):
        processor = GrammarLogitsProcessor(ANYTHING, opportunistic=opportunistic, prompt_length=1)
        with pytest.raises(NoAllowedToken):
            processor(torch.tensor([[5]]), scores)


def test_misuse(model) -> None:
    wrongs = (-1, True, "x", float("nan"), float("inf"), Sampling(1.0, top_k=1.5), Sampling(1.0, top_p=2))
    for wrong in wrongs:
        with pytest.raises(ArgumentError, match="opportunistic"):
            GrammarLogitsProcessor(JSON, opportunistic=wrong)
    with pytest.raises(ArgumentError, match="beam search"):
        generated(model, ["a"], GrammarLogitsProcessor(LETTERS, opportunistic=0), num_beams=3)


# --- healed prompts --------------------------------------------------------------------------------------


def test_prompts_are_healed_in_generate(model) -> None:
    padded = TOKENIZER("x")["input_ids"]
    for text in ("say ye", 'is it "', "tr"):
        healed = heal(TOKENIZER(text)["input_ids"], VOCABULARY)
        processor = GrammarLogitsProcessor(JSON, prefix=healed.prefix)
        prompt = torch.tensor([padded + healed.prompt_ids])
        output = model.generate(prompt, logits_processor=[processor], max_new_tokens=80, do_sample=False)
        read = bytes_of([token for token in output[0, prompt.shape[1] :].tolist() if token != EOS])
        assert read.startswith(healed.prefix)
        assert GrammarMatcher(JSON).accept_string(read[len(healed.prefix) :])
        assert processor.is_complete(output[0]) == (EOS in output[0])


def test_a_prefix_for_each_prompt(model) -> None:
    prefixes = ["ab", b"t", ""]
    processor = GrammarLogitsProcessor(LETTERS, prefix=prefixes)
    for row, start in zip(generated(model, ["a", "b", "c"], processor), (b"ab", b"t", b""), strict=True):
        read = bytes_of(row)
        assert read.startswith(start) and GrammarMatcher(LETTERS).accept_string(read[len(start) :])
    with pytest.raises(BatchError, match="3 prefixes"):
        generated(model, ["a", "b"], GrammarLogitsProcessor(LETTERS, prefix=prefixes))
    with pytest.raises(BatchError, match="3 prefixes cannot be shared among 2 grammars"):
        GrammarLogitsProcessor([LETTERS, JSON], prefix=prefixes)
    for grammars, prefix in ((2, ["a", "ab", "", "b"]), (4, ["a", "ab"])):
        processor = GrammarLogitsProcessor([LETTERS] * grammars, prefix=prefix)
        rows = generated(model, ["a"] * 4, processor)
        for row, start in zip(rows, np.repeat(prefix, 4 // len(prefix)), strict=True):
            assert bytes_of(row).startswith(start.encode())
    for wrong in ([], 3, [3]):
        with pytest.raises(ArgumentError):
            GrammarLogitsProcessor(LETTERS, prefix=wrong)


def test_scores_that_differ_where_shares_do_not_are_not_sure() -> None:
    shares = torch.softmax(torch.tensor([[-1.0, 0.0, 0.0, 0.0, -1.9e-20]]), dim=-1)
    every = torch.arange(5).expand_as(shares)
    assert not is_sure(shares, every, Sampling(1.0, top_k=3)).any()  # top-k drops the last of the four
    assert is_sure(shares, every, Sampling(1.0, top_k=4))[0].tolist() == [False, True, True, True, True]
    assert not is_sure(shares, torch.tensor([[4]]), Sampling(1.0, top_k=3)).any()
