"""Random small grammars, with a small vocabulary each, as hypothesis strategies.

What: `grammar_cases` draws an EBNF text that XGrammar compiles and a list of tokens that may fit it.
When: in tests that hold for every grammar, such as the comparison of the fast code with its reference.
Limits: those of `tests.robustness.fuzz.grammars.Ebnf`, which writes the rules.

Rules refer to each other freely, so left recursion (direct, indirect, hidden behind a rule that may be
empty), right recursion, ambiguity, rules that may be empty and rules that derive no text at all are frequent.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import xgrammar
from hypothesis import assume
from hypothesis import strategies as st

from equivalence.network.grammar_reader import read_grammar
from tests.robustness.fuzz.grammars import Ebnf

MAX_TOKEN_BYTES, MAX_TEXTS = 6, 12


class FewLetters(Ebnf):
    """Rules whose texts often collide; characters of one to four bytes. Bounds of four and more use counters;
    smaller ones are written out."""

    characters = tuple('aaaabbbcc,()"\\z09éöяб€😀')
    repeats = (
        "", "", "", "", "?", "*", "+", "{0}", "{1}", "{2}", "{0,1}", "{0,2}", "{1,3}", "{2,3}", "{0,}",
        "{1,}", "{2,}", "{4}", "{2,5}", "{0,9}", "{5,}",
    )  # fmt: skip
    large_repeats = repeats
    kinds = "tttcrrg"


class GrammarCase(NamedTuple):
    """A grammar and tokens for it; a token may be empty, repeated, or end in the middle of a character."""

    ebnf: str
    vocabulary: list[bytes]


# Strategies are made once, and functions draw from them: drawing from nested strategies took
# longer than most of the tests.
_RANDOM, _COUNT = st.randoms(use_true_random=False), st.integers(1, 4)
_START = st.sampled_from([0, 0, 0, 1, 2])
_ORDER = st.integers(0, 2**32 - 1)


@st.composite
def vocabularies(draw: st.DrawFn, texts: list[str], max_tokens: int = 24) -> list[bytes]:
    """Every byte of the texts as a token, then pieces of concatenated texts, in a drawn order.

    Pieces are cut at bytes, so that some begin or end inside a character. Some tokens occur twice, one may be
    empty, and some bytes come from outside the texts.
    """
    known = [text.encode() for text in texts] or [b"a"]
    tokens = [bytes([byte]) for byte in sorted(set(b"".join(known)))]
    foreign = [b"z", b" ", b"\x80", b"\xc3", b"\xbf", b"\xff", b""]
    text = st.sampled_from([*known, *foreign[:1]])
    for _ in range(draw(st.integers(0, max_tokens))):
        joined, start = b"".join(draw(text) for _ in range(draw(_COUNT))), draw(_START)
        tokens.append(joined[start : start + MAX_TOKEN_BYTES])
    tokens.extend(draw(st.lists(st.sampled_from(foreign), max_size=2)))
    tokens.extend(draw(st.lists(st.sampled_from(tokens), max_size=2)))
    random.Random(draw(_ORDER)).shuffle(tokens)
    return tokens


@st.composite
def grammar_cases(draw: st.DrawFn, max_tokens: int = 24) -> GrammarCase:
    """A grammar that XGrammar compiles, and a vocabulary of some of its texts."""
    written = FewLetters(draw(_RANDOM))
    ebnf = written.rules()
    assume(compiles(ebnf))
    return GrammarCase(ebnf, draw(vocabularies(written.texts[:MAX_TEXTS], max_tokens)))


def compiles(ebnf: str) -> bool:
    """Whether XGrammar accepts the text as a grammar and can compile it without crashing.

    XGrammar 0.2.8 ends the process with a segmentation fault when it compiles a rule that consists only of
    repeats of itself, possibly through other rules, even if the rule is unreachable: ``p ::= p{2}``.
    """
    try:
        return read_grammar(xgrammar.Grammar.from_ebnf(ebnf)).endless_rule < 0
    except RuntimeError:
        return False
