"""The reference: results worked out by hand, and agreement with XGrammar on random grammars."""

from __future__ import annotations

import random
from functools import cache

import pytest
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.classes.reference import ReferenceGrammar
from equivalence.errors import UnsupportedGrammar
from tests.random_grammars import GrammarCase, compiles, grammar_cases

STOP = 256

NESTED = 'root ::= "(" root ")" | "a"'
LEFT = 'root ::= root "," item | item\nitem ::= "a" | "b"'
INDIRECT_LEFT = 'root ::= p "a" | "b"\np ::= root "c" | "d"'
RIGHT = 'root ::= "a" root | "b"'


def reference(ebnf: str) -> ReferenceGrammar:
    return ReferenceGrammar(xgrammar.Grammar.from_ebnf(ebnf))


# --- Worked out by hand ----------------------------------------------------------------------------------


def test_masks_reject_the_empty_token() -> None:
    masks = reference(NESTED).masks([b"", b"(a", b"x"], [b"(", b"((a", b")", b"a)", b""])
    assert masks == [(True, True, False, False, False), (False, False, True, False, False), (False,) * 5]


def test_reachable_prefixes_of_a_finite_grammar_are_exhaustive() -> None:
    grammar = reference('root ::= "ab" | "cb"')
    # After "a" and after "c" the same text is left, so only the first is listed.
    assert grammar.reachable_prefixes([b"a", b"b", b"c"], limit=100) == [b"", b"a", b"ab"]
    assert grammar.reachable_prefixes([b"ab", b"cb"], limit=100, alphabet=b"") == [b"", b"ab"]
    assert grammar.reachable_prefixes([b"a", b"b", b"c"], limit=2) == [b"", b"a"]


def test_recursion_that_leaves_no_work_behind_reaches_finitely_many_stacks() -> None:
    for ebnf, tokens in [
        (LEFT, [b"a", b","]),
        (RIGHT, [b"a", b"b"]),
        (INDIRECT_LEFT, [b"a", b"b", b"c", b"d"]),
    ]:
        assert len(reference(ebnf).reachable_prefixes(tokens, limit=50)) < 10, ebnf
    assert len(reference(NESTED).reachable_prefixes([b"(", b"a"], limit=50)) == 50


def test_displacement_keys() -> None:
    left, nested = reference(LEFT), reference(NESTED)
    assert left.displacement_key(b"", b"a") == left.displacement_key(b"a", b",b,a")
    assert left.displacement_key(b"", b"a") != left.displacement_key(b"", b"a,")
    assert left.displacement_key(b"", b",") is None
    assert nested.displacement_key(b"(", b"(a)") == nested.displacement_key(b"(", b"a")
    assert nested.displacement_key(b"(", b"(") != nested.displacement_key(b"(")
    # A call in last position leaves no stack symbol, but what lies below it stays.
    tail = reference('root ::= "(" tail | "a"\ntail ::= root ")"')
    assert tail.displacement_key(b"((") != tail.displacement_key(b"(")
    # The stacks [c d] against the stacks [c] and [c d].
    optional = reference('root ::= "a" p "d" | "b" p "d" | "b" p\np ::= "c"')
    assert optional.displacement_key(b"a") != optional.displacement_key(b"b")


def test_observed_classes() -> None:
    grammar = reference(LEFT)
    tokens = [b"a", b"b", b",", b"a,", b",a", b"c", b"", b"a"]
    assert grammar.observed_acceptance_classes(tokens, limit=50) == [0, 0, 1, 0, 1, -1, -1, 0]
    # "a," can be read wherever "a" can, but leaves an item to be read.
    assert grammar.observed_displacement_classes(tokens, limit=50) == [0, 0, 1, 2, 3, -1, -1, 0]


def test_exact_counters_separate_tokens() -> None:
    tokens = [b"a", b"aa", b"aaa", b"aaaa"]
    grammar = reference('root ::= "a"{3}')
    assert grammar.observed_acceptance_classes(tokens, limit=50) == [0, 1, 2, -1]


def test_displacement_depth_is_how_far_futures_are_compared() -> None:
    grammar = reference('root ::= "a" "xxy" | "b" "xxz"')
    tokens = [b"a", b"b", b"x", b"y", b"z"]
    assert grammar.observed_displacement_classes(tokens, limit=1, depth=2) == [0, 0, -1, -1, -1]
    assert grammar.observed_displacement_classes(tokens, limit=1, depth=3) == [0, 1, -1, -1, -1]


def test_unsupported_constructs_are_named() -> None:
    with pytest.raises(UnsupportedGrammar, match="tag dispatch"):
        reference('root ::= TagDispatch(("<a>", p))\np ::= "x"')


def test_grammars_that_end_xgrammar_are_not_generated() -> None:
    assert not compiles("root ::= root{2}")
    assert not compiles('root ::= "a" | p\np ::= q{1}\nq ::= p')
    assert compiles('root ::= "a" | p\np ::= p')
    assert compiles('root ::= p\np ::= p{2} | "a"')


# --- Agreement with XGrammar -----------------------------------------------------------------------------


@cache
def engine() -> xgrammar.GrammarCompiler:
    tokens = [bytes([byte]) for byte in range(256)] + [b"</s>"]
    info = xgrammar.TokenizerInfo(tokens, vocab_size=len(tokens), stop_token_ids=[STOP])
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)


def assert_same_continuations(
    grammar: ReferenceGrammar, matcher: xgrammar.GrammarMatcher, prefix: bytes
) -> list[int]:
    """Compare every next byte, the end and the stop token after a prefix that both have read."""
    taken = []
    for byte in range(256):
        if matcher.accept_string(bytes([byte])):
            matcher.rollback(1)
            taken.append(byte)
    assert grammar.next_bytes(prefix) == taken, prefix
    stops = matcher.accept_token(STOP)
    if stops:
        matcher.rollback(1)
    assert (grammar.complete(prefix),) * 2 == (matcher.is_completed(), stops), prefix
    return taken


def assert_same_walk(
    grammar: ReferenceGrammar, compiled: xgrammar.CompiledGrammar, length: int, rng: random.Random
) -> bytes:
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
    grammar, compiled = ReferenceGrammar(parsed), engine().compile_grammar(parsed)
    texts = [assert_same_walk(grammar, compiled, 8, rng) for _ in range(3)]
    texts = [mutated(rng.choice(texts), rng) for _ in range(10)] + case.vocabulary
    for text in texts:
        assert grammar.viable(text) == xgrammar.GrammarMatcher(compiled).accept_string(text), text


@pytest.mark.parametrize(
    "characters", ["[^é]", "[^a-я]", "[^€-😀b]*", "[^à-öê-ÿ]", "[^\\x80-\\uffff]", "[^\\x7f-é]"]
)
def test_negative_classes_beyond_ascii_are_xgrammars(characters: str) -> None:
    parsed = xgrammar.Grammar.from_ebnf(f'root ::= ({characters} "é"){{1,9}}')
    compiled = engine().compile_grammar(parsed)
    for seed in range(10):
        assert_same_walk(ReferenceGrammar(parsed), compiled, 20, random.Random(seed))


@pytest.mark.parametrize(
    "ebnf",
    [
        r'root ::= "\"" [^"\\\x00-\x1f]{2,70} "\""',
        r'root ::= word{60,} "."' + '\nword ::= "a" | "bc"',
        'root ::= p{0,90} "c"\np ::= "a"? "b"?',
        'root ::= root "a"{3,9} | "b" root{2,40} | "c"',
        "root ::= p{33} q{2,5}\np ::= [^a]\nq ::= p{2,3} root?",
    ],
)
def test_large_counts_are_xgrammars(ebnf: str) -> None:
    parsed = xgrammar.Grammar.from_ebnf(ebnf)
    assert_same_walk(ReferenceGrammar(parsed), engine().compile_grammar(parsed), 110, random.Random(3))


def test_converted_grammars_are_xgrammars() -> None:
    schema = """{"type": "object", "required": ["a"], "properties": {
        "a": {"type": "string", "maxLength": 5}, "b": {"type": "array", "items": {"type": "number"}}}}"""
    for parsed in (
        xgrammar.Grammar.builtin_json_grammar(),  # carries lookahead assertions, which do not count
        xgrammar.Grammar.from_json_schema(schema, strict_mode=False),
        xgrammar.Grammar.from_regex("(ab|[c-é])+[0-9]{2,4}"),
    ):
        grammar, compiled = ReferenceGrammar(parsed), engine().compile_grammar(parsed)
        for seed in range(4):
            assert_same_walk(grammar, compiled, 30, random.Random(seed))


# --- Laws of the reference itself --------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(grammar_cases())
def test_observed_displacement_refines_observed_acceptance(case: GrammarCase) -> None:
    grammar = reference(case.ebnf)
    acceptance = grammar.observed_acceptance_classes(case.vocabulary, limit=10)
    displacement = grammar.observed_displacement_classes(case.vocabulary, limit=10)
    assert len(set(zip(acceptance, displacement, strict=True))) == len(set(displacement))
    assert [label == -1 for label in acceptance] == [label == -1 for label in displacement]


@settings(max_examples=40, deadline=None)
@given(grammar_cases())
def test_equal_stacks_have_equal_futures(case: GrammarCase) -> None:
    grammar = reference(case.ebnf)
    futures: dict[object, object] = {}
    for prefix in grammar.reachable_prefixes(case.vocabulary, limit=6):
        for token in case.vocabulary[:12]:
            text = prefix + token
            key = grammar.displacement_key(prefix, token)
            if key is None:
                assert not grammar.viable(text)
                continue
            next_bytes = grammar.next_bytes(text)
            after = [grammar.displacement_key(text, bytes([byte])) for byte in next_bytes[:3]]
            future = (grammar.complete(text), next_bytes, after)
            assert futures.setdefault(key, future) == future, text
