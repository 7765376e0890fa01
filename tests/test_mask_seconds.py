"""Masks under `Budget.mask_seconds`, and rows that XGrammar initialises with all bits set."""

from __future__ import annotations

import pytest

from equivalence import BudgetExceeded, HybridError
from hybrid import Budget, GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
from tests.matchers import mask_of

TOKENS = [b"a", b"b", b"ab", b"(", b")", b"()", b"x", b"((", b"))", b"aa", b"ba"]
STOP = len(TOKENS)
VOCABULARY = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=[STOP])


@pytest.mark.parametrize("strategy", ["classifier", "representatives", "engine"])
def test_a_mask_over_its_bound_is_refused_and_nothing_written(strategy: str) -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy, budget=Budget(mask_seconds=1e-9))
    matcher = GrammarMatcher(compiler.compile_grammar('root ::= "a" root | "b"'))
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)
    bitmask.fill_(0x5A5A5A5A)
    with pytest.raises(BudgetExceeded, match=r"Budget\.mask_seconds"):
        matcher.fill_next_token_bitmask(bitmask)
    assert bool((bitmask == 0x5A5A5A5A).all())
    assert matcher.accept_string("a")  # the sequence itself continues


def test_a_slow_mask_is_stopped_while_it_is_computed() -> None:
    # tokens of many spaces in nested repeats: each byte has a stack for each way to divide the text
    vocabulary = Vocabulary.from_bytes([b" " * n for n in range(1, 49)] + [b"</s>"], stop_token_ids=[48])
    limited = GrammarCompiler(vocabulary, budget=Budget(mask_seconds=0.01))
    compiled = limited.compile_regex("(( {1,100}){1,100}){1,100}")
    matcher = GrammarMatcher(compiled)
    for _ in range(2):  # if the first were computed to its end, the second would be known
        with pytest.raises(BudgetExceeded, match=r"Budget\.mask_seconds"):
            mask_of(matcher)
    assert matcher.accept_string("  ") and matcher.is_completed()
    matcher.rollback(1)
    assert not matcher.is_completed()


@pytest.mark.parametrize("given", [0, -1.0, float("inf"), float("nan"), "1", True])
def test_bounds_of_masks_are_numbers_above_0(given: object) -> None:
    with pytest.raises(HybridError, match=r"Budget\.mask_seconds must be a positive number"):
        Budget(mask_seconds=given)  # type: ignore[arg-type]


def test_a_stop_token_without_text_that_is_overridden_is_nothing() -> None:
    # nearly all is allowed, so XGrammar's mask starts with all bits set
    text = 'root ::= [^z]* "a"'
    for strategy in ("engine", "representatives"):
        compiled = GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(text)
        matcher = GrammarMatcher(compiled, override_stop_tokens=[6])
        mask_of(matcher)
        assert STOP not in mask_of(matcher) and not matcher.accept_token(STOP)
        assert matcher.fill_next_token_bitmask(allocate_token_bitmask(1, VOCABULARY.size))
