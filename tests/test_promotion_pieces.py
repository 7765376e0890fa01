"""Completing a classifier piece by piece never changes masks, and finds all states.

What: a classifier that is completed while matchers use it, on random grammars; from files; what cannot be
completed.
When: after any change of `hybrid.classifier.promotion` or `hybrid.classifier.reachable`.
Limits: which classifiers are completed, and when, is tested in ``test_promotion.py``.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence import BudgetExceeded
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.classifier.follower import ClassifierFollower
from hybrid.files import from_bytes, to_bytes
from tests.classifiers import EXAMPLES, SMALL, classifier_case, compiled_of
from tests.matchers import mask_of
from tests.promotions import NESTED, begun, is_complete, known_states, text_of, use
from tests.random_grammars import GrammarCase, grammar_cases
from tests.test_artifact import VOCABULARY

# --- Piece by piece ----------------------------------------------------------------------------------------


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(case=grammar_cases(), rng=st.randoms(use_true_random=False))
@pytest.mark.kernels
def test_masks_are_the_same_before_between_and_after_pieces(case: GrammarCase, rng: random.Random) -> None:
    """Tokens, forks, rollbacks and other sequences, with a piece between any two of them."""
    compiled, vocabulary = classifier_case(case, on_demand=True)
    calm = compiled_of(case.ebnf, vocabulary, on_demand=True, budget=SMALL)
    ahead = compiled_of(case.ebnf, vocabulary, budget=SMALL)
    work, is_left = begun(compiled), True
    pairs = [(GrammarMatcher(compiled), GrammarMatcher(calm), [b""])]
    for step in range(30):
        ours, other, history = pairs[rng.randrange(len(pairs))]
        act = rng.randrange(6)
        if act == 0 and len(history) > 1:
            back = rng.randrange(1, len(history))
            ours.rollback(back)
            other.rollback(back)
            del history[-back:]
        elif act == 1 and len(pairs) < 4:
            pairs.append((ours.fork(), other.fork(), list(history)))
        else:
            token_id = rng.randrange(len(case.vocabulary))
            taken = ours.accept_token(token_id)
            assert taken == other.accept_token(token_id), (history, case.ebnf)
            if taken:
                history.append(history[-1] + case.vocabulary[token_id])
        if is_left and step > 3:
            is_left = work.piece()
        assert mask_of(ours) == mask_of(other), (history, case.ebnf)
        assert ours.is_completed() == other.is_completed()
    while is_left:
        is_left = work.piece()
    work.finish()
    assert is_complete(compiled) and ahead.classifier is not None and compiled.classifier is not None
    assert compiled.classifier.summaries.n_known == ahead.classifier.summaries.n_known, case.ebnf
    found = known_states(compiled)
    for ours, other, history in pairs:
        assert mask_of(ours) == mask_of(other), (history, case.ebnf)
    with compiled.classifier.lock:
        compiled.classifier.renew()  # from now on a state that is missing is an error
    for ours, other, history in pairs:
        for _ in range(4):
            assert mask_of(ours) == mask_of(other), (history, case.ebnf)
            token_id = rng.randrange(len(case.vocabulary))
            assert ours.accept_token(token_id) == other.accept_token(token_id)
        assert isinstance(ours._follower, ClassifierFollower), "no fallback was needed"
        if len(history) > 1:
            ours.rollback(1)
            other.rollback(1)
            assert mask_of(ours) == mask_of(other)
    assert found >= known_states(compiled)


@pytest.mark.parametrize("grammar", ["json", "schema", "sql_like", "arithmetic"])
def test_all_states_are_found(grammar: str, small_pieces: None) -> None:
    ahead, compiled = both(grammar)
    before = use(compiled, 3)
    assert compiled.promote() and compiled.promote(), "twice is once"
    assert "because promote was called" in compiled.reason
    assert is_complete(compiled) and ahead.classifier is not None and compiled.classifier is not None
    found = known_states(compiled)
    assert compiled.classifier.summaries.n_known == ahead.classifier.summaries.n_known
    assert use(compiled, 3) == before == use(ahead, 3)
    for seed in range(4, 9):
        assert use(compiled, seed, 80) == use(ahead, seed, 80)
    assert known_states(compiled) == found, "nothing is left to be found"


def both(grammar: str) -> tuple[CompiledGrammar, CompiledGrammar]:
    """Compile a grammar ahead of time, and on demand with "auto"."""
    return text_of(grammar)(GrammarCompiler(VOCABULARY, strategy="classifier")), text_of(grammar)(
        GrammarCompiler(VOCABULARY)
    )


def test_what_was_read_from_a_file_builds_its_network_again() -> None:
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(NESTED)
    again = from_bytes(to_bytes(compiled), VOCABULARY)
    assert again.classifier is not None and again.classifier.reachable is None and not is_complete(again)
    masks = use(again)
    assert again.promote() and is_complete(again) and compiled.promote()
    assert use(again) == masks == use(compiled)
    assert compiled.classifier is not None
    assert again.classifier.summaries.n_known == compiled.classifier.summaries.n_known
    third = from_bytes(to_bytes(again), VOCABULARY)
    assert is_complete(third) and use(third) == masks


def test_another_network_is_not_completed() -> None:
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(NESTED)
    again = from_bytes(to_bytes(compiled), VOCABULARY)
    assert again.classifier is not None
    final = again.classifier._fixed.net[0]
    final[-1] = 1 - final[-1]
    with pytest.raises(BudgetExceeded, match="another version"):
        again.promote()


def test_what_has_no_such_classifier() -> None:
    engine = GrammarCompiler(VOCABULARY, strategy="engine").compile_grammar(NESTED)
    few = GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar(NESTED)
    lark = GrammarCompiler(VOCABULARY).compile_lark('start: "a"+')
    assert not engine.promote() and not few.promote() and not lark.promote()
    static = GrammarCompiler(VOCABULARY, strategy="engine").compile_grammar(NESTED, static=True)
    assert static.strategy == "engine"
