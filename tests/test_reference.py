"""The reference: results worked out by hand, and agreement with XGrammar on random grammars."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.classes.reference import ReferenceGrammar
from equivalence.errors import UnsupportedGrammar
from tests.random_grammars import GrammarCase, grammar_cases

NESTED = 'root ::= "(" root ")" | "a"'
LEFT = 'root ::= root "," item | item\nitem ::= "a" | "b"'


def reference(ebnf: str) -> ReferenceGrammar:
    return ReferenceGrammar(xgrammar.Grammar.from_ebnf(ebnf))


# --- Worked out by hand ----------------------------------------------------------------------------------


def test_displacement_depth_is_how_far_futures_are_compared() -> None:
    grammar = reference('root ::= "a" "xxy" | "b" "xxz"')
    tokens = [b"a", b"b", b"x", b"y", b"z"]
    assert grammar.observed_displacement_classes(tokens, limit=1, depth=2) == [0, 0, -1, -1, -1]
    assert grammar.observed_displacement_classes(tokens, limit=1, depth=3) == [0, 1, -1, -1, -1]


def test_unsupported_constructs_are_named() -> None:
    with pytest.raises(UnsupportedGrammar, match="tag dispatch"):
        reference('root ::= TagDispatch(("<a>", p))\np ::= "x"')


# --- Agreement with XGrammar -----------------------------------------------------------------------------

STOP_TOKEN_ID = 256


@cache
def compiler() -> xgrammar.GrammarCompiler:
    tokens = [bytes([byte]) for byte in range(256)] + [b"</s>"]
    info = xgrammar.TokenizerInfo(tokens, stop_token_ids=[STOP_TOKEN_ID])
    # with its cache, XGrammar prints a grammar and reads "éa" as the character U+0E9A
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)


def assert_same_continuations(grammar: ReferenceGrammar, matcher: Any, prefix: bytes) -> list[int]:
    """Compare every next byte, the end and the stop token after a prefix that both have read."""
    taken = [byte for byte in range(256) if matcher.fork().accept_string(bytes([byte]))]
    assert grammar.next_bytes(prefix) == taken, prefix
    stops = matcher.fork().accept_token(STOP_TOKEN_ID)
    assert (grammar.complete(prefix),) * 2 == (matcher.is_completed(), stops), prefix
    return taken


def assert_same_walk(grammar: ReferenceGrammar, compiled: Any, length: int, rng: random.Random) -> bytes:
    """Walk at random along accepted bytes and compare at each step. Returns the text walked."""
    matcher = xgrammar.GrammarMatcher(compiled)
    prefix = b""
    while (choices := assert_same_continuations(grammar, matcher, prefix)) and len(prefix) < length:
        step = bytes([rng.choice(choices)])
        assert matcher.accept_string(step)
        prefix += step
    return prefix


def mutated(text: bytes, rng: random.Random) -> bytes:
    """The text with one byte replaced, dropped, doubled or moved."""
    place = rng.randrange(len(text) + 1)
    rest = text[place:]
    options = [rest[1:], rest[:1] + rest, bytes([rng.choice(text or b"a")]) + rest, rest[1:] + rest[:1]]
    return text[:place] + rng.choice(options)


@settings(max_examples=50, deadline=None)
@given(grammar_cases(max_tokens=6), st.integers(0, 2**32 - 1))
def test_reads_what_xgrammar_reads(case: GrammarCase, seed: int) -> None:
    rng = random.Random(seed)
    parsed = xgrammar.Grammar.from_ebnf(case.ebnf)
    grammar, compiled = ReferenceGrammar(parsed), compiler().compile_grammar(parsed)
    texts = [assert_same_walk(grammar, compiled, 8, rng) for _ in range(3)]
    texts = [mutated(rng.choice(texts), rng) for _ in range(10)] + case.vocabulary
    for text in texts:
        assert grammar.viable(text) == xgrammar.GrammarMatcher(compiled).accept_string(text), text


SCHEMA = """{"type": "object", "required": ["a"], "properties": {
    "a": {"type": "string", "maxLength": 5}, "b": {"type": "array", "items": {"type": "number"}}}}"""
LARGE = {
    # negative classes beyond ASCII
    'root ::= ([^a-я] "é"){1,9}': 20,
    'root ::= ([^€-😀b]* "é"){1,9}': 20,
    'root ::= ([^\\x80-\\uffff] "é"){1,9}': 20,
    'root ::= [é]{2} "éa"': 20,  # bytes with a sign
    # large counts
    r'root ::= "\"" [^"\\\x00-\x1f]{2,70} "\""': 110,
    'root ::= word{60,} "."\nword ::= "a" | "bc"': 110,
    'root ::= p{0,90} "c"\np ::= "a"? "b"?': 110,
    'root ::= root "a"{3,9} | "b" root{2,40} | "c"': 110,
    "root ::= p{33} q{2,5}\np ::= [^a]\nq ::= p{2,3} root?": 110,
}


@pytest.mark.parametrize(
    ("grammar", "length"),
    [
        *((xgrammar.Grammar.from_ebnf(ebnf), length) for ebnf, length in LARGE.items()),
        (xgrammar.Grammar.builtin_json_grammar(), 30),  # carries lookahead assertions, which do not count
        (xgrammar.Grammar.from_json_schema(SCHEMA, strict_mode=False), 30),
        (xgrammar.Grammar.from_regex("(ab|[c-é])+[0-9]{2,4}"), 30),
    ],
)
def test_larger_grammars_are_xgrammars(grammar: xgrammar.Grammar, length: int) -> None:
    compiled = compiler().compile_grammar(grammar)
    for seed in range(1 if length > 100 else 4):
        assert_same_walk(ReferenceGrammar(grammar), compiled, length, random.Random(seed))
