"""Summaries that are complete and trimmed give the same masks as those that are built on demand.

What: laws over random grammars, compared with the summaries as they were built, and with none.
When: after any change of `hybrid.classifier.precomputation` or `summaries`.
Limits: small vocabularies; other files compare masks over real ones with XGrammar's.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import NamedTuple

import pytest
import xgrammar
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from bench.cases import CHECKOUT
from equivalence import Capacity, UnsupportedGrammar, Vocabulary
from equivalence.classes.classes import classes_and_network
from equivalence.deadline import Deadline
from hybrid.classifier import build_summaries, distinct_classes, fixed_tables
from hybrid.classifier.store import Store
from hybrid.classifier.summaries import Summaries
from hybrid.classifier.tables import Fixed
from tests.classifiers import words_of
from tests.random_grammars import GrammarCase, grammar_cases

LIMIT = 1 << 28


class Built(NamedTuple):
    fixed: Fixed
    summaries: Summaries


def build(grammar: xgrammar.Grammar, vocabulary: Vocabulary) -> Built:
    """Build the complete summaries, not trimmed."""
    serialized = json.loads(grammar.serialize_json())
    classes, network = classes_and_network(
        serialized, vocabulary, "acceptance", Capacity(), max_states=200_000, deadline=Deadline()
    )
    texts, _ = distinct_classes(classes, vocabulary)
    fixed = fixed_tables(network, texts, *vocabulary.flat)
    known, cause = build_summaries(fixed, network, limit=LIMIT, states=1 << 20)
    assert not cause
    return Built(fixed, known)


def walk(stores: list[Store], fixed: Fixed, tokens: list[int], rng: random.Random, steps: int) -> None:
    """Compute the masks along one random walk with all stores; they have to agree."""
    starts = [store.start(fixed.start, fixed.start_final) for store in stores]
    configs = starts
    for _ in range(steps):
        masks = [store.class_mask(config) for store, config in zip(stores, configs, strict=True)]
        found = [(words_of(store, mask >> 1), mask & 1) for store, mask in zip(stores, masks, strict=True)]
        assert all(mask == found[0] for mask in found)
        for token in rng.sample(tokens, len(tokens)):
            after = [store.advance(config, token) for store, config in zip(stores, configs, strict=True)]
            assert len({config > 0 for config in after}) == 1
            if after[0] > 0:
                break
        configs = after if after[0] > 0 else starts


def check(built: Built, vocabulary: Vocabulary, seed: int, steps: int) -> None:
    trimmed = built.summaries.completed()
    n_known = [known.n_known for known in (built.summaries, trimmed)]
    stores = [Store(built.fixed, LIMIT, known) for known in (built.summaries, trimmed, None)]
    tokens = [i for i, token in enumerate(vocabulary.tokens) if token]
    walk(stores, built.fixed, tokens, random.Random(seed), steps)
    # stacks need no pending set that was not built
    assert [store.summaries.n_known for store in stores[:2]] == n_known and trimmed.complete
    assert trimmed.nbytes <= built.summaries.nbytes


@pytest.mark.kernels
@settings(max_examples=40, deadline=None)
@given(grammar_cases(max_tokens=12), st.integers(0, 2**32 - 1))
def test_masks_stay_equal(case: GrammarCase, seed: int) -> None:
    vocabulary = Vocabulary.from_bytes(case.vocabulary)
    try:
        built = build(xgrammar.Grammar.from_ebnf(case.ebnf), vocabulary)
    except UnsupportedGrammar:
        reject()
    check(built, vocabulary, seed, 12)


TOKENS = [
    *(bytes([b]) for b in range(256)), b'":', b'"}', b"}]", b"]}", b"ab", b"((", b"))", b"12", b"e1", b" = ",
]  # fmt: skip
SMALL = Vocabulary.from_bytes(TOKENS)


@pytest.mark.parametrize("name", ["json", "arithmetic", "sql_like", "counted"])
def test_masks_stay_equal_on_larger_grammars(name: str) -> None:
    if name == "json":
        grammar = xgrammar.Grammar.builtin_json_grammar()
    elif name == "counted":
        schema = {"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 2, "maxItems": 9}
        grammar = xgrammar.Grammar.from_json_schema(json.dumps(schema))
    else:
        path: Path = CHECKOUT / "hybrid" / "grammars" / f"{name}.gbnf"
        grammar = xgrammar.Grammar.from_ebnf(path.read_text("utf-8"))
    check(build(grammar, SMALL), SMALL, 1, 400)
