"""XGrammar's logits processor and ours give the same scores, and have the same attributes.

When: after changes of `adapters.xgrammar.contrib.hf`.
Limits: generation with transformers is tested in `tests.test_transformers`.
"""

from typing import Any

import pytest
import torch
import xgrammar

import adapters.xgrammar as xgr
from adapters.transformers import HistoryError, RejectedToken
from equivalence.errors import ArgumentError, BatchError
from tests.test_adapters_xgrammar import AB, EOT, INFO, STOP, assert_alike, compiled, plainly


def masked_alike(ours: Any, plain: Any, n: int, rows: int = 1) -> None:
    """Both processors give the same scores while texts are generated that both choose."""
    logits = torch.randn((rows, INFO.vocab_size), generator=torch.Generator().manual_seed(5))
    ids = torch.tensor([[1, 2]] * rows)
    for _ in range(n):
        mine, theirs = ours(ids, logits.clone()), plain(ids, logits.clone())
        assert torch.equal(mine, theirs)
        assert ours.prefilled is plain.prefilled is True and ours.batch_size == plain.batch_size == rows
        assert ours.token_bitmask.shape == plain.token_bitmask.shape
        theirs[:, STOP] = -torch.inf
        ids = torch.cat([ids, theirs.argmax(dim=-1, keepdim=True)], dim=1)
        logits = logits.roll(7, dims=1)


def test_grammars_of_two_rows() -> None:
    ours = xgr.contrib.hf.LogitsProcessor([compiled(name, "auto") for name in ("ebnf", "schema")])
    plain = xgrammar.contrib.hf.LogitsProcessor([plainly(name) for name in ("ebnf", "schema")])
    assert ours.full_vocab_size == plain.full_vocab_size == INFO.vocab_size
    masked_alike(ours, plain, 12, rows=2)


def test_matchers_that_a_program_gives_to_the_logits_processor() -> None:
    """A program may go on after a text, and ask its own matcher whether the text is complete."""
    processors, matchers = [], []
    for module, grammar in ((xgr, compiled("ebnf", "auto")), (xgrammar, plainly("ebnf"))):
        matcher = module.GrammarMatcher(grammar)
        assert matcher.accept_string("ab,(12")
        processor = module.contrib.hf.LogitsProcessor(grammar)
        assert len(processor.matchers) == 0 and not processor.prefilled
        processor.matchers = [matcher]
        processor.token_bitmask = xgr.allocate_token_bitmask(1, processor.full_vocab_size)
        processor.batch_size = 1
        processors.append(processor)
        matchers.append(matcher)
    masked_alike(processors[0], processors[1], 6)
    assert list(processors[0].matchers) == matchers[:1]
    assert_alike(*matchers)
    with pytest.raises(BatchError, match="one matcher for each of the 2 rows, but matchers has 1"):
        processors[0](torch.tensor([[1], [1]]), torch.zeros((2, INFO.vocab_size)))
    with pytest.raises(RejectedToken):
        processors[0](torch.tensor([[ord("z")]]), torch.zeros((1, INFO.vocab_size)))
    matchers[0].reset()
    assert matchers[0].accept_string("ab") and matchers[0].accept_token(STOP)
    ended = processors[0](torch.tensor([[EOT]]), torch.zeros((1, INFO.vocab_size)))
    assert torch.nonzero(ended[0] == 0).flatten().tolist() == [STOP]
    processors[0].matchers = []
    processors[1] = xgrammar.contrib.hf.LogitsProcessor(plainly("ebnf"))
    masked_alike(processors[0], processors[1], 4)
    assert_alike(processors[0].matchers[0], processors[1].matchers[0])


@pytest.mark.parametrize("option", [{"max_new_tokens": 9}, {"prefix": "a"}])
def test_options_of_whole_generations_are_not_for_matchers_of_the_program(option: dict[str, Any]) -> None:
    processor = xgr.contrib.hf.LogitsProcessor(compiled("ebnf", "auto"), **option)
    processor.matchers = []
    with pytest.raises(ArgumentError, match="max_new_tokens and prefix do not apply"):
        processor.matchers = [xgr.GrammarMatcher(compiled("ebnf", "auto"))]


def test_a_loop_that_passes_only_the_last_tokens() -> None:
    """XGrammar reads them. Without matchers that the program has set, ours needs whole rows, and says so."""
    ours = xgr.contrib.hf.LogitsProcessor(compiled("ebnf", "auto"))
    plain = xgrammar.contrib.hf.LogitsProcessor(plainly("ebnf"))
    scores = torch.zeros((2, INFO.vocab_size))
    texts = torch.tensor([[1, 1, ord("1"), ord("2")], [1, 1, ord("("), AB]])
    assert torch.equal(ours(texts[:, :2], scores), plain(texts[:, :2], scores.clone()))
    with pytest.raises(HistoryError, match="pass whole rows"):
        ours(texts[:, 2:3], scores)
    ours.matchers = [xgr.GrammarMatcher(compiled("ebnf", "auto")) for _ in range(2)]
    assert ours.prefilled
    for step in (2, 3):
        tokens = texts[:, step : step + 1]
        assert torch.equal(ours(tokens, scores), plain(tokens, scores.clone()))
    ours.matchers = []
    for prompt in ([[1], [2]], [[1], [ord("1")]], [[1], [ord("1")]]):  # no texts of the grammar
        assert torch.equal(ours(torch.tensor(prompt), scores)[0], ours(texts[:, :2], scores)[0])


def test_scores_of_a_model_without_the_last_ids() -> None:
    """Such as padding that was added to the tokenizer."""
    ours = xgr.contrib.hf.LogitsProcessor(compiled("ebnf", "auto"))
    plain = xgrammar.contrib.hf.LogitsProcessor(plainly("ebnf"))
    scores = torch.zeros((1, INFO.vocab_size - 5))
    assert torch.equal(ours(torch.tensor([[1]]), scores), plain(torch.tensor([[1]]), scores.clone()))
    for wrong in (None, scores.numpy(), scores.int()):
        with pytest.raises(ArgumentError, match="scores must be"):
            ours(torch.tensor([[1]]), wrong)
