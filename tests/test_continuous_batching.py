"""`adapters.continuous_batching` in the manager of transformers, on a tiny random model on the CPU."""

from __future__ import annotations

import logging
import re
from types import SimpleNamespace

import pytest
import torch
from transformers import GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from adapters.continuous_batching import FREE, BatchingGrammarProcessor
from equivalence.errors import ArgumentError, BudgetExceeded, StrategyError, VocabularyError
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary
from tests import generating
from tests.generating import COMPILER, EOS, JSON, LETTERS, TOKENIZER, VOCABULARY, WORDS, expected_ids

DEEP = COMPILER.compile_grammar('root ::= "[" (root ("," root)*)? "]"')
PROMPT = TOKENIZER("hello there")["input_ids"]


pytestmark = pytest.mark.usefixtures("one_thread")


def _manager(**options):
    model = generating.make_model(0)
    model.set_attn_implementation("sdpa")
    special = {"eos_token_id": EOS, "pad_token_id": generating.PAD}
    config = GenerationConfig(do_sample=True, temperature=2.0, **special, **options)
    batching = ContinuousBatchingConfig(
        use_async_batching=False, use_cuda_graph=False, num_blocks=64, page_size=16
    )
    return model.init_continuous_batching(generation_config=config, continuous_batching_config=batching)


def _state(name, generated, *, initial=(9,), true_initial=0, limit=None, **kwargs):
    """The attributes of a request that the processor reads, as the manager gives them."""
    state = SimpleNamespace(
        request_id=name, initial_tokens=list(initial), generated_tokens=list(generated),
        _true_initial_tokens=true_initial, max_new_tokens=limit, generated_len=lambda: len(generated),
        logit_processor_kwargs=kwargs,
    )  # fmt: skip
    return SimpleNamespace(state=state)


def _allowed(processor, *states):
    """Return the ids that are allowed for each request."""
    rows = processor.prepare_tensor_args(list(states))
    padded = torch.cat([rows, torch.full((2,), FREE, dtype=torch.int32)])  # storage may have more rows
    masked = processor(torch.ones(len(states), VOCABULARY.size + 6), padded)
    return [torch.nonzero(row > -torch.inf).flatten().tolist() for row in masked]


def _ids(text):
    return TOKENIZER(text)["input_ids"]


# --- the real manager ---


@pytest.fixture
def started():
    """A function that starts a manager with a processor."""
    managers = []

    def start(processor, **options):
        managers.append(_manager(**options))
        processor.join(managers[0])
        managers[0].start()
        return managers[0]

    yield start
    managers[0].stop(block=True)


def test_each_request_has_its_own_grammar(started):
    manager, grammars = started(BatchingGrammarProcessor(tokenizer=VOCABULARY, limit_tokens=True)), {}
    for _ in range(3):
        for grammar, limit in ((JSON, 16), (LETTERS, 9), (DEEP, 7), (None, 5)):
            given = {} if grammar is None else {"grammar": grammar}
            grammars[manager.add_request(PROMPT, max_new_tokens=limit, **given)] = grammar
    for _ in range(len(grammars)):
        output = manager.get_result(timeout=60)
        assert output is not None and output.error is None
        grammar = grammars.pop(output.request_id)
        if grammar is None:
            assert 0 < len(output.generated_tokens) <= 5
            continue
        matcher = GrammarMatcher(grammar)
        assert all(matcher.accept_token(token) for token in output.generated_tokens)
        assert matcher.is_terminated() or matcher.is_completed()


def test_children_of_a_request_go_their_own_ways(started):
    manager = started(BatchingGrammarProcessor(LETTERS), num_return_sequences=4, max_new_tokens=20)
    manager.add_request(PROMPT)
    texts = {TOKENIZER.decode(manager.get_result(timeout=60).generated_tokens) for _ in range(4)}
    assert all(re.fullmatch("[ab]{3,6}c<eos>", text) for text in texts)
    assert len(texts) > 1


def test_what_a_manager_has_to_be():
    processor = BatchingGrammarProcessor(JSON)
    with pytest.raises(ArgumentError, match=r"manager must be what model.*, but is 3"):
        processor.join(3)
    manager = _manager()
    manager.continuous_batching_config.use_async_batching = True
    with pytest.raises(StrategyError, match=r"must use neither .*use_async_batching=True"):
        processor.join(manager)
    manager.continuous_batching_config.use_async_batching = False
    manager.batch_processor = object()
    with pytest.raises(ArgumentError, match="has already started"):
        processor.join(manager)


# --- what it is called with ---


def test_masks_are_those_of_matchers():
    processor = BatchingGrammarProcessor(WORDS)
    asked = {"": {}, "ye": {}, "ab": {"grammar": LETTERS}, "yes": {}, "m": {}, "maybe": {}}
    states = [_state(text, _ids(text), **given) for text, given in asked.items()]
    expected = [expected_ids(given.get("grammar", WORDS), _ids(text)) for text, given in asked.items()]
    for _ in range(2):
        assert _allowed(processor, *states) == expected
    states[0] = _state("", _ids("n"))
    expected[0] = expected_ids(WORDS, _ids("n"))
    assert _allowed(processor, *reversed(states)) == expected[::-1]


def test_requests_without_a_grammar_are_free():
    processor = BatchingGrammarProcessor(tokenizer=TOKENIZER)
    free, bound = _allowed(processor, _state("a", []), _state("b", [], grammar=WORDS))
    assert free == list(range(VOCABULARY.size + 6))
    assert bound == expected_ids(WORDS, [])
    scores = torch.ones(1, VOCABULARY.size)
    assert processor(scores, processor.prepare_tensor_args([_state("a", [])])) is scores


def test_a_request_that_lost_its_memory_goes_on_where_it_was():
    processor = BatchingGrammarProcessor(LETTERS)
    [before] = _allowed(processor, _state("a", _ids("ab")))
    again = _state("a", [], initial=[9, *_ids("ab")], true_initial=1)
    assert _allowed(processor, again) == [before] == [expected_ids(LETTERS, _ids("ab"))]
    other_text = _state("a", _ids("b"))  # the name is used again
    assert _allowed(processor, other_text) == [expected_ids(LETTERS, _ids("b"))]


def test_requests_that_cannot_go_on_are_ended(caplog):
    processor = BatchingGrammarProcessor(WORDS)
    with caplog.at_level(logging.WARNING, "adapters"):
        assert _allowed(processor, _state("a", _ids("x"))) == [[EOS]]
    assert "request a ends: its grammar rejects token" in caplog.text
    assert _allowed(processor, _state("b", [*_ids("yes"), EOS])) == [[EOS]]
    other = GrammarCompiler(Vocabulary.from_bytes([b"a", b""], stop_token_ids=1)).compile_regex("a")
    with caplog.at_level(logging.WARNING, "adapters"):
        ended, fine = _allowed(processor, _state("c", [], grammar=other), _state("d", []))
    assert (ended, fine) == ([EOS], expected_ids(WORDS, []))
    assert "request c ends: its grammar is over" in caplog.text
    assert "make the processor with tokenizer=compiler" in caplog.text


def test_a_limit_that_is_too_small_is_said_and_the_mask_stays_plain(caplog):
    processor = BatchingGrammarProcessor(DEEP, limit_tokens=True)
    opening, closing = _ids("["), _ids("]")
    assert _allowed(processor, _state("a", opening * 2, limit=4)) == [closing]
    with caplog.at_level(logging.WARNING, "adapters"):
        allowed = _allowed(processor, _state("b", opening * 2, limit=3))
    assert allowed == [expected_ids(DEEP, opening * 2)]
    assert "request b has too few tokens" in caplog.text


def test_a_name_that_is_used_again_has_a_limit_of_its_own():
    processor = BatchingGrammarProcessor(WORDS, limit_tokens=True)
    new = [_allowed(processor, _state(name, [], limit=limit)) for name, limit in (("b", 2), ("c", 9))]
    for limit, expected in ((2, new[0]), (9, new[1]), (2, new[0]), (None, new[1])):
        assert _allowed(processor, _state("a", [], limit=limit)) == expected
    assert new[0] != new[1]


def test_a_request_that_takes_too_long_ends_alone(caplog, monkeypatch):
    processor = BatchingGrammarProcessor(tokenizer=VOCABULARY, limit_tokens=True)
    lark = COMPILER.compile_lark('start: "a" "b"')
    states = [_state("a", [], limit=5, grammar=lark), _state("b", [], limit=5, grammar=WORDS)]
    with caplog.at_level(logging.WARNING, "adapters"):
        expected = [expected_ids(grammar, []) for grammar in (lark, WORDS)]
        assert _allowed(processor, *states) == expected
        assert "the text of request a may be cut off: token limits are not supported" in caplog.text

        def slow(matcher, *_, **__):
            if matcher.compiled_grammar is lark:
                raise BudgetExceeded("the mask takes too long")
            return fill(matcher, *_, **__)

        fill = GrammarMatcher.fill_next_token_bitmask
        monkeypatch.setattr(GrammarMatcher, "fill_next_token_bitmask", slow)
        assert _allowed(processor, *states) == [[EOS], expected[1]]
    assert "request a ends: the mask takes too long" in caplog.text


def test_arguments_are_checked():
    with pytest.raises(ArgumentError, match="neither compiled nor tokenizer"):
        BatchingGrammarProcessor()
    with pytest.raises(ArgumentError, match="compiled must be one grammar for all requests, but has 2"):
        BatchingGrammarProcessor([JSON, WORDS])
    with pytest.raises(ArgumentError, match="most_requests"):
        BatchingGrammarProcessor(JSON, most_requests=0)
    few = BatchingGrammarProcessor(JSON, most_requests=1)
    with pytest.raises(ArgumentError, match="a batch has 2 requests, but the limit is 1"):
        few.prepare_tensor_args([_state("a", []), _state("b", [])])
    with pytest.raises(VocabularyError, match="the scores have 3 columns"):
        few(torch.ones(1, 3), torch.ones(1, dtype=torch.int32))


def test_a_processor_that_was_made_in_inference_mode_works_outside_of_it():
    with torch.inference_mode():
        processor = BatchingGrammarProcessor(WORDS)
    assert _allowed(processor, _state("ended", [*_ids("yes"), EOS])) == [[EOS]]
