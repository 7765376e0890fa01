"""Random small grammars, with a small vocabulary each, as hypothesis strategies.

What: `grammar_cases` draws an EBNF text that XGrammar compiles and a list of tokens that may fit it.
When: in tests that hold for every grammar, such as the comparison of the fast code with its reference.
Limits: at most five rules, context-free text only (no lookahead, token edges, tag dispatch or regular
expressions), and negative character classes that exclude ASCII only.

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

MAX_RULES = 5
MAX_TOKEN_BYTES = 6

LITERALS = [
    "a", "b", "ab", "ba", "aab", "c", ",", "(", ")", "é", "aé", "я", "яб", "€", "😀", "x y", '"', "\\",
]  # fmt: skip
"""Few letters, so that texts of different rules collide; characters of one to four bytes."""

CLASSES: list[tuple[str, str]] = [
    ("[ab]", "ab"), ("[a-z]", "az"), ("[0-9]", "09"), ("[a]", "a"), ("[^a]", "b,é€"), ("[^a-c]", "d,я"),
    ('[^"\\\\\\x00-\\x1f]', "a,é😀"), ("[à-ö]", "àéö"), ("[а-я]", "абя"), ("[a-я]", "aé߿я"), ("[߀-ࠀ]", "߀ࠀ"),
    ("[€-😀]", "€￿😀"), ("[aé€😀]", "aé€😀"),
]  # fmt: skip
"""The text of a class, and some of the characters at its edges."""

SUFFIXES = [
    "", "", "", "", "?", "*", "+", "{0}", "{1}", "{2}", "{0,1}", "{0,2}", "{1,3}", "{2,3}", "{0,}", "{1,}",
    "{2,}", "{4}", "{2,5}", "{0,9}", "{5,}",
]  # fmt: skip
"""Bounds of four and more use counters; smaller ones are written out."""


class GrammarCase(NamedTuple):
    """A grammar and tokens for it; a token may be empty, repeated, or end in the middle of a character."""

    ebnf: str
    vocabulary: list[bytes]


def quoted(text: str) -> str:
    """A literal of XGrammar's EBNF."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


NAMES = ["root", "p", "q", "r", "s"]

# Strategies are made once, and functions draw from them: drawing from nested strategies took
# longer than most of the tests.
_COUNTS = {most: st.integers(1, most) for most in (2, 3, 4, MAX_RULES)}
_LENGTH = st.sampled_from([0, 1, 1, 2, 2, 3])
_KIND = st.sampled_from(["text", "text", "text", "class", "rule", "rule", "group"])
_RULES = {count: st.sampled_from(NAMES[:count]) for count in range(1, MAX_RULES + 1)}
_CLASS, _LITERAL, _SUFFIX = st.sampled_from(CLASSES), st.sampled_from(LITERALS), st.sampled_from(SUFFIXES)
_START = st.sampled_from([0, 0, 0, 1, 2])
_ORDER = st.integers(0, 2**32 - 1)


@st.composite
def grammar_texts(draw: st.DrawFn) -> tuple[str, list[str]]:
    """An EBNF text, not yet parsed, and the short texts that it is built from."""
    names = NAMES[: draw(_COUNTS[MAX_RULES])]
    pieces: list[str] = []
    rules = [f"{name} ::= {_alternatives(draw, names, pieces, depth=0)}" for name in names]
    return "\n".join(rules) + "\n", pieces


def _alternatives(draw: st.DrawFn, names: list[str], pieces: list[str], depth: int) -> str:
    count = draw(_COUNTS[3 if depth == 0 else 2])
    return " | ".join(_sequence(draw, names, pieces, depth) for _ in range(count))


def _sequence(draw: st.DrawFn, names: list[str], pieces: list[str], depth: int) -> str:
    length = draw(_LENGTH)
    if length == 0:
        return '""'
    return " ".join(_element(draw, names, pieces, depth) for _ in range(length))


def _element(draw: st.DrawFn, names: list[str], pieces: list[str], depth: int) -> str:
    kind = draw(_KIND)
    if kind == "group" and depth < 2:
        body = f"({_alternatives(draw, names, pieces, depth + 1)})"
    elif kind == "rule":
        body = draw(_RULES[len(names)])
    elif kind == "class":
        body, members = draw(_CLASS)
        pieces.extend(members)
    else:
        text = draw(_LITERAL)
        pieces.append(text)
        body = quoted(text)
    return body + draw(_SUFFIX)


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
        joined, start = b"".join(draw(text) for _ in range(draw(_COUNTS[4]))), draw(_START)
        tokens.append(joined[start : start + MAX_TOKEN_BYTES])
    tokens.extend(draw(st.lists(st.sampled_from(foreign), max_size=2)))
    tokens.extend(draw(st.lists(st.sampled_from(tokens), max_size=2)))
    random.Random(draw(_ORDER)).shuffle(tokens)
    return tokens


@st.composite
def grammar_cases(draw: st.DrawFn, max_tokens: int = 24) -> GrammarCase:
    """A grammar that XGrammar compiles, and a vocabulary of some of its texts."""
    ebnf, texts = draw(grammar_texts())
    assume(compiles(ebnf))
    return GrammarCase(ebnf, draw(vocabularies(texts, max_tokens)))


def compiles(ebnf: str) -> bool:
    """Whether XGrammar accepts the text as a grammar and can compile it without crashing.

    XGrammar 0.2.8 ends the process with a segmentation fault when it compiles a rule that consists only of
    repeats of itself, possibly through other rules, even if the rule is unreachable: ``p ::= p{2}``.
    """
    try:
        return read_grammar(xgrammar.Grammar.from_ebnf(ebnf)).endless_rule < 0
    except RuntimeError:
        return False
