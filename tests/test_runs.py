"""Runs of byte strings give the same classes as a look at every token.

What: finding, numbering and listing runs against plain Python over random partitions; the tokens of classes
with runs against those without.
When: after any change of `equivalence.runs`, or of how classes are numbered.
Limits: sizes are small, so that the kernels also run in a build that checks every index.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xgrammar

from equivalence import Vocabulary, compute_classes
from equivalence.runs import ClassRuns, Members, members_of, tokens_of
from equivalence.runs.boundaries import divide_into_runs
from equivalence.runs.class_numbers import NOBODY, least_in, least_tree, number_runs
from hybrid.classifier import distinct_classes
from hybrid.values.gather import members_by_class

pytestmark = pytest.mark.kernels

LETTERS = b"abcdefghijklmnopqrstuvwxyz"
WIDE = [bytes(pair) for pair in itertools.product(LETTERS, repeat=2)] + [bytes([one]) for one in LETTERS]
OTHERS = [b'"', b'"a', b'a"', b'ab"', b"abc", b"abd", b"\xc3\xa9", b"\xc3", b" ", b' "', b'x" ']


def wide_vocabulary(stops: tuple[int, ...] = ()) -> Vocabulary:
    """Return two-letter tokens and some with quotes; two texts have two ids each; the last id is not text."""
    tokens = [*OTHERS, *WIDE, b"ab", b'"', b""]
    return Vocabulary.from_bytes(tokens, stop_token_ids=[*stops, len(tokens) - 1])


def random_partition(rng: np.random.Generator, n_groups: int) -> tuple[Any, Any]:
    """Return starts of runs and their classes, some of them -1, as a partition may have them."""
    inner = rng.permutation(np.arange(1, n_groups))[: int(rng.integers(0, n_groups))]
    starts = np.array([0, *sorted(inner.tolist()), n_groups], np.int64)
    return starts, rng.integers(-1, 6, len(starts) - 1).astype(np.int32)


@pytest.mark.parametrize("seed", range(20))
def test_divide_into_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_groups = int(rng.integers(1, 150))
    first_byte = np.sort(rng.integers(0, 256, n_groups)).astype(np.uint8)
    byte_starts = np.searchsorted(first_byte, np.arange(257)).astype(np.int64)
    ranges = np.sort(rng.integers(0, n_groups + 1, (int(rng.integers(0, 9)), 2)), axis=1)
    groups = rng.integers(0, n_groups, int(rng.integers(0, 9)))
    events = np.stack([groups, rng.integers(0, 99, len(groups))], axis=1)
    starts, first, of_ranges, of_events = divide_into_runs(ranges, events, byte_starts, first_byte)
    cuts = {0, n_groups, *byte_starts.tolist(), *ranges.flatten().tolist(), *groups.tolist()}
    assert starts.tolist() == sorted(cuts | {group + 1 for group in groups.tolist()})
    assert first.tolist() == first_byte[starts[:-1]].tolist()
    assert starts[of_ranges].tolist() == ranges.tolist()
    assert starts[of_events[:, 0]].tolist() == groups.tolist()
    assert of_events[:, 1].tolist() == events[:, 1].tolist()


@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 33])
def test_least_of_runs(size: int) -> None:
    values = np.random.default_rng(size).integers(0, 1000, size)
    tree = least_tree(values)
    for begin in range(size + 1):
        for end in range(begin, size + 1):
            assert least_in(tree, begin, end) == min(values[begin:end].tolist(), default=NOBODY)


@pytest.mark.parametrize("stops", [(), (1, 12), (0,)])
@pytest.mark.parametrize("seed", range(8))
def test_number_runs(seed: int, stops: tuple[int, ...]) -> None:
    vocabulary = wide_vocabulary(stops)
    trie, order = vocabulary.trie, vocabulary.byte_order
    starts, classes = random_partition(np.random.default_rng(seed), trie.n_groups)
    alone = np.array(vocabulary.stop_token_ids, np.int64)
    representatives, numbers, of_alone = number_runs(
        classes, starts, 6, order.first_ids, order.shortest, alone, trie.group_of_token
    )
    found = tokens_of(ClassRuns(starts, numbers), order)
    found[alone] = of_alone
    of_group = np.repeat(classes, np.diff(starts))
    names: dict[Any, int] = {}
    expected: list[int] = []
    shortest: dict[int, tuple[int, int]] = {}
    for token, group in enumerate(trie.group_of_token.tolist()):
        if group < 0 or of_group[group] < 0:
            expected.append(-1)
            continue
        key = ("alone", token) if token in vocabulary.stop_token_ids else int(of_group[group])
        number = names.setdefault(key, len(names))
        expected.append(number)
        size = (len(vocabulary.tokens[token]), token)
        shortest[number] = min(shortest.get(number, size), size)
    assert found.tolist() == expected
    assert representatives.tolist() == [shortest[number][1] for number in range(len(names))]
    assert (of_alone >= 0).sum() == sum(isinstance(key, tuple) for key in names)
    for number, group in zip(numbers.tolist(), of_group[starts[:-1]].tolist(), strict=True):
        assert number == names.get(group, -1)


@pytest.mark.parametrize("seed", range(8))
def test_members_of_runs(seed: int) -> None:
    vocabulary = wide_vocabulary()
    rng = np.random.default_rng(seed)
    starts, classes = random_partition(rng, vocabulary.trie.n_groups)
    renumbered = rng.permutation(6).astype(np.int32)
    found = members_of(ClassRuns(starts, classes), vocabulary.byte_order, renumbered)
    of_group = np.append(np.repeat(classes, np.diff(starts)), np.int32(-1))
    of_token = np.append(renumbered, np.int32(-1))[of_group[vocabulary.trie.group_of_token]]
    assert found.n_classes == 6
    assert listed(found) == listed(members_by_class(of_token, 6))


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
