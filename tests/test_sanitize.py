"""Grammars and representatives made safe for XGrammar: its masks must not contradict its `accept_token`."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xgrammar

from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
from hybrid.sanitize import prefix_closed, shield_root, without_lookahead

VALUE = r"""
root ::= "[" value ws "]"
value ::= "\"" text
text ::= "\"" | [^"\\\r\n] text
ws ::= [ \n]*
"""


def allowed(matcher: GrammarMatcher, size: int) -> list[bool]:
    bitmask = allocate_token_bitmask(1, size)
    matcher.fill_next_token_bitmask(bitmask)
    return np.unpackbits(bitmask.numpy()[0].view(np.uint8), bitorder="little")[:size].astype(bool).tolist()


@pytest.mark.parametrize("strategy", ["representatives", "engine"])
@pytest.mark.parametrize(
    ("grammar", "tokens", "prefix"),
    [
        # a called root: XGrammar takes the root's end for the end of the text
        ('root ::= "a" "a" | root{2}', [b"a", b"aa", b"az", b"z"], b"a"),
        ('root ::= "(" root ")" | "x"', [b"(", b"x", b"x)", b"x))", b"))", b")"], b"(("),
    ],
)
def test_masks_of_a_called_root_follow_accept_token(
    grammar: str, tokens: list[bytes], prefix: bytes, strategy: str
) -> None:
    vocabulary = Vocabulary.from_bytes([*tokens, b""], stop_token_ids=[len(tokens)])
    matcher = GrammarMatcher(GrammarCompiler(vocabulary, strategy=strategy).compile_grammar(grammar))
    assert matcher.accept_string(prefix)
    taken = [matcher.fork().accept_token(token_id) for token_id in range(vocabulary.size)]
    assert any(taken)
    assert allowed(matcher, vocabulary.size) == taken


@pytest.mark.parametrize(
    "tokens",
    [
        [b'"\n', b'""\n'],
        [b'"\n', b'"x"\n'],
        [b'"\n]', b'""\n]'],
        [b'"\n', b'""\n', b'"x', b'""\n\n', b"]"],
    ],
)
def test_masks_over_few_tokens_follow_accept_token(tokens: list[bytes]) -> None:
    # without their prefixes, XGrammar's mask drops the second of each pair
    vocabulary = Vocabulary.from_bytes([*tokens, b""], stop_token_ids=[len(tokens)])
    matcher = GrammarMatcher(GrammarCompiler(vocabulary, strategy="representatives").compile_grammar(VALUE))
    assert matcher.accept_string("[")
    taken = [matcher.fork().accept_token(token_id) for token_id in range(vocabulary.size)]
    assert taken[1]
    assert allowed(matcher, vocabulary.size) == taken


def test_prefixes_are_those_that_are_missing() -> None:
    assert prefix_closed([b"abc", b"ab", b"x"]) == [b"a"]
    assert prefix_closed([]) == []


def test_only_a_called_root_gets_a_caller() -> None:
    plain = json.loads(xgrammar.Grammar.from_ebnf('root ::= "a" b\nb ::= "b"').serialize_json())
    assert not shield_root(plain)
    called = json.loads(xgrammar.Grammar.from_ebnf('root ::= "a" b\nb ::= "b" | root').serialize_json())
    rules = len(called["rules"])
    assert shield_root(called)
    assert called["root_rule_id"] == rules == len(called["rules"]) - 1
    matcher = GrammarMatcher(
        GrammarCompiler(Vocabulary.from_bytes([b"a", b"b"])).compile_grammar(
            xgrammar.Grammar.deserialize_json(json.dumps(called))
        )
    )
    assert matcher.accept_string("aaab") and matcher.is_completed()


def test_lookahead_assertions_are_dropped() -> None:
    serialized = json.loads(xgrammar.Grammar.from_ebnf('root ::= a "z"\na ::= "x" (="z")').serialize_json())
    assert without_lookahead(serialized)
    assert not without_lookahead(serialized)
