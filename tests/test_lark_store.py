"""The tables of a Lark grammar's classifier grow, are bounded, and refuse numbers that are not theirs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from equivalence import BudgetExceeded
from hybrid import GrammarCompiler
from hybrid.classifier.base_store import NO_BYTE
from hybrid.lark import Fixed
from hybrid.lark.store import Store
from tests.classifiers import LETTERS, NESTED, compiled_of, words_of
from tests.test_lark import vocabulary_of

pytestmark = pytest.mark.kernels

BRACKETS = 'start: part*\npart: "(" part* ")" | "[" part* "]" | NAME\nNAME: /[a-z]+/\n%ignore " "'
TOKENS = [bytes([byte]) for byte in b"()[]abz "] + [b"((", b"[(", b")]", b"ab", b") (", b"", b"[["]
VOCABULARY = vocabulary_of(TOKENS)
LIMIT = 1 << 30


@cache
def fixed_of(text: str = BRACKETS) -> Fixed:
    return GrammarCompiler(VOCABULARY).compile_lark(text).classifier.fixed


def opened(store: Store, seed: int, length: int = 300) -> list[int]:
    """The configurations along a text that opens brackets."""
    rng, found = random.Random(seed), [store.start()]
    for _ in range(length):
        found.append(store.advance_text(found[-1], rng.choice([b"(", b"[", b"(a", b"[(", b"( "])))
    return found


def facts(store: Store, configuration: int) -> tuple[list[int], int, list[int]]:
    """The words of the mask, whether the text is complete, and the stack."""
    mask = store.class_mask(configuration)
    return words_of(store, mask >> 1), mask & 1, store.stack(configuration).tolist()


def test_what_was_met_keeps_its_number_while_tables_grow() -> None:
    store, begun = Store(fixed_of(), LIMIT), Store(fixed_of(), LIMIT).nbytes
    first = opened(store, 0)
    before = [facts(store, number) for number in first]
    for seed in range(1, 12):
        for number in opened(store, seed):
            store.class_mask(number)
    assert store.n_configurations > 2048 and store.nbytes > begun
    assert opened(store, 0) == first
    assert [facts(store, number) for number in first] == before
    assert [store.migrate_from(store, number) for number in first] == first


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
    assert facts(large, large.migrate_from(store, numbers[-1])) == facts(store, numbers[-1])


def test_tokens_are_read_as_their_text_and_many_as_one() -> None:
    store, rng = Store(fixed_of(), LIMIT), random.Random(3)
    pairs = [(number, rng.randrange(len(TOKENS))) for number in rng.choices(opened(store, 3, 40), k=200)]
    found = [store.advance(number, token) for number, token in pairs]
    assert found == [store.advance_text(number, TOKENS[token]) for number, token in pairs]
    assert 0 in found and any(found)


def test_what_is_refused_stays_refused() -> None:
    store = Store(fixed_of(), LIMIT)
    assert store.advance_text(store.start(), b")") == 0
    assert store.advance_text(0, b"(") == store.advance_text(0, b"") == store.advance(0, 0) == 0
    assert Store(fixed_of(), LIMIT).migrate_from(store, 0) == 0
    assert store.class_mask(0) == 0 and not store.is_whole(0) and store.forced_byte(0) == NO_BYTE
    assert not any(words_of(store, 0)) and store.stack(0).tolist() == []


def of_xgrammar() -> Any:
    return compiled_of(NESTED).classifier.session.store


@pytest.mark.parametrize(
    ("made", "n_tokens"),
    [(lambda: Store(fixed_of(), LIMIT), VOCABULARY.size), (of_xgrammar, len(LETTERS))],
    ids=["Lark", "XGrammar"],
)
def test_what_is_not_in_the_tables_is_refused(made: Callable[[], Any], n_tokens: int) -> None:
    store, other = made(), made()
    asked: list[Callable[[int], Any]] = [
        *(store.class_mask, store.is_whole, store.forced_byte),
        lambda number: store.advance(number, 0),
        lambda number: store.advance_text(number, b"a"),
        lambda number: other.migrate_from(store, number),
    ]
    for ask, number in itertools.product(asked, (-1, store.n_configurations, 1 << 40)):
        with pytest.raises((IndexError, ValueError), match=r"no (?:configuration|mask|stack)"):
            ask(number)
    for token in (-1, n_tokens):
        with pytest.raises(IndexError, match="no token"):
            store.advance(1, token)


def test_what_is_not_in_the_tables_of_one_kind_is_refused() -> None:
    store = Store(fixed_of(), LIMIT)
    for wrong, ask, message in (
        (IndexError, lambda: store.stack(-1), "no configuration"),
        (IndexError, lambda: store.stacks.of(np.array([len(fixed_of().action)])), "no state"),
        (IndexError, lambda: store.stacks.states(1 << 20), "no stack"),
        (ValueError, lambda: Store(fixed_of('start: "a"'), LIMIT).migrate_from(store, 1), "another grammar"),
    ):
        with pytest.raises(wrong, match=message):
            ask()
