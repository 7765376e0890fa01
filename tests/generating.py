"""Helpers for the tests of `adapters.transformers`: a tiny random model and an oracle for masks.

What: a tokenizer, a model and compiled grammars; `run` generates through `Oracle`, which knows where the
prompt ends and compares each mask with that of a fresh matcher that has read the whole row.
When: in ``test_transformers*.py``.
Limits: the texts mean nothing; the model's weights are random.
"""

from __future__ import annotations

import json

import torch
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessor, LogitsProcessorList

from adapters.transformers import GrammarLogitsProcessor
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, Vocabulary
from tests.byte_tokenizer import byte_tokenizer
from tests.matchers import mask_of

INF = float("inf")
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "n": {"enum": [1, 22, 333]}},
    "required": ["ok", "n"],
    "additionalProperties": False,
}


MERGES = ("t r", "u e", "tr ue", "y e", "ye s", "n o", "a b", '" :')
TOKENIZER = byte_tokenizer("<eos>", merges=MERGES, pad_token="<pad>", padding_side="left")
EOS, PAD = TOKENIZER.eos_token_id, TOKENIZER.pad_token_id
VOCABULARY = Vocabulary.from_huggingface(TOKENIZER)
COMPILER = GrammarCompiler(VOCABULARY)
JSON = COMPILER.compile_json_schema(json.dumps(SCHEMA), any_whitespace=False)
WORDS = COMPILER.compile_regex("(yes|no|maybe)")
LETTERS = COMPILER.compile_regex("[ab]{3,6}c")
ANYTHING = COMPILER.compile_regex("[a-z ]*")


def make_model(seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(TOKENIZER), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=256, initializer_range=0.5, bos_token_id=None,
        eos_token_id=EOS, pad_token_id=PAD,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


class Oracle(LogitsProcessor):
    """Call a processor, and recompute each of its masks from scratch to compare them."""

    def __init__(
        self,
        processor: GrammarLogitsProcessor,
        grammars: list[CompiledGrammar],
        prompt_length: int,
        stops=(EOS,),
    ) -> None:
        self.processor, self.grammars = processor, grammars
        self.prompt_length, self.stops = prompt_length, stops
        self.lengths: list[int] = []

    def __call__(self, input_ids, scores):
        before = scores.clone()
        masked = self.processor(input_ids, scores)
        assert torch.equal(scores, before), "the argument was changed"
        assert masked.dtype == scores.dtype
        self.lengths.append(input_ids.shape[1])
        for index, row in enumerate(input_ids.tolist()):
            grammar = self.grammars[index * len(self.grammars) // len(input_ids)]
            allowed = expected_ids(grammar, row[self.prompt_length :], self.stops)
            expected = torch.full_like(before[index], -INF)
            expected[allowed] = before[index][allowed]
            assert torch.equal(masked[index], expected), (index, row)
        return masked


def expected_ids(grammar: CompiledGrammar, tokens: list[int], stops=(EOS,)) -> list[int]:
    matcher = GrammarMatcher(grammar, override_stop_tokens=list(stops))
    for token in tokens:
        if matcher.is_terminated() or not matcher.accept_token(token):
            return list(stops)
    if matcher.is_terminated():
        return list(stops)
    return mask_of(matcher)


def run(model, processor, grammars, prompts, **options) -> list[str]:
    """Generate after the prompts (or after a tensor of ids), and return the new texts."""
    torch.manual_seed(options.pop("seed", 0))
    inputs = TOKENIZER(prompts, return_tensors="pt", padding=True) if isinstance(prompts, list) else prompts
    length = inputs["input_ids"].shape[1]
    oracle = Oracle(processor, grammars, length, options.pop("stops", (EOS,)))
    output = model.generate(
        input_ids=inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        logits_processor=LogitsProcessorList([oracle]),
        max_new_tokens=options.pop("max_new_tokens", 40),
        **options,
    )
    assert oracle.lengths
    return TOKENIZER.batch_decode(output[:, length:], skip_special_tokens=True)


def generated(model, prompts: list[str], processor, **options) -> list[list[int]]:
    """Generate after each prompt, greedily unless options say otherwise; return the new ids up to the end of
    the text, without the stop token."""
    inputs = TOKENIZER(prompts, return_tensors="pt", padding=True)
    options = {"max_new_tokens": 30, "do_sample": False, **options}
    output = model.generate(**inputs, logits_processor=[processor], **options)
    rows = output[:, inputs["input_ids"].shape[1] :].tolist()
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]


def ids(text: str) -> dict[str, torch.Tensor]:
    tokens = torch.tensor([TOKENIZER(text)["input_ids"]])
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def call(processor, *rows: list[int]) -> list[list[int]]:
    """Return the ids that are allowed for each of some hand-made rows."""
    masked = processor(torch.tensor(rows), torch.ones(len(rows), VOCABULARY.size))
    return [torch.nonzero(row > -INF).flatten().tolist() for row in masked]


def check_json(text: str) -> None:
    value = json.loads(text)
    assert set(value) == {"ok", "n"}
    assert value["ok"] in (True, False)
    assert value["n"] in (1, 22, 333)
