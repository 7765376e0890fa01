"""Where the model's own choice is asked for first, what comes out is what masks alone give.

What: greedy texts token by token; the distribution of one step over 100,000 draws; that no mask is
made where no choice is refused; prompts healed in `generate`; what is refused.
When: after a change of `adapters.opportunistic`, or of the processor.
Limits: a tiny random model; how fast it is, is measured by ``python -m bench opportunistic``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from adapters.transformers import GrammarLogitsProcessor
from equivalence.errors import ArgumentError, BatchError
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary
from hybrid.healing import heal
from tests.generating import ANYTHING, EOS, JSON, LETTERS, TOKENIZER, VOCABULARY, _model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model():
    return _model(11)


def generated(
    model, prompts: list[str], processor: GrammarLogitsProcessor, **options: Any
) -> list[list[int]]:
    inputs = TOKENIZER(prompts, return_tensors="pt", padding=True)
    output = model.generate(
        **inputs, logits_processor=[processor], **{"max_new_tokens": 30, "do_sample": False, **options}
    )
    return output[:, inputs["input_ids"].shape[1] :].tolist()


@pytest.mark.parametrize("strategy", ["classifier", "representatives", "engine"])
def test_greedy_texts_are_equal(model, strategy: str) -> None:
    grammars = [
        GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(text)
        for text in (
            'root ::= [a-z0-9 "]{2,20}',
            r"root ::= [^\"{]{5,25}",
            'root ::= "yes" | "no" | "ab"+ "true"',
        )
    ]
    asked = refused = 0
    for grammar in grammars:
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


def test_the_distribution_of_a_step() -> None:
    temperature = 0.7
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"ab", b"c", b"d", b""], stop_token_ids=5)
    grammar = GrammarCompiler(vocabulary).compile_grammar('root ::= ("a" | "b" | "d")+')
    logits = torch.tensor([0.3, -0.5, 1.0, 1.5, 0.2, 0.1, 0.7])  # one more than there are ids
    count = 100_000
    processor = GrammarLogitsProcessor(grammar, opportunistic=temperature, prompt_length=1)
    torch.manual_seed(2)
    # rows in one call share the processor's work; each draws for itself
    found = np.zeros(7)
    for _ in range(10):
        masked = processor(torch.zeros(count // 10, 1, dtype=torch.long), logits.expand(count // 10, 7))
        drawn = torch.multinomial(torch.softmax(masked / temperature, -1), 1)
        found += np.bincount(drawn.flatten().numpy(), minlength=7)
        processor.reset()
    allowed = torch.tensor([0, 1, 2, 4])
    expected = torch.softmax(logits[allowed] / temperature, -1).double().numpy() * count
    assert found[allowed].sum() == count and 0 < processor.refused < processor.asked
    distance = ((found[allowed] - expected) ** 2 / expected).sum()
    half = torch.tensor(3 / 2, dtype=torch.float64)
    assert torch.special.gammaincc(half, torch.tensor(distance / 2, dtype=torch.float64)) > 1e-4


def test_sampled_texts_are_texts(model) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        processor = GrammarLogitsProcessor(JSON, opportunistic=0.8)
        options = {"do_sample": True, "temperature": 0.8, "top_k": 0, "max_new_tokens": 60}
        for row in generated(model, ["a", "bcd"], processor, **options):
            matcher = GrammarMatcher(JSON)
            text = row[: row.index(EOS) + 1] if EOS in row else row
            assert all(matcher.accept_token(token) for token in text)


def test_misuse(model) -> None:
    for wrong in (-1, True, "x", float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match="opportunistic"):
            GrammarLogitsProcessor(JSON, opportunistic=wrong)
    with pytest.raises(ArgumentError, match="max_new_tokens"):
        GrammarLogitsProcessor(JSON, opportunistic=0, max_new_tokens=99)
    with pytest.raises(ArgumentError, match="beam search"):
        generated(model, ["a"], GrammarLogitsProcessor(LETTERS, opportunistic=0), num_beams=3)


# --- healed prompts --------------------------------------------------------------------------------------


def test_prompts_are_healed_in_generate(model) -> None:
    texts = ["say ye", 'is it "', "tr"]
    for text in texts:
        ids = TOKENIZER(text)["input_ids"]
        healed = heal(ids, VOCABULARY)
        processor = GrammarLogitsProcessor(JSON, prefix=healed.prefix)
        prompt = torch.tensor([[PADDED, *healed.prompt_ids]])
        output = model.generate(prompt, logits_processor=[processor], max_new_tokens=80, do_sample=False)
        new = [token for token in output[0, prompt.shape[1] :].tolist() if token != EOS]
        read = b"".join(VOCABULARY.tokens[token] for token in new)
        assert read.startswith(healed.prefix)
        assert GrammarMatcher(JSON).accept_string(read[len(healed.prefix) :])
        assert processor.is_complete(output[0]) == (EOS in output[0])


PADDED = TOKENIZER("x")["input_ids"][0]


def test_a_prefix_for_each_prompt(model) -> None:
    prefixes: list[Any] = ["ab", b"t", ""]
    processor = GrammarLogitsProcessor(LETTERS, prefix=prefixes)
    for row, prefix in zip(generated(model, ["a", "b", "c"], processor), prefixes, strict=True):
        read = b"".join(VOCABULARY.tokens[token] for token in row if token != EOS).decode()
        start = prefix if isinstance(prefix, str) else prefix.decode()
        assert read.startswith(start) and GrammarMatcher(LETTERS).accept_string(read[len(start) :])
    with pytest.raises(BatchError, match="3 prefixes"):
        generated(model, ["a", "b"], GrammarLogitsProcessor(LETTERS, prefix=prefixes))
    for wrong in ([], 3, [3]):
        with pytest.raises(ArgumentError):
            GrammarLogitsProcessor(LETTERS, prefix=wrong)
    with pytest.raises(ArgumentError, match="prefix"):
        GrammarLogitsProcessor(JSON, prefix="x", max_new_tokens=99)
