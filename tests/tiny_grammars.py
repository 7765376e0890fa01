"""Tiny random grammars over three letters, with a few tokens, and what completes their texts by brute force.

What: `tiny_grammar` and `tiny_vocabulary` draw from a `random.Random`; `fewest_tokens` tries all tokens in
plain XGrammar.
When: in laws that hold for thousands of grammars (`test_completion_laws.py`, `test_explain.py`).
Limits: three rules, texts of a, b and c. Most of the vocabularies do not spell every text.
"""

from __future__ import annotations

import math
import random

import xgrammar

from tests.random_grammars import compiles

ATOMS = ['"a"', '"b"', '"c"', '"ab"', '"ba"', "[ab]", "[ac]", "[a-c]", '"cc"', '"aa"']
SUFFIXES = ["", "", "", "?", "*", "+", "{2}", "{1,3}", "{2,}", "{4}", "{0,5}"]

MOST_FORKS = 4_000
"""Matchers of one level that `fewest_tokens` looks at."""


def tiny_vocabulary(draw: random.Random) -> list[bytes]:
    """One to five tokens of one to four letters."""
    lengths = [draw.choice([1, 1, 2, 2, 3, 4]) for _ in range(draw.randint(1, 5))]
    return ["".join(draw.choice("abc") for _ in range(length)).encode() for length in lengths]


def tiny_grammar(draw: random.Random) -> str:
    """An EBNF text that XGrammar compiles."""
    while True:
        names = ["root", "r1", "r2"][: draw.randint(1, 3)]
        grammar = "\n".join(f"{name} ::= {_alternatives(draw, names, 0)}" for name in names) + "\n"
        if compiles(grammar):
            return grammar


def _alternatives(draw: random.Random, names: list[str], depth: int) -> str:
    return " | ".join(_sequence(draw, names, depth) for _ in range(draw.randint(1, 2 if depth else 3)))


def _sequence(draw: random.Random, names: list[str], depth: int) -> str:
    count = draw.choice([0, 1, 1, 2, 2, 3])
    return " ".join(_element(draw, names, depth) for _ in range(count)) or '""'


def _element(draw: random.Random, names: list[str], depth: int) -> str:
    chance = draw.random()
    if chance < 0.25:
        body = draw.choice(names)
    elif chance < 0.85 or depth > 1:
        body = draw.choice(ATOMS)
    else:
        body = f"({_alternatives(draw, names, depth + 1)})"
    return body + draw.choice(SUFFIXES)


def fewest_tokens(plain: xgrammar.GrammarMatcher, most: int, size: int) -> float | None:
    """The fewest tokens of ids below `size` that complete a text, by trying all; infinite where it takes more
    than `most`, None where there are too many to try."""
    level = [plain]
    for count in range(most + 1):
        if any(one.is_completed() for one in level):
            return count
        following = []
        for one in level:
            for token in range(size):
                after = one.fork()
                if after.accept_token(token):
                    following.append(after)
        if len(following) > MOST_FORKS:
            return None
        level = following
    return math.inf
