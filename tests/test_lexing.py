"""The lexer's machine against Lark's own lexer, on every short text over a grammar's characters."""

from __future__ import annotations

import lark
import numpy as np
import pytest

from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.lark.lalr.machine import may_follow, read_machine
from equivalence.lark.lexer import build_lexer, machine, terminal_names
from equivalence.lark.lexer.machine import FEW_MORE
from equivalence.lark.lexer.reference import follow, lex_all, run
from tests.lexers import GRAMMARS, build_lark, lark_grammar, texts


@pytest.mark.parametrize("name", GRAMMARS)
def test_every_short_text_has_lark_s_terminals(name):
    grammar = lark_grammar(name)
    alphabet = GRAMMARS[name][1]
    longest = 6 if len(alphabet) < 5 else 5
    machine = build_lexer(grammar, unread_limit=longest, keep_unclosed=True)
    for text in texts(alphabet, longest):
        assert run(machine, text.encode()) == lex_all(grammar, text), text


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_usual_bounds_only_make_texts_dead(name):
    grammar = lark_grammar(name)
    machine = build_lexer(grammar, unread_limit=4)
    for text in texts(GRAMMARS[name][1], 5):
        found = run(machine, text.encode())
        assert found is None or found == lex_all(grammar, text), text


def test_only_what_is_never_closed_is_dead():
    grammar = lark_grammar("lazy_comment")
    machine = build_lexer(grammar)
    for text in texts("/*x", 7):
        expected = lex_all(grammar, text)
        # the first opening that is never closed
        rest = text
        while "/*" in rest and "*/" in rest.split("/*", 1)[1]:
            rest = rest.split("/*", 1)[1].split("*/", 1)[1]
        assert run(machine, text.encode()) == (None if "/*" in rest else expected), text


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_is_never_closed_is_kept_where_that_costs_few_states(name):
    grammar = lark_grammar(name)
    follows = np.ones((len(terminal_names(grammar)),) * 2, bool)
    for limit in (2, 6):
        found = build_lexer(grammar, follows, limit, keep_unclosed=None)
        plain, kept = (
            build_lexer(grammar, follows, limit, keep_unclosed=keep_unclosed)
            for keep_unclosed in (False, True)
        )
        assert same(found, kept) or (same(found, plain) and len(kept.step) > FEW_MORE)


def test_what_is_never_closed_is_dropped_where_it_costs_many_states(monkeypatch):
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
    text = 'start: (S | OPEN W)*\nW: /[\\u4e00-\\u9fff]+/\nOPEN: "<"\nS: /<[^>]*>/'
    grammar = lark.Lark(text, parser="lalr", lexer="basic")
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


@pytest.mark.parametrize("name", ["characters", "without_case", "strings"])
def test_bytes_that_are_not_utf8_are_dead(name):
    machine = build_lexer(lark_grammar(name), unread_limit=4)
    firsts = [bytes([byte]) for byte in range(256)]
    more = [b"\x7f", b"\x80", b"\x8f", b"\x90", b"\x9f", b"\xa0", b"\xbf", b"\xc0"]
    for text in (
        firsts
        + [a + b for a in firsts for b in more]
        + [
            bytes([a]) + b + c + d
            for a in (0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5)
            for b in more
            for c in more
            for d in more
        ]
    ):
        state, _ = follow(machine, text)
        try:
            text.decode()
            well_formed = True
        except UnicodeDecodeError as error:
            well_formed = error.reason == "unexpected end of data"
        assert well_formed or state < 0, text


def test_a_character_is_dead_only_if_lark_has_no_use_for_it():
    grammar = build_lark("start: (A | B)*\nA: /[é-í߿ࠀ￿\U00010000]/\nB: /[\\d]x/")
    machine = build_lexer(grammar)
    for code in [*range(0, 0xD800, 7), *range(0xE000, 0x110000, 61), 0x7FF, 0x800, 0xFFFF, 0x10000, 0x661]:
        text = chr(code) + "x"
        expected = lex_all(grammar, chr(code)) or lex_all(grammar, text)
        assert (follow(machine, chr(code).encode())[0] >= 0) == (expected is not None), hex(code)


def test_terminals_are_emitted_as_soon_as_they_are_certain():
    machine = build_lexer(
        build_lark('start: (S | T | NAME)*\nS: /"[^"]*"/\nT: "+" \nNAME: /[a-z]+/\n%ignore " "')
    )
    number = {name: i for i, name in enumerate(machine.terminals)}
    assert follow(machine, b'"')[1] == [number["S"]]  # no other terminal is possible
    assert follow(machine, b"+") == (0, [number["T"]])
    assert follow(machine, b"a")[1] == [number["NAME"]]
    assert follow(machine, b" ")[1] == []


def test_what_parsers_refuse_is_dropped():
    grammar = build_lark("start: (F | Z)\nF.2: /0+\\./\nZ: /0/")
    names = terminal_names(grammar)
    assert set(names) == {"F", "Z"}
    free = build_lexer(grammar, unread_limit=9)
    assert run(free, b"000") == ["Z", "Z", "Z"]
    bound = build_lexer(grammar, np.zeros((2, 2), bool))
    assert run(bound, b"000") is None
    assert run(bound, b"0") == ["Z"]
    assert run(bound, b"000.") == ["F"]
    assert len(bound.step) < len(free.step)


def test_a_terminal_that_nothing_may_follow_may_end_a_text():
    grammar = build_lark('start: NAME END?\nNAME: /a+(;;)?/\nEND: ";"')
    follows = np.zeros((2, 2), bool)
    names = terminal_names(grammar)
    follows[names.index("NAME"), names.index("END")] = True
    assert run(build_lexer(grammar, follows), b"aa;") == ["NAME", "END"]


def test_numbers_and_shapes():
    grammar = lark_grammar("keywords")
    machine = build_lexer(grammar)
    assert machine.terminals == terminal_names(grammar)
    assert {machine.terminals[number] for number in machine.ignored} == set(grammar.ignore_tokens)
    assert machine.step.shape == machine.emitted.shape == (len(machine.at_end), 256)
    assert machine.step.dtype == machine.emitted.dtype == machine.at_end.dtype == np.int32
    assert machine.sequences[0] == () and machine.at_end[0] == 0
    assert (machine.emitted[machine.step < 0] == 0).all()
    assert machine.step.max() < len(machine.step) and machine.emitted.max() < len(machine.sequences)
    assert not machine.ignored & {terminal for sequence in machine.sequences for terminal in sequence}
    # every state is live: some text leads on or ends there
    assert ((machine.step >= 0).any(1) | (machine.at_end >= 0)).all()


def test_tails_that_behave_alike_share_a_state():
    # all Unicode digits, and any number of them
    machine = build_lexer(build_lark("start: (F | D)*\nF.2: /\\d+\\./\nD: /\\d+/"))
    assert follow(machine, b"1")[0] == follow(machine, "٣١٢1".encode())[0]


@pytest.mark.parametrize(
    ("terminal", "construct"),
    [
        (r"A: /(?P<q>a)(?P=q)/", "back-reference.*; write the pattern without it"),
        (r"A: /(?P<q>b)?a(?(q)c|d)/", "condition on a group"),
        (r"A: /a(?<!ba)/", "look-behind.*; write it with one character"),
        (r"A: /(?<!b)a/", "look-behind"),
        (r"A: /\ba/", "word boundary"),
        (r"A: /^a/", "AT_BEGINNING.*; omit it"),
        (r"A: /\Aa/", "AT_BEGINNING"),
        (r"A: /a{30000}/", "more than 20000 positions.*; use smaller repeats"),
    ],
)
def test_refusals_name_the_terminal_and_the_construct(terminal, construct):
    with pytest.raises(UnsupportedGrammar, match=f"terminal A: .*{construct}"):
        build_lexer(build_lark(f"start: A\n{terminal}"))


def test_refusals_of_options_and_callbacks():
    import lark
    from lark.indenter import PythonIndenter

    text = 'start: A\nA: "a"\n'
    with pytest.raises(UnsupportedGrammar, match="contextual"):
        build_lexer(lark.Lark(text, parser="lalr"))
    with pytest.raises(UnsupportedGrammar, match="earley"):
        build_lexer(lark.Lark(text))
    options = {"parser": "lalr", "lexer": "basic"}
    with pytest.raises(UnsupportedGrammar, match=r"callback of the terminal A.*; remove the callback"):
        build_lexer(lark.Lark(text, lexer_callbacks={"A": lambda token: token}, **options))
    with pytest.raises(UnsupportedGrammar, match="use_bytes"):
        build_lexer(lark.Lark(text, use_bytes=True, **options))
    with pytest.raises(UnsupportedGrammar, match=r"compile its scanner.*cannot refer to an open group"):
        build_lexer(build_lark("start: A\nA: /(a)\\1/"))
    declared = build_lark("start: A _IN\n%declare _IN\nA: /a/")
    with pytest.raises(UnsupportedGrammar, match="declared terminal _IN"):
        build_lexer(declared)
    with pytest.raises(UnsupportedGrammar, match="Lark's own lexer, but has PostLexConnector"):
        build_lexer(lark.Lark("start: A\nA: /a/\n%declare _INDENT", postlex=PythonIndenter(), **options))


def test_bounds_are_kept():
    grammar = lark_grammar("empty_rounds")
    with pytest.raises(BudgetExceeded, match="100 states"):
        build_lexer(grammar, max_states=100, unread_limit=12)
    with pytest.raises(BudgetExceeded, match="bounded repeats"):
        build_lexer(build_lark("start: A\nA: /(a?){500}b/"), max_states=1000)
    assert len(build_lexer(build_lark("start: A\nA: /a{0,2000}b/")).step) == 2001
    with pytest.raises(ValueError, match=r"unread_limit must be from 1 to .* but they are 0 and"):
        build_lexer(grammar, unread_limit=0)
    with pytest.raises(ValueError, match="may_follow"):
        build_lexer(grammar, np.zeros((1, 1), bool))


def test_flags_of_the_grammar_hold_for_all_terminals():
    import re

    import lark

    grammar = lark.Lark(
        "start: (A | B | C)*\nA: /a.b/\nB: /[αβ]+/\nC: /\\w/",
        parser="lalr",
        lexer="basic",
        g_regex_flags=re.IGNORECASE | re.DOTALL | re.ASCII,
    )
    machine = build_lexer(grammar, keep_unclosed=True)
    for text in texts("aAb\nαΑé", 4):
        assert run(machine, text.encode()) == lex_all(grammar, text), text
