"""The names of XGrammar's serial format agree with what XGrammar writes.

What: grammars with one construct each, serialised by XGrammar itself.
When: with another version of XGrammar, this test fails first.
"""

import json
from typing import Any

import numpy as np
import pytest
import xgrammar

from equivalence.network import dialect, serial
from equivalence.network.endless_rules import endless_rule
from equivalence.network.grammar_reader import read_grammar, types_among


def serialized(text: str) -> dict[str, Any]:
    return json.loads(xgrammar.Grammar.from_ebnf(text).serialize_json())


def bodies(content: dict[str, Any]) -> list[tuple[int, list[int]]]:
    data = content[serial.DATA]
    return [(data[at], data[at + 2 : at + 2 + data[at + 1]]) for at in content[serial.STARTS]]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('root ::= "ab"', (serial.BYTES, [97, 98])),
        ("root ::= [^a-c]", (serial.CLASS, [1, 97, 99])),
        ("root ::= [a-c]*", (serial.STAR, [0, 97, 99])),
        ('root ::= ""', (serial.EMPTY, [])),
        ('root ::= "x" one\none ::= "1"', (serial.RULE, [1])),
        ('root ::= "x" [a]', (serial.SEQUENCE, [0, 1])),
        ('root ::= "x" | [a]', (serial.CHOICES, [1, 3])),
        ("root ::= Token(4, 2)", (serial.TOKENS, [2, 4])),
        ("root ::= ExcludeToken(4)", (serial.EXCLUDED, [4])),
        ('root ::= Regex("a+b")', (serial.PATTERN, [0, *b"a+b"])),
        ('root ::= Substring("abc")', (serial.SUBSTRING, [3, *b"abc"])),
    ],
)
def test_types_of_expressions(text: str, wanted: tuple[int, list[int]]) -> None:
    content = serialized(text)
    assert content[serial.VERSION_FIELD] == dialect.LAYOUT
    assert wanted in bodies(content)


def test_what_is_said_of_expressions_without_lists() -> None:
    text = 'root ::= "x" one{2,3} | [a-c]*\none ::= "1" | two\ntwo ::= one{2}'
    read = read_grammar(xgrammar.Grammar.from_ebnf(text))
    assert read.types == {kind for kind, _ in bodies(read.whole())}
    assert read.types >= {serial.BYTES, serial.STAR, serial.RULE, serial.CHOICES, serial.REPEAT}
    assert types_among(np.array([70, 0, -3, 0]), np.array([0, 2])) == {70, -3}
    assert read.rules[read.endless_rule][serial.NAME] == "two"
    itself = np.array([serial.SEQUENCE, 1, 0])
    assert endless_rule(itself, np.array([0]), np.array([0])) == -1
    with pytest.raises(IndexError):
        endless_rule(itself, np.array([0]), np.array([7]))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("root ::= root{2}", {"root"}), ("root ::= (root{1,3})", {"root"}),
        ("root ::= p\np ::= root{2,}", {"root", "p"}), ("root ::= p\np ::= q\nq ::= p{3}", {"p", "q"}),
        ("root ::= p\np ::= q\nq ::= p", set()), ('root ::= p{2}\np ::= p{2} | "a"', set()),
        ('root ::= "a"\np ::= q\nq ::= r{4}\nr ::= q\ns ::= p', {"q", "r"}),
        ("root ::= p{2}\np ::= [a]", set()),
    ],
)  # fmt: skip
def test_a_rule_without_end_is_found_wherever_it_is(text: str, wanted: set[str]) -> None:
    read = read_grammar(xgrammar.Grammar.from_ebnf(text))
    found = read.endless_rule
    assert read.rules[found][serial.NAME] in wanted if wanted else found == -1


def body_of(content: dict[str, Any], wanted: int) -> list[int]:
    """The body of the only expression of a type."""
    (body,) = [body for expression_type, body in bodies(content) if expression_type == wanted]
    return body


def test_a_repeat_names_its_rule_and_bounds() -> None:
    content = serialized('root ::= one{2,7}\none ::= "1" "x"')
    rule, *bounds = body_of(content, serial.REPEAT)
    assert content[serial.RULES][rule][serial.NAME].startswith("one") and bounds == [2, 7]


@pytest.mark.parametrize(
    ("dispatch", "expression_type", "ids"),
    [
        ('TagDispatch(("<a>", one), ("<b>", two), loop_after_dispatch=false)', serial.TAGS, []),
        ("TokenTagDispatch((3, one), (5, two), excludes=(7, 9))", serial.TOKEN_TAGS, [3, 5, 7, 9]),
    ],
)
def test_what_a_dispatch_calls_and_names(dispatch: str, expression_type: int, ids: list[int]) -> None:
    content = serialized(f'root ::= {dispatch}\none ::= "1"\ntwo ::= "2"')
    body = body_of(content, expression_type)
    called = serial.called_rules(expression_type, body)
    assert [content[serial.RULES][rule][serial.NAME] for rule in called] == ["one", "two"]
    assert sorted(body[place] for place in serial.named_ids(expression_type, body)) == ids


def test_columns_of_a_rule() -> None:
    content = serialized('root ::= one\none[max_tokens=5] ::= "1"\n')
    (one,) = [rule for rule in content[serial.RULES] if rule[serial.NAME] == "one"]
    assert one[serial.MAX_TOKENS] == 5
    assert len(one) == len(serial.plain_rule("one", 0)) == serial.TEMPERATURE + 1
    plain = serialized('root ::= "1"')[serial.RULES][0]
    assert plain == serial.plain_rule("root", plain[serial.BODY])


def test_what_is_not_compiled() -> None:
    content = serialized('root ::= "1"')
    assert {name: content[name] for name in dialect.NOT_COMPILED} == dialect.NOT_COMPILED
