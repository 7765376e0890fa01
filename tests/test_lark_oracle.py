"""The oracle for Lark grammars: known answers; its search says what the definition says, which asks Lark."""

from __future__ import annotations

import random

import pytest
from lark import Lark
from lark.exceptions import LarkError

from tests.lark_brute_force import Oracle
from tests.lark_oracle import SMALL_GRAMMARS, SmallGrammar


def oracle(text: str, alphabet: str, length: int = 3) -> Oracle:
    return Oracle(Lark(text, parser="lalr", lexer="basic", start="start"), alphabet, length)


def test_conflicts_are_resolved_by_shifting() -> None:
    asked = oracle('start: part "b"\npart: "x" | "x" "b"', "xb")
    assert not asked.complete("xb") and asked.complete("xbb")
    nested = oracle('start: s\ns: "i" s | "i" s "e" s | "x"', "iex")
    assert nested.complete("iixex") and nested.complete("iixexex") and not nested.viable("xe")


def test_texts_and_tokens_may_end_within_a_character() -> None:
    asked = oracle('start: "é" "x" | "è" "y" | "€"', "éèx€y")
    euro = "€".encode()
    assert asked.allowed_tokens("", [b"\xc3", euro[:1], euro[:2], b"\xa9", b"\xff", b"x"]) == (
        *(True, True, True),
        *(False, False, False),
    )
    assert asked.allowed_tokens(b"\xc3", [b"\xa9", b"\xa8", b"\xa9x", b"\xa9y", b"x", b"\xc3"]) == (
        *(True, True, True),
        *(False, False, False),
    )
    assert asked.viable(euro[:2]) and not asked.complete(euro[:2])
    assert not asked.viable(euro[:1] + b"\x83")
    assert not asked.viable_by_definition(euro[:1] + b"\x83") and asked.viable_by_definition(euro[:2])


def test_nothing_is_allowed_after_what_is_not_viable() -> None:
    asked = oracle('start: "a"*', "a")
    assert asked.allowed_tokens("b", [b"a", b""]) == (False, False)
    assert asked.allowed_tokens("a", [b"a", b"", b"b"]) == (True, True, False)


def test_too_short_continuations_find_nothing() -> None:
    word = 'start: WORD\nWORD: "abcd"'
    assert oracle(word, "abcd", 3).viable("a") and not oracle(word, "abcd", 2).viable("a")


@pytest.fixture(params=SMALL_GRAMMARS, ids=lambda grammar: grammar.name)
def small(request: pytest.FixtureRequest) -> SmallGrammar:
    return request.param


def test_the_shared_search_is_the_definition(small: SmallGrammar) -> None:
    """Both agree on all texts that are viable except for their last character; the definition shares nothing
    between texts."""
    asked = small.oracle()
    for text in asked.texts(2 if len(asked.continuations) > 300 else 3):
        for more in small.alphabet:
            assert asked.viable(text + more) == asked.viable_by_definition(text + more), text + more


def test_the_shared_search_is_the_definition_on_random_texts(small: SmallGrammar) -> None:
    asked, rng = small.oracle(), random.Random(small.name)
    for _ in range(6):
        text = b""
        for _ in range(7):
            row = asked.allowed_tokens(text, small.tokens)
            token = rng.choice(small.tokens)
            if rng.random() < 0.2:
                assert row[small.tokens.index(token)] == asked.viable_by_definition(text + token), (
                    text + token
                )
            if not any(row):
                break
            text += rng.choice([token for token, fits in zip(small.tokens, row, strict=True) if fits])
        assert asked.viable_by_definition(text), text


def test_lexemes_are_larks(small: SmallGrammar) -> None:
    """The step from a match to a terminal, the only part of Lark that the oracle repeats, agrees with
    Lark."""
    asked, rng = small.oracle(), random.Random(small.name)
    for _ in range(100):
        text = "".join(rng.choices(small.alphabet, k=8))
        try:
            wanted = [token.type for token in small.lark.lex(text)]
        except LarkError:
            wanted = None
        found: list[str] | None = []
        rest = text
        while rest and found is not None:
            lexeme = asked._lexeme(rest)
            if lexeme is None:
                found = None
            else:
                found += [lexeme.terminal] if lexeme.terminal is not None else []
                rest = rest[lexeme.length :]
        assert found == wanted, text
