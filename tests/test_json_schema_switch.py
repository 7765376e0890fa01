"""The option for the meaning of schemas, everywhere users can set it: command line, processor, adapters'
settings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from adapters.engines.bounded_compiler import BoundedCompiler
from adapters.engines.settings import Settings
from adapters.transformers import GrammarLogitsProcessor
from hybrid import CompiledGrammar, GrammarCompiler, GrammarError, GrammarMatcher
from hybrid.cli.commands import app
from hybrid.cli.grammar_source import read_named
from tests.test_json_schema_meaning import BYTES, compiled_bytes, written

SCHEMA = {"type": "string", "pattern": "a"}
APART = '"bab"'
"""A text that one meaning allows and the other does not."""


DATE = {"type": "string", "format": "date"}


@pytest.mark.parametrize(
    ("schema", "text", "options", "is_written"),
    [
        (SCHEMA, APART, ["--semantics", "json-schema"], True),
        (SCHEMA, APART, ["--semantics", "xgrammar"], False),
        (DATE, '"x"', ["--semantics", "json-schema"], False),
        (DATE, '"x"', ["--semantics", "json-schema", "--no-formats"], True),
    ],
)
def test_the_command_line_takes_it(
    schema: Any, text: str, options: list[str], is_written: bool, tmp_path: Path
) -> None:
    BYTES.save(tmp_path / "bytes.npz")
    (tmp_path / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
    words = ["compile", str(tmp_path / "schema.json"), "-o", str(tmp_path / "out"), *options]
    result = CliRunner().invoke(app, [*words, "--vocabulary", str(tmp_path / "bytes.npz")])
    assert result.exit_code == 0, result.output
    assert written(CompiledGrammar.load(tmp_path / "out", BYTES), text) == is_written


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


def test_schemas_inside_structural_tags_keep_the_meaning_of_xgrammar() -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    content = {"type": "json_schema", "json_schema": schema}
    tag = {"type": "tag", "begin": "<a>", "content": content, "end": "</a>"}
    compiler = GrammarCompiler(BYTES, semantics="json-schema")
    assert not written(compiler.compile_json_schema(schema), "[1, 1]")
    compiled = compiler.compile_structural_tag({"type": "structural_tag", "format": tag})
    assert written(compiled, "<a>[1, 1]</a>")


def test_the_processor_takes_it() -> None:
    for schema, text, options, is_written in (
        (SCHEMA, APART, {"semantics": "json-schema"}, True),
        (SCHEMA, APART, {}, False),
        (DATE, '"x"', {"semantics": "json-schema"}, False),
        (DATE, '"x"', {"semantics": "json-schema", "assert_formats": False}, True),
    ):
        processor = GrammarLogitsProcessor(schema, BYTES, **options)
        assert written(processor._grammars[0], text) == is_written


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
    ending = bytes(GrammarMatcher(compiled).shortest_completion())
    assert json.loads(ending) == {"age": 0}
    assert compiled.promote()
    assert written(compiled, '{"age":7}')
