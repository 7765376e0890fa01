"""Regular expressions and characters, compared with the standard library's `re` and Lark's lexer on random
patterns.
"""

from __future__ import annotations

import itertools
import random
import re

import hypothesis
import lark
import numpy as np
import pytest
from hypothesis import strategies as st

from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.lark.lexer import build_lexer
from equivalence.lark.lexer.characters import matched, partition_characters, regex_parser
from equivalence.lark.lexer.patterns import Positions
from equivalence.lark.lexer.reference import follow, lex_all, run
from tests.lexers import build_lark, texts

ALPHABET = "abc\né"


ONE_CHARACTER = [
    (r"\w", 0), (r"\W", 0), (r"\d", 0), (r"\s", 0), (r"\S", 0), (r"\w", re.ASCII), (r"[^\W\d_]", 0),
    (r"[\s\S]", 0), (r".", 0), (r".", re.DOTALL), (r"[^a]", 0), (r"[a-z]", re.IGNORECASE),
    (r"k", re.IGNORECASE), (r"ſ", re.IGNORECASE), (r"[^s]", re.IGNORECASE), (r"ß", re.IGNORECASE),
    (r"[A-K]", re.IGNORECASE | re.ASCII), (r"[İıiI]", re.IGNORECASE),
    (r"[\u0370-\u03ff]", re.IGNORECASE), (r"[^\d\u1c80-\u1c8f]", re.IGNORECASE),
    (r"[\ud7ff-\ue000]", 0), (r"[^\x00-\ud800]", 0), (r"[\U0001d400-\U0010ffff]", re.IGNORECASE),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "flags"), ONE_CHARACTER)
def test_sets_are_what_re_matches(pattern, flags):
    parsed = regex_parser.parse(pattern, flags)
    found = matched(parsed[0], parsed.state.flags)
    everything = "".join(map(chr, range(0x110000)))
    expected = "".join(re.findall(f"(?:{pattern})+", everything, flags))
    assert "".join(chr(code) for first, last in found for code in range(first, last + 1)) == expected
    assert all(last + 1 < first for (_, last), (first, _) in itertools.pairwise(found))


def test_kinds_are_the_coarsest_partition():
    kinds = partition_characters([((97, 122),), ((97, 97), (0x3B1, 0x3C9)), ((0, 0x10FFFF),)])
    assert kinds.number == 4  # a, the rest of a-z, Greek, everything else
    by_code = dict(zip(kinds.firsts.tolist(), kinds.kinds.tolist(), strict=True))
    assert by_code[0xD800] == -1
    assert kinds.masks[0].bit_count() == kinds.masks[1].bit_count() == 2
    assert kinds.masks[2] == 0b1111
    assert (kinds.masks[0] & kinds.masks[1]) == 1 << by_code[97]


def test_there_may_be_more_kinds_than_16_bits_number():
    """Each set has the characters with one bit, as has a class in a pattern of 60,000 characters."""
    codes = range(0x10000, 0x10000 + 33_000)
    sets = [tuple((code, code) for code in codes if code >> bit & 1) for bit in range(16)]
    kinds = partition_characters(sets)
    assert kinds.number == len(codes) and kinds.kinds[-1] == 0
    assert sorted(set(kinds.kinds.tolist())) == list(range(-1, len(codes)))


CHARACTERS = st.sampled_from([
    "a", "b", "c", "é", ".", "[ab]", "[^a]", "[^bé]", r"\w", r"\s", r"\n", "[a-c]", r"\W", "(?i:A)", "(?s:.)",
    r"(?a:\w)",
])  # fmt: skip
REPEATS = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{1,2}", "{0,2}?", "{2}", "{1,}", "{0,1}"])
AROUND = st.sampled_from(["{}(?={}){}", "{}(?!{}){}"])
ENDS = st.sampled_from([r"\b", r"\B", r"\Z", "$", "(?m:$)", "(?<=a)", "(?<![ab])"])
FLAGS = st.sampled_from(["a", "u", "a-i"])


def patterns():
    """Patterns over the alphabet, including what automata usually get wrong: preference, and empty
    iterations."""

    def extend(inner):
        return st.one_of(
            st.lists(inner, min_size=2, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
            st.builds("({}){}".format, inner, REPEATS),
            st.builds("(?:{}|)".format, inner),
            st.builds("(?{}:{})".format, FLAGS, inner),
            st.builds(str.format, AROUND, inner, inner, inner),
            st.builds(str.__add__, inner, ENDS),
        )

    def not_empty(pattern):  # Lark refuses terminals that may match nothing
        return pattern if regex_parser.parse(pattern).getwidth()[0] else f"[abc]{pattern}"

    return st.recursive(CHARACTERS, extend, max_leaves=7).map(not_empty)


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(patterns(), st.integers(0, 2**32))
@hypothesis.example("[abc](|a)*", 0)  # an empty iteration ends the repeat
@hypothesis.example("[abc](a*)*", 0)
@hypothesis.example("[abc](a|b*)*?c", 0)
@hypothesis.example("(?:a|ab)(?:c|bc\\n)?", 0)  # the first alternative that matches wins, not the longest
@hypothesis.example("a{2,3}?", 0)
@hypothesis.example("(?:a?){3}b", 0)
def test_one_pattern_matches_what_re_matches(pattern, seed):
    check(f"start: (A | X)*\nA.2: /{pattern}/\nX: /(?s:.)/", seed)


@st.composite
def lexers(draw):
    lines, names = [], []
    for number, pattern in enumerate(draw(st.lists(patterns(), min_size=1, max_size=3))):
        priority = draw(st.sampled_from(["", "", ".2"]))
        flags = draw(st.sampled_from(["", "", "i", "s"]))
        lines.append(f"T{number}{priority}: /{pattern}/{flags}")
        names.append(f"T{number}")
    words = draw(st.lists(st.sampled_from(["a", "ab", "bc", "é", "abc"]), max_size=2, unique=True))
    for number, word in enumerate(words):
        lines.append(f'K{number}: "{word}"{draw(st.sampled_from(["", "i"]))}')
        names.append(f"K{number}")
    ignored = draw(st.sampled_from([None, *names]))
    if ignored is not None:
        lines.append(f"%ignore {ignored}")
    return f"start: ({' | '.join(names)})*\n" + "\n".join(lines)


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(lexers(), st.integers(0, 2**32))
def test_a_lexer_yields_what_lark_yields(text, seed):
    check(text, seed)


def check(text, seed):
    """Compare the machine of a grammar with Lark on all texts of up to two characters and some longer
    ones."""
    try:
        grammar = build_lark(text)
    except lark.exceptions.LarkError:  # a terminal that may match nothing, or two that mean the same
        hypothesis.reject()
    try:
        machine = build_lexer(grammar, unread_limit=7, max_states=3000, keep_unclosed=True)
    except UnsupportedGrammar as error:
        if "before the lexeme" not in str(error):
            raise
        hypothesis.reject()
    except BudgetExceeded:
        hypothesis.reject()
    draw = random.Random(seed)
    number = len(machine.terminals)
    follows = np.array([[draw.random() < 0.6 for _ in range(number)] for _ in range(number)])
    bound = build_lexer(grammar, follows, unread_limit=7, max_states=3000, keep_unclosed=True)
    longer = ["".join(draw.choices(ALPHABET, k=draw.randint(3, 7))) for _ in range(80)]
    for sample in [*texts(ALPHABET, 2), *longer]:
        encoded = sample.encode()
        expected = lex_all(grammar, sample)
        assert run(machine, encoded) == expected, sample
        restricted = run(bound, encoded)
        if expected is None:
            assert restricted is None
        else:
            numbers = tuple(machine.terminals.index(name) for name in expected)
            if all(follows[a, b] for a, b in itertools.pairwise(numbers)):
                assert restricted == expected, (sample, follows)
            else:
                assert restricted in (None, expected)
            # the state predicted the lexeme of the last character
            cut = draw.randint(0, len(encoded))
            state, emitted = follow(machine, encoded[:cut])
            assert numbers[: len(emitted)] == emitted
            rest = numbers[len(emitted) :]
            assert any(rest[: len(one)] == one for one in machine.continuations[state]), (sample, cut)


ASCII_INSIDE = [
    r"/(?a:\w)/", r"/(?a:\W)/", r"/(?a:\d)/", r"/(?a:\s)/", r"/(?a:[^\W\d])/", r"/\w(?a:\b)[^z]/",
    r"/(?a:(?u:\w))/", r"/(?a:\d|(?u:\s))/", r"/(?u:(?a:\w))/", r"/(?a:(?i:[a-z]))/", r"/(?ai:s)/",
    r"/(?a:ſ)/i", r"/(?a:k)/i", r"/(?a:[^s])/i", r"/(?a-i:\w|é)/i", r"/(?a:(?u:k)|s)/i",
    r"/(?=(?a:\w))./s", r"/(?!(?a:\w))./s", r"/.(?<=(?a:\w))/s", r"/.(?<!(?a:\s))/s",
    r"/.(?<=(?a:(?u:\d)))/", r"/.(?<=(?a:s))/i",
]  # fmt: skip


@pytest.mark.parametrize("pattern", ASCII_INSIDE)
def test_flags_that_exclude_each_other_in_groups(pattern):
    grammar = build_lark(f"start: (A | X)*\nA.2: {pattern}\nX: /(?s:.)/")
    machine = build_lexer(grammar, keep_unclosed=True)
    letters = [
        *map(chr, range(0x250)),
        *"\u0660\u1e9e\u2028\u212a\u3000\u4e2d\ufb05\uff11\U0001d54a\U0001d7d8",
    ]
    for text in [*letters, *(letter + after for letter in letters for after in "sſ ")]:
        assert run(machine, text.encode()) == lex_all(grammar, text), text


@pytest.mark.parametrize("pattern", [r"(?a)\w", "(?i)k", "(?s).", "(?x) a"])
def test_flags_for_a_whole_pattern_are_refused(pattern):
    """Python 3.10 gives them to all terminals, later versions refuse them in Lark's scanner."""
    with pytest.raises(UnsupportedGrammar, match=r"terminal A: flags for a whole pattern"):
        Positions().add("A", pattern, 0, 0)
    Positions().add("A", f"{pattern[:3]}:a)", re.IGNORECASE, 0)
