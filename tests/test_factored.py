"""Token classes of Lark grammars, compared with a plain implementation of their definition.

Limits: `tests.test_lark` compares the masks that they give with the oracle of Lark's meaning.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence import Vocabulary
from equivalence.arrays.account import Account
from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.lark.classes import FactoredClasses, factored_classes, reference
from equivalence.lark.classes.residuals import Residuals
from equivalence.lark.classes.sets import Sets
from equivalence.lark.classes.walks import Sequences
from hybrid.values.mask_time import TooSlow
from tests.classifiers import vocabulary_of
from tests.lark_machines import SMALL, TERMINALS, Built, build, built, random_grammar, small_names
from tests.limits import stopped
from tests.test_mask_seconds import stop_at


def small_tokens(alphabet: str, tokens: tuple[bytes, ...], rng: random.Random) -> list[bytes]:
    """The tokens of a grammar, some random longer ones, a repeated one, an empty one and some odd bytes."""
    words = ["".join(rng.choices(alphabet, k=rng.randint(2, 6))).encode() for _ in range(40)]
    spaced = [token + b" " for token in tokens[:5]]
    return [*tokens, *words, tokens[0], b"", b"\xff", b"\x00", b"\xc3", *spaced]


def classes_of(grammar: Built, vocabulary: Vocabulary, **options: Any) -> FactoredClasses:
    return factored_classes(grammar.lexer, grammar.machine, vocabulary, **options)


def check_value(grammar: Built, classes: FactoredClasses, vocabulary: Vocabulary) -> None:
    """Assert what holds for every value: shapes, order of classes, representatives, sets."""
    tokens, (n_states, n) = classes.tokens, classes.set_of.shape
    assert n_states == len(grammar.lexer.step) == len(classes.stop_set) and n == tokens.n_classes
    assert tokens.class_of_token.shape == (vocabulary.size,) and classes.set_of.dtype == np.int32
    found, first = np.unique(tokens.class_of_token, return_index=True)
    first = first[found >= 0]
    assert found[found >= 0].tolist() == list(range(n)) and sorted(first) == first.tolist()
    for number, representative in enumerate(tokens.representatives.tolist()):
        members = tokens.members(number).tolist()
        assert representative == min(members, key=lambda token: (len(vocabulary.tokens[token]), token))
    columns = {tuple(column) for column in classes.set_of.T.tolist()}
    assert len(columns) == n and (0,) * n_states not in columns
    starts, terminals = classes.sets.start.tolist(), classes.sets.terminals.tolist()
    sets = [tuple(terminals[begin:end]) for begin, end in pairwise(starts)]
    assert sets[0] == () and sets[1] == (-2,) and len(set(sets)) == len(sets)
    assert max(classes.set_of.max(initial=0), classes.stop_set.max()) < len(sets)
    for kinds in sets[2:]:
        assert sorted(kinds) == list(kinds) and 0 <= kinds[0] <= kinds[-1] < classes.automaton.n_kinds


# ---- against the definition


def check_grammar(grammar: Built, tokens: list[bytes], pieces: list[bytes], rounds: int) -> None:
    """Check all ids in all configurations of some random walks."""
    vocabulary, rng = vocabulary_of(tokens), random.Random(1)
    classes = classes_of(grammar, vocabulary)
    check_value(grammar, classes, vocabulary)
    both = grammar.lexer, grammar.machine
    for now in {now for _ in range(rounds) for now in reference.reachable(*both, pieces, 10, rng)}:
        for token, text in enumerate(tokens):
            wanted = text != b"" and reference.allowed(*both, *now, text)
            assert reference.decided(classes, now, token) == wanted, (now, text)
        assert reference.decided_stop(classes, now) == reference.may_stop(*both, *now), now


@pytest.mark.parametrize(
    "name", small_names("keyword or identifier", "dangling else", "lazy comment", "nullable rules")
)
def test_classes_decide_by_the_definition(name: str) -> None:
    small = SMALL[name]
    tokens = small_tokens(small.alphabet, small.tokens, random.Random(2))
    check_grammar(built(name), tokens, list(small.tokens), 15)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32))
def test_classes_decide_by_the_definition_on_random_grammars(seed: int) -> None:
    rng = random.Random(seed)
    grammar = random_grammar(rng)
    if grammar is not None:
        words = {"".join(rng.choices(TERMINALS, k=rng.randint(1, 5))).encode() for _ in range(30)}
        letters = [letter.encode() for letter in TERMINALS]
        try:
            check_grammar(grammar, [*letters, *sorted(words)], letters, 4)
        except UnsupportedGrammar as error:  # rules that derive themselves
            if "would reduce forever" not in str(error):
                raise


# ---- bounds, and odd vocabularies


def test_vocabularies_with_little_text_have_few_classes() -> None:
    grammar = built("dangling else")
    nothing = classes_of(grammar, Vocabulary.from_bytes([b"", b""], stop_token_ids=[0]))
    assert nothing.tokens.class_of_token.tolist() == [-1, -1] and nothing.tokens.n_classes == 0
    assert nothing.set_of.shape == (1, 0)
    only = classes_of(grammar, Vocabulary.from_bytes([b"?", b"x", b"ix"], stop_token_ids=[]))
    assert only.tokens.class_of_token.tolist() == [-1, 0, 0]
    start = reference.start(grammar.machine)
    after = reference.advance(grammar.lexer, grammar.machine, start, b"x")
    assert not reference.decided(only, after, 1) and reference.decided_stop(only, after)
    assert reference.decided(only, start, 1) and not reference.decided_stop(only, start)


def test_classes_are_what_the_grammar_tells_apart() -> None:
    grammar = build('start: "a" ("b" | "c")* | "d" "c"')
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", b"d", b"bb", b"cb"], stop_token_ids=[])
    classes = classes_of(grammar, vocabulary)
    # after `dc` neither `b` nor `cb` follows
    assert classes.tokens.class_of_token.tolist() == [0, 1, 2, 0, 1, 1]
    assert classes.tokens.sizes["lexical classes"] == 6


def test_what_exceeds_the_budget_is_refused(tekken: Vocabulary) -> None:
    grammar = built("json.lark")
    for limit, message in (
        ({"max_sequences": 5}, r"the limit is 5; raise Budget\.states"),
        ({"max_bytes": 1000}, r"times the tokens .* the limit is 1000;"),
        ({"deadline": Deadline(0.0)}, "time limit was reached in this phase: the lexer's part"),
    ):
        with pytest.raises(BudgetExceeded, match=message):
            classes_of(grammar, tekken, **limit)
    assert classes_of(grammar, tekken, deadline=Deadline(600)).tokens.n_classes > 20


@pytest.mark.kernels
def test_what_was_told_to_stop_does() -> None:
    """Each loop checks for a stop before its first block, state, pair or set."""
    grammar, account = built("dangling else"), Account(stopped())
    rests, block_of = some_rests(grammar, account)
    states, first_bytes = np.zeros(1, np.int64), np.array([ord("x")], np.int64)
    sets = Sets(
        np.ones((1, 1), np.bool_), np.zeros((1, 1), np.int32), np.array([0, 1], np.int64),
        np.zeros((1, 2), np.int64), account,
    )  # fmt: skip
    for loop in (
        lambda: rests.read(states, first_bytes),
        lambda: rests.find_pairs(block_of, np.zeros(len(block_of), np.int32), np.zeros(1, np.int64)),
        lambda: sets.number(np.zeros(1, np.int32), np.array([0, 1], np.int64), np.zeros(1, np.int32)),
    ):
        with pytest.raises(BudgetExceeded, match="this phase: a test"):
            loop()


@pytest.mark.kernels
def test_a_large_set_can_be_stopped() -> None:
    """One pair has all the texts: a stop is noticed for each kind that is compared with the others."""
    n = 5
    kinds, cells = np.arange(n, dtype=np.int32), np.array([[0, 2 + kind] for kind in range(n)])
    arguments = np.ones((1, 1), np.bool_), kinds[None, :], np.arange(n + 1), cells
    pairs = kinds, np.array([0, n]), np.zeros(1, np.int32)
    n_looks = 0
    for most in range(20):
        account = Account()
        stop_at(account, most)
        try:
            Sets(*arguments, account).number(*pairs)
            break
        except TooSlow:
            n_looks += 1
    assert n_looks == 1 + n


def some_rests(grammar: Built, account: Account) -> tuple[Residuals, np.ndarray]:
    """The residuals of two tokens, and the only block of a lexer with one state."""
    trie = vocabulary_of([b"x", b"ix"]).trie
    texts = Sequences.of(list(grammar.lexer.sequences))
    family = np.zeros(len(grammar.lexer.step), np.int32)
    return Residuals(grammar.lexer, trie, *texts, family, account), np.zeros((len(family), 256), np.int32)


def test_lexer_and_parser_of_different_grammars_are_refused(tekken: Vocabulary) -> None:
    with pytest.raises(ValueError, match="both have to be made with"):
        factored_classes(built("json.lark").lexer, built("arithmetic.lark").machine, tekken)
