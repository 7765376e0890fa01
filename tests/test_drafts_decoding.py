"""Texts decoded with drafts are those decoded without: the same greedy tokens, the same distribution.

What: `generate` of transformers on a tiny random model, with drafts and without, token by token, and how
often the model was called; the counts of sampled texts beside their exact probabilities; an engine's
requests.
When: after a change of `adapters.drafts`, `adapters.engines.proposer` or `hybrid.drafts`.
Limits: the model's texts mean nothing; grammars are small, so that all their texts can be listed.
"""

from __future__ import annotations

import gc
import math
import weakref
from collections import Counter
from functools import cache
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from transformers import StopStringCriteria

from adapters.drafts import GrammarDrafts
from adapters.engines.proposer import Proposer
from adapters.transformers import GrammarLogitsProcessor
from equivalence.errors import ArgumentError, BatchError
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, Vocabulary
from hybrid.drafts import DraftModel
from tests import generating
from tests.generating import EOS, JSON, LETTERS, TOKENIZER, make_model
from tests.matchers import mask_of

pytestmark = [pytest.mark.usefixtures("one_thread")]

LOOSE = GrammarCompiler(JSON.vocabulary).compile_grammar(
    r'root ::= "{" pair ("," pair){0,8} "}"' + "\n" + r'pair ::= "\"" [a-z]{1,3} "\":" [0-9]{1,2}'
)


@pytest.fixture(scope="module")
def model():
    return make_model(3)


@pytest.fixture
def calls(model, monkeypatch):
    """The calls of the model, as a mock counts them."""
    monkeypatch.setattr(model, "forward", Mock(wraps=model.forward))
    return model.forward


def generated(model, compiled, prompt, drafts=None, *, of_processor=(), **options) -> list[int]:
    """Generate ids after a prompt, see `tests.generating.generated`."""
    processor = GrammarLogitsProcessor(compiled, **dict(of_processor))
    options = {"max_new_tokens": 60, "custom_generate": drafts, **options}
    return generating.generated(model, [prompt], processor, **options)[0]


@pytest.mark.parametrize("compiled", [JSON, LETTERS, LOOSE], ids=["json", "letters", "loose"])
def test_greedy_texts_are_equal_token_by_token(model, calls, compiled: CompiledGrammar) -> None:
    drafts = GrammarDrafts(DraftModel(compiled, threshold=0))
    for prompt in ("a", "Give me JSON: ", "something else", "a"):
        plain = generated(model, compiled, prompt)
        counts = []
        for _ in range(2):
            calls.reset_mock()
            assert generated(model, compiled, prompt, drafts) == plain
            counts.append(calls.call_count)
        assert counts[1] <= counts[0]
    assert counts[1] < len(plain) and drafts.last is not None and drafts.last.kept > 0


def test_stop_strings_end_a_text_at_the_same_token(model) -> None:
    drafts = GrammarDrafts(DraftModel(LOOSE, threshold=0))
    whole, ended = generated(model, LOOSE, "{", max_new_tokens=40), 0
    for stop in ('":', "1", TOKENIZER.decode(whole[4:6])):
        options = {"stopping_criteria": [StopStringCriteria(TOKENIZER, [stop])], "max_new_tokens": 40}
        texts = [generated(model, LOOSE, "{", custom, **options) for custom in (None, drafts, drafts)]
        assert texts[0] == texts[1] == texts[2]
        ended += len(texts[0]) < len(whole)
    assert ended, "no text was ended: the test shows nothing"


@pytest.mark.parametrize("most", [1, 2, 5, 60])
@pytest.mark.parametrize("options", [{"opportunistic": 0}, {"prefix": "ab"}, {"max_new_tokens": 60}], ids=str)
def test_drafts_go_with_every_option_of_the_processor(model, options: dict, most: int) -> None:
    drafts = GrammarDrafts(DraftModel(LOOSE, threshold=0))
    texts = [
        generated(model, LOOSE, "Give me", custom, of_processor=options, max_new_tokens=most)
        for custom in (None, drafts, drafts)
    ]
    assert texts[0] == texts[1] == texts[2]
    assert drafts.last is not None and (drafts.last.kept > 0 or most < 60)


def test_drafts_of_another_grammar_are_refused(model) -> None:
    compiler = GrammarCompiler(JSON.vocabulary, cache_enabled=False)
    again, twin = (compiler.compile_grammar('root ::= "a" | "b"') for _ in range(2))
    assert again is not twin
    drafts = GrammarDrafts(DraftModel(again))
    generated(model, twin, "a", drafts, max_new_tokens=3)
    with pytest.raises(ArgumentError, match="must have the same grammar and vocabulary"):
        generated(model, LOOSE, "a", drafts, max_new_tokens=3)


def test_misuse(model) -> None:
    for wrong in ({"drafts": 3}, {"drafts": DraftModel(JSON), "most": 0}):
        with pytest.raises(ArgumentError):
            GrammarDrafts(**wrong)
    inputs = TOKENIZER(["a", "b"], return_tensors="pt", padding=True)
    with pytest.raises(BatchError, match="2 rows"):
        model.generate(**inputs, custom_generate=GrammarDrafts(DraftModel(JSON)), max_new_tokens=3)


# --- the distribution ------------------------------------------------------------------------------------

LETTER = Vocabulary.from_bytes([b"a", b"b", b"ab", b""], stop_token_ids=3)
SMALL = GrammarCompiler(LETTER, strategy="classifier").compile_grammar('root ::= ("a" | "b"){1,3}')
EIGHTHS = {
    0: np.array([1, 3, 2, 2]) / 8,
    1: np.array([4, 1, 2, 1]) / 8,
    2: np.array([3, 3, 1, 1]) / 8,
    None: np.array([2, 3, 3, 0]) / 8,
}
"""The distribution of the "model" after each last token, before any mask."""


@cache
def shares_after(text: tuple[int, ...]) -> tuple[float, ...]:
    """The masked distribution after a text, in token order."""
    matcher = GrammarMatcher(SMALL)
    assert all(matcher.accept_token(token) for token in text)
    masked = EIGHTHS[text[-1] if text else None] * np.isin(range(4), mask_of(matcher))
    shares: list[float] = (masked / masked.sum()).tolist()
    return tuple(shares)


def exact() -> dict[tuple[int, ...], float]:
    """Return all texts and their probabilities, decoded token by token."""
    found: dict[tuple[int, ...], float] = {}
    waiting: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    while waiting:
        text, share = waiting.pop()
        for token, own in enumerate(shares_after(text)):
            after = (*text, token)
            if own and token == 3:
                found[after] = share * own
            elif own:
                waiting.append((after, share * own))
    assert sum(found.values()) == pytest.approx(1)
    return found


def test_samples_in_generate_have_the_distribution(model, monkeypatch) -> None:
    # transformers' own loop, with a model that is a table: the last token decides
    grammar = GrammarCompiler(JSON.vocabulary).compile_grammar('root ::= ("a" | "b"){1,3}')
    ids = [*map(TOKENIZER.convert_tokens_to_ids, ("a", "b", "ab")), EOS]
    prompt = TOKENIZER.convert_tokens_to_ids("c")
    table = torch.full((len(TOKENIZER), len(TOKENIZER)), -20.0)
    for last, shares in EIGHTHS.items():
        row = torch.tensor(np.log(np.maximum(shares, 1e-9)), dtype=torch.float32)
        table[prompt if last is None else ids[last], ids] = row
    forward = model.forward

    def tabled(*arguments, **named):
        output = forward(*arguments, **named)
        output.logits = table[named["input_ids"][:, -output.logits.shape[1] :]]
        return output

    monkeypatch.setattr(model, "forward", tabled)
    drafts = GrammarDrafts(DraftModel(grammar, threshold=0), most=3)
    torch.manual_seed(5)
    found: Counter[tuple[int, ...]] = Counter()
    samples, kept = 300, 0
    for _ in range(samples):
        processor = GrammarLogitsProcessor(grammar, prompt_length=1)
        output = model.generate(
            torch.tensor([[prompt]]), logits_processor=[processor], custom_generate=drafts,
            do_sample=True, top_k=0, max_new_tokens=8,
        )  # fmt: skip
        kept += drafts.last.kept
        found[tuple(output[0, 1:].tolist())] += 1
    assert kept > 0, "no draft was kept: the test shows nothing"
    expected = {tuple(ids[token] for token in text): share for text, share in exact().items()}
    assert found.keys() <= expected.keys()
    for text, share in expected.items():
        deviation = math.sqrt(samples * share * (1 - share))
        assert abs(found[text] - samples * share) < 4 * deviation + 1


# --- engines ---------------------------------------------------------------------------------------------


def test_requests_of_an_engine() -> None:
    proposer = Proposer(most=5, threshold=0.05)
    ids = [*TOKENIZER('{"a":1,"b":22}')["input_ids"], EOS]
    for request in range(5):
        for end in range(len(ids) + 1):
            draft = proposer.propose(request, LOOSE, ids[:end])
            matcher = GrammarMatcher(LOOSE)
            assert all(matcher.accept_token(token) for token in ids[:end] + draft) and len(draft) <= 5
        proposer.end(request)
    assert proposer.propose("again", LOOSE, ids[:3]) == ids[3:8]
    assert proposer.propose("again", LOOSE, ids[:2], most=2) == ids[2:4]  # a shorter text
    assert proposer.propose("again", LOOSE, [*ids[:2], EOS]) == []
    assert proposer.propose("again", LOOSE, ids[:3]) == ids[3:8]
    assert proposer.propose("again", JSON, []) != []  # another grammar
    assert proposer.model(LOOSE) is proposer.model(LOOSE)


def test_an_engine_keeps_as_many_draft_models_as_it_may() -> None:
    compiler = GrammarCompiler(JSON.vocabulary, cache_enabled=False)
    grammars = [compiler.compile_grammar(f'root ::= "a"{{{n}}}') for n in (1, 2, 3, 4, 1)]
    proposer = Proposer(most_models=2)
    assert proposer.model(grammars.pop()) is proposer.model(grammars[0])  # equal ones share it
    known = [weakref.ref(proposer.model(grammar)) for grammar in grammars]
    gone = weakref.ref(grammars[0])
    del grammars[0]
    gc.collect()
    assert [one() is not None for one in known] == [False, False, True, True] and gone() is None
    proposer.model(grammars[1])  # is used again, so that the other one goes
    proposer.model(compiler.compile_grammar('root ::= "b"'))
    gc.collect()
    assert [one() is not None for one in known] == [False, False, True, False]
    assert proposer.propose("x", grammars[0], [], stops=[EOS]) != []
    for wrong in ({"most": 257}, {"most_models": 0}):
        with pytest.raises(ArgumentError):
            Proposer(**wrong)
