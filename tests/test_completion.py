"""Token limits: shortest completions, and masks that leave room for one (docs/completion.md)."""

from __future__ import annotations

import gc
import random
import weakref
from itertools import product
from typing import Any

import pytest
import xgrammar
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bench.cases import Case
from equivalence import ArgumentError, BudgetExceeded, MatcherError, UnsupportedGrammar, Vocabulary
from equivalence.classes.reference import ReferenceGrammar
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.completion.bounds import bounds_of
from hybrid.healing import HealingMatcher
from tests.conftest import load_cases
from tests.matchers import STRATEGIES, allowed, mask_of
from tests.random_grammars import GrammarCase, grammar_cases

BYTES = [bytes([byte]) for byte in range(256)]
TOKENS = [*BYTES, b"ab", b"abc", b'{"', b'":', b'","', b"true", b"[[", b"]]", b"12", b"    ", b"", b'"}']
STOP = len(TOKENS)
VOCABULARY = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=STOP)

COMPILER = GrammarCompiler(VOCABULARY)
PLAIN = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info, max_threads=1)

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "minLength": 2, "maxLength": 9},
        "b": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 6},
        "c": {"enum": ["long enough", "x"]},
    },
    "required": ["a", "b"],
}
NESTED = {
    "$defs": {"node": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]},
        },
        "required": ["name", "next"],
    }},
    "$ref": "#/$defs/node",
}  # fmt: skip
SMALL = [
    'root ::= "ab" ("c" root "d" | "e" | "" ) "f" | "bbbbb"',
    'root ::= root "a" | root "b" root "c" | "cab"',
    'root ::= ("a" | "bc"){4,6} ("c" [ab]{5})? "."',
    'root ::= ("a" ("b" | "cc"){2,9}){2,7}',
    'root ::= "(" root ")" root | "[" [ab] root "]" | "-"?',
]
"""Alternatives, left recursion, counts, nested counts and brackets."""


def matcher_of(grammar: Any, strategy: str = "auto", vocabulary: Vocabulary = VOCABULARY) -> GrammarMatcher:
    compiler = GrammarCompiler(vocabulary, strategy=strategy)
    if isinstance(grammar, dict):
        return GrammarMatcher(compiler.compile_json_schema(grammar))
    try:
        return GrammarMatcher(compiler.compile_grammar(grammar))
    except UnsupportedGrammar as refusal:  # of a random grammar, which has no representatives
        assume("left recursive through a bounded repeat" not in str(refusal))
        raise


def spelled(matcher: GrammarMatcher, tokens: list[int]) -> bytes:
    return b"".join(matcher.compiled_grammar.vocabulary.tokens[token] for token in tokens)


def limited(matcher: GrammarMatcher, left: int) -> list[int]:
    """Return the ids of the limited mask."""
    size = matcher.compiled_grammar.vocabulary.size
    needed, ids = allowed(matcher, size, left)
    assert needed == (len(ids) < size)
    return ids


def expected(matcher: GrammarMatcher, left: int) -> list[int]:
    """Return the same token by token: the allowed tokens after which fewer tokens than are left complete the
    text."""
    kept = []
    for token in allowed(matcher, matcher.compiled_grammar.vocabulary.size)[1]:
        after = matcher.fork()
        assert after.accept_token(token)
        rest = after.shortest_completion()
        closes = after.can_complete_within(left - 1, brief=True)
        assert closes or rest is None or len(rest) >= left
        if closes:
            kept.append(token)
    return kept


def walk(matcher: GrammarMatcher, left: int, seed: int) -> int:
    """Read random tokens under limited masks until none is left; return how many were read."""
    draw, taken = random.Random(seed), 0
    while taken < left and not matcher.is_terminated():
        assert matcher.accept_token(draw.choice(limited(matcher, left - taken)))
        taken += 1
    return taken


# --- the meaning, on random grammars ---------------------------------------------------------------------


def least_length(reference: ReferenceGrammar, text: bytes, most_texts: int) -> tuple[int, bool]:
    """Return the least number of bytes that complete a text, by breadth-first search, and True; or a lower
    bound and False if there are too many texts."""
    level, seen = [text], {reference.displacement_key(text)}
    length = 0
    while level:
        if any(reference.complete(one) for one in level):
            return length, True
        if len(seen) > most_texts:
            return length + 1, False
        following = []
        for one in level:
            for byte in reference.next_bytes(one):
                key = reference.displacement_key(one + bytes([byte]))
                if key not in seen:  # texts with equal stacks have the same completions
                    seen.add(key)
                    following.append(one + bytes([byte]))
        level, length = following, length + 1
    return 1 << 60, False


def assume_network(matcher: GrammarMatcher) -> None:
    try:
        matcher.shortest_completion()
    except UnsupportedGrammar:  # left recursion through a counted repeat
        assume(False)


CASES = grammar_cases() | st.sampled_from([GrammarCase(grammar, [b"ab", b"bc"]) for grammar in SMALL])


@settings(max_examples=24, deadline=None, suppress_health_check=list(HealthCheck))
@given(CASES, st.sampled_from(STRATEGIES), st.integers(0, 1 << 30))
def test_a_completion_is_a_shortest_text(case: GrammarCase, strategy: str, seed: int) -> None:
    tokens = [*BYTES, *(token for token in case.vocabulary if token)]
    vocabulary = Vocabulary.from_bytes([*tokens, b""], stop_token_ids=len(tokens))
    matcher = matcher_of(case.ebnf, strategy, vocabulary)
    reference = ReferenceGrammar(xgrammar.Grammar.from_ebnf(case.ebnf))
    draw, text = random.Random(seed), b""
    assume_network(matcher)
    for _ in range(4):
        plan = matcher.shortest_completion()
        length, is_exact = least_length(reference, text, 60)
        if plan is None:
            assert not is_exact
        else:
            whole = spelled(matcher, plan)
            assert len(whole) == length if is_exact else len(whole) >= length
            assert reference.complete(text + whole)
        ids = [token for token in allowed(matcher, vocabulary.size)[1] if token != len(tokens)]
        if not ids:
            break
        token = draw.choice(ids)
        assert matcher.accept_token(token)
        text += tokens[token]


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_cases_are_completed_wherever_they_stand(case: Case) -> None:
    matcher = GrammarMatcher(COMPILER.compile_grammar(case.parse()))
    try:
        matcher.shortest_completion()
    except UnsupportedGrammar:
        assert matcher.compiled_grammar.strategy != "classifier"
        return
    plain = xgrammar.GrammarMatcher(PLAIN.compile_grammar(case.parse()))
    for text in case.accepts:
        matcher.reset()
        for at in sorted({*range(0, len(text), max(1, len(text) // 4)), len(text)}):
            matcher.accept_string(text[len(matcher._follower.text_read()) : at])
            whole = spelled(matcher, matcher.shortest_completion())
            assert len(whole) <= len(text) - at
            plain.reset()
            assert plain.accept_string(text[:at] + whole) and plain.is_completed()
            left = max(len(matcher.shortest_completion()), 1)
            assert set(limited(matcher, left)) <= set(allowed(matcher, VOCABULARY.size)[1])
            if at < len(text) and len(text) < 100:
                assert limited(matcher, left + 1) == expected(matcher, left + 1)


# --- by hand ---------------------------------------------------------------------------------------------


def test_a_worked_example(strategy: str) -> None:
    matcher = matcher_of(SCHEMA, strategy)
    plan = matcher.shortest_completion()
    assert spelled(matcher, plan) == b'{"a":"  ","b":[0,0]}'
    assert TOKENS[plan[0]] == b'{"'  # the fewest tokens, and the longest piece if several would do
    assert matcher.accept_string('{"a": "xyz", "b": [17, 4')
    assert spelled(matcher, matcher.shortest_completion()) == b"]}"
    matcher.accept_string(", ")
    assert spelled(matcher, matcher.shortest_completion()) == b"0]}"
    matcher.rollback()
    assert limited(matcher, 2) == expected(matcher, 2) == [ord("]")]
    assert matcher.accept_string('], "c')
    assert spelled(matcher, matcher.shortest_completion()) == b'":"x"}'
    matcher.reset()
    assert matcher.shortest_completion() == plan
    assert matcher.fork().shortest_completion() == plan


def test_a_plan_that_the_masks_of_xgrammar_leave_out_stays_open(strategy: str) -> None:
    vocabulary = Vocabulary.from_bytes([*BYTES, b"}]", b""], stop_token_ids=257)
    matcher = GrammarMatcher(GrammarCompiler(vocabulary, strategy=strategy).compile_builtin_json_grammar())
    matcher.accept_string('[{"a":"x"')
    assert matcher.shortest_completion() == [256]
    assert limited(matcher, 1) == [256]
    assert matcher.accept_token(256) and matcher.is_completed()


def test_a_text_that_cannot_end_in_time_is_an_error() -> None:
    matcher = matcher_of('root ::= "abcabc" "ab"*')
    assert [TOKENS[token] for token in matcher.shortest_completion()] == [b"abc", b"abc"]
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)
    bitmask.fill_(5)
    with pytest.raises(MatcherError, match="within 1 token: the shortest completion needs 2"):
        matcher.fill_limited_bitmask(bitmask, 1)
    assert bool((bitmask == 5).all())
    for wrong in (0, -1, 1.5, True, None):
        with pytest.raises(ArgumentError, match="tokens_left"):
            matcher.fill_limited_bitmask(bitmask, wrong)
    assert walk(matcher, 2, 0) == 2
    assert matcher.shortest_completion() == []
    assert STOP in limited(matcher, 1) and TOKENS.index(b"ab") in limited(matcher, 1)
    assert matcher.accept_token(STOP)
    assert matcher.shortest_completion() == []
    with pytest.raises(MatcherError, match="terminated"):
        matcher.fill_limited_bitmask(bitmask, 1)


def test_what_nothing_ends_has_no_completion() -> None:
    matcher = matcher_of('root ::= "a" never | "b"\nnever ::= "x" never')
    assert spelled(matcher, matcher.shortest_completion()) == b"b"
    assert limited(matcher, 100) == [ord("b")]  # no text that starts with "a" ever ends
    matcher.accept_string("a")
    assert matcher.shortest_completion() is None
    with pytest.raises(MatcherError, match="no tokens complete it"):
        limited(matcher, 100)


def test_bytes_that_no_token_spells_are_avoided_and_stop_tokens_spell_nothing() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"bc", b"d", b"e", b""], stop_token_ids=4)
    matcher = matcher_of('root ::= "a" ("b" | "de" | "ded") | "x"', vocabulary=vocabulary)
    assert matcher.shortest_completion() == [0, 2, 3]
    assert GrammarMatcher(matcher.compiled_grammar, override_stop_tokens=[3]).shortest_completion() is None
    joined = matcher_of('root ::= "a" "bc"', vocabulary=vocabulary)
    assert joined.shortest_completion() == [0, 1]  # none of its bytes is a token


def test_completions_may_be_long() -> None:
    matcher = matcher_of('root ::= [0-9]{60000} "."?')
    assert spelled(matcher, matcher.shortest_completion()) == b"0" * 60_000


def test_bounds_of_many_states_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits of all states were unpacked for each state: 6 s for a schema of 3,000 properties."""
    unpacked = []

    class Tables:
        def __init__(self, tables: Any) -> None:
            self.tables = tables

        def __getattr__(self, name: str) -> Any:
            unpacked.append(name)
            return getattr(self.tables, name)

    def counted(network: Any, distances: Any, tables: Any, *others: Any) -> Any:
        return bounds_of(network, distances, Tables(tables), *others)

    monkeypatch.setattr("hybrid.completion.costed_configurations.bounds_of", counted)
    assert matcher_of(
        'root ::= a b a b\na ::= "x" | "(" a ")"\nb ::= "y" | "[" a b "]"'
    ).shortest_completion()
    assert unpacked.count("first") == 1


def test_a_plan_takes_at_most_the_time_of_a_mask() -> None:
    compiler = GrammarCompiler(VOCABULARY, budget=Budget(mask_seconds=1e-9))
    matcher = GrammarMatcher(compiler.compile_grammar('root ::= ("a" root "b" | "c"){1,5}'))
    for ask in (matcher.shortest_completion, lambda: matcher.can_complete_within(9)):
        with pytest.raises(BudgetExceeded, match="takes more than 1e-09 s"):
            ask()
    matcher.compiled_grammar.completions.of((STOP,))._seconds = 30.0
    assert spelled(matcher, matcher.shortest_completion()) == b"c"


def test_a_prefix_does_not_count_as_a_part_of_the_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid.completion.plans.MOST_PLANNED", 20)
    compiled = COMPILER.compile_grammar('root ::= [0-9]{18} "."?')
    for length in (1, 5, 40):
        matcher = HealingMatcher(compiled, b"0" * length)
        assert spelled(matcher, matcher.shortest_completion()) == b"0" * (length + 18)
        assert matcher.can_complete_within(length + 18)
    longer = HealingMatcher(COMPILER.compile_grammar("root ::= [0-9]{21}"), b"0")
    with pytest.raises(BudgetExceeded, match="21 bytes"):
        longer.shortest_completion()


def test_tables_that_are_full_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid.completion.plans.TABLE_BYTES", 1 << 19)
    matcher = matcher_of('root ::= "(" root ")" | "[" root "]" | "x"')
    plans = matcher.compiled_grammar.completions.of((STOP,))
    first = weakref.ref(plans._configurations)
    earlier = matcher.fork()
    assert earlier.shortest_completion() == [ord("x")]
    draw, closer = random.Random(1), {"(": ")", "[": "]"}
    for _ in range(60):  # each leads to other stacks
        text = "".join(draw.choice("([") for _ in range(60))
        matcher.reset()
        matcher.accept_string(text)
        whole = "x" + "".join(closer[one] for one in reversed(text))
        assert spelled(matcher, matcher.shortest_completion()) == whole.encode()
    gc.collect()
    assert first() is None  # although it was asked for a matcher
    assert earlier.shortest_completion() == [ord("x")]


def test_what_is_held_is_counted(strategy: str) -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy=strategy).compile_json_schema(NESTED)
    matcher = GrammarMatcher(compiled)
    before = compiled.memory_size_bytes
    matcher.shortest_completion()
    completions = compiled.completions
    assert compiled.memory_size_bytes >= before + completions.nbytes > before
    held = completions.nbytes
    for _ in range(600):
        matcher.accept_string('{"name":"","next":')
    matcher.shortest_completion()
    assert completions.nbytes > held


def test_searches_leave_room_for_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of hundreds of tokens leads to another place, from which the search would read hundreds."""
    monkeypatch.setattr("hybrid.completion.plans.TABLE_BYTES", 1 << 20)
    tokens = ["".join(one).encode() for n in (1, 2, 3) for one in product("abcdefgh", repeat=n)]
    tokens += [b"!", b"ab" * 9, b"</s>"]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=len(tokens) - 1)
    mirrored = "root ::= " + "".join(f'"{one}" root "{one}" | ' for one in "abcdefgh") + '"!"'
    matcher = matcher_of(mirrored, vocabulary=vocabulary)
    assert matcher.accept_string("abcdefghabcdefghabcdef")
    left = len(matcher.shortest_completion()) + 1
    assert matcher.limit_tokens(left)
    draw = random.Random(1)
    while not matcher.is_completed():
        assert matcher.accept_token(draw.choice(mask_of(matcher)))
        assert matcher.limit_error is None
    assert matcher.tokens_left in range(left)


def test_searches_are_counted_as_memory() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b" * 64, b"b", b"</s>"], stop_token_ids=[3])
    matcher = matcher_of('root ::= "a"{300} | "b"{301}', vocabulary=vocabulary)
    assert len(matcher.shortest_completion()) == 300
    completions = matcher.compiled_grammar.completions
    assert [matcher.can_complete_within(most) for most in (48, 49)] == [None, True]
    held = completions.nbytes
    assert all(matcher.can_complete_within(most) for most in range(50, 100))
    assert completions.nbytes > held + 50 * 400


def test_there_are_no_frames_of_a_tail_that_is_not_there() -> None:
    matcher = matcher_of(NESTED)
    matcher.shortest_completion()
    stacks = matcher.compiled_grammar.completions.of((STOP,))._configurations._space.stacks
    assert [number for number, *_ in stacks.frames_of(0)] == [0]
    for wrong in (-1, stacks.tails.count, 1 << 40):
        with pytest.raises(IndexError, match="there is no tail"):
            stacks.frames_of(wrong)


def test_others_are_refused_by_name() -> None:
    lark = GrammarMatcher(GrammarCompiler(VOCABULARY).compile_lark('start: "a"+'))
    counted = matcher_of(xgrammar.Grammar.from_lark('start: a "."\na[max_tokens=3]: /[a-z]+/\n'))
    for matcher, why in ((lark, "Lark"), (counted, "depend on more than the text's bytes")):
        with pytest.raises(UnsupportedGrammar, match=why):
            matcher.shortest_completion()


def test_a_compiled_grammar_that_was_loaded_has_completions(tmp_path: Any) -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy="classifier").compile_json_schema(SCHEMA)
    compiled.save(tmp_path / "one")
    loaded = CompiledGrammar.load(tmp_path / "one", VOCABULARY)
    assert GrammarMatcher(loaded).shortest_completion() == GrammarMatcher(compiled).shortest_completion()


@pytest.mark.parametrize("strategy", ["classifier", "representatives", "engine"])
def test_what_completions_need_has_the_budget_of_the_grammar(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy, budget=Budget(states=77, seconds=7.0))
    compiled = compiler.compile_grammar('root ::= "a" root | "b"')
    bounds: list[object] = []

    def build(*arguments: Any) -> None:
        bounds.extend((arguments[4], arguments[5].seconds))
        raise BudgetExceeded("enough")

    monkeypatch.setattr("hybrid.completion.completions.network_within", build)
    with pytest.raises(BudgetExceeded, match="enough"):
        GrammarMatcher(compiled).shortest_completion()
    assert bounds == [77, 7.0]
