"""The tables of a Lark grammar's classifier grow, are bounded, and refuse numbers that are not theirs."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from equivalence import BudgetExceeded
from hybrid import GrammarCompiler
from hybrid.classifier.base_store import NO_BYTE
from hybrid.lark import Fixed
from hybrid.lark.classifier import FactoredClassifier
from hybrid.lark.store import Store
from tests.classifiers import words_of
from tests.test_lark import vocabulary_of

pytestmark = pytest.mark.kernels

BRACKETS = 'start: part*\npart: "(" part* ")" | "[" part* "]" | NAME\nNAME: /[a-z]+/\n%ignore " "'
TOKENS = [bytes([byte]) for byte in b"()[]abz "] + [b"((", b"[(", b")]", b"ab", b") (", b"", b"[["]
VOCABULARY = vocabulary_of(TOKENS)
LIMIT = 1 << 30


@cache
def fixed_of(text: str = BRACKETS) -> Fixed:
    classifier = GrammarCompiler(VOCABULARY).compile_lark(text).classifier
    assert isinstance(classifier, FactoredClassifier)
    return classifier.fixed


def opened(store: Store, seed: int, length: int = 300) -> list[int]:
    """The configurations along a text that opens brackets."""
    rng, found = random.Random(seed), [store.start()]
    for _ in range(length):
        found.append(store.advance_text(found[-1], rng.choice([b"(", b"[", b"(a", b"[(", b"( "])))
    return found


def words(store: Store, configuration: int) -> tuple[list[int], int]:
    """The mask of a configuration, and whether its text is complete."""
    found = store.class_mask(configuration)
    return words_of(store, found >> 1), found & 1


def test_what_was_met_keeps_its_number_while_tables_grow() -> None:
    store, begun = Store(fixed_of(), LIMIT), Store(fixed_of(), LIMIT).nbytes
    first = opened(store, 0)
    masks = [words(store, number) for number in first]
    stacks = [store.stack(number).tolist() for number in first]
    for seed in range(1, 12):
        for number in opened(store, seed):
            store.class_mask(number)
    assert store.n_configurations > 2048 and store.nbytes > begun
    assert opened(store, 0) == first
    assert [words(store, number) for number in first] == masks
    assert [store.stack(number).tolist() for number in first] == stacks
    assert [store.migrate_from(store, number) for number in first] == first


def test_masks_do_not_depend_on_what_was_met_before() -> None:
    store, other = Store(fixed_of(), LIMIT), Store(fixed_of(), LIMIT)
    for number in opened(other, 1)[::-1]:
        other.class_mask(number)
    for number in opened(store, 2):
        there = other.migrate_from(store, number)
        assert words(other, there) == words(store, number)
        assert other.stack(there).tolist() == store.stack(number).tolist()
        assert other.depth_read(there) == store.depth_read(number) >= 1
    assert other.migrate_from(store, 0) == 0


def test_a_store_without_bytes_for_more_stays_as_it_is() -> None:
    begun = Store(fixed_of(), 0)
    store = Store(fixed_of(), begun.nbytes)
    numbers = [store.start()]
    with pytest.raises(BudgetExceeded, match=rf"have {store.nbytes} bytes .* raise Budget.table_bytes"):  # noqa: PT012 - any may be the last
        for seed in range(100):
            numbers += opened(store, seed)
    count = store.n_configurations
    assert store.nbytes == begun.nbytes
    assert [store.migrate_from(store, number) for number in numbers] == numbers
    assert store.n_configurations == count
    large = Store(fixed_of(), LIMIT)
    assert words(large, large.migrate_from(store, numbers[-1])) == words(store, numbers[-1])


def test_tokens_are_read_as_their_text_and_many_as_one() -> None:
    store = Store(fixed_of(), LIMIT)
    rng = random.Random(3)
    numbers = np.array(rng.choices(opened(store, 3, 40), k=200), np.int64)
    tokens = np.array(rng.choices(range(len(TOKENS)), k=200), np.int64)
    pairs = list(zip(numbers.tolist(), tokens.tolist(), strict=True))
    found = np.array([store.advance(number, token) for number, token in pairs], np.int64)
    assert found.tolist() == [store.advance_text(number, TOKENS[token]) for number, token in pairs]
    assert 0 in found and found.any()
    masks = np.empty(200, np.int64)
    store.class_masks(found, masks)
    assert masks.tolist() == [store.class_mask(number) for number in found.tolist()]


def test_what_is_refused_stays_refused() -> None:
    store = Store(fixed_of(), LIMIT)
    assert store.advance_text(store.start(), b")") == 0
    assert store.advance_text(0, b"(") == store.advance_text(0, b"") == store.advance(0, 0) == 0
    assert store.class_mask(0) == 0 and not store.is_whole(0) and store.forced_byte(0) == NO_BYTE
    assert not any(words_of(store, 0)) and store.stack(0).tolist() == []


def test_forced_bytes_and_whole_texts() -> None:
    store = Store(fixed_of('start: "ab" "c"?'), LIMIT)
    start = store.start()
    assert store.forced_byte(start) == ord("a") and not store.is_whole(start)
    both = store.advance_text(start, b"ab")
    assert store.is_whole(both) and store.forced_byte(both) == NO_BYTE  # "c" may follow, but need not


def test_what_is_not_in_the_tables_is_refused() -> None:
    store = Store(fixed_of(), LIMIT)
    start = store.start()
    for number in (-1, store.n_configurations, 1 << 40):
        for ask in (store.class_mask, store.is_whole, store.forced_byte, store.stack, store.depth_read):
            with pytest.raises(IndexError, match="no configuration"):
                ask(number)
        with pytest.raises(IndexError, match="no configuration"):
            store.advance(number, 0)
        with pytest.raises(IndexError, match="no configuration"):
            store.advance_text(number, b"a")
        with pytest.raises(IndexError, match="no configuration"):
            store.class_masks(np.array([number]), np.empty(1, np.int64))
        with pytest.raises(IndexError, match="no configuration"):
            Store(fixed_of(), LIMIT).migrate_from(store, number)
    for token in (-1, VOCABULARY.size):
        with pytest.raises(IndexError, match="no token"):
            store.advance(start, token)
    with pytest.raises(IndexError, match="no state"):
        store.stacks.of(np.array([len(fixed_of().action)]))
    with pytest.raises(IndexError, match="no stack"):
        store.stacks.states(1 << 20)
    with pytest.raises(ValueError, match="another grammar"):
        Store(fixed_of('start: "a"'), LIMIT).migrate_from(store, start)


def test_wrong_arrays_are_refused() -> None:
    store = Store(fixed_of(), LIMIT)
    one, two = np.array([store.start()]), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="the same length"):
        store.class_masks(one, two)
    wrong: Any = one.astype(np.int32)
    with pytest.raises(ValueError, match="mismatch"):
        store.class_masks(wrong, one)
    with pytest.raises(ValueError, match="mismatch"):
        Store(fixed_of()._replace(step=fixed_of().step.astype(np.int64)), LIMIT)
    with pytest.raises(ValueError, match="dimensions"):
        Store(fixed_of()._replace(goto=fixed_of().goto.ravel()), LIMIT)
