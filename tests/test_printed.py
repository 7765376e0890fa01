"""A grammar read from XGrammar's printed form is the one that XGrammar serialises; else it is not read.

What: networks of both readings, array by array, for schemas of the cases, of all formats and drawn at random;
every printable form; each form that is not read.
When: after any change of how JSON schemas are read for masks before classes.
Limits: only the network's arrays are compared; they do not depend on how expressions are numbered.
"""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
import xgrammar
from hypothesis import given
from hypothesis import strategies as st

from equivalence import GrammarError
from equivalence.network import build_network, dialect, grammar_reader
from equivalence.network.grammar_reader import ParsedGrammar, read_grammar, read_printed, read_rules
from hybrid import GrammarCompiler, Vocabulary
from hybrid.compile.schema_request import JsonSchemaRequest
from hybrid.compile.settings import Settings
from hybrid.values.budget import Budget
from hybrid.xgrammar.relaxed.scalars import FORMATS
from tests.conftest import load_cases
from tests.test_network import arrays
from tests.versions import any_separators, strict_classes

pytestmark = pytest.mark.kernels

TEXT = st.text(st.sampled_from("ab\"\\'/?^-[]{}|()=:,. \0\x07\t\n\x1b\x7f\x80éÿĀ€\U00010000"), max_size=4)


def request_of(schema: Any, **options: Any) -> JsonSchemaRequest:
    return JsonSchemaRequest(json.dumps(schema), options, settings=Settings("auto", Budget()))


def same_network(read: ParsedGrammar, grammar: xgrammar.Grammar) -> bool:
    ours, whole = (build_network(one, token_bytes=9) for one in (read, read_grammar(grammar)))
    return arrays(ours) == arrays(whole)


def is_read(schema: Any, **options: Any) -> bool:
    """Return whether a schema is read from its printed form; if so, check it against the serialised form."""
    request = request_of(schema, **options)
    grammar = request.convert_here()
    read = request.read_text(grammar)
    if read is None:
        return False
    assert same_network(read, grammar)
    assert read.whole() == json.loads(grammar.serialize_json())
    return True


def printed(ebnf: str, has_caret: bool = True) -> ParsedGrammar | None:
    grammar = xgrammar.Grammar.from_ebnf(ebnf)
    read = read_printed(grammar, has_caret)
    assert read is None or same_network(read, grammar)
    return read


@pytest.mark.parametrize("strict_mode", [False, True])
def test_schemas_of_the_cases_are_read_as_they_are_serialised(strict_mode: bool) -> None:
    schemas = [json.loads(case.grammar) for case in load_cases() if case.kind == "json_schema"]
    read = [is_read(schema, strict_mode=strict_mode) for schema in schemas]
    assert sum(read) > len(read) // 2


@pytest.mark.parametrize("format_name", FORMATS)
def test_formats_are_read_as_they_are_serialised(format_name: str) -> None:
    assert is_read({"type": "string", "format": format_name})


SIMPLE = st.one_of(
    st.fixed_dictionaries({"enum": st.lists(TEXT | st.integers() | st.none(), min_size=1, max_size=3)}),
    st.fixed_dictionaries({"const": TEXT | st.dictionaries(TEXT, TEXT, max_size=2)}),
    st.sampled_from(
        [
            {"type": "number"}, {"type": "boolean"}, {"type": "integer"}, {"type": "integer", "minimum": -3},
            {"type": "integer", "minimum": 1, "maximum": 120}, {"type": "string"},
            {"type": "string", "minLength": 1}, {"type": "string", "maxLength": 3},
            {"type": "string", "minLength": 2, "maxLength": 70},
            {"type": "array", "items": {"type": "boolean"}, "maxItems": 30},
        ]
    ),
)  # fmt: skip


ANY_OF = st.fixed_dictionaries({"anyOf": st.lists(SIMPLE, min_size=1, max_size=3)})
SCHEMAS = st.fixed_dictionaries({
    "properties": st.dictionaries(TEXT, SIMPLE | ANY_OF, max_size=3),
    "additionalProperties": st.booleans() | SIMPLE,
    "required": st.lists(TEXT, max_size=1),
})  # fmt: skip


@given(SCHEMAS, st.booleans(), st.booleans(), st.sampled_from([None, 2]))
def test_random_schemas_are_read_as_they_are_serialised(
    schema: dict[str, Any], strict_mode: bool, any_whitespace: bool, indent: int | None
) -> None:
    is_read(schema, strict_mode=strict_mode, any_whitespace=any_whitespace, indent=indent)


@strict_classes
def test_every_character_is_read_in_texts_and_classes() -> None:
    codes = [*range(1, 0x80), *range(0x100, 0xD800, 97), *range(0xE000, 0x110000, 4099), 0x10FFFF]
    text = "".join(f"\\U{code:08x}" for code in codes)
    assert printed(f'root ::= "{text}"')
    codes = [code for code in (*codes, *range(0x80, 0x100)) if code != ord("^")]
    ranges = "".join(f" [\\U{code:08x}-\\U{min(code + 40, 0x10FFFF):08x}\\U{code:08x}]" for code in codes)
    assert printed(f"root ::= {ranges}", has_caret=False)
    assert printed("root ::= [\\0^] [^\\0-\\x1f^]* [^\\0]")


@pytest.mark.parametrize(
    "ebnf",
    [
        'root ::= "" | "a"', 'root ::= ("a" | "b" | "" | other) other\nother ::= "c"',
        "root ::= [a] | [b-c]*",
        'root ::= a{0, 3} b{2, 900} a{4,}\na ::= "x" | [0-9]\nb ::= a "y" (= "z")', 'root ::= root "a" | "b"',
        'other-1.x ::= root\nroot ::= "a" other-1.x | "b"',
    ],
)  # fmt: skip
def test_forms_that_are_read(ebnf: str) -> None:
    assert printed(ebnf)


@pytest.mark.parametrize(
    "ebnf",
    [
        "root ::= [^a]", "root ::= [\\^a]", 'root ::= "\\x80"', 'root ::= "é"', 'root[max_tokens=3] ::= "a"',
        'root ::= TagDispatch(("a", other))\nother ::= "b"', 'root ::= Token(1)',
        'root ::= one\none[lazy] ::= "a"', 'root ::= Regex("a+")', 'root ::= one\none[capture] ::= "a"',
    ],
)  # fmt: skip
def test_forms_that_are_not_read(ebnf: str) -> None:
    assert printed(ebnf) is None


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "root", "root ::= ", "root ::= (", "root ::= (\n", 'root ::= ("', 'root ::= (("a\n',
        "root ::= ()\n",
        "root ::= (())\n", 'root ::= (("a" ))\n', 'root ::= (("a"  "b"))\n', 'root ::= (("a") |("b"))\n',
        'root ::= (("\\x4"))\n', 'root ::= (("\\u00"))\n', 'root ::= (("\\z"))\n', "root ::= (([a))\n",
        "root ::= (([a-))\n", "root ::= ((other))\n", "root ::= ((root{))\n", "root ::= ((root{1))\n",
        'root ::= Regex("a")\n', 'root ::= Regex("a", json_string=false)\n',
        'root ::= Regex("a, json_string=true)\n',
        'root ::= Regex("\\xe9", json_string=true)\n', 'root ::= Regex("\\0", json_string=true)\n',
        'root ::= (Regex("a", json_string=true))\n',
        'root ::= Regex("a", json_string=true) "b"\n', "root ::= R\n",
        "root ::= ((root{3, 2}))\n", "root ::= ((root{0, -2}))\n", "root ::= ((root{99999999999, -1}))\n",
        'root ::= (("a"))', 'root ::= (("a"))x\n', 'root ::= (("a"))\nroot ::= (("b"))\n', ' ::= (("a"))\n',
        'root := (("a"))\n', 'root ::= ("a")\n', 'root ::= ((("a")))\n', 'root ::= (("\\ud800"))\n',
        'root ::= (("\\U00110000"))\n', 'root ::= (("\x7f"))\n', "root ::= ((root[0]))\n",
    ],
)  # fmt: skip
def test_other_texts_are_not_read(text: str) -> None:
    found = read_rules(text.encode(), False)
    assert found is None or found.first < 0


@pytest.mark.parametrize(
    "schema",
    [
        '{"const": "a\\u0000b"}', '{"const": "a\0b"}', '{"const": "\\u0061"}',
        '{"title": "\\\\x00"}', '{"title": "\\\\0"}', '{"title": "\\\\c@"}', '{"title": "\\\\u{0}"}',
    ],
)  # fmt: skip
def test_schemas_of_which_a_print_may_tell_a_part_are_not_read_that_way(schema: str) -> None:
    cut = xgrammar.Grammar.from_ebnf('root ::= "a\\0b"')
    read = read_printed(cut, False)
    assert read is not None and not same_network(read, cut)
    assert JsonSchemaRequest(schema, {}, settings=Settings("auto", Budget())).read_text(cut) is None


PATTERNS = st.lists(
    st.sampled_from(
        [
            "^", "$", "a+", "\\d{2,4}", "[^a-c]", "[\\^a]+", "[^\\]]*", "[^ -\\]]", "[\\[^]",
            '["^]', "[|^]", "(^|b)", "(c|[^^])?",
            "\\.", "\\S+", "\\W", "[^\\S]", "é", ".*", "/", "'", '"', "[!-~]{3}", "[^]a]", "[\\\\^]+",
        ]
    ),
    min_size=1, max_size=4,
).map("".join)  # fmt: skip


@given(PATTERNS, PATTERNS, st.booleans())
def test_patterns_are_read_as_they_are_serialised(one: str, other: str, is_name: bool) -> None:
    of_name = {"patternProperties": {other: {"type": "null"}}} if is_name else {"required": ["a^"]}
    schema = {"properties": {"^a": {"type": "string", "pattern": one}, "a^": {"enum": [other]}}, **of_name}
    try:
        is_read(schema)
    except (RuntimeError, GrammarError):
        return  # XGrammar has no such pattern


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("^a+$", True), ("[^a-z]{2,}", True), ("(a/b|[\\w.-]+)*", True),
        ("\\x00+", False), ("a+\\u0000", False),
    ],
)  # fmt: skip
def test_patterns_that_are_read(pattern: str, wanted: bool) -> None:
    assert is_read({"type": "string", "pattern": pattern, "minLength": 1}) is wanted


@any_separators
def test_separators_may_hold_anything() -> None:
    assert is_read({"const": "a b"})
    assert not is_read({"const": "a b"}, separators=(",\0", ":"))


def test_an_xgrammar_that_prints_otherwise_is_serialised(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = xgrammar.Grammar.from_json_schema('{"type": "integer"}')
    assert read_printed(grammar, False) is not None
    probe = grammar_reader._PROBE.replace("{2, 3}", "{2,3}")
    for module, name, value in ((grammar_reader, "_PROBE", probe), (dialect, "LAYOUT", "v17")):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, value)
            grammar_reader._prints_as_known.cache_clear()
            assert read_printed(grammar, False) is None
    grammar_reader._prints_as_known.cache_clear()
    assert read_printed(grammar, False) is not None


def test_a_printed_grammar_is_not_serialised_before_somebody_asks() -> None:
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], special_token_ids=[], stop_token_ids=[0])
    compiler = GrammarCompiler(vocabulary)
    schema = {"type": "object", "properties": {"a": {"type": "array"}}}
    with patch.object(xgrammar.Grammar, "serialize_json") as asked:
        for strict_mode in (True, False):  # with False, some rules consist of a repeat only
            assert compiler.compile_json_schema(schema, strict_mode=strict_mode).strategy == "classifier"
    asked.assert_not_called()
