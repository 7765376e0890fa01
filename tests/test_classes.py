"""Token classes worked out by hand, and what else `compute_classes` returns."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import xgrammar

from equivalence.classes import Relation, TokenClasses, compute_classes
from equivalence.errors import HybridError
from equivalence.vocabulary import Vocabulary

pytestmark = pytest.mark.kernels


def classes(
    ebnf: str, tokens: list[bytes], relation: Relation = "acceptance", **options: Any
) -> TokenClasses:
    vocabulary = Vocabulary.from_bytes(tokens, **options)
    return compute_classes(xgrammar.Grammar.from_ebnf(ebnf), vocabulary, relation)


def parts(found: TokenClasses, tokens: list[bytes]) -> set[frozenset[bytes]]:
    """The classes as sets of byte strings, without class -1."""
    return {frozenset(tokens[i] for i in found.members(number)) for number in range(found.n_classes)}


def groups(*texts: str) -> set[frozenset[bytes]]:
    """Return classes that are written as words: ``groups("a aa", "b")``."""
    return {frozenset(word.encode() for word in text.split()) for text in texts}


WORDS = b"a aa aaa aaaa b ab ba , a, ,a 1 12 123 ( ) () ((" + " é éé".encode()
TOKENS = [b"", *WORDS.split()]


@pytest.mark.parametrize(
    ("ebnf", "wanted"),
    [
        # any number of digits: a token is read however many it has
        ("root ::= [0-9]+", groups("1 12 123")),
        # where "a" is allowed, "ab" is too; "b" is read after "a"
        ('root ::= "ab"', groups("a ab", "b")),
        # a token is read if that many letters are left; letters are counted, not bytes
        ('root ::= "a"{0,3}', groups("a", "aa", "aaa")),
        ('root ::= "a"{0,500}', groups("a", "aa", "aaa", "aaaa")),
        ("root ::= [aé]{0,3}", groups("a é", "aa éé", "aaa")),
        # no upper bound: the counter matters to none of these tokens
        ('root ::= "a"{2,}', groups("a aa aaa aaaa")),
        # a comma is read after two letters or more, a letter always: the second letter of "a," may be first
        ('root ::= "a"{2,} ","', groups("a aa aaa aaaa", ",", "a,")),
        # "(" and "a" and "((" can begin wherever a text can; ")" needs one open parenthesis; "()" is no text
        ('root ::= "(" root ")" | "a"', groups("( a ((", ")")),
        # left recursion: an item is read at the start and after a comma, a comma after an item
        ('root ::= root "," "a" | "a"', groups("a a,", ", ,a")),
        # a rule that reads nothing, and a rule that no text completes
        ('root ::= ""', set()),
        ('root ::= "a" root', groups("a aa aaa aaaa")),
    ],
)
def test_classes_worked_out_by_hand(ebnf: str, wanted: set[frozenset[bytes]]) -> None:
    found = classes(ebnf, TOKENS)
    assert parts(found, TOKENS) == wanted
    assert found.n_classes == len(wanted)


@pytest.mark.parametrize(
    ("ebnf", "tokens", "acceptance", "displacement"),
    [
        # what is left behind is told apart
        ('root ::= "a" "c" | "b" "d"', "a b c d", groups("a b", "c", "d"), groups("a", "b", "c", "d")),
        # what leaves the same behind stays together
        ("root ::= [ab]+", "a b ab c", groups("a b ab"), groups("a b ab")),
        # all of these can be read while 900 letters are left; but fewer are left afterwards
        ("root ::= [ab]{900,}", "a aa bb", groups("a aa bb"), groups("a", "aa bb")),
    ],
)
def test_displacement(
    ebnf: str, tokens: str, acceptance: set[frozenset[bytes]], displacement: set[frozenset[bytes]]
) -> None:
    words = tokens.encode().split()
    assert parts(classes(ebnf, words), words) == acceptance
    assert parts(classes(ebnf, words, "displacement"), words) == displacement


def test_max_length_of_a_json_string() -> None:
    tokens = [b'"', b"x", b"xy", b"zy", b"xyz", b"1"]
    grammar = xgrammar.Grammar.from_json_schema(json.dumps({"type": "string", "maxLength": 500}))
    found = compute_classes(grammar, Vocabulary.from_bytes(tokens))
    assert parts(found, tokens) == groups('"', "x 1", "xy zy", "xyz")


@pytest.mark.parametrize(
    ("ebnf", "tokens", "options", "wanted", "representatives"),
    [
        # numbers follow the order of ids, and class -1 is never allowed
        ('root ::= "a" "b"', [b"z", b"a", b"", b"b", b"az", b"ab"], {}, [-1, 0, -1, 1, -1, 0], [1, 3]),
        # representatives are the shortest tokens, and of these the first
        ("root ::= [0-9]+", [b"123", b"12", b"7", b"8", b"a"], {}, [0, 0, 0, 0, -1], [2]),
        # equal byte strings share a class
        ('root ::= "a"{0,9}', [b"a", b"aa", b"a", b"aa"], {}, [0, 1, 0, 1], [0, 1]),
        # a stop id that is text is alone, unless its text is never read
        (
            'root ::= "a"+', [b"a", b"a", b"aa", b"x", b"a"], {"stop_token_ids": [1, 3]},
            [0, 1, 0, -1, 0], [0, 1],
        ),
        # special ids and padding are never allowed
        (
            'root ::= "a"+', [b"a", b"a", b""], {"special_token_ids": [1], "vocab_size": 70},
            [0, *[-1] * 69], [0],
        ),
        # a vocabulary without text has no classes
        ('root ::= "a"', [b"", b""], {"stop_token_ids": 1}, [-1, -1], []),
    ],
)  # fmt: skip
def test_class_of_each_id(
    ebnf: str, tokens: list[bytes], options: dict[str, Any], wanted: list[int], representatives: list[int]
) -> None:
    found = classes(ebnf, tokens, **options)
    assert found.class_of_token.tolist() == wanted
    assert found.representatives.tolist() == representatives
    assert found.n_classes == len(representatives)
    for number in range(-1, found.n_classes):
        assert found.members(number).tolist() == [i for i, one in enumerate(wanted) if one == number]


@pytest.mark.parametrize("tokens", [[b"a", b"aa", b"b", b""], [b"b"], [b""]])
@pytest.mark.parametrize("relation", ["acceptance", "displacement"])
def test_fields(tokens: list[bytes], relation: Relation) -> None:
    found = classes('root ::= "a"+', tokens, relation)
    assert found.relation == relation
    assert found.class_of_token.dtype == found.representatives.dtype == found.members(-1).dtype == np.int32
    assert found.class_of_token.shape == (len(tokens),)
    assert set(found.seconds) == {"network", "explore", "partition"}
    assert set(found.sizes) == {"states", "contexts", "configurations", "items", "outcomes"}


def test_unknown_relation() -> None:
    with pytest.raises(HybridError, match=r"must be 'acceptance' or 'displacement', but is 'equality'"):
        classes('root ::= "a"', [b"a"], "equality")


def test_many_outcomes_without_anything_left_to_read() -> None:
    """Nothing is left to read but counter labels: more of them than are merged one by one."""
    tokens = [b"a" * length for length in range(1, 520)]
    found = classes('root ::= "a"{1,4000}', tokens)
    assert found.n_classes == len(tokens), "each length is read up to another number of units left"
