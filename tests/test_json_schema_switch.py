"""The options for the meaning of schemas and for white space, everywhere users can set them: command line,
processor, adapters' settings.

White space between the parts of JSON texts is bounded by default, except with XGrammar's meaning of schemas.
The bound applies to one run. Indented documents must pass; a model that writes blanks until it runs out of
tokens must be stopped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ConfigDict, create_model

import adapters.xgrammar
from adapters.engines.bounded_compiler import BoundedCompiler
from adapters.engines.settings import Settings
from adapters.transformers import GrammarLogitsProcessor
from equivalence.errors import ArgumentError
from hybrid import CompiledGrammar, GrammarCompiler, GrammarError, GrammarMatcher
from hybrid.cli.grammar_source import read_named
from hybrid.json_schema import MOST_WHITE_SPACE
from tests.test_cli import run
from tests.test_json_schema_meaning import BYTES, compiled_bytes, written

SCHEMA = {"type": "string", "pattern": "a"}
APART = '"bab"'
"""A text that one meaning allows and the other does not."""


DATE = {"type": "string", "format": "date"}


@pytest.mark.parametrize(
    ("schema", "text", "options", "is_written"),
    [
        (SCHEMA, APART, {"semantics": "json-schema"}, True),
        (SCHEMA, APART, {}, False),
        (DATE, '"x"', {"semantics": "json-schema"}, False),
        (DATE, '"x"', {"semantics": "json-schema", "assert_formats": False}, True),
    ],
)
def test_the_processor_and_the_command_line_take_it(
    schema: Any, text: str, options: dict[str, Any], is_written: bool, tmp_path: Path
) -> None:
    assert written(GrammarLogitsProcessor(schema, BYTES, **options)._grammars[0], text) == is_written
    BYTES.save(tmp_path / "bytes.npz")
    (tmp_path / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
    words = ["compile", str(tmp_path / "schema.json"), "-o", str(tmp_path / "out")]
    words += ["--semantics", options.get("semantics", "xgrammar")]
    words += ["--no-formats"] * ("assert_formats" in options)
    run(*words, "--vocabulary", str(tmp_path / "bytes.npz"))
    assert written(CompiledGrammar.load(tmp_path / "out", BYTES), text) == is_written


ANY_TYPE = create_model(
    "AnyType", __config__=ConfigDict(arbitrary_types_allowed=True), a=(GrammarCompiler, ...)
)


@pytest.mark.parametrize("semantics", ["xgrammar", "json-schema"])
@pytest.mark.parametrize("model", [int, ANY_TYPE])
def test_classes_without_a_schema_are_refused(model: type, semantics: str) -> None:
    with pytest.raises(GrammarError, match=f"the class '{model.__name__}' has no JSON schema"):
        GrammarCompiler(BYTES, semantics=semantics).compile_json_schema(model)


def test_sources_say_what_schemas_mean() -> None:
    source = read_named(json.dumps(SCHEMA), semantics="json-schema").source
    assert source.options == {"strict_mode": True, "semantics": "json-schema"}
    assert source.kind == "json_schema"
    assert read_named('root ::= "a"', semantics="json-schema").source.kind == "grammar"


@pytest.mark.parametrize("by_default", [True, False])
def test_calls_and_compilers_say_what_formats_are(by_default: bool) -> None:
    compiler = GrammarCompiler(BYTES, semantics="json-schema", assert_formats=by_default)
    for options, is_checked in (
        ({}, by_default), ({"assert_formats": True}, True), ({"assert_formats": False}, False),
    ):  # fmt: skip
        assert written(compiler.compile_json_schema(DATE, **options), '"x"') != is_checked
        in_background = compiler.compile_json_schema_async(DATE, relax=True, **options).result()
        assert written(in_background, '"x"') != is_checked
    with pytest.raises(GrammarError, match="there is no option 'formats'"):
        compiler.compile_json_schema(SCHEMA, formats=True)
    with pytest.raises(GrammarError, match="there is no option 'formats'"):
        compiler.compile_json_schema_async(SCHEMA, formats=True).result()


def test_operators_say_it_in_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings("EQUIMASK_TEST")
    assert settings.semantics() == "xgrammar"

    def compiled(schema: Any) -> Any:
        compiler = BoundedCompiler(BYTES.tokenizer_info, settings=settings)
        return compiler.compile_json_schema(json.dumps(schema))

    monkeypatch.setenv("EQUIMASK_TEST_SEMANTICS", "json-schema")
    assert written(compiled(SCHEMA).hybrid, APART)
    assert "root" in str(compiled(SCHEMA).grammar)
    for given, is_checked in (("1", True), ("0", False)):
        monkeypatch.setenv("EQUIMASK_TEST_FORMATS", given)
        assert written(compiled(DATE).hybrid, '"someday"') != is_checked
    monkeypatch.setenv("EQUIMASK_TEST_FORMATS", "no")
    with pytest.raises(ValueError, match="EQUIMASK_TEST_FORMATS"):
        settings.assert_formats()
    monkeypatch.setenv("EQUIMASK_TEST_SEMANTICS", "openai")
    with pytest.raises(ValueError, match="must be xgrammar"):
        settings.semantics()


def test_what_matchers_offer_works_with_either() -> None:
    schema = {"properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["age"]}
    compiled = compiled_bytes({**schema, "type": "object"})
    matcher = GrammarMatcher(compiled)
    assert matcher.accept_string('{"na')
    assert matcher.find_jump_forward_string() == 'me"'
    told = matcher.explain()
    assert [(one.kind, one.text, one.rules) for one in told.expected] == [("literal", 'me"', ())]
    assert told.rules == () and not told.omitted
    assert "refused" in str(matcher.explain_refusal("x"))
    other = matcher.fork()
    assert other.accept_string('me":"x","age":1}')
    other.rollback(1)
    assert not other.is_terminated()
    assert json.loads(bytes(GrammarMatcher(compiled).shortest_completion())) == {"age": 0}
    assert compiled.promote()
    assert written(compiled, '{"age":7}')


def test_white_space_is_told_apart_from_other_bytes() -> None:
    matcher = GrammarMatcher(compiled_bytes({"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 1}))
    for text, told in (("[", """'"' or white space"""), ('"x"', "[,\\]] or white space")):
        assert matcher.accept_string(text)
        assert matcher.explain().sentence == f"expected {told}"


# --- White space --------------------------------------------------------------------------------------------

MEANINGS = "xgrammar", "json-schema"

OBJECT = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
NESTED = {"type": "object", "properties": {"next": {"$ref": "#"}}}


def longest_run(compiled: CompiledGrammar) -> int:
    """Return how many blanks are accepted after an object's opening brace; 400 if there is no limit."""
    matcher = GrammarMatcher(compiled)
    assert matcher.accept_string("{")
    for blanks in range(400):
        if not matcher.accept_string(" "):
            return blanks
    return 400


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
