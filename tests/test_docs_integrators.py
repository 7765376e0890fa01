"""The examples of docs/integrators.md run.

What: the code blocks are executed unchanged; stand-ins for the engines return what the engines return.
When: after a change of that page or of the public interface.
Limits: the engines themselves are not used.
"""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.cases import CHECKOUT
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
from tests.matchers import ids_of, mask_of

TOKENS = [*(bytes([value]) for value in range(128)), b'{"', b'": ', b"true", b'"a"', b"</s>"]
STOP = len(TOKENS) - 1
SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
TEXT = b'{"a": true}'


@pytest.fixture(scope="module")
def examples() -> dict[str, Any]:
    page = (CHECKOUT / "docs" / "integrators.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    return names


def test_the_factory_for_tensorrt_llm(examples: dict[str, Any]) -> None:
    tokenizer = {"decoder": {"type": "ByteFallback"}, "normalizer": None}
    config = SimpleNamespace(
        encoded_vocab=[token.decode() for token in TOKENS], tokenizer_str=json.dumps(tokenizer),
        stop_token_ids=[STOP],
    )  # fmt: skip
    factory = examples["MatcherFactory"](config, STOP + 4)
    bitmask = allocate_token_bitmask(2, STOP + 4)
    tag = {"type": "json_schema", "json_schema": SCHEMA}
    kinds = {
        "JSON": None, "JSON_SCHEMA": json.dumps(SCHEMA), "REGEX": r'\{"a": true\}',
        "EBNF_GRAMMAR": 'root ::= "{\\"a\\": true}"',
        "STRUCTURAL_TAG": json.dumps({"type": "structural_tag", "format": tag}),
    }  # fmt: skip
    for kind, guide in kinds.items():
        matcher = factory.create(SimpleNamespace(guide_type=SimpleNamespace(name=kind), guide=guide))
        for byte in TEXT:
            matcher.fill_next_token_bitmask(bitmask, 1)
            assert byte in ids_of(bitmask[1:], STOP + 4), (kind, chr(byte))
            assert matcher.accept_token(byte)
        assert not matcher.accept_token(ord("x"))
        assert matcher.accept_token(STOP) and matcher.is_terminated()
        matcher.rollback(2)
        assert not matcher.is_terminated()
        assert matcher.accept_token(ord("}"))


def detokenize(ids: list[int]) -> bytes:
    return b"".join(b"" if i == STOP else TOKENS[i] for i in ids)


def test_the_processor_for_llama_cpp(examples: dict[str, Any]) -> None:
    llama = SimpleNamespace(n_vocab=lambda: len(TOKENS), token_eos=lambda: STOP, detokenize=detokenize)
    vocabulary = examples["vocabulary_of"](llama)
    assert isinstance(vocabulary, Vocabulary) and vocabulary.stop_token_ids == (STOP,)
    compiled = GrammarCompiler(vocabulary).compile_json_schema(SCHEMA)
    processor, beside = examples["GrammarProcessor"](compiled), GrammarMatcher(compiled)
    rng = np.random.default_rng(2)
    ids = [7, 8, 9]
    while not beside.is_terminated():
        allowed = mask_of(beside)
        scores = processor(np.array(ids, np.intc), rng.random(len(TOKENS)).astype(np.single))
        assert np.flatnonzero(scores > -np.inf).tolist() == allowed
        wanted = TEXT[len(detokenize(ids[3:])) :]
        fitting = [i for i in allowed if i < STOP and wanted.startswith(TOKENS[i])]
        token = max(fitting, key=lambda i: len(TOKENS[i]), default=STOP)
        ids.append(token)
        assert beside.accept_token(token)
    assert detokenize(ids[3:]) == TEXT
    processor(np.array(ids, np.intc), np.zeros(len(TOKENS), np.single))
    second = examples["GrammarProcessor"](compiled)
    second(np.array([1]), np.zeros(len(TOKENS), np.single))
    with pytest.raises(ValueError, match="was not allowed"):
        second(np.array([1, ord("x")]), np.zeros(len(TOKENS), np.single))
