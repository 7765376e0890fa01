"""The oracle for Lark grammars: known answers, and its shared search compared with the plain definition."""

from __future__ import annotations

import random
from functools import cache

import pytest
from lark import Lark
from lark.exceptions import LarkError

from tests.lark_brute_force import Oracle
from tests.lark_oracle import SMALL_GRAMMARS, SmallGrammar


@cache
def oracle(text: str, alphabet: str, length: int = 3) -> Oracle:
    return Oracle(Lark(text, parser="lalr", lexer="basic", start="start"), alphabet, length)


def allowed(asked: Oracle, text: str, words: str) -> set[str]:
    """The words of a list, with ``_`` for a space, that may follow a text."""
    tokens = [word.replace("_", " ").encode() for word in words.split()]
    return {
        word
        for word, is_allowed in zip(words.split(), asked.allowed_tokens(text, tokens), strict=True)
        if is_allowed
    }


# ---- known answers

KEYWORDS = r"""
    start: "if" NAME ";" | NAME "=" NAME ";"
    NAME: /[ifx]+/
    %ignore " "
"""


def test_a_keyword_is_one_only_until_the_name_goes_on() -> None:
    asked = oracle(KEYWORDS, "ifx=; ")
    assert allowed(asked, "", "i if _ = ; x=") == {"i", "if", "_", "x="}
    # `if` is the keyword, or the beginning of a longer name
    assert allowed(asked, "if", "x _ = ;") == {"x", "_"}
    assert allowed(asked, "if ", "x if ifx = if; if=") == {"x", "if", "ifx"}
    assert allowed(asked, "if i", "f f; ;") == {"f", ";"}
    assert not asked.viable("if if;") and asked.viable("if if")  # `if ifx;` may follow
    assert asked.viable("i=x;") and not asked.viable("i=x;;")


def test_complete_is_what_lark_parses() -> None:
    asked = oracle(KEYWORDS, "ifx=; ")
    assert asked.complete("if x;") and asked.complete(b" i = x ; ")
    assert not asked.complete("if x") and not asked.complete("if;") and not asked.complete(b"\xff")


UNREAD = r"""
    start: (NUMBER | NAME)+ ("+" NUMBER)?
    NUMBER: /[0-9]+(e\+?[0-9]+)?/
    NAME: /[ex]+/
"""


def test_what_was_read_in_vain_is_read_again() -> None:
    asked = oracle(UNREAD, "1e+x")
    assert asked.viable("1e+") and asked.complete("1e+1")
    assert allowed(asked, "1e+", "1 e + x") == {"1"}  # NUMBER; or NUMBER NAME + NUMBER
    # two numbers where `e+` are no part of one: 1e, then the name `ee`, then `+`
    assert allowed(asked, "1ee+", "1 e + x") == {"1"}
    assert allowed(asked, "1e+1", "e 1 + x") == {"e", "1", "+", "x"}
    assert not asked.viable("1e++")  # lexes, as 1 e + +, and the parser refuses
    refused = oracle(UNREAD.replace(")+ (", ") ("), "1e+x")
    assert refused.viable("1e+") and allowed(refused, "1e+", "1 e + x") == {"1"}
    assert refused.viable("1e") and not refused.complete("1e") and not refused.viable("1ex")


LAZY = r"""
    start: ("a" | "/")*
    COMMENT: /\/\*(.|\n)*?\*\//
    %ignore COMMENT
"""


def test_a_lazy_comment_ends_at_its_first_end() -> None:
    asked = oracle(LAZY, "a/*")
    assert allowed(asked, "/", "a / * */") == {"a", "/", "*", "*/"}
    assert asked.viable("/*a") and not asked.complete("/*a")  # `/*a*/` may follow, and is the only way on
    assert allowed(asked, "/*a*", "/ * a */ /*") == {"/", "*", "a", "*/"}
    assert allowed(asked, "/**/", "a * /* */") == {"a", "/*"}
    assert not asked.viable("a*") and not asked.viable("/**/*")
    assert asked.viable("/*/") and not asked.complete("/*/")


def test_ignored_white_space_is_invisible_but_parts_words() -> None:
    asked = oracle('start: "a" WORD\nWORD: /b+/\n%ignore / +/', "ab ")
    assert asked.viable("  a  b  ") and asked.complete("  a  b  ")
    assert allowed(asked, "a b", "b _ _b a") == {"b", "_"}  # `b b` is two words
    assert asked.viable(" ") and not asked.complete(" ")
    assert not asked.viable("#")


def test_strings_are_keywords_only_among_patterns_of_their_priority() -> None:
    equal = oracle('start: "if" | NAME "!"\nNAME: /[a-z]+/', "ifx!")
    assert equal.complete("if") and not equal.complete("if!") and equal.complete("ifx!")
    assert allowed(equal, "if", "! x") == {"x"}
    stronger = oracle('start: "if" | NAME "!"\nNAME.1: /[a-z]+/', "ifx!")
    assert not stronger.complete("if") and stronger.complete("if!")
    assert allowed(stronger, "if", "! x") == {"!", "x"}
    weaker = oracle('start: "if" NAME "!"\nNAME.-1: /[a-z]+/', "ifx!")
    assert weaker.complete("ifx!") and weaker.complete("ifi!") and not weaker.viable("x")


def test_conflicts_are_resolved_by_shifting() -> None:
    asked = oracle('start: part "b"\npart: "x" | "x" "b"', "xb")
    assert not asked.complete("xb") and asked.complete("xbb")
    nested = oracle('start: s\ns: "i" s | "i" s "e" s | "x"', "iex")
    assert nested.complete("iixex") and nested.complete("iixexex") and not nested.viable("xe")


def test_look_ahead_is_followed_up_to_the_shift() -> None:
    text = 'start: "(" sum ")" | "[" sum "]"\nsum: product | sum "+" product\nproduct: "x" | product "*" "x"'
    asked = oracle(text, "()[]x+*")
    assert allowed(asked, "(x", ") ] + *") == {")", "+", "*"}
    assert allowed(asked, "[x*x", ") ] +x]") == {"]", "+x]"}


def test_what_is_viable_need_not_lead_to_a_sentence() -> None:
    asked = oracle('start: "a" "c"? | "b" dead\ndead: "d" dead', "abcd#")
    assert asked.viable("b") and asked.viable("bd") and asked.viable("ac")
    assert not asked.viable("a#")


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


# ---- the small grammars


@pytest.fixture(params=SMALL_GRAMMARS, ids=lambda grammar: grammar.name)
def small(request: pytest.FixtureRequest) -> SmallGrammar:
    return request.param


def test_they_tell_texts_and_tokens_apart(small: SmallGrammar) -> None:
    asked = small.oracle()
    rows = {asked.allowed_tokens(text, small.tokens) for text in asked.texts(4)}
    assert len(rows) > 1
    columns = list(zip(*rows, strict=True))
    assert 2 * sum(any(column) for column in columns) > len(columns)
    assert not all(all(column) for column in columns)
    assert any(asked.complete(text) for text in asked.texts(3))


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
            if rng.random() < 0.05:
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
