"""Runs of byte strings give the same classes as a look at every token.

When: after any change of `equivalence.runs`, or of how the tokens of classes are listed.
Limits: `test_classes` and `test_laws` test how runs are found and numbered.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import xgrammar

from equivalence import Vocabulary, compute_classes
from equivalence.runs import Members
from hybrid.classifier import distinct_classes

pytestmark = pytest.mark.kernels

LETTERS = b"abcdefghijklmnopqrstuvwxyz"
WIDE = [bytes(pair) for pair in itertools.product(LETTERS, repeat=2)] + [bytes([one]) for one in LETTERS]
OTHERS = [b'"', b'"a', b'a"', b'ab"', b"abc", b"abd", b"\xc3\xa9", b"\xc3", b" ", b' "', b'x" ']


def wide_vocabulary(stops: tuple[int, ...] = ()) -> Vocabulary:
    """Return two-letter tokens and some with quotes; two texts have two ids each; the last id is not text."""
    tokens = [*OTHERS, *WIDE, b"ab", b'"', b""]
    return Vocabulary.from_bytes(tokens, stop_token_ids=[*stops, len(tokens) - 1])


def listed(members: Members) -> list[list[int]]:
    """Return the tokens of each class, ascending."""
    pieces = [members.tokens[begin:end].tolist() for begin, end in members.pieces.tolist()]
    bounds = itertools.pairwise(members.starts.tolist())
    return [sorted(itertools.chain(*pieces[begin:end])) for begin, end in bounds]


GRAMMARS = {
    "words": r'root ::= "\"" ("abc" | "xyz" | "q" [^"\\])* "\" " [a-m]{2,5}',
    "letters": r'root ::= [ac-eg]* ("\"" root | "b" | "é")',
    "deep": r'root ::= "ab" root "ba" | "a" root "c" | [n-z] | ""',
}


@pytest.mark.parametrize("stops", [(), (1, 12)])
@pytest.mark.parametrize("name", GRAMMARS)
def test_distinct_classes_with_and_without_runs(name: str, stops: tuple[int, ...]) -> None:
    vocabulary = wide_vocabulary(stops)
    classes = compute_classes(xgrammar.Grammar.from_ebnf(GRAMMARS[name]), vocabulary)
    assert (classes.runs is None) == any(classes.class_of_token[stop] >= 0 for stop in stops)
    texts, members = distinct_classes(classes, vocabulary)
    without = replace(classes, given=classes.class_of_token, runs=None)
    plain_texts, plain = distinct_classes(without, vocabulary)
    assert texts == plain_texts
    assert listed(members) == listed(plain)
