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


def test_displacement_tells_apart_what_is_left_behind() -> None:
    tokens = [b"a", b"b", b"c", b"d"]
    ebnf = 'root ::= "a" "c" | "b" "d"'
    assert parts(classes(ebnf, tokens), tokens) == groups("a b", "c", "d")
    assert parts(classes(ebnf, tokens, "displacement"), tokens) == groups("a", "b", "c", "d")


def test_displacement_keeps_together_what_leaves_the_same_behind() -> None:
    tokens = [b"a", b"b", b"ab", b"c"]
    ebnf = "root ::= [ab]+"
    assert parts(classes(ebnf, tokens, "displacement"), tokens) == groups("a b ab")


def test_counters_matter_to_displacement_beyond_a_token() -> None:
    # all of these can be read while 900 letters are left; but fewer are left afterwards
    tokens = [b"a", b"aa", b"bb"]
    ebnf = "root ::= [ab]{900,}"
    assert parts(classes(ebnf, tokens), tokens) == groups("a aa bb")
    assert parts(classes(ebnf, tokens, "displacement"), tokens) == groups("a", "aa bb")


def test_max_length_of_a_json_string() -> None:
    tokens = [b'"', b"x", b"xy", b"zy", b"xyz", b"1"]
    grammar = xgrammar.Grammar.from_json_schema(json.dumps({"type": "string", "maxLength": 500}))
    found = compute_classes(grammar, Vocabulary.from_bytes(tokens))
    assert parts(found, tokens) == groups('"', "x 1", "xy zy", "xyz")


def test_every_class_number_occurs_and_minus_one_is_never_allowed() -> None:
    tokens = [b"z", b"a", b"", b"b", b"az", b"ab"]
    found = classes('root ::= "a" "b"', tokens)
    assert set(found.class_of_token.tolist()) == {-1, 0, 1}
    assert found.members(-1).tolist() == [0, 2, 4]
    assert [found.members(found.class_of_token[i]).tolist() for i in (1, 3)] == [[1, 5], [3]]


def test_representatives_are_the_shortest_tokens_and_of_these_the_first() -> None:
    tokens = [b"123", b"12", b"7", b"8", b"a"]
    found = classes("root ::= [0-9]+", tokens)
    assert found.representatives.tolist() == [2]
    assert found.members(0).tolist() == [0, 1, 2, 3]


def test_equal_byte_strings_share_a_class() -> None:
    found = classes('root ::= "a"{0,9}', [b"a", b"aa", b"a", b"aa"])
    assert found.class_of_token[0] == found.class_of_token[2] != found.class_of_token[1]
    assert found.class_of_token[1] == found.class_of_token[3]


def test_a_stop_id_that_is_text_is_alone() -> None:
    found = classes('root ::= "a"+', [b"a", b"a", b"aa", b"x", b"a"], stop_token_ids=[1, 3])
    assert found.members(found.class_of_token[1]).tolist() == [1]
    assert found.members(found.class_of_token[0]).tolist() == [0, 2, 4]
    assert found.class_of_token[3] == -1  # its text is never read
    assert found.n_classes == 2


def test_special_ids_and_padding_are_never_allowed() -> None:
    found = classes('root ::= "a"+', [b"a", b"a", b""], special_token_ids=[1], vocab_size=70)
    assert found.class_of_token.size == 70
    assert found.members(-1).tolist() == list(range(1, 70))


@pytest.mark.parametrize("tokens", [[b"a", b"aa", b"b", b""], [b"b"], [b""]])
@pytest.mark.parametrize("relation", ["acceptance", "displacement"])
def test_fields(tokens: list[bytes], relation: Relation) -> None:
    found = classes('root ::= "a"+', tokens, relation)
    assert found.relation == relation
    assert found.class_of_token.dtype == found.representatives.dtype == found.members(-1).dtype == np.int32
    assert found.class_of_token.shape == (len(tokens),)
    assert found.representatives.shape == (found.n_classes,)
    assert isinstance(found.n_classes, int)
    assert found.class_of_token[found.representatives].tolist() == list(range(found.n_classes))
    assert set(found.seconds) == {"network", "explore", "partition"}
    assert set(found.sizes) == {"states", "contexts", "configurations", "items", "outcomes"}
    assert all(seconds >= 0 for seconds in found.seconds.values())
    assert all(isinstance(size, int) for size in found.sizes.values())


def test_unknown_relation() -> None:
    with pytest.raises(HybridError, match=r"must be 'acceptance' or 'displacement', but is 'equality'"):
        classes('root ::= "a"', [b"a"], "equality")


def test_many_outcomes_without_anything_left_to_read() -> None:
    """Nothing is left to read but counter labels: more of them than are merged one by one."""
    tokens = [b"a" * length for length in range(1, 520)]
    found = classes('root ::= "a"{1,4000}', tokens)
    assert found.n_classes == len(tokens), "each length is read up to another number of units left"
