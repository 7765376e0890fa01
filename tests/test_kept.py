"""Kept walks: classes are the same with a cold store, with a warm one, and without any."""

from __future__ import annotations

import itertools
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import xgrammar
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from equivalence.classes import compute_classes
from equivalence.classes import explore as explore_module
from equivalence.classes.explore import Capacity, explore
from equivalence.classes.partition import partition
from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.network import build_network
from equivalence.vocabulary import Vocabulary
from equivalence.walks.kept import KeptWalks
from equivalence.walks.kept.stored import as_arrays, read_back
from tests.random_grammars import compiles, grammar_texts, vocabularies

pytestmark = pytest.mark.kernels

SMALL = Capacity(configurations=4_000, nodes=16_000, outcomes=16_000, items=16_000)

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]},
    {"type": "array", "items": {"type": "string"}},
    {"type": "object", "properties": {"b": {"type": "number"}, "list": {"type": "array"}}},
    {"type": "array", "items": {"type": "string", "maxLength": 300}},
    {"type": "object", "properties": {"c": {"type": "string", "minLength": 2, "maxLength": 4}}},
    {"type": "string", "pattern": "^[a-c]+,[0-9]{2,5}$"},
    {"type": "object", "additionalProperties": {"type": "string"}},
]
WORDS = ["".join(letters).encode() for letters in itertools.product('{}[]":,1a \\', repeat=2)]
TOKENS = [*(bytes([value]) for value in range(256)), *WORDS, "é€".encode(), b'","', b'": ', b"abc", b'12]"']


def classes(grammar: xgrammar.Grammar, vocabulary: Vocabulary, kept: KeptWalks | None) -> list[int]:
    """The class of each group."""
    trie = vocabulary.trie
    network = build_network(grammar, token_bytes=trie.longest)
    return partition(explore(network, trie, capacity=SMALL, kept=kept), network, trie).tolist()


def of_schema(schema: dict[str, Any]) -> xgrammar.Grammar:
    return xgrammar.Grammar.from_json_schema(json.dumps(schema), any_whitespace=False)


def small_vocabulary() -> Vocabulary:
    return Vocabulary.from_bytes(TOKENS)


@st.composite
def several_grammars(draw: st.DrawFn) -> tuple[list[str], list[bytes]]:
    drawn = [draw(grammar_texts()) for _ in range(draw(st.integers(2, 4)))]
    texts = [ebnf for ebnf, _ in drawn if compiles(ebnf)]
    pieces = [piece for _, own in drawn for piece in own]
    return texts, draw(vocabularies(pieces))


@given(several_grammars(), st.sampled_from([1, 30_000, 1 << 24]), st.booleans())
@settings(deadline=None, max_examples=100)
def test_random_grammars(case: tuple[list[str], list[bytes]], limit: int, twins: bool) -> None:
    """Whatever was kept, in whatever order, however often it was dropped."""
    texts, tokens = case
    vocabulary = Vocabulary.from_bytes(tokens)
    grammars = [xgrammar.Grammar.from_ebnf(text) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        if twins:
            patch.setattr(explore_module, "MANY_OUTCOMES", 0)
        try:
            wanted = [classes(grammar, vocabulary, None) for grammar in grammars]
        except (BudgetExceeded, UnsupportedGrammar):
            reject()
        store = KeptWalks(limit)
        numbers = range(len(grammars))
        for number in [*numbers, *reversed(numbers), *numbers]:
            assert classes(grammars[number], vocabulary, store) == wanted[number]
            assert classes(grammars[number], vocabulary, KeptWalks(limit)) == wanted[number]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_schemas_in_several_orders(step: int) -> None:
    vocabulary, store = small_vocabulary(), KeptWalks()
    for number in range(2 * len(SCHEMAS)):
        grammar = of_schema(SCHEMAS[step * number % len(SCHEMAS)])
        assert classes(grammar, vocabulary, store) == classes(grammar, vocabulary, None)
    assert store.hits > store.misses > 0
    assert store.turns == 0


def test_a_walk_does_not_depend_on_names_and_surroundings() -> None:
    vocabulary, store = small_vocabulary(), KeptWalks()
    string = r'"\"" ([^"\\] | "\\" ["n])* "\""'
    texts = [
        f"root ::= [a-z] word [0-9]\nword ::= {string}",
        f'root ::= "(" [0-9] x ")" | x x\nx ::= {string}',
    ]
    for text in texts:
        grammar = xgrammar.Grammar.from_ebnf(text)
        before = store.hits
        assert classes(grammar, vocabulary, store) == classes(grammar, vocabulary, None)
    assert store.hits - before > 200


def followed_by(text: str) -> xgrammar.Grammar:
    return xgrammar.Grammar.from_ebnf(f'root ::= "<" word "{text}" root | ""\nword ::= ([a-z] [0-9])+')


def test_what_follows_is_filtered() -> None:
    """A walk that was made for some bytes to follow serves those that want fewer, and grows for others."""
    vocabulary, store = small_vocabulary(), KeptWalks()
    misses = []
    for text in (",", "]", ",", "]", ":"):
        before = store.misses
        grammar = followed_by(text)
        assert classes(grammar, vocabulary, store) == classes(grammar, vocabulary, None)
        misses.append(store.misses - before)
    assert misses[0] > 0 and misses[1] > 0 and misses[4] > 0
    assert misses[2] == misses[3] < misses[0]


def test_bounds_beyond_every_token_are_alike() -> None:
    vocabulary, store = small_vocabulary(), KeptWalks()

    def misses(bounds: str) -> int:
        before = store.misses
        grammar = xgrammar.Grammar.from_ebnf(f'root ::= "<" (letter{bounds}) ">"\nletter ::= [a-z"] [0-9:]')
        assert classes(grammar, vocabulary, store) == classes(grammar, vocabulary, None)
        return store.misses - before

    cold = misses("{4,200}")
    assert misses("{7,300}") < cold
    assert misses("{4,5}") > misses("{7,400}")


def test_a_full_store_drops_what_was_not_used() -> None:
    vocabulary, store = small_vocabulary(), KeptWalks(600_000)
    wanted = [classes(of_schema(schema), vocabulary, None) for schema in SCHEMAS]
    for _ in range(4):
        for schema, expected in zip(SCHEMAS, wanted, strict=True):
            assert classes(of_schema(schema), vocabulary, store) == expected
            assert store.n_bytes <= store.limit_bytes
    assert store.turns > 1
    assert store.hits > 1000, "what is used moves to the young generation"
    nothing = KeptWalks(0)
    for _ in range(2):
        assert classes(of_schema(SCHEMAS[0]), vocabulary, nothing) == wanted[0]
    assert nothing.hits == 0


@pytest.mark.parametrize("limit", [100_000, 1 << 24])
def test_several_threads_share_a_store(limit: int) -> None:
    vocabulary, store = small_vocabulary(), KeptWalks(limit)
    assert vocabulary.trie.n_groups
    grammars = [of_schema(schema) for schema in SCHEMAS]
    wanted = [classes(grammar, vocabulary, None) for grammar in grammars]
    numbers = [number % len(SCHEMAS) for number in range(8 * len(SCHEMAS))]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: classes(grammars[number], vocabulary, store), numbers))
    assert found == [wanted[number] for number in numbers]


def test_budgets_hold_with_a_warm_store() -> None:
    vocabulary, store = small_vocabulary(), KeptWalks()
    grammar = of_schema(SCHEMAS[0])
    network = build_network(grammar, token_bytes=vocabulary.trie.longest)
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            explore(network, vocabulary.trie, capacity=Capacity(configurations=3), kept=store)
        with pytest.raises(BudgetExceeded):
            explore(network, vocabulary.trie, capacity=Capacity(outcomes=3), kept=store)
        explore(network, vocabulary.trie, kept=store)


def test_outcomes_are_bounded_as_without_a_store() -> None:
    """What other grammars want of a block is not asked for where that is too much; what is kept stays."""
    vocabulary, warm = small_vocabulary(), KeptWalks()
    string = r'"\"" ([^"\\] | "\\" ["n])* "\""'
    texts = [f'root ::= "[" x ("{follows}" x)*\nx ::= {string}' for follows in (",", "]", ":", "1", "a")]
    for text in texts[1:]:
        classes(xgrammar.Grammar.from_ebnf(text), vocabulary, warm)
    network = build_network(xgrammar.Grammar.from_ebnf(texts[0]), token_bytes=vocabulary.trie.longest)

    def fits(most: int, kept: KeptWalks | None) -> bool:
        try:
            explore(network, vocabulary.trie, capacity=Capacity(outcomes=most), kept=kept)
        except BudgetExceeded:
            return False
        return True

    wanted = explore(network, vocabulary.trie).n_outcomes
    arrays = as_arrays(warm._young.snapshot(), warm._old.snapshot())
    for most in (2, wanted - 2, wanted, wanted + 1):
        store = KeptWalks()
        store._young, store._old = read_back(arrays, vocabulary.trie)
        before = store._young.n_walks
        assert fits(most, None) == fits(most, store) == (most >= wanted)
        assert store._young.n_walks >= before and store.turns == 0


def test_a_vocabulary_keeps_walks_until_it_is_pickled() -> None:
    vocabulary = small_vocabulary()
    grammar = of_schema(SCHEMAS[1])
    first = compute_classes(grammar, vocabulary)
    again = compute_classes(grammar, vocabulary)
    assert vocabulary.kept_walks.hits > 0
    copy = pickle.loads(pickle.dumps(vocabulary))
    assert copy.kept_walks.hits == 0
    for found in (again, compute_classes(grammar, copy)):
        assert np.array_equal(found.class_of_token, first.class_of_token)
        assert np.array_equal(found.representatives, first.representatives)
    assert copy.kept_walks.misses > 0


def test_displacement_keeps_nothing() -> None:
    vocabulary = small_vocabulary()
    compute_classes(of_schema(SCHEMAS[1]), vocabulary, "displacement")
    assert vocabulary.kept_walks.hits == vocabulary.kept_walks.misses == 0
