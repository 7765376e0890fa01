"""Runs of byte strings give the same classes as a look at every token.

What: the tokens of classes with runs against those without; the order of their numbers, and their
representatives.
When: after any change of `equivalence.runs`, or of how classes are numbered.
Limits: sizes are small, so that the kernels also run as plain Python and with bounds checks.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import xgrammar

from equivalence import TokenClasses, Vocabulary, compute_classes
from equivalence.runs import Members
from equivalence.runs.boundaries import divide_into_runs
from equivalence.runs.class_numbers import Minima, least_tree, tokens_of_runs
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


@pytest.mark.parametrize("stops", [(), (1, 12), (0,)])
@pytest.mark.parametrize("name", GRAMMARS)
def test_classes_with_and_without_runs(name: str, stops: tuple[int, ...]) -> None:
    vocabulary = wide_vocabulary(stops)
    classes = compute_classes(xgrammar.Grammar.from_ebnf(GRAMMARS[name]), vocabulary)
    assert isinstance(classes, TokenClasses)
    assert (classes.runs is None) == any(classes.class_of_token[stop] >= 0 for stop in stops)
    texts, members = distinct_classes(classes, vocabulary)
    plain = replace(classes, given=classes.class_of_token, runs=None)
    plain_texts, plain_members = distinct_classes(plain, vocabulary)
    assert texts == plain_texts
    assert listed(members) == listed(plain_members)
    # classes are numbered in the order of their first ids, and stop ids are alone
    numbers = dict.fromkeys(classes.class_of_token.tolist())
    assert [number for number in numbers if number >= 0] == list(range(classes.n_classes))
    for number, representative in enumerate(classes.representatives.tolist()):
        of_number = classes.members(number).tolist()
        assert representative == min(of_number, key=lambda token: (len(vocabulary.tokens[token]), token))
        assert len(of_number) == 1 or not set(of_number) & set(stops)
    by_text: dict[bytes, set[int]] = {}
    for token in set(range(vocabulary.size)) - set(stops):
        by_text.setdefault(vocabulary.tokens[token], set()).add(int(classes.class_of_token[token]))
    assert all(len(found) == 1 for found in by_text.values())


def test_arrays_of_other_types_are_refused() -> None:
    """Compiled code must refuse them, because it would read wrong values."""
    starts, classes = np.array([0, 1]), np.zeros(1, np.int32)
    with pytest.raises(ValueError):
        tokens_of_runs(classes.astype(np.int64), starts, starts, classes, 1)
    with pytest.raises(ValueError):
        tokens_of_runs(classes, starts.astype(np.int32), starts, classes, 1)
    with pytest.raises(ValueError, match="different sizes"):
        Minima(least_tree(starts), least_tree(np.zeros(9, np.int64)))
    pairs = np.zeros((3, 4), np.int64)
    with pytest.raises(ValueError):
        divide_into_runs(pairs[:, :2], pairs[:0], np.zeros(257, np.int64), np.zeros(0, np.uint8))
