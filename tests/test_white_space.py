"""White space between the parts of JSON texts: bounded by default, except with XGrammar's meaning of schemas.

The bound applies to one run. Indented documents must pass; a model that writes blanks until it runs out of
tokens must be stopped.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import adapters.xgrammar
from adapters.engines.bounded_compiler import BoundedCompiler
from adapters.engines.settings import Settings
from adapters.transformers import GrammarLogitsProcessor
from equivalence.errors import ArgumentError
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.json_schema import MOST_WHITE_SPACE
from tests.test_json_schema_meaning import BYTES

MEANINGS = "xgrammar", "json-schema"

OBJECT = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
NESTED = {"type": "object", "properties": {"next": {"$ref": "#"}}}


def longest_run(compiled: CompiledGrammar, most: int = 400) -> int:
    """Return how many blanks are accepted after an object's opening brace; `most` if there is no limit."""
    matcher = GrammarMatcher(compiled)
    assert matcher.accept_string("{")
    for blanks in range(most):
        if not matcher.accept_string(" "):
            return blanks
    return most


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("given", [None, 3, 200, -1])
@pytest.mark.parametrize("asked", [None, 7, -1])
def test_calls_come_first_then_compilers_then_the_meaning(
    meaning: str, given: int | None, asked: int | None
) -> None:
    compiler = GrammarCompiler(BYTES, semantics=meaning, max_whitespace_cnt=given)
    compiled = compiler.compile_json_schema(OBJECT, max_whitespace_cnt=asked)
    default = MOST_WHITE_SPACE if meaning == "json-schema" else -1
    expected = next(one for one in (asked, given, default) if one is not None)
    assert longest_run(compiled) == (400 if expected == -1 else expected)


def test_what_is_no_bound_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"max_whitespace_cnt must be .*, but is -2"):
        GrammarCompiler(BYTES, max_whitespace_cnt=-2)
    for meaning in MEANINGS:
        compiler = GrammarCompiler(BYTES, semantics=meaning)
        for wrong in (0, -2, "3"):
            with pytest.raises(Exception, match="whitespace"):
                compiler.compile_json_schema(OBJECT, max_whitespace_cnt=wrong)


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_printed_with_indentation_passes(meaning: str, end: str) -> None:
    value: Any = {}
    for _ in range(11):
        value = {"next": value}
    text = json.dumps({"next": value}, indent=8).replace("\n", end)
    compiler = GrammarCompiler(BYTES, semantics=meaning, max_whitespace_cnt=MOST_WHITE_SPACE)
    matcher = GrammarMatcher(compiler.compile_json_schema(NESTED))
    assert matcher.accept_string(text) and matcher.is_completed()


def test_adapters_bound_it_in_both_meanings_and_the_drop_in_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for meaning in MEANINGS:
        for given, expected in (({}, MOST_WHITE_SPACE), ({"max_whitespace_cnt": 5}, 5)):
            processor = GrammarLogitsProcessor(OBJECT, BYTES, semantics=meaning, **given)
            assert longest_run(processor._grammars[0]) == expected
    drop_in = adapters.xgrammar.GrammarCompiler(BYTES.tokenizer_info).compile_json_schema(OBJECT)
    assert longest_run(drop_in.hybrid) == 400
    settings = Settings("EQUIMASK_TEST")
    for given, expected in ((None, MOST_WHITE_SPACE), ("9", 9), ("-1", 400)):
        if given is not None:
            monkeypatch.setenv("EQUIMASK_TEST_MAX_WHITESPACE", given)
        compiler = BoundedCompiler(BYTES.tokenizer_info, settings=settings)
        assert longest_run(compiler.compile_json_schema(OBJECT).hybrid) == expected
        assert longest_run(compiler.compile_json_schema(OBJECT, max_whitespace_cnt=2).hybrid) == 2
    for wrong in ("0", "many", "-2", ""):
        monkeypatch.setenv("EQUIMASK_TEST_MAX_WHITESPACE", wrong)
        with pytest.raises(ValueError, match="an integer from 1 to 999999"):
            settings.max_whitespace_cnt()
