"""Dispatches of very many tags: the state determines which tag was read, as in XGrammar itself."""

import random
import tracemalloc

import numpy as np
import pytest
import xgrammar

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline
from equivalence.network import foreign
from hybrid import GrammarCompiler
from hybrid.testing.mask_comparison import compare_along
from tests.classifiers import vocabulary_of

DRAWS = 60


def drawn(rng: random.Random) -> tuple[tuple[tuple[bytes, int], ...], tuple[bytes, ...]]:
    """Random tags, and excluded texts."""
    texts = {bytes(rng.choices(b"ab<", k=rng.randint(1, 5))) for _ in range(rng.randint(2, 6))}
    excluded = {bytes(rng.choices(b"ab<", k=rng.randint(1, 4))) for _ in range(rng.choice([0, 0, 2]))}
    return tuple((text, rng.randrange(4)) for text in sorted(texts)), tuple(sorted(excluded))


@pytest.mark.parametrize("loop", [0, 1])
def test_they_are_told_apart_as_xgrammar_does(loop: int) -> None:
    rng, told, given_up = random.Random(loop), 0, 0
    for _ in range(DRAWS):
        tags, excluded = drawn(rng)
        found = foreign._many_tags(tags, loop, excluded, Deadline())
        if found is None:
            given_up += 1
            continue
        told += 1
        wanted = foreign._tags(tags, loop, excluded)
        assert found.repeats == wanted.repeats and len(found.automata) == len(wanted.automata)
        for (rows, n_states), (others, n_others) in zip(found.automata, wanted.automata, strict=True):
            assert n_states == n_others
            assert np.array_equal(rows, others), (tags, excluded)
    assert told > DRAWS // 8 and given_up > DRAWS // 8


@pytest.mark.parametrize(
    "tags",
    [((b"ab", 0), (b"abc", 1)), ((b"xaby", 0), (b"ab", 1)), ((b"ab", 0), (b"ab", 1)), ((b"", 0), (b"a", 1))],
)
def test_tags_within_tags_are_left_to_xgrammar(tags: tuple[tuple[bytes, int], ...]) -> None:
    assert foreign._many_tags(tags, 1, (), Deadline()) is None


def test_tags_of_many_lengths_take_linear_memory_and_look_at_the_deadline() -> None:
    """All parts of a text of 20,000 bytes that are as long as other texts would be gigabytes."""
    texts = [b"<%d>" % number + b"x" * (100 * number) for number in range(200)]
    tracemalloc.start()
    try:
        assert not foreign._is_any_within(texts, Deadline())
        assert tracemalloc.get_traced_memory()[1] < 20 * sum(map(len, texts))
    finally:
        tracemalloc.stop()
    with pytest.raises(BudgetExceeded):
        foreign._is_any_within(texts, Deadline(0))


def test_masks_of_a_thousand_tags() -> None:
    """Tags with different contents compile without XGrammar's text of them, and masks equal plain
    XGrammar's."""
    rng = random.Random(3)
    names = [f"<{number:04d}>" for number in range(1000)]
    rules = [[name, {"type": "const_string", "value": f"X{i}Y"}] for i, name in enumerate(names)]
    tag = {"type": "structural_tag", "format": {"type": "dispatch", "rules": rules, "loop": True}}
    longer = [b"<0", b"00", b">X", b"Y<", b"X1", b"23", b"9>X9"]
    vocabulary = vocabulary_of([*(bytes([byte]) for byte in range(256)), *longer])
    grammar = xgrammar.Grammar.from_structural_tag(tag)
    compiled = GrammarCompiler(vocabulary).compile_grammar(grammar)
    assert compiled.strategy == "classifier", compiled.reason
    plain = GrammarCompiler(vocabulary, strategy="engine").compile_grammar(grammar)
    for number in rng.sample(range(1000), 3):
        text = f"a{names[number]}X{number}Y<{names[number - 1]}X"
        found = compare_along(compiled, plain, text.encode())
        assert found.exact and found.complete and not found.contradiction_count
