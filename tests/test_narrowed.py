"""Valid values that XGrammar's grammars of JSON schemas cannot write: `narrowed` explains each.

What: a table of schemas with a valid instance that XGrammar refuses; schemas whose every instance can be
written; random schemas; the valid instances of the corpus; how files, pages and the command line report it.
Limits: as for `tests.test_relaxed`; instances are written with their keys in the order of the schema.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from hybrid.api.compiler import GrammarCompiler
from hybrid.cli.artifacts import inspect_file
from hybrid.compiled import CompiledGrammar
from hybrid.pages import facts_of, render
from hybrid.xgrammar.relaxed import Narrowing, find_differences
from hybrid.xgrammar.relaxed.patterns import ESCAPED, UNANCHORED, pattern_limit
from tests.test_json_schema_meaning import BYTES
from tests.test_relaxed import INTEGER, OPEN, arrays, compile_plain, objects, strings, takes, write
from tests.versions import CONFUSES_PARTS

STRICT = {"strict_mode": True}
ORDER = "keys can only be written"


def narrowed(schema: Any, **options: Any) -> tuple[Narrowing, ...]:
    return find_differences(json.dumps(schema), **{**OPEN, **options}).narrowed


def found(schema: Any, **options: Any) -> list[str]:
    return [one.pointer for one in narrowed(schema, **options) if not one.reason.startswith(ORDER)]


def numbers(**more: Any) -> dict[str, Any]:
    return {"type": "number", **more}


# (schema, a text of a valid instance that XGrammar refuses, the pointer to the keyword)
LIMITS: list[tuple[Any, str, str]] = [
    (strings(maxLength=20), r'"a\nb"', "/maxLength"), (strings(minLength=1), r'"\""', "/minLength"),
    (strings(format="word", minLength=1), r'"\\"', "/minLength"), (strings(pattern="a"), '"bab"', "/pattern"),
    (strings(pattern="^a"), '"ab"', "/pattern"), (strings(pattern="a$"), '"ba"', "/pattern"),
    (strings(pattern="^a|b$"), '"ac"', "/pattern"), (strings(pattern=""), '"a"', "/pattern"),
    (strings(pattern="^.*$"), r'"\""', "/pattern"), (strings(pattern=r"^\S$"), r'"\\"', "/pattern"),
    (strings(pattern="^[A-z]$"), r'"\\"', "/pattern"), (strings(pattern=r"^\t$"), r'"\t"', "/pattern"),
    (strings(format="time"), '"12:00:00z"', "/format"), (strings(format="hostname"), '"A"', "/format"),
    (strings(format="email"), '"a@b.c"', "/format"), (strings(format="uri"), '"http://[::1]/"', "/format"),
    (strings(format="uri-reference"), '"a:b"', "/format"),
    (strings(format="ipv6"), '"1::2:1.2.3.4"', "/format"), (numbers(minimum=0), "0.1234567", "/minimum"),
    (numbers(exclusiveMaximum=1), "-0.0000001", "/exclusiveMaximum"),
    ({"enum": ["a", {"x": [2**64]}]}, '{"x":[18446744073709551616]}', "/enum"),
    ({"properties": {"a": {}}}, "1", "/properties"), ({"items": INTEGER}, "1", "/items"),
    (arrays(minContains=2), "[]", "/minContains"),
    (arrays(contains=INTEGER, unevaluatedItems=False), "[1]", "/unevaluatedItems"),
    (objects(properties={"a": {}}, required=["b"]), '{"b":1}', "/required"),
    (objects(patternProperties={"^a.*$": {}}), '{"b":1}', "/patternProperties"),
    (objects(patternProperties={"^a": INTEGER}, additionalProperties=False), '{"ab":1}', ""),
    (objects(propertyNames={"minLength": 1}), r'{"\"":1}', "/propertyNames/minLength"),
    (arrays(items=strings(pattern="a")), '["ba"]', "/items/pattern"),
    ({"$ref": "#/$defs/x", "$defs": {"x": strings(maxLength=3)}}, r'"\n"', "/$defs/x/maxLength"),
    ({"anyOf": [INTEGER, strings(pattern="a")]}, '"ba"', "/anyOf/1/pattern"),
]  # fmt: skip
LIMITS_BEFORE_0_2_9: list[tuple[Any, str, str]] = [
    ({"const": 0.1}, "0.1", "/const"),
    (objects(propertyNames={"pattern": "^a$"}, additionalProperties={"pattern": "^a$"}),
     '{"a":5}', "/additionalProperties/pattern"),
]  # fmt: skip
STRICT_LIMITS: list[tuple[Any, str, str]] = [
    (objects(dependentSchemas={"a": {"properties": {"b": {}}}}, unevaluatedProperties=False),
     '{"a":1,"b":1}', "/unevaluatedProperties"),
    (objects(properties={"a": {}}), '{"b":1}', "/properties"), (objects(required=["a"]), '{"a":1}', "/type"),
    (arrays(uniqueItems=True), "[1]", "/type"), (arrays(prefixItems=[INTEGER]), "[1,2]", "/prefixItems"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "text", "pointer", "options", "is_taken"),
    [
        *((*row, {}, False) for row in LIMITS), *((*row, STRICT, False) for row in STRICT_LIMITS),
        *((*row, {}, not CONFUSES_PARTS) for row in LIMITS_BEFORE_0_2_9),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_listed(
    schema: Any, text: str, pointer: str, options: dict[str, Any], is_taken: bool
):
    if pointer != "/unevaluatedProperties":  # for jsonschema nothing evaluates "a"; only "b" matters here
        assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
    assert takes(compile_plain(schema, **options), text) == is_taken, "XGrammar writes it now"
    pointers = found(schema, **options)
    assert pointer in pointers if pointer else pointers


# (schema, texts of valid instances): nothing is narrower
WRITTEN: list[tuple[Any, list[str]]] = [
    (True, ["1", "{}"]), (strings(), [r'"\"\\\n\u0001é"']), (strings(minLength=0), [r'"\""']),
    (strings(maxLength=0), ['""']), (strings(maxLength=2**31), [r'"\n"']),
    (strings(pattern="^[a-z]{2}$|^$"), ['""', '"ab"']), (strings(pattern=r"^(a|\d)*é$"), ['"a1é"']),
    (strings(pattern="(^a$|^b$)"), ['"b"']),
    (strings(format="uuid"), ['"2eb8aa08-aa98-11ea-b4aa-73b441d16380"']),
    (strings(format="date", maxLength=3), []), (strings(format="word"), [r'"\n"']),
    (numbers(), ["1e5", "-0.12345678901"]), (INTEGER | {"minimum": 0}, ["123456789012345678901234567890"]),
    (INTEGER | {"multipleOf": 7}, ["-14", "0"]),
    ({"enum": [1, 1.5, 1e16, 0.25, '"\\\n', None, 2**63 - 1]}, ["1.5", "0.25", '"\\"\\\\\\n"', "null"]),
    (arrays(contains=INTEGER, minContains=2), ["[1,2]"]),
]  # fmt: skip
STRICT_WRITTEN: list[tuple[Any, list[str]]] = [
    ({}, ['{"a":[{"b":1}]}']), (arrays(), ["[1]"]), (objects(description="d"), ['{"a":1}']),
    (objects(propertyNames={"pattern": "^[a-z]$"}), ['{"a":1}']),
    (objects(properties={"a": {}}, additionalProperties=True), ['{"a":1,"b":1}']),
    (objects(properties={"a": {}}, additionalProperties=False), ['{"a":1}']),
    (arrays(prefixItems=[INTEGER, strings()], items=True), ["[]", '[1,"a",2]']),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "texts", "options"),
    [*((*row, {}) for row in WRITTEN), *((*row, STRICT) for row in STRICT_WRITTEN)],
)
def test_what_can_be_written_is_not_listed(schema: Any, texts: list[str], options: dict[str, Any]):
    assert found(schema, **options) == []
    compiled = compile_plain(schema, **options)
    for text in texts:
        assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
        assert takes(compiled, text)


def test_the_order_of_keys_is_listed_once():
    inner = objects(properties={"a": {}, "b": {}}, additionalProperties=False)
    schema = objects(properties={"x": inner, "y": {"enum": [{"a": 1, "b": 2}]}, "z": {"$ref": "#/$defs/o"}})
    schema["$defs"] = {"o": objects(properties={"a": {}}, additionalProperties=False)}

    def ordered(**options: Any) -> list[Narrowing]:
        return [one for one in narrowed(schema, **options) if one.reason.startswith(ORDER)]

    assert [one.pointer for one in ordered()] == ["/properties"]
    assert "2 more places" in ordered()[0].reason
    assert not takes(compile_plain(schema), '{"x":{"b":1,"a":1}}')
    assert [one.pointer for one in ordered(any_order=True)] == ["/properties/y/enum"]
    assert takes(compile_plain(schema, any_order=True), '{"x":{"b":1,"a":1}}')


@pytest.mark.parametrize(
    ("schema", "is_ordered"),
    [
        (objects(), False), (objects(properties={"a": {}}), True),
        (objects(properties={"a": {}}, additionalProperties=False), False),
        (objects(patternProperties={"^a": {}}), False),
        (objects(properties={"a": {}}, patternProperties={"^b": {}}, additionalProperties=False), True),
    ],
)  # fmt: skip
def test_keys_have_an_order_if_one_is_declared_and_another_may_come(schema, is_ordered):
    assert any(one.reason.startswith(ORDER) for one in narrowed(schema)) == is_ordered


def test_what_strict_mode_forbids_is_listed_once():
    schema = objects(properties={"a": objects(properties={"b": {}}), "c": arrays(minItems=0)})
    (closed,) = (one for one in narrowed(schema, **STRICT) if one.reason.startswith("strict_mode forbids"))
    assert closed.pointer == "/properties" and "2 more places" in closed.reason


@pytest.mark.parametrize(
    ("draft", "validator", "schema", "instance"),
    [
        ("draft-03", jsonschema.Draft3Validator, {"const": 1}, 2),
        ("draft-04", jsonschema.Draft4Validator, {"const": 1}, 2),
        ("draft-07", jsonschema.Draft7Validator, arrays(prefixItems=[INTEGER]), ["a"]),
        ("draft-07", jsonschema.Draft7Validator, arrays(contains=INTEGER, minContains=2), [1]),
    ],
)
def test_keywords_that_the_draft_does_not_know_are_listed(
    draft: str, validator: Any, schema: Any, instance: Any
):
    old = {"$schema": f"http://json-schema.org/{draft}/schema#", **schema}
    assert validator(old).is_valid(instance)
    assert not takes(compile_plain(old), write(instance))
    assert found(old) and not found(schema)


LIMITED = {
    "": ["^a$", "^(a|b)$", "(^a|^b)$", "^a(b$)", "^[#-&]$", r"^\d\w$", r"^\.\-$"],
    UNANCHORED: ["(^a|b)$", "(^a)?b$", "^a(b$)*", "^[a"],
    ESCAPED: [".*a.*", "^.+$", "^[^a]$", "^[ -#]$", "^[\\d\\w]$", r"^\s$", r"^\u0022$"],
}


@pytest.mark.parametrize(
    ("pattern", "limit"), [(pattern, limit) for limit, patterns in LIMITED.items() for pattern in patterns]
)
def test_limits_of_patterns(pattern: str, limit: str):
    assert pattern_limit(pattern) == limit


@pytest.fixture(scope="module")
def compiled() -> CompiledGrammar:
    compiler = GrammarCompiler(BYTES, strategy="classifier")
    return compiler.compile_json_schema(objects(properties={"name": strings(maxLength=3)}))


def test_files_keep_it(compiled: CompiledGrammar, tmp_path: Path):
    path = tmp_path / "grammar.equimask"
    compiled.save(path)
    loaded = CompiledGrammar.load(path, BYTES)
    assert loaded.narrowed == compiled.narrowed
    assert [one.keyword for one in loaded.narrowed] == ["maxLength", "properties"]
    out = io.StringIO()
    inspect_file(Console(file=out, width=200), path, None)
    assert "keywords that are not enforced: 1" in out.getvalue()
    assert "keywords that forbid some valid values: 2" in out.getvalue()
    assert "maxLength at /properties/name/maxLength: no escape can be written" in out.getvalue()


def test_pages_show_it(compiled: CompiledGrammar):
    page = render(facts_of(compiled, "a grammar", "JSON schema", 0.0, b'{"name": "a"}'))
    assert "no escape can be written" in page
    assert "2</b><span>keywords forbid valid values" in page


def test_strict_asks_for_what_is_left_out_alone():
    schema = objects(properties={"a": strings(pattern="a"), "b": numbers(minimum=0)})
    compiled = GrammarCompiler(BYTES, strategy="engine").compile_json_schema(schema, strict=True)
    assert compiled.relaxed == () and compiled.narrowed != ()


def test_with_its_own_meaning_nothing_is_narrower():
    compiler = GrammarCompiler(BYTES, semantics="json-schema")
    assert compiler.compile_json_schema(strings(pattern="a", maxLength=3)).narrowed == ()
    assert compiler.compile_regex("a").narrowed == ()
