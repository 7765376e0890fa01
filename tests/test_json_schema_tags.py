"""Schemas inside structural tags with the meaning of JSON Schema.

What: the table of meanings, inside of a tag; masks, next to plain XGrammar's on the same grammars; places in
errors; formats that keep XGrammar's meaning.
When: after a change of `hybrid.compile.tag_request`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import xgrammar
from pydantic import create_model

import adapters.xgrammar
from adapters.engines.bounded_compiler import BoundedCompiler
from adapters.engines.settings import Settings
from hybrid import GrammarCompiler, GrammarMatcher, HybridError, SchemaRefused
from hybrid.json_schema import MOST_WHITE_SPACE, grammar_of_schema
from hybrid.testing.mask_comparison import compare_along
from tests.test_json_schema_meaning import BYTES, TABLE, compiled_bytes, written

UNIQUE = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
PATTERN = {"type": "string", "pattern": "a"}
APART = '<a>"bab"</a>'
"""A text that one meaning allows and the other does not."""


def tag_of(content: dict[str, Any]) -> dict[str, Any]:
    tag = {"type": "tag", "begin": "<a>", "content": content, "end": "</a>"}
    return {"type": "structural_tag", "format": tag}


def tag_with(schema: Any, **options: Any) -> dict[str, Any]:
    return tag_of({"type": "json_schema", "json_schema": schema, **options})


def compiler() -> GrammarCompiler:
    return GrammarCompiler(BYTES, semantics="json-schema")


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_a_schema_means_the_same_inside_of_a_tag(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    alone = compiled_bytes(schema)
    if alone.places is not None:
        with pytest.raises(SchemaRefused, match="must not be repeated"):
            compiler().compile_structural_tag(tag_with(schema))
        return
    inside = compiler().compile_structural_tag(tag_with(schema))
    for text in map(json.dumps, (*valid, *invalid)):
        assert written(inside, f"<a>{text}</a>") == written(alone, text)


def test_masks_are_those_of_xgrammar_for_the_grammar_of_the_schema() -> None:
    schema = {"properties": {"a": {"multipleOf": 7}, "b": {"maxLength": 3}}, "additionalProperties": PATTERN}
    grammar = grammar_of_schema(schema, {"max_whitespace_cnt": MOST_WHITE_SPACE})
    plain = xgrammar.GrammarCompiler(BYTES.tokenizer_info).compile_structural_tag(
        tag_of({"type": "grammar", "grammar": grammar.ebnf})
    )
    ours = compiler().compile_structural_tag(tag_with(schema))
    found = compare_along(ours, plain, '<a>{"a": 14, "b": "\\n\u00e9", "c": "bab"}</a>'.encode())
    assert found.exact and found.complete


def test_no_surrogate_is_written() -> None:
    compiled = compiler().compile_structural_tag(tag_with({"type": "string"}))
    for character, is_read in ((b"\xed\x9f\xbf", True), (b"\xed\xa0\x80", False), (b"\xee\x80\x80", True)):
        assert GrammarMatcher(compiled).accept_string(b'<a>"' + character) == is_read


def test_tags_of_both_meanings_do_not_share_a_grammar() -> None:
    both = compiler()
    tag = tag_with(PATTERN)
    exact = both.compile_structural_tag(tag)
    assert both.compile_structural_tag(tag) is exact and written(exact, APART)
    assert not written(both.compile_structural_tag(tag, semantics="xgrammar"), APART)
    other = GrammarCompiler(BYTES)
    assert not written(other.compile_structural_tag(tag), APART)
    assert written(other.compile_structural_tag_async(tag, semantics="json-schema").result(), APART)


def test_the_older_form_and_the_options_of_a_format() -> None:
    item = xgrammar.StructuralTagItem(begin="<a>", schema=create_model("Item", a=(int, ...)), end="</a>")
    older = compiler().compile_structural_tag([item], ["<a>"])
    assert written(older, 'x <a>{"a": 1}</a> y') and not written(older, "x <a>{}</a>")
    short = compiler().compile_structural_tag(tag_with({"type": "array"}, max_whitespace_cnt=1))
    assert written(short, "<a>[ ]</a>") and not written(short, "<a>[  ]</a>")
    dates = tag_with({"format": "date"})
    assert not written(compiler().compile_structural_tag(dates), '<a>"x"</a>')
    annotated = GrammarCompiler(BYTES, semantics="json-schema", assert_formats=False)
    assert written(annotated.compile_structural_tag(dates), '<a>"x"</a>')


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        (tag_with({"items": {"pattern": "("}}), "'pattern' at /format/content/json_schema/items is"),
        (tag_with({"not": {}}), "the schema at /format/content/json_schema has no valid instance"),
        (tag_with(UNIQUE), "the schema at /format/content/json_schema has items or keys that must not be"),
        (tag_with({}, excludes=["x"]), "the schema at /format/content/json_schema has `excludes`"),
        (tag_with({}, any_order=True), "any_order is not available with semantics='json-schema'"),
        (tag_with({}, max_whitespace_cnt="x"), "the option max_whitespace_cnt must be of type int"),
        (tag_with(5), "must be an object or a boolean, but is 5"),
        (tag_of({"type": "json_schema"}), "must be an object or a boolean, but is None"),
        ("{", "the structural tag cannot be read: it is not valid JSON"),
        ({"type": "structural_tag", "format": {"type": "no"}}, "XGrammar refuses the structural tag"),
    ],
)  # fmt: skip
def test_refusals_name_the_place(tag: Any, message: str) -> None:
    with pytest.raises(HybridError, match=message):
        compiler().compile_structural_tag(tag)


def test_parameters_in_xml_have_the_meaning_of_xgrammar() -> None:
    in_xml = tag_with({"type": "object", "properties": {"a": {"not": {}}}}, style="qwen_xml")
    ours, plain = (
        GrammarCompiler(BYTES, semantics=one).compile_structural_tag(in_xml)
        for one in ("json-schema", "xgrammar")
    )
    text = "<a>\n<parameter=a>\nx\n</parameter>\n</a>"
    assert written(ours, text) == written(plain, text)


def test_adapters_give_it_to_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    tag = tag_with(PATTERN)
    drop_in = adapters.xgrammar.GrammarCompiler(BYTES.tokenizer_info, semantics="json-schema")
    assert written(drop_in.compile_structural_tag(tag).hybrid, APART)
    monkeypatch.setenv("EQUIMASK_TEST_SEMANTICS", "json-schema")
    engine = BoundedCompiler(BYTES.tokenizer_info, settings=Settings("EQUIMASK_TEST"))
    assert written(engine.compile_structural_tag(tag).hybrid, APART)
