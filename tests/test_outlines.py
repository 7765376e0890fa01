"""`adapters.outlines`, with a stand-in for Outlines, and with the real package if it is installed."""

from __future__ import annotations

import json
import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from pydantic import BaseModel

import adapters.transformers
from adapters.outlines import generator, grammar_of
from equivalence.errors import ArgumentError, UnsupportedGrammar
from tests.generating import JSON, PAD, SCHEMA, TOKENIZER, WORDS, expected_ids, make_model


class Thing(BaseModel):
    ok: bool
    n: int


class _Term(SimpleNamespace):
    pass


class _JsonSchema(_Term):
    pass


class _CFG(_Term):
    pass


class _Transformers(SimpleNamespace):
    pass


class _MLXLM(SimpleNamespace):
    pass


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The names of Outlines that the adapter uses, each behaving as its documentation says."""
    names = ("outlines", "outlines.models", "outlines.types", "outlines.types.dsl")
    modules: dict[str, Any] = {name: ModuleType(name) for name in names}
    dsl = modules["outlines.types.dsl"]
    modules["outlines"].Generator = lambda model, processor: SimpleNamespace(logits_processor=processor)
    modules["outlines.models"].Transformers, modules["outlines.models"].MLXLM = _Transformers, _MLXLM
    dsl.CFG, dsl.JsonSchema = _CFG, _JsonSchema
    dsl.python_types_to_terms = lambda given: given if isinstance(given, _Term) else _Term(pattern=given)
    dsl.to_regex = lambda term: term.pattern
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return _Transformers(hf_tokenizer=TOKENIZER)


def test_the_processor_is_ours(stand_in):
    schema = _JsonSchema(schema=json.dumps(SCHEMA), whitespace_pattern=None)
    processor = generator(stand_in, schema, max_new_tokens=60).logits_processor
    assert isinstance(processor, adapters.transformers.GrammarLogitsProcessor)
    allowed = torch.nonzero(processor.allowed(torch.tensor([[9]]), len(TOKENIZER))[0]).flatten().tolist()
    assert allowed == expected_ids(grammar_of(stand_in, schema), [])
    assert generator(stand_in, WORDS).logits_processor.allowed(torch.tensor([[9]]), len(TOKENIZER)).any()
    assert grammar_of(stand_in, WORDS) is WORDS
    regex, same = grammar_of(stand_in, "yes|no"), grammar_of(stand_in, "(yes|no)")
    assert expected_ids(regex, []) == expected_ids(same, [])


def test_what_is_refused(stand_in):
    with pytest.raises(UnsupportedGrammar, match="does not name its notation"):
        generator(stand_in, _CFG(definition='start: "a"'))
    with pytest.raises(UnsupportedGrammar, match="whitespace_pattern must be None, but is ' '"):
        generator(stand_in, _JsonSchema(schema="{}", whitespace_pattern=" "))
    with pytest.raises(ArgumentError, match=r"model must be what outlines.*, but is 3"):
        generator(3, "yes")


def test_without_outlines_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "outlines", None)
    monkeypatch.setitem(sys.modules, "outlines.models", None)
    with pytest.raises(ImportError, match=r"pip install 'equimask\[outlines\]'"):
        generator(object(), "yes")


# --- the real one ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real() -> Any:
    outlines = pytest.importorskip("outlines")
    return outlines.from_transformers(make_model(0), TOKENIZER)


def test_real_generators(real):
    import outlines

    torch.manual_seed(0)
    options = {"max_new_tokens": 40, "do_sample": True, "pad_token_id": PAD}
    things = generator(real, Thing, max_new_tokens=40)
    for text in (things("hello", **options), *things.batch(["one", "two and more"], **options)):
        Thing.model_validate_json(text)
    assert generator(real, Literal["yes", "no"])("hello", **options) in ("yes", "no")
    assert re.fullmatch("[ab]{3}c", generator(real, outlines.regex("[ab]{3}c"))("hello", **options))
    assert set(json.loads(generator(real, JSON)("x", **options))) == {"ok", "n"}
    with pytest.raises(UnsupportedGrammar, match="does not name its notation"):
        generator(real, outlines.cfg('start: "a"'))


def test_real_generators_of_mlx_models():
    outlines = pytest.importorskip("outlines")
    from tests.test_mlx_lm import tiny_model

    model = tiny_model(0)
    from mlx_lm.tokenizer_utils import TokenizerWrapper

    small = outlines.from_mlxlm(model, TokenizerWrapper(TOKENIZER))
    things = generator(small, Thing, max_new_tokens=40)
    for text in (things("hello", max_tokens=40), "".join(things.stream("one", max_tokens=40))):
        Thing.model_validate_json(text)
    assert generator(small, Literal["yes", "no"])("hello", max_tokens=5) in ("yes", "no")
