"""Classes of byte strings: the walk against its slow twin, and the answers where exploring fails."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import xgrammar
from hypothesis import given, settings

from equivalence import BudgetExceeded, Capacity, HybridError, Vocabulary, compute_classes
from equivalence.classes.byte_strings import classes as byte_classes
from equivalence.classes.byte_strings.automata import read_automata
from equivalence.classes.byte_strings.classes import byte_string_classes
from equivalence.classes.byte_strings.reference import string_keys
from hybrid import Budget, GrammarCompiler, GrammarMatcher
from tests.conftest import load_cases
from tests.random_grammars import GrammarCase, grammar_cases

BUDGET = {"capacity": Capacity(1, 1, 1, 1)}


def partition(keys: list[Any]) -> list[int | None]:
    """Keys as numbers in order of occurrence, None kept."""
    number: dict[Any, int] = {}
    return [None if key is None else number.setdefault(key, len(number)) for key in keys]


def tokens_of(strings: list[bytes]) -> list[bytes]:
    """Strings cut into pieces of up to four bytes, wherever they begin."""
    found = {text[a : a + n] for text in strings for a in range(len(text)) for n in range(1, 5)}
    return sorted(found | {bytes([byte]) for byte in range(0, 256, 5)})


def assert_as_reference(grammar: xgrammar.Grammar, tokens: list[bytes]) -> None:
    automata = read_automata(json.loads(grammar.serialize_json()))
    assert automata is not None
    found = byte_string_classes(grammar, Vocabulary.from_bytes(tokens))
    assert found.method == "byte strings" and found.relation == "displacement"
    expected = partition(string_keys(automata, tokens))
    assert partition([None if c < 0 else c for c in found.class_of_token.tolist()]) == expected


@pytest.mark.kernels
@given(grammar_cases())
@settings(max_examples=60, deadline=None)
def test_the_walk_agrees_with_its_slow_twin(case: GrammarCase) -> None:
    tokens = [token for token in dict.fromkeys(case.vocabulary) if token]
    assert_as_reference(xgrammar.Grammar.from_ebnf(case.ebnf), tokens or [b"a"])


@pytest.mark.parametrize("kind", ["lark", "structural_tag", "regex"])
def test_cases_agree_with_the_slow_twin(kind: str) -> None:
    for case in load_cases(kind=kind):
        texts = [text[:200] for text in (*case.accepts, *case.rejects, *case.prefixes)]
        assert_as_reference(case.parse(), tokens_of(texts)[:600])


@pytest.mark.kernels
@given(grammar_cases())
@settings(max_examples=60, deadline=None)
def test_equal_classes_have_equal_bits_in_every_mask(case: GrammarCase) -> None:
    """Single steps from texts of the vocabulary: whole classes are taken or not, and lead to equal masks."""
    tokens = [*case.vocabulary, *case.vocabulary[:3], b""]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[len(tokens) - 1])
    grammar = xgrammar.Grammar.from_ebnf(case.ebnf)
    classes = byte_string_classes(grammar, vocabulary)
    info = vocabulary.tokenizer_info
    plain = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False).compile_grammar(grammar)

    def taken(matcher: xgrammar.GrammarMatcher) -> list[bool]:
        return [matcher.fork().accept_token(token_id) for token_id in range(len(tokens) - 1)]

    after: dict[tuple[int, int], list[bool]] = {}
    for depth, prefix in enumerate([b"", *case.vocabulary[:6]]):
        start = xgrammar.GrammarMatcher(plain)
        if prefix and not start.accept_string(prefix):
            continue
        for token_id, accepted in enumerate(taken(start)):
            number = int(classes.class_of_token[token_id])
            assert number >= 0 or not accepted
            if accepted:
                matcher = start.fork()
                matcher.accept_token(token_id)
            reached = taken(matcher) if accepted else []
            if number >= 0:
                assert after.setdefault((depth, number), reached) == reached


def test_a_position_is_told_apart_only_by_states_that_may_be_there() -> None:
    grammar = xgrammar.Grammar.from_ebnf('root ::= ("<" [a-z]* ">" | "key")*')
    tokens = [b"<ab", b"<key", b"<kez", b"<xyz", b"key", b"kez", b"ez", b"ey", b"a", b"\xff"]
    found = byte_string_classes(grammar, Vocabulary.from_bytes(tokens)).class_of_token.tolist()
    assert found[1] == found[2] == found[3] != found[0]
    assert len({found[4], found[5], found[6], found[7], found[8]}) == 5
    assert found[9] == -1


def test_utf8_kinds_stay_apart() -> None:
    grammar = xgrammar.Grammar.from_ebnf("root ::= r*\nr[max_chars=3] ::= [^x]*")
    tokens = [b"ab", "é".encode(), "ж".encode(), b"\xa9\xa9", "日".encode(), b"aaa"]
    found = byte_string_classes(grammar, Vocabulary.from_bytes(tokens)).class_of_token.tolist()
    assert found[1] == found[2] and len(set(found)) == 5


def test_too_many_sets_of_states_count_all_states_everywhere() -> None:
    grammar = xgrammar.Grammar.from_ebnf('root ::= ("<" [a-z]* ">" | "key")*')
    vocabulary = Vocabulary.from_bytes([b"<ab", b"<kb", b"<xb", b"<"])
    fine = byte_string_classes(grammar, vocabulary)
    coarse = byte_string_classes(grammar, vocabulary, max_sets=1)
    assert fine.class_of_token.tolist() == [0, 0, 0, 1]
    assert coarse.class_of_token.tolist() == [0, 1, 0, 2]


def test_without_automata_each_byte_string_is_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = xgrammar.Grammar.from_ebnf('root ::= "a"')
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"a", b""])
    monkeypatch.setattr(byte_classes, "read_automata", lambda *_: None)
    found = byte_string_classes(grammar, vocabulary)
    assert found.class_of_token.tolist() == [0, 1, 0, -1]
    assert found.method == "distinct strings"


def test_coarse_classes_where_exploring_meets_its_bound() -> None:
    grammar = xgrammar.Grammar.from_ebnf('root ::= "(" root ")" | "[" root "]" | "a"')
    vocabulary = Vocabulary.from_bytes([b"a", b")", b"]", b"))", b"(a", b"[a", b"x"])
    with pytest.raises(BudgetExceeded):
        compute_classes(grammar, vocabulary, **BUDGET)
    found = compute_classes(grammar, vocabulary, on_budget="coarse", **BUDGET)
    assert found.method == "byte strings" and "exploration needs more" in found.cause
    assert found.class_of_token[6] == -1 and found.n_classes == 6
    assert compute_classes(grammar, vocabulary, on_budget="coarse").method == "explored"
    with pytest.raises(HybridError, match="allowed are raise, coarse"):
        compute_classes(grammar, vocabulary, on_budget="never")


def test_the_compiler_takes_coarse_classes_only_where_they_save() -> None:
    rng = np.random.default_rng(1)
    tokens = sorted({bytes(rng.integers(97, 123, 5).tolist()) for _ in range(800)})
    text = "root ::= " + " | ".join(f'"{token.decode()}" root' for token in tokens)
    many = Vocabulary.from_bytes([*tokens, b""], stop_token_ids=[len(tokens)])
    compiled = GrammarCompiler(many, budget=Budget(5)).compile_grammar(text)
    assert compiled.strategy == "engine" and "save nothing" in compiled.reason
    compiled = GrammarCompiler(many, budget=Budget(5)).compile_grammar(
        'root ::= [a-m]{2} [a-z]{3} root | "cde"'
    )
    assert compiled.strategy == "representatives" and "byte strings" in compiled.reason
    assert "more than 5 states" in compiled.reason


def test_real_vocabulary(tekken: Vocabulary) -> None:
    grammar = xgrammar.Grammar.from_lark('start: r "<end>"\nr[max_tokens=3]: /[^<]*/')
    found = byte_string_classes(grammar, tekken)
    assert found.method == "byte strings" and 50 < found.n_classes < 2000
    keys = partition(string_keys(read_automata(json.loads(grammar.serialize_json())), list(tekken.tokens)))
    alone = set(tekken.stop_token_ids)
    ids = [i for i in range(tekken.size) if tekken.tokens[i] and i not in alone]
    pairs = {(keys[i], int(found.class_of_token[i])) for i in ids}
    assert len(pairs) == len({key for key, _ in pairs}) == len({number for _, number in pairs})


def test_excluded_tokens_and_counted_characters_where_every_byte_is_read() -> None:
    """Nothing is left to be told apart by its characters, which once was added as floats."""
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"ab", b""], stop_token_ids=3)
    excluded = {"type": "any_tokens", "exclude_tokens": [0]}
    elements = [excluded, {"type": "any_text", "max_chars": 4}]
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}
    compiled = GrammarCompiler(vocabulary).compile_structural_tag(tag)
    matcher = GrammarMatcher(compiled)
    plain = xgrammar.GrammarMatcher(
        xgrammar.GrammarCompiler(vocabulary.tokenizer_info, max_threads=1).compile_structural_tag(tag)
    )
    for token in (1, 2, 0):
        assert matcher.accept_token(token) == plain.accept_token(token)
