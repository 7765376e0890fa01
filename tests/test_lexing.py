"""The lexer's machine against Lark's own lexer, on every short text over a grammar's characters.

For a text ``p`` and every ``w`` such that Lark lexes ``p + w``, take the terminals whose lexemes begin before
the end of ``p``, that is, up to the lexeme that covers its last character. Without the terminals that the
machine has emitted after ``p``, they are an element of the state's set of continuations. Conversely, every
element comes from some ``w``, which is short in these grammars.
"""

from __future__ import annotations

import itertools
import random
import re
import sys
import time
from functools import cache

import lark
import numpy as np
import pytest
from lark.exceptions import UnexpectedCharacters
from lark.indenter import PythonIndenter
from lark.lexer import LexerThread

from bench.lark_checks import may_be_text
from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.lark.lalr.machine import may_follow, read_machine
from equivalence.lark.lexer import build_lexer, machine, terminal_names
from equivalence.lark.lexer.lexeme_automaton import MOST_STATES, or_more_states
from equivalence.lark.lexer.reference import follow, lex_all, run
from equivalence.lark.lexer.scanner import basic_lexer
from tests.lexers import GRAMMARS, build_lark, is_unclosed, lark_grammar, texts


@pytest.mark.parametrize("name", GRAMMARS)
def test_every_short_text_has_lark_s_terminals(name):
    """With the usual bounds, some texts are dead; all others have the same terminals."""
    grammar, alphabet = lark_grammar(name), GRAMMARS[name][0]
    longest = 6 if len(alphabet) < 5 else 5
    exact = build_lexer(grammar, unread_limit=longest, keep_unclosed=True)
    usual = build_lexer(grammar, unread_limit=4)
    for text in texts(alphabet, longest):
        expected = lex_all(grammar, text)
        assert run(exact, text.encode()) == expected, text
        assert run(usual, text.encode()) in (None, expected), text


@pytest.mark.parametrize("name", GRAMMARS)
def test_machines_have_no_useless_parts(name):
    grammar = lark_grammar(name)
    found = build_lexer(grammar, unread_limit=4)
    assert {found.terminals[number] for number in found.ignored} == set(grammar.ignore_tokens)
    assert (found.emitted[found.step < 0] == 0).all()
    assert ((found.step >= 0).any(1) | (found.at_end >= 0)).all(), "some text leads on, or ends there"
    assert found.continuations[0] == ((),) and all(found.continuations)
    assert all(list(some) == sorted(set(some)) for some in found.continuations)


# ---- what is never closed


def test_only_what_is_never_closed_is_dead():
    grammar = lark_grammar("lazy_comment")
    found = build_lexer(grammar)
    for text in texts("/*x", 7):
        assert run(found, text.encode()) == (None if is_unclosed(text) else lex_all(grammar, text)), text


def test_what_is_never_closed_is_kept_where_that_costs_few_states(monkeypatch):
    grammar = lark_grammar("lazy_comment")
    follows = np.ones((len(terminal_names(grammar)),) * 2, bool)
    kept, plain = (build_lexer(grammar, follows, 4, keep_unclosed=keep) for keep in (True, False))
    assert not same(kept, plain)
    assert same(build_lexer(grammar, follows, 4, keep_unclosed=None), kept)
    monkeypatch.setattr(machine, "FEW_TIMES", 1)
    monkeypatch.setattr(machine, "FEW_MORE", 1)
    assert same(build_lexer(grammar, follows, 4, keep_unclosed=None), plain)


def test_a_machine_that_fits_only_without_what_is_never_closed_is_made_so():
    """Also if only its last steps, which turn characters into bytes, need too many states."""
    grammar = build_lark('start: (S | OPEN W)*\nW: /[\\u4e00-\\u9fff]+/\nOPEN: "<"\nS: /<[^>]*>/')
    follows = may_follow(read_machine(grammar, terminal_names(grammar)))[:-1, :-1]
    kept, plain = (build_lexer(grammar, follows, keep_unclosed=keep) for keep in (True, False))
    for bound in range(len(plain.step) + 1, len(kept.step) + 8, 3):
        found = build_lexer(grammar, follows, max_states=bound, keep_unclosed=None)
        assert same(found, kept) or same(found, plain), bound


def same(one, other):
    """Whether two machines are equal in every number."""
    return all(
        np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in zip(one, other, strict=True)
    )


# ---- characters and bytes


@pytest.mark.parametrize("name", ["characters", "without_case", "strings"])
def test_bytes_that_are_not_utf8_are_dead(name):
    found = build_lexer(lark_grammar(name), unread_limit=4)
    more = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    long = itertools.product((0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5), more, more, more)
    for text in map(bytes, [*itertools.product(range(256)), *itertools.product(range(256), more), *long]):
        assert may_be_text(text) or follow(found, text)[0] < 0, text


def test_a_character_is_dead_only_if_lark_has_no_use_for_it():
    grammar = build_lark("start: (A | B)*\nA: /[é-í߿ࠀ￿\U00010000]/\nB: /[\\d]x/")
    found = build_lexer(grammar)
    for code in [*range(0, 0xD800, 7), *range(0xE000, 0x110000, 61), 0x7FF, 0x800, 0xFFFF, 0x10000, 0x661]:
        expected = lex_all(grammar, chr(code)) or lex_all(grammar, chr(code) + "x")
        assert (follow(found, chr(code).encode())[0] >= 0) == (expected is not None), hex(code)


def test_flags_of_the_grammar_hold_for_all_terminals():
    text, flags = "start: (A | B | C)*\nA: /a.b/\nB: /[αβ]+/\nC: /\\w/", re.IGNORECASE | re.DOTALL | re.ASCII
    grammar = lark.Lark(text, parser="lalr", lexer="basic", g_regex_flags=flags)
    found = build_lexer(grammar, keep_unclosed=True)
    for text in texts("aAb\nαΑé", 4):
        assert run(found, text.encode()) == lex_all(grammar, text), text


# ---- what parsers refuse


def test_what_parsers_refuse_is_dropped():
    grammar = build_lark("start: (F | Z)\nF.2: /0+\\./\nZ: /0/")
    free = build_lexer(grammar, unread_limit=9)
    assert run(free, b"000") == ["Z", "Z", "Z"]
    bound = build_lexer(grammar, np.zeros((2, 2), bool))
    assert [run(bound, text) for text in (b"000", b"0", b"000.")] == [None, ["Z"], ["F"]]
    assert len(bound.step) < len(free.step)


def test_a_terminal_that_nothing_may_follow_may_end_a_text():
    grammar = build_lark('start: NAME END?\nNAME: /a+(;;)?/\nEND: ";"')
    follows = np.zeros((2, 2), bool)
    names = terminal_names(grammar)
    follows[names.index("NAME"), names.index("END")] = True
    assert run(build_lexer(grammar, follows), b"aa;") == ["NAME", "END"]


def test_tails_that_behave_alike_share_a_state():
    """All Unicode digits, and any number of them."""
    found = build_lexer(build_lark("start: (F | D)*\nF.2: /\\d+\\./\nD: /\\d+/"))
    assert follow(found, b"1")[0] == follow(found, "٣١٢1".encode())[0]


# ---- continuations

CLOSING = {"strings": ('"""', '""""', '"""""', '"""\n')}
"""Texts that may be appended to continuations that are too short to end every terminal."""


def positions_by(grammar):
    """The number and start of every terminal that Lark yields for a text; None if it fails."""
    numbers = {name: number for number, name in enumerate(terminal_names(grammar))}
    lexer = basic_lexer(grammar)

    @cache
    def positions(text):
        try:
            found = LexerThread.from_text(lexer, text).lex(None)
            return tuple((numbers[token.type], token.start_pos) for token in found)
        except UnexpectedCharacters:
            return None

    return positions


@pytest.mark.parametrize("name", GRAMMARS)
def test_continuations_are_those_of_all_texts_that_follow(name):
    """What they have in common is emitted at once."""
    grammar, alphabet = lark_grammar(name), GRAMMARS[name][0]
    more, longest = (5, 4) if len(alphabet) < 4 else (4, 3) if len(alphabet) < 6 else (3, 3)
    closed = (w + c for w in texts(alphabet, 2) for c in CLOSING.get(name, ()))
    continuations = [*texts(alphabet, more), *closed]
    found = build_lexer(grammar, unread_limit=longest + more + 5 * (name in CLOSING), keep_unclosed=True)
    lexed, chance = positions_by(grammar), random.Random(name)
    for text in texts(alphabet, longest):
        if len(text) == longest and chance.random() < 0.5:
            continue  # only half of the longest texts
        state, emitted = follow(found, text.encode())
        expected, wholes = set(), set()
        for positions in map(lexed, [text + rest for rest in continuations]):
            if positions is None:
                continue
            whole = tuple(number for number, _ in positions)
            assert whole[: len(emitted)] == emitted, text
            wholes.add(whole)
            expected.add(tuple(number for number, begin in positions if begin < len(text))[len(emitted) :])
        assert set(found.continuations[state] if state >= 0 else ()) == expected, text
        common = itertools.takewhile(lambda same: len(set(same)) == 1, zip(*wholes, strict=False))
        assert not wholes or tuple(first for first, *_ in common) == emitted, (
            f"{text!r}: certain, but not emitted"
        )


@pytest.mark.parametrize("name", ["characters", "without_case"])
def test_continuations_within_a_character(name):
    """After the first byte of a character, the set contains the results of all characters with that byte, and
    may contain others of their kinds."""
    alphabet = GRAMMARS[name][0]
    found = build_lexer(lark_grammar(name), unread_limit=6)
    for text, character in itertools.product(texts(alphabet, 2), alphabet):
        whole = (text + character).encode()
        after, later = follow(found, whole)
        for cut in range(1, len(character.encode())):
            state, emitted = follow(found, whole[:-cut])
            assert state >= 0 or after < 0
            if after >= 0:
                rest = later[len(emitted) :]
                inside = set(found.continuations[state])
                assert {rest + one for one in found.continuations[after]} <= inside, (text, character)


def test_continuations_of_a_tail_are_longer():
    grammar = build_lark("start: (F | D | E)*\nF.2: /\\d+e\\d/\nD: /\\d+/\nE: /[a-z]/\n")
    found = build_lexer(grammar)
    f, d, e = (found.terminals.index(name) for name in "FDE")
    state, emitted = follow(found, b"12e")
    assert emitted == () and set(found.continuations[state]) == {(f,), (d, e)}
    assert found.sequences[found.at_end[state]] == (d, e)
    follows = np.ones((3, 3), bool)
    follows[d, e] = False
    bound = build_lexer(grammar, follows)
    state, emitted = follow(bound, b"12e")
    assert emitted == (f,) and bound.continuations[state] == ((),)


# ---- refusals and bounds

newer = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has neither")


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        (r"(?P<q>a)(?P=q)", "back-reference.*; write the pattern without it"),
        (r"(?P<q>b)?a(?(q)c|d)", "condition on a group"),
        (r"a(?<!ba)", "look-behind.*; write it with one character"),
        (r"(?<!b)a", "look-behind"),
        (r"\ba", "word boundary"),
        (r"^a", "AT_BEGINNING.*; omit it"),
        (r"\Aa", "AT_BEGINNING"),
        (r"a{30000}", "more than 20000 positions.*; use smaller repeats"),
        pytest.param("(?>a|b)c", "atomic group", marks=newer),
        pytest.param("a++", "possessive repeat", marks=newer),
    ],
)
def test_refusals_name_the_terminal_and_the_construct(pattern, construct):
    with pytest.raises(UnsupportedGrammar, match=f"terminal A: .*{construct}"):
        build_lexer(build_lark(f"start: A\nA: /{pattern}/"))


BASIC = {"parser": "lalr", "lexer": "basic"}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("start: A", {"parser": "lalr"}, "contextual"),
        ("start: A", {}, "earley"),
        (
            "start: A",
            BASIC | {"lexer_callbacks": {"A": str}},
            "callback of the terminal A.*; remove the callback",
        ),
        ("start: A", BASIC | {"use_bytes": True}, "use_bytes"),
        ("start: A B\nB: /(b)\\1/", BASIC, "compile its scanner.*cannot refer to an open group"),
        ("start: A _IN\n%declare _IN", BASIC, "declared terminal _IN"),
        (
            "start: A\n%declare _INDENT",
            BASIC | {"postlex": PythonIndenter()},
            "Lark's own lexer, but has PostLexConn",
        ),
    ],
)
def test_refusals_of_options_and_callbacks(text, options, message):
    with pytest.raises(UnsupportedGrammar, match=message):
        build_lexer(lark.Lark(f"{text}\nA: /a/", **options))


def test_bounds_are_kept():
    grammar = lark_grammar("empty_rounds")
    with pytest.raises(BudgetExceeded, match="100 states"):
        build_lexer(grammar, max_states=100, unread_limit=12)
    with pytest.raises(BudgetExceeded, match="bounded repeats"):
        build_lexer(build_lark("start: A\nA: /(a?){500}b/"), max_states=1000)
    assert len(build_lexer(build_lark("start: A\nA: /a{0,500}b/")).step) == 501
    with pytest.raises(ValueError, match=r"unread_limit must be from 1 to .* but they are 0 and"):
        build_lexer(grammar, unread_limit=0)
    with pytest.raises(ValueError, match="may_follow"):
        build_lexer(grammar, np.zeros((1, 1), bool))


def test_too_many_states_name_the_terminal():
    """The text after a quotation mark is a string, or words and operators if no other mark follows."""
    text = """
        start: (WORD | STRING | OPERATOR)*
        WORD: /\\w+/
        STRING: /".{}"/
        OPERATOR: "<->" | "->" | "&&" | "&" | "||" | "|"
        %ignore /\\s+/
        """
    with pytest.raises(BudgetExceeded, match=r"within terminal STRING: .*\(up to 50,000\)"):
        build_lexer(build_lark(text.replace("{}", "*")), max_states=2000)
    build_lexer(build_lark(text.replace(".{}", '[^"]*')), max_states=2000)


def test_a_limit_that_cannot_be_raised_is_not_advised():
    assert "raise Budget.states (up to 50,000)" in or_more_states(2000)
    assert or_more_states(MOST_STATES) == ""


def test_long_chains_take_linear_time():
    grammar = build_lark("start: A\nA: /a{15000}b/")
    began = time.process_time()
    assert len(build_lexer(grammar).step) == 15_001
    assert time.process_time() - began < 15
