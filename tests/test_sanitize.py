"""Grammars and representatives made safe for XGrammar: its masks must not contradict its `accept_token`."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import xgrammar

from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary
from hybrid.xgrammar.sanitize import (
    classes_as_rules,
    may_force_endless_text,
    prefix_closed,
    shield_root,
    without_lookahead,
)
from tests.classifiers import vocabulary_of
from tests.matchers import mask_of, taken_by

VALUE = r"""
root ::= "[" value ws "]"
value ::= "\"" text
text ::= "\"" | [^"\\\r\n] text
ws ::= [ \n]*
"""


CALLED_ROOT = {
    # XGrammar mistakes the root's end for the end of the text
    "repeated root": ('root ::= "a" "a" | root{2}', [b"a", b"aa", b"az", b"z"], b"a"),
    "root in brackets": ('root ::= "(" root ")" | "x"', [b"(", b"x", b"x)", b"x))", b"))", b")"], b"(("),
}
FEW_TOKENS = {
    # without their prefixes, XGrammar's mask drops the second of each pair
    "two ends": (VALUE, [b'"\n', b'""\n'], b"["),
    "two texts": (VALUE, [b'"\n', b'"x"\n'], b"["),
    "two brackets": (VALUE, [b'"\n]', b'""\n]'], b"["),
    "five tokens": (VALUE, [b'"\n', b'""\n', b'"x', b'""\n\n', b"]"], b"["),
}
X_OR_Y = 'a ::= "x" | "y" a'
WRONG_BY_LOOKAHEAD = {
    # text in ASCII against the low bytes of U+0800 and U+4E2D: space and line feed lie between them
    "low bytes": ("root ::= (([\\n-я])|[\\0-\\f]{1}[^ࠀ-中]){5}", [b"\t   \n", b"\tPath"], b""),
    "low bytes after a call": (f"root ::= a [^ࠀ-中]\n{X_OR_Y}", [b"x!", b"x ", b"y", b"x"], b"y"),
    # first bytes of a character that no member of the class begins with
    "begun character": (f'root ::= a [a-z] "!"\n{X_OR_Y}', [b"x\xe0", b"xa", b"x\xf0", b"xz!"], b""),
    "begun character of two": (
        f'root ::= a [^à-ÿ] | "x" [à-ÿ]\n{X_OR_Y}', [b"yx\xc3", b"x\xc3", b"yx\xc4", b"yxa"], b"",
    ),
    # a class that is repeated over 128 times is asserted 128 times
    "bounded repeat": ('root ::= "(" [^ࠀ-中]{129,140} ")"', [b"( ", b"(a", b"  ", b"a"], b"("),
    "open repeat": ('root ::= "(" [a-z€]{130,} ")"', [b"(a\xe0", b"(a", b"a\xe2", b"aa"], b"("),
}  # fmt: skip
CASES = CALLED_ROOT | FEW_TOKENS | WRONG_BY_LOOKAHEAD


def plain(grammar: str, vocabulary: Vocabulary) -> xgrammar.GrammarMatcher:
    compiler = xgrammar.GrammarCompiler(vocabulary.tokenizer_info)
    return xgrammar.GrammarMatcher(compiler.compile_grammar(grammar))


def matcher_of(grammar: Any, vocabulary: Vocabulary, strategy: str = "auto") -> GrammarMatcher:
    return GrammarMatcher(GrammarCompiler(vocabulary, strategy=strategy).compile_grammar(grammar))


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        *itertools.product(CASES, ("representatives", "classifier", "auto")),
        *itertools.product(CALLED_ROOT, ["engine"]),  # in the other cases, its masks are XGrammar's own
    ],
)
def test_masks_follow_accept_token(name: str, strategy: str) -> None:
    grammar, tokens, prefix = CASES[name]
    vocabulary = vocabulary_of(tokens)
    matcher, judge = matcher_of(grammar, vocabulary, strategy), plain(grammar, vocabulary)
    assert matcher.accept_string(prefix) and judge.accept_string(prefix)
    taken = taken_by(judge, vocabulary.size)
    assert taken and (1 in taken or name not in FEW_TOKENS)
    assert mask_of(matcher) == taken


def test_prefixes_are_those_that_are_missing() -> None:
    assert prefix_closed([b"abc", b"ab", b"x"]) == [b"a"]
    assert prefix_closed([]) == []


def serialised(ebnf: str) -> dict[str, Any]:
    return json.loads(xgrammar.Grammar.from_ebnf(ebnf).serialize_json())


def test_only_a_called_root_gets_a_caller() -> None:
    assert not shield_root(serialised('root ::= "a" b\nb ::= "b"'))
    called = serialised('root ::= "a" b\nb ::= "b" | root')
    rules = len(called["rules"])
    assert shield_root(called)
    assert called["root_rule_id"] == rules == len(called["rules"]) - 1
    grammar = xgrammar.Grammar.deserialize_json(json.dumps(called))
    matcher = matcher_of(grammar, Vocabulary.from_bytes([b"a", b"b"]))
    assert matcher.accept_string("aaab") and matcher.is_completed()


def test_lookahead_assertions_are_dropped() -> None:
    grammar = serialised('root ::= a "z"\na ::= "x" (="z")')
    assert without_lookahead(grammar) and not without_lookahead(grammar)


def test_only_classes_after_calls_become_rules() -> None:
    untouched = serialised('root ::= [a-z] "x" [0-9]* a\na ::= "b" a | "c"')
    assert not classes_as_rules(untouched) and len(untouched["rules"]) == 2
    changed = serialised('root ::= a [a-z] a [a-z] [0-9]*\na ::= "b" a | "c"\nclass ::= "d"\nnever ::= "e"')
    assert classes_as_rules(changed)
    xgrammar.Grammar.deserialize_json(json.dumps(changed))  # fails if the layout is wrong
    names = [rule[0] for rule in changed["rules"]]
    assert len(names) == len(set(names)) == 4 + 3  # equal classes share a rule


def test_classes_after_calls_stay_where_ids_are_read_as_text() -> None:
    """Text that was read as an id too goes on at another position, and with rules of our own elsewhere."""
    vocabulary = vocabulary_of([b"\xed\x9f\xbe", b"\t\xed\x9f\xbf", b"\t", b"q"])
    grammar = "root ::= p{5}\np ::= q? Token(0) [^\\u4e2d-\\ue000 ] | [^\\x09-_] Token(3)\nq ::= Token(3)"
    matcher, judge = matcher_of(grammar, vocabulary), plain(grammar, vocabulary)
    assert matcher.accept_token(0) and judge.accept_token(0)
    taken = taken_by(judge, vocabulary.size)
    assert 1 in taken and mask_of(matcher) == taken


def test_a_repeated_class_keeps_the_temperature_of_its_rule() -> None:
    grammar = "root ::= p{5}\np[temperature=0.5] ::= [ab]\n"
    heats = []
    for strategy in ("engine", "representatives"):
        matcher = matcher_of(grammar, vocabulary_of([b"a", b"b"]), strategy)
        heats.append([matcher.temperature])
        while matcher.accept_token(1):
            heats[-1].append(matcher.temperature)
    assert heats[0] == heats[1]
    assert heats[0][:5] == [0.5] * 5


@pytest.mark.parametrize(
    ("ebnf", "wanted"),
    [
        ('root ::= "a" root', True),
        ('root ::= "b" p\np ::= "a" p', True),
        ('root ::= "a" root | "b"', False),
        ('root ::= "x" p | "y"\np ::= "a" q\nq ::= "b" p', True),
        ('root ::= "x" p\np ::= "a" q\nq ::= "b" p | [a-c]', False),
        ('root ::= "y"\np ::= "a" p', False),  # not reachable
        ('root ::= "x" p{0,3}\np ::= "a" p', True),
        ('root ::= "x" p{2,3}\np ::= [ab]+ ""', False),
        ('root ::= TagDispatch(("<", p))\np ::= "a" p', True),
        ('root ::= TagDispatch(("<", p))\np ::= "a" ">"', False),
        ('root ::= p{1000}\np ::= q{1000}\nq ::= "a"{1000} "b"', True),  # it ends, but after a gigabyte
        ('root ::= "y" | "x" p{1000}\np ::= q{1000}\nq ::= "a"{1000}', True),
        ('root ::= p{0,1000} "x"\np ::= q{0,1000}\nq ::= "a"{1000}', False),
        ('root ::= p{1000}\np ::= Regex("a{30000}") "b"', True),
        ('root ::= p{100}\np ::= Regex("((a{2}){3}b{4}){5}[ab]{6}")', False),
    ],
)
def test_texts_without_end(ebnf: str, wanted: bool) -> None:
    assert may_force_endless_text(serialised(ebnf)) == wanted
    vocabulary = vocabulary_of([b"a", b"b", b"x", b"y", b"<"])
    # XGrammar's search does not return where text is forced without end
    forced = "" if wanted else plain(ebnf, vocabulary).find_jump_forward_string()
    for strategy in ("representatives", "engine"):
        assert matcher_of(ebnf, vocabulary, strategy).find_jump_forward_string() == forced


FORCED: list[tuple[str, list[int], str]] = [  # a grammar, ids that are read, and the text that is forced then
    ('root ::= "b" p\np ::= "a" p', [1, 0], ""),  # in the middle of an endless text
    ('root ::= "a" root | Token(2)', [], ""),  # forced text ignores ids, and would not end
    ('root ::= "a" p\np ::= "b" p | Token(2) root', [], ""),
    ('root ::= "a"+ Token(2)', [], ""),
    ('root ::= [ab] "a"{2,} Token(2)', [], ""),
    ('root ::= Regex("a+") Token(2)', [], ""),
    ('root ::= r Token(2)\nr ::= r "a" | "b"', [], ""),
    ('root ::= r Token(2)\nr ::= r "a" | [ab] Token(2)', [0, 2], ""),
    ('root ::= "a" Token(2) [a]* Token(2)', [0, 2], ""),
    ('root ::= "a" p{0,2} root | Token(2)\np ::= Token(1)', [], ""),
    ('root ::= "b" ("a" Token(2))* Token(2)', [], ""),
    ('root ::= "ab" Token(2) "b"', [], ""),
]


@pytest.mark.parametrize(
    ("strategy", "ebnf", "read", "forced"),
    [("representatives", *FORCED[0]), *(("engine", *row) for row in FORCED)],
)
def test_forced_text_ends(strategy: str, ebnf: str, read: list[int], forced: str) -> None:
    matcher = matcher_of(ebnf, vocabulary_of([b"a", b"b", b"<x>"]), strategy)
    assert all(map(matcher.accept_token, read))
    assert matcher.find_jump_forward_string() == forced
