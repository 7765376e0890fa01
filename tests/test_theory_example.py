"""The example of docs/theory.md: five rules and ten tokens, followed from text to class to mask."""

from __future__ import annotations

import xgrammar

from equivalence import Vocabulary, compute_classes
from hybrid import GrammarCompiler, GrammarMatcher, allocate_token_bitmask

GRAMMAR = """root   ::= value
value  ::= number | list
list   ::= "[" items "]"
items  ::= value | value "," items
number ::= [0-9]+
"""
TOKENS = ["1", "2", "12", "[", "[[", "]", "]]", ",", "],[", "1]"]
VOCABULARY = Vocabulary.from_bytes([*(token.encode() for token in TOKENS), b""], stop_token_ids=[len(TOKENS)])


def classes_of(relation: str) -> list[set[str]]:
    found = compute_classes(xgrammar.Grammar.from_ebnf(GRAMMAR), VOCABULARY, relation)
    return [
        {TOKENS[i] for i, number in enumerate(found.class_of_token.tolist()) if number == one}
        for one in range(found.n_classes)
    ]


def test_the_page_has_this_grammar() -> None:
    from bench.cases import CHECKOUT

    assert GRAMMAR in (CHECKOUT / "docs" / "theory.md").read_text(encoding="utf-8")


def test_six_classes_of_acceptance_and_eight_of_displacement() -> None:
    assert classes_of("acceptance") == [{"1", "2", "12"}, {"[", "[["}, {"]"}, {"]]", "],["}, {","}, {"1]"}]
    assert len(classes_of("displacement")) == 8


def test_masks_along_the_text() -> None:
    matcher = GrammarMatcher(GrammarCompiler(VOCABULARY, strategy="classifier").compile_grammar(GRAMMAR))
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)

    def mask() -> set[str]:
        matcher.fill_next_token_bitmask(bitmask)
        names = [*TOKENS, "stop"]
        return {name for i, name in enumerate(names) if int(bitmask[0, 0]) >> i & 1}

    assert mask() == {"1", "2", "12", "[", "[["}
    assert matcher.accept_string("[1,[2")
    assert mask() == set(TOKENS) - {"[", "[["}
    assert matcher.accept_string("]")
    assert mask() == {"]", ","}
    assert matcher.accept_string("]")
    assert mask() == {"stop"}
