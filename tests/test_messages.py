"""The error message for a refused grammar or schema says where the fault is and what to do, and names no
place in XGrammar's sources.
"""

from __future__ import annotations

import json
import re
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import adapters.xgrammar
import hybrid.guard
from equivalence import GrammarError
from hybrid import GrammarCompiler
from hybrid.cli.grammar_source import read_grammar
from hybrid.values.notations import fault_of
from hybrid.xgrammar.messages import MESSAGE_CHARACTERS, shortened
from tests.test_json_schema_meaning import BYTES

COMPILERS = {meaning: GrammarCompiler(BYTES, semantics=meaning) for meaning in ("xgrammar", "json-schema")}
PLACE = re.compile(r"\d\d:\d\d:\d\d|\.cc|Check failed")

SCHEMAS: list[tuple[Any, dict[str, Any], str]] = [
    ('{"type": "object",\n "required": ["a",]}', {}, "comma .* line 2, column 18; remove it"),
    ('{"type": "object",\n}', {}, "comma .* line 1, column 18; remove it"),
    ("schemas/person.json", {}, "'schemas/person.json' looks like the name of a file"),
    ('{"type": object}', {}, "line 1, column 10"),
    ("", {}, "empty"),
    ('root ::= "a"', {}, "looks like a grammar in EBNF; use compile_grammar"),
    ('{"description": "root:\nroot ::= a"}', {}, "line 1, column 23: invalid control character"),
    (
        {"$ref": "https://example.com/a"},
        {"strict": True},
        "followed|add the document to the registry, remove",
    ),
    ({"type": "objekt"}, {}, "'objekt'; the types are|object, string, or a list of these, but is 'objekt'"),
    ({"type": "object"}, {"any_white_space": True}, "no option 'any_white_space'; the options are any_whi"),
    ("{", {}, "line 1, column 2"),
    ({"enum": [b"a"]}, {}, "bytes"),
]


def refusal(compiler: GrammarCompiler, method: str, *arguments: Any, **options: Any) -> str:
    """Return the message of a refusal, which names no place in sources and is counted; the compiler goes
    on."""
    before = sum(compiler.stats()["errors"].values())
    with pytest.raises(GrammarError) as refused:
        getattr(compiler, method)(*arguments, **options)
    assert not PLACE.search(str(refused.value))
    assert sum(compiler.stats()["errors"].values()) == before + 1
    assert compiler.compile_regex("a").strategy
    return str(refused.value)


@pytest.mark.parametrize("meaning", COMPILERS)
@pytest.mark.parametrize(("schema", "options", "told"), SCHEMAS)
def test_schemas_that_are_refused_say_what_to_do(
    schema: Any, options: dict[str, Any], told: str, meaning: str
) -> None:
    assert re.search(told, refusal(COMPILERS[meaning], "compile_json_schema", schema, **options))


NOTATIONS = [
    ('root ::= | "a"', 'empty alternative is written ""', 'root ::= "" | "a"'),
    ('root ::= ("a" | ) "b"', "empty alternative", 'root ::= ("a" | "") "b"'),
    ('root ::= "a" |', "empty alternative", 'root ::= "a" | ""'),
    ('root ::= p "b"\np ::=\nq ::= "a"', "empty alternative", 'root ::= p "b"\np ::= ""\nq ::= "a"'),
    ("root ::= 'a'", "double quotes", 'root ::= "a"'),
    ("root ::= “a”", "Unexpected character: '“' (texts are written in double quotes", 'root ::= "a"'),
    ('\ufeffroot ::= "a"', "byte order mark", 'root ::= "a"'),
    ('root ::=\xa0"a"', "only spaces", 'root ::= "a"'),
    (
        'root ::= blé\nblé ::= "é"',
        "line 1, column 12: Unexpected character: 'é' (names of rules",
        'root ::= ble\nble ::= "é"',
    ),
    ('# é\nroot ::= "é" → "a"', "line 2, column 15: Unexpected character: '→'", 'root ::= "é" "a"'),
    ('root ::= "a" // one', "comments begin with #", 'root ::= "a" # one'),
    ('(* one *)\nroot ::= "a"', "comments begin with #", '# one\nroot ::= "a"'),
    ('root ::= (* one *) "a"', "comments begin with #", 'root ::= "a" # one'),
    ('root ::= "a";', "nothing ends a rule", 'root ::= "a"'),
    ('root ::= "a", "b"', "without commas", 'root ::= "a" "b"'),
    ('root ::= { "a" }', "a repeat is written", 'root ::= ("a")*'),
    ('root ::= "a"{1,2}{3}', "in parentheses", 'root ::= ("a"{1,2}){3}'),
    ('root ::= "a"{,3}', "{0,5}", 'root ::= "a"{0,3}'),
    ("root ::= /a|b/", "Regex", 'root ::= Regex("a|b")'),
    ("root ::= <[65]> <[66]>", "written Token", "root ::= Token(65) Token(66)"),
    ("root ::= !<[65]>", "ExcludeToken", "root ::= ExcludeToken(65)"),
    ('<root> ::= <p>\n<p> ::= "a"', "names of rules have no <>", 'root ::= p\np ::= "a"'),
    ('root ::= "\\[a"', "no backslash", 'root ::= "[a"'),
    ("root ::= [\\d]", "is written [0-9]", "root ::= [0-9]"),
    ("root ::= [\\w]", "a-zA-Z0-9_", "root ::= [a-zA-Z0-9_]"),
    ("root ::= .", "any character is written", "root ::= [\\x00-\\U0010ffff]"),
    ("root ::= #x41", "x41 is written", 'root ::= "\\x41"'),
    ("root ::= [#x41-#x5A]", "x41 is written", "root ::= [\\x41-\\x5A]"),
    ('root ::= "a"i', "both: [aA]", "root ::= [aA]"),
    ('root ::= "a\n"', "a line end in quotes or brackets is written \\n", 'root ::= "a\\n"'),
    ("root ::= [a\n]", "a line end in quotes or brackets is written \\n", "root ::= [a\\n]"),
    ('root := "a"', "written name ::=", 'root ::= "a"'),
    ('root => "a"', "written name ::=", 'root ::= "a"'),
    ('root ::= p\np = "a"', "written name ::=", 'root ::= p\np ::= "a"'),
    ('root ::= p p ::= "a"', "a line of its own", 'root ::= p\np ::= "a"'),
    ('root ::= digits\ndigit ::= "0"', "did you mean 'digit'", 'root ::= digit\ndigit ::= "0"'),
    ('start ::= "a"', "pass root_rule_name='start'", 'root ::= "a"'),
    ('root ::= \\n "a"', "within quotes and brackets", 'root ::= "\\n" "a"'),
    ('root ::= "a', "closed on the same line", 'root ::= "a"'),
]
"""Texts in relatives of EBNF, the advice, and the same grammar in EBNF."""


@pytest.mark.parametrize(("text", "told", "instead"), NOTATIONS, ids=[text for text, _, _ in NOTATIONS])
def test_relatives_of_ebnf(text: str, told: str, instead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = COMPILERS["xgrammar"]
    message = refusal(compiler, "compile_grammar", text)
    assert told in message
    assert compiler.compile_grammar(instead).strategy == "classifier"
    with pytest.raises(GrammarError, match=re.escape(told)):
        read_grammar(text)
    monkeypatch.setattr(hybrid.guard, "QUICK_SECONDS", -1.0)  # in another process
    assert refusal(compiler, "compile_grammar", text) == message


@pytest.mark.parametrize("text", ["root ::= 1", "root ::= -1", 'root ::= "a"b', "root ::= [z-a]"])
def test_no_advice_is_given_for_other_faults(text: str) -> None:
    assert "(" not in refusal(COMPILERS["xgrammar"], "compile_grammar", text)


def test_the_missing_root_rule_is_the_one_that_was_asked_for() -> None:
    told = """name a rule "main", or pass root_rule_name='start'"""
    assert told in refusal(COMPILERS["xgrammar"], "compile_grammar", 'start ::= "a"', root_rule_name="main")


@pytest.mark.parametrize(
    ("method", "text", "told"),
    [
        ("compile_grammar", 'root ::= "a" | foo', 'line 1, column 16: Rule "foo" is not defined'),
        ("compile_grammar", 'root ::= "a', "line 1, column"),
        ("compile_grammar", 'start ::= "a"', "root"),
        ("compile_grammar", 'root ::= "a"\np ::= q{2}\nq ::= p{3}', "consists only of a repeat of itself"),
        ("compile_grammar", "grammars/c.ebnf", "looks like the name of a file"),
        ("compile_grammar", '{"type": "object"}', "looks like JSON, .*; use compile_json_schema"),
        ("compile_grammar", '{"type": "structural_tag"}', "looks like JSON, .*; use compile_structural_tag"),
        ("compile_grammar", 'start: "a"', "looks like Lark's notation, .*; use compile_lark"),
        ("compile_lark", '# a comment\nroot ::= "a"', "looks like EBNF, .*; use compile_grammar"),
        ("compile_lark", 'start: name\nname ::= "a"', "at line 2 column 7"),
        ("compile_lark", "grammars/sql.lark", "looks like the name of a file"),
        ("compile_lark", 'file: "a"', "pass start='file', for example"),
        ("compile_lark", 'start: a | b\na: "x"\nb: "x"', "must be LALR"),
        ("compile_lark", 'start: %json {"type": "null"}', "'%json' is .* perhaps in XGrammar's dialect"),
        ("compile_lark", 'start[max_tokens=2]: "a"', "'start\\[' is .* perhaps in XGrammar's dialect"),
        ("compile_lark", "start: </think>", r"'</think>' is .* perhaps in .*from_lark\(text, tokenizer_info"),
        ("compile_lark", 'start: A & B\nA: "a"\nB: "a"', "only llguidance reads '&'"),
        ("compile_lark", 'start: ~A\nA: "a"', "only llguidance reads '~'"),
        ("compile_lark", '%llguidance {}\nstart: "a"', "only llguidance reads '%llguidance'"),
        ("compile_lark", 'start: "a"{2,3}', "'.2,3.' is .* perhaps in XGrammar's dialect"),
        (
            "compile_lark",
            'start: "%json" /<[ab]>/ foo // <[1]>',
            "Rule 'foo' used but not defined .in rule start.$",
        ),
        ("compile_regex", "(a", "position 3: The parenthesis is not closed"),
        ("compile_structural_tag", '{"type": "structural_tag",}', "comma .* column 26; remove it"),
        ("compile_structural_tag", "{", "line 1, column 2"),
        ("compile_structural_tag", "tag.json", "looks like the name of a file"),
        ("compile_structural_tag", '{"type": "structural_tag", "format": {"type": "x"}}', "recognized: x"),
    ],
)
def test_other_texts_too(method: str, text: str, told: str) -> None:
    assert re.search(told, refusal(COMPILERS["xgrammar"], method, text))


@pytest.mark.parametrize("error", [MemoryError("no room"), RuntimeError("std::bad_alloc")])
@pytest.mark.parametrize(
    ("method", "text", "place"),
    [
        ("compile_grammar", 'root ::= "a"', "request.text_estimate"),
        ("compile_structural_tag", '{"type": "structural_tag"}', "tag_request.with_token_ids"),
    ],
)
def test_a_lack_of_memory_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch, error: Exception, method: str, text: str, place: str
) -> None:
    compiler = GrammarCompiler(BYTES)
    with monkeypatch.context() as context:
        context.setattr(f"hybrid.compile.{place}", Mock(side_effect=error))
        with pytest.raises(MemoryError):
            getattr(compiler, method)(text)
    assert compiler.compile_grammar('root ::= "a"').strategy


def test_what_was_meant_is_asked() -> None:
    for schema, options, meant in (({"type": "objekt"}, {}, "object"), ({}, {"indents": 2}, "indent")):
        with pytest.raises(GrammarError, match=f"did you mean '{meant}'"):
            COMPILERS["xgrammar"].compile_json_schema(schema, **options)


def test_the_drop_in_says_the_same() -> None:
    with pytest.raises(RuntimeError, match="looks like the name of a file"):
        adapters.xgrammar.GrammarCompiler(BYTES.tokenizer_info).compile_json_schema("person.json")


def test_places_in_sources_and_long_quotations_go() -> None:
    error = RuntimeError("[01:27:59] /project/cpp/a.cc:49: Check failed: (error.empty()) is false: it is\n")
    assert shortened(error) == "it is"
    assert shortened(RuntimeError("")) == "RuntimeError without a message"
    assert len(shortened(RuntimeError("x" * 10_000))) < MESSAGE_CHARACTERS + 10


TEXT = st.text('ab"\\,:{}[]/\n\x00é\U0001f600', max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.integers(0, 200), st.sampled_from(["", ",", "}", '"', "\n", "x"]), st.integers(0, 2))
def test_a_text_has_a_fault_if_and_only_if_it_is_no_json(value: Any, at: int, put: str, gone: int) -> None:
    text = json.dumps(value, indent=1)
    text = text[:at] + put + text[at + gone :]
    try:
        json.loads(text)
    except ValueError:
        fault = fault_of(text)
        assert fault
        for line, column in re.findall(r"line (\d+), column (\d+)", fault):
            lines = text.split("\n")
            assert 1 <= int(line) <= len(lines)
            assert 1 <= int(column) <= len(lines[int(line) - 1]) + 1
    else:
        assert fault_of(text) is None


@given(st.lists(st.integers(), min_size=1, max_size=4), st.sampled_from(["", " ", "\n "]))
def test_the_comma_before_a_bracket_is_found(items: list[int], blanks: str) -> None:
    text = "[" + ",".join(map(str, items)) + "," + blanks + "]"
    fault = fault_of(text)
    assert fault is not None and "comma" in fault
    place = re.search(r"line 1, column (\d+)", fault)
    assert text[int(place[1]) - 1] == ","
