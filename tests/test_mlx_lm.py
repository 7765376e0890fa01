"""`adapters.mlx_lm`, with a stand-in for MLX, and with the real mlx-lm if it is installed."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from adapters.mlx_lm import GrammarLogitsProcessor
from equivalence.errors import ArgumentError, VocabularyError
from tests.generating import EOS, JSON, LETTERS, SCHEMA, TOKENIZER, VOCABULARY, WORDS, expected_ids


class TokenizerWrapper:
    """A stand-in for mlx-lm's wrapper of tokenizers: has all their attributes, and more ids that end a
    text."""

    def __init__(self, tokenizer: Any, eos_token_ids: set[int]) -> None:
        self._tokenizer = tokenizer
        self.eos_token_ids = eos_token_ids

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """numpy arrays under MLX's names."""
    module = ModuleType("mlx.core")
    module.array, module.where = np.array, np.where  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlx", ModuleType("mlx"))
    monkeypatch.setitem(sys.modules, "mlx.core", module)
    return module


def _allowed(processor: GrammarLogitsProcessor, tokens: list[int], width: int = VOCABULARY.size) -> list[int]:
    logits = np.linspace(-1, 1, width, dtype=np.float16)[None]
    masked = processor(np.array(tokens, np.uint32), logits)
    assert masked.dtype == np.float16 and masked.shape == logits.shape
    kept = np.flatnonzero(masked[0] > -np.inf)
    assert np.array_equal(masked[0][kept], logits[0][kept])
    flat = processor(np.array(tokens, np.uint32), logits[0])
    assert np.array_equal(flat, masked[0])
    return kept.tolist()


def test_masks_are_those_of_matchers(stand_in):
    processor = GrammarLogitsProcessor(JSON)
    prompt, text = [9, 8, 7], TOKENIZER('{"ok": true, "n": 22}')["input_ids"]
    for _ in range(2):  # the same processor for a second text
        for length in range(len(text) + 1):
            assert _allowed(processor, prompt + text[:length]) == expected_ids(JSON, text[:length])
        assert _allowed(processor, [*prompt, *text, EOS]) == [EOS]  # mlx-lm asks for one more step
        assert processor.is_complete(np.array([*prompt, *text]))
        assert not processor.is_complete(np.array([*prompt, *text[:-1]]))


def test_logits_may_be_wider_but_not_narrower(stand_in):
    processor = GrammarLogitsProcessor(LETTERS)
    for width in (VOCABULARY.size, VOCABULARY.size + 10):
        assert _allowed(processor, [1], width) == expected_ids(LETTERS, [])
    with pytest.raises(VocabularyError, match="the scores have 5 columns"):
        _allowed(processor, [1], 5)


def test_stop_tokens_are_those_of_the_wrapper(stand_in):
    wrapper = TokenizerWrapper(TOKENIZER, {EOS, 3})
    processor = GrammarLogitsProcessor({"const": 1}, wrapper)
    one = TOKENIZER("1")["input_ids"]
    assert _allowed(processor, [9]) == one
    assert _allowed(processor, [9, *one]) == sorted([3, EOS])
    own = GrammarLogitsProcessor({"const": 1}, wrapper, override_stop_tokens=[EOS])
    assert _allowed(own, [9]) == one and _allowed(own, [9, *one]) == [EOS]


def test_texts_close_in_time(stand_in):
    processor = GrammarLogitsProcessor({"type": "array"}, TOKENIZER, max_new_tokens=2)
    [opening] = _allowed(processor, [9])
    assert _allowed(processor, [9, opening]) == TOKENIZER("]")["input_ids"]
    with pytest.raises(ArgumentError, match=r"max_new_tokens=1 is too small: .* needs 2 tokens"):
        GrammarLogitsProcessor({"type": "array"}, TOKENIZER, max_new_tokens=1)


def test_wrong_arguments(stand_in):
    processor = GrammarLogitsProcessor(WORDS)
    one, scores = np.array([1]), np.ones((1, 300))
    for tokens, logits in ((one[None], scores), ([1], scores), (one, None), (one, scores[None])):
        with pytest.raises(ArgumentError, match="tokens and logits must be arrays"):
            processor(tokens, logits)
    with pytest.raises(ArgumentError, match="each row of a batch needs its own processor"):
        processor(one, np.ones((2, 300)))


def test_without_mlx_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    with pytest.raises(ImportError, match=r"pip install 'equimask\[mlx\]'"):
        GrammarLogitsProcessor(WORDS)


# --- the real one ----------------------------------------------------------------------------------------


def tiny_model(seed: int) -> Any:
    """Make a random model of mlx-lm that computes on the CPU."""
    core = pytest.importorskip("mlx.core")
    pytest.importorskip("mlx_lm")
    from mlx_lm.models import llama

    core.set_default_device(core.cpu)
    core.random.seed(seed)
    model = llama.Model(
        llama.ModelArgs(
            model_type="llama", hidden_size=32, num_hidden_layers=2, intermediate_size=64,
            num_attention_heads=2, rms_norm_eps=1e-5, vocab_size=len(TOKENIZER),
        )
    )  # fmt: skip
    core.eval(model.parameters())
    return model


@pytest.fixture
def real():
    """A function that calls mlx-lm with a model, and with a second one for drafts."""
    models = [tiny_model(seed) for seed in range(2)]
    import mlx.core as core
    import mlx_lm
    from mlx_lm.sample_utils import make_sampler
    from mlx_lm.tokenizer_utils import TokenizerWrapper as Wrapper

    def generate(processor, prompt, *, seed=0, draft=False, temperature=1.0, limit=40):
        core.random.seed(seed)
        options = {"draft_model": models[1], "num_draft_tokens": 3} if draft else {}
        return mlx_lm.generate(
            models[0], Wrapper(TOKENIZER), prompt, max_tokens=limit, logits_processors=[processor],
            sampler=make_sampler(temp=temperature), **options,
        )  # fmt: skip

    return generate


def test_real_generation(real):
    processor = GrammarLogitsProcessor(SCHEMA, TOKENIZER, max_new_tokens=40)
    for seed in range(4):
        found = json.loads(real(processor, "hello", seed=seed))
        assert set(found) == {"ok", "n"}


def test_real_speculative_generation_gives_what_the_model_would_have_given(real):
    for prompt in ("hello", "and another one"):
        plain = real(GrammarLogitsProcessor(JSON), prompt, temperature=0.0)
        drafted = real(GrammarLogitsProcessor(JSON), prompt, temperature=0.0, draft=True)
        assert drafted == plain and set(json.loads(plain)) == {"ok", "n"}


def test_real_batches_with_a_processor_for_each_sequence():
    model = tiny_model(0)
    from mlx_lm.generate import BatchGenerator
    from mlx_lm.sample_utils import make_sampler

    batches = BatchGenerator(model, stop_tokens=[[EOS]], sampler=make_sampler(temp=1.0))
    prompts = [TOKENIZER(text)["input_ids"] for text in ("hello", "another one", "x")]
    processors = [
        [GrammarLogitsProcessor(SCHEMA, TOKENIZER, max_new_tokens=40)],
        [GrammarLogitsProcessor({"type": "array", "maxItems": 1}, TOKENIZER, max_new_tokens=40)],
        [GrammarLogitsProcessor(WORDS)],
    ]
    for _ in range(2):  # the same processors for a second text
        numbers = batches.insert(prompts, max_tokens=[40] * 3, logits_processors=processors)
        texts: dict[int, list[int]] = {number: [] for number in numbers}
        running = {*numbers}
        while running:
            for step in batches.next()[1]:
                texts[step.uid].append(step.token)
                running -= {step.uid} if step.finish_reason else set()
        schema, array, word = (TOKENIZER.decode(texts[number]).removesuffix("<eos>") for number in numbers)
        assert set(json.loads(schema)) == {"ok", "n"} and isinstance(json.loads(array), list)
        assert word in ("yes", "no", "maybe")
