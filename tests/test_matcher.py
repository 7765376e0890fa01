"""The matcher behaves like XGrammar's own in everything observable, on every strategy.

What: each behaviour of XGrammar's `GrammarMatcher`, side by side with it on a small vocabulary: answers,
what is refused, forced text. `tests.robustness.test_fuzz` has the laws of tokens, texts, rollback, forks
and stop tokens; bitmasks have their own file.
When: after any change of the matcher, the batch matcher or the gather.
Limits: small synthetic vocabularies; real ones are compared in ``test_equality.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

from equivalence import HybridError, Vocabulary, VocabularyError
from hybrid import GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from tests.matchers import (
    AB,
    ABC,
    BC,
    C1,
    EMPTY,
    ONE,
    SIZE,
    STOP,
    SUFFIXED,
    VOCABULARY,
    A,
    B,
    C,
    Sides,
    X,
    allowed,
    compiled_by,
    plain_compiled_by,
)

pytestmark = pytest.mark.kernels


# After the end, and what is refused.


def test_after_the_end_nothing_is_filled_or_accepted(strategy: str) -> None:
    sides = Sides.of(strategy)
    assert sides.same("accept_token", AB) is True and sides.same("accept_token", STOP) is True
    assert sides.same("is_terminated") is True
    bitmask = allocate_token_bitmask(1, SIZE)
    with pytest.raises(RuntimeError, match="terminated"):
        sides.ours.fill_next_token_bitmask(bitmask)
    assert bitmask.eq(-1).all(), "a mask that cannot be made is not written"
    assert sides.state() == (True, True, RuntimeError, RuntimeError)
    for token_id in (C, STOP, X, EMPTY, SIZE):
        assert sides.same("accept_token", token_id) is False
    assert sides.same("accept_string", "c") is False
    sides.same("rollback", 1)
    assert sides.mask() == [C, ONE, C1, STOP], "what was refused is no step"


@pytest.mark.parametrize(
    "token_id", [-1, SIZE, 2**31 - 1, -(2**31), 2**32 + A, 2**40 + A, 2**63 + A, -(2**32) + A]
)
def test_an_id_outside_of_the_vocabulary_is_refused(strategy: str, token_id: int) -> None:
    """XGrammar cuts ids to 32 bits."""
    matcher = Sides.of(strategy).ours
    assert matcher.accept_token(token_id) is False
    assert matcher.accept_token(A)
    with pytest.raises(RuntimeError, match="only 1 were made"):
        matcher.rollback(2)


# What is never allowed, and whether a mask needs applying.


def test_ids_without_text_are_never_allowed(strategy: str) -> None:
    assert Sides.of(strategy, "root ::= [^\\x00]*").mask() == [A, B, C, ONE, AB, ABC, X, C1, BC, STOP]


@pytest.mark.parametrize(
    ("grammar", "wanted"), [("root ::= [ab]*", (False, [0, 1, 2])), ("root ::= [ab]+", (True, [0, 1]))]
)
def test_a_mask_of_all_ids_need_not_be_applied(strategy: str, grammar: str, wanted: Any) -> None:
    sides = Sides.of(strategy, grammar, Vocabulary.from_bytes([b"a", b"b", b""], stop_token_ids=2))
    assert allowed(sides.ours, 3) == allowed(sides.plain, 3) == wanted


def test_nor_if_only_the_text_of_a_stop_token_is_forbidden(strategy: str) -> None:
    sides = Sides.of(strategy, 'root ::= "a" "b"*', Vocabulary.from_bytes([b"a", b"b"], stop_token_ids=0))
    assert sides.same("accept_string", "a")
    assert allowed(sides.ours, 2) == allowed(sides.plain, 2) == (False, [0, 1])


# Stop tokens in place of the vocabulary's.


@pytest.mark.parametrize("override", [[], [-1], [SIZE], [True], ["1"], [1.0]])
def test_stop_tokens_out_of_range_are_refused(strategy: str, override: list[Any]) -> None:
    with pytest.raises(VocabularyError, match="override_stop_tokens"):
        Sides.of(strategy, override_stop_tokens=override)


def test_a_stop_id_that_does_not_stop_any_more_is_decided_by_its_text_on_the_engine() -> None:
    """XGrammar's tables are made for its own stop tokens, and allow this one after a called root."""
    tokens = [b"9\n\n\n", b"\n\n\n\n", b"", b"", b"", b"\n\n\n\n\n", b"\x9f\n", b"\n\xd0", b"</s>"]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[8])
    compiler = GrammarCompiler(vocabulary, strategy="engine")
    for end, is_allowed in (("\\x0a", 0), ("</s>", 1)):
        compiled = compiler.compile_grammar(f'root ::= "\\x0a" | "{end}" | root root Token(3)\n')
        matcher = GrammarMatcher(compiled, override_stop_tokens=[6])
        bitmask = allocate_token_bitmask(1, vocabulary.size)
        matcher.fill_next_token_bitmask(bitmask)
        assert int(bitmask[0, 0]) >> 8 & 1 == is_allowed
        assert matcher.fork().accept_token(8) == bool(is_allowed)


# Arguments.


def test_only_compiled_grammars_of_ours_have_matchers() -> None:
    with pytest.raises(HybridError, match=r"must be what hybrid\.GrammarCompiler returns"):
        GrammarMatcher(plain_compiled_by(VOCABULARY, SUFFIXED))


def test_max_rollback_tokens_is_ignored_with_a_warning(strategy: str) -> None:
    compiled = compiled_by(VOCABULARY, strategy, SUFFIXED)
    with pytest.warns(DeprecationWarning, match="rollback is unlimited"):
        matcher = GrammarMatcher(compiled, max_rollback_tokens=1)
    assert matcher.max_rollback_tokens == -1
    assert matcher.accept_token(A) and matcher.accept_token(B)
    matcher.rollback(2)
