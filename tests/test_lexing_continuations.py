"""The sequences that a state may turn out to have read, compared with all short texts that may follow.

For a text ``p`` and every ``w`` such that Lark lexes ``p + w``, take the terminals whose lexemes begin before
the end of ``p``, that is, up to the lexeme that covers its last character. Without the terminals that the
machine has emitted after ``p``, they are an element of the state's set. Conversely, every element comes from
some ``w``, which is short in these grammars.
"""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
from lark.exceptions import UnexpectedCharacters
from lark.lexer import LexerThread

from equivalence.lark.lexer import build_lexer, terminal_names
from equivalence.lark.lexer.reference import follow
from equivalence.lark.lexer.scanner import basic_lexer
from tests.lexers import GRAMMARS, build_lark, lark_grammar, texts

CLOSING = {"strings": ('"""', '""""', '"""""', '"""\n')}
"""Texts that may be appended to continuations that are too short to end every terminal."""


def positions_by(grammar):
    """The number and start of every terminal that Lark yields for a text; None if it fails."""
    numbers = {name: number for number, name in enumerate(terminal_names(grammar))}
    lexer = basic_lexer(grammar)

    @cache
    def positions(text):
        try:
            return tuple(
                (numbers[token.type], token.start_pos)
                for token in LexerThread.from_text(lexer, text).lex(None)
            )
        except UnexpectedCharacters:
            return None

    return positions


def outcomes(lexed, text, continuations):
    """For each continuation that Lark lexes: the terminals up to the text's last character, and all
    terminals."""
    for rest in continuations:
        found = lexed(text + rest)
        if found is not None:
            yield tuple(n for n, begin in found if begin < len(text)), tuple(n for n, _ in found)


@pytest.mark.parametrize("name", GRAMMARS)
def test_continuations_are_those_of_all_texts_that_follow(name):
    grammar, alphabet = lark_grammar(name), GRAMMARS[name][1]
    more, longest = (5, 4) if len(alphabet) < 4 else (4, 3) if len(alphabet) < 6 else (3, 3)
    continuations = [
        *texts(alphabet, more),
        *(w + c for w in texts(alphabet, 2) for c in CLOSING.get(name, ())),
    ]
    machine = build_lexer(grammar, unread_limit=longest + more + 5 * (name in CLOSING), keep_unclosed=True)
    lexed, chance = positions_by(grammar), random.Random(name)
    for text in texts(alphabet, longest):
        if len(text) == longest and chance.random() < 0.5:
            continue  # only half of the longest texts
        state, emitted = follow(machine, text.encode())
        expected, prefix = set(), None
        for covered, whole in outcomes(lexed, text, continuations):
            assert whole[: len(emitted)] == tuple(emitted), text
            expected.add(covered[len(emitted) :])
            prefix = whole if prefix is None else common(prefix, whole)
        found = set() if state < 0 else set(machine.continuations[state])
        assert found == expected, text
        if prefix is not None:
            assert prefix == tuple(emitted), f"{text!r}: certain, but not emitted yet"


def common(one, other):
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]


@pytest.mark.parametrize("name", ["characters", "without_case"])
def test_continuations_within_a_character(name):
    """After the first byte of a character, the set contains the results of all characters with that byte, and
    may contain others of their kinds."""
    grammar, alphabet = lark_grammar(name), GRAMMARS[name][1]
    machine = build_lexer(grammar, unread_limit=6)
    for text in texts(alphabet, 2):
        for character in alphabet:
            encoded = character.encode()
            for cut in range(1, len(encoded)):
                state, emitted = follow(machine, (text + character).encode()[: cut - len(encoded)])
                after, later = follow(machine, (text + character).encode())
                assert state >= 0 or after < 0
                if after >= 0:
                    rest = tuple(later[len(emitted) :])
                    inside = set(machine.continuations[state])
                    assert {rest + one for one in machine.continuations[after]} <= inside, (text, character)


def test_the_start_has_read_nothing():
    for name in GRAMMARS:
        machine = build_lexer(lark_grammar(name), unread_limit=4)
        assert machine.continuations[0] == ((),)
        assert all(machine.continuations)  # every live state has one
        assert all(list(some) == sorted(set(some)) for some in machine.continuations)


def test_continuations_of_a_tail_are_longer():
    grammar = build_lark("start: (F | D | E)*\nF.2: /\\d+e\\d/\nD: /\\d+/\nE: /[a-z]/\n")
    machine = build_lexer(grammar)
    number = {name: i for i, name in enumerate(machine.terminals)}
    state, emitted = follow(machine, b"12e")
    assert emitted == []
    assert set(machine.continuations[state]) == {(number["F"],), (number["D"], number["E"])}
    assert machine.sequences[machine.at_end[state]] == (number["D"], number["E"])
    follows = np.ones((3, 3), bool)
    follows[number["D"], number["E"]] = False
    bound = build_lexer(grammar, follows)
    state, emitted = follow(bound, b"12e")
    assert emitted == [number["F"]] and bound.continuations[state] == ((),)
