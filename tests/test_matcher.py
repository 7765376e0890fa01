"""The matcher behaves like XGrammar's own in everything observable, on every strategy.

What: each behaviour of XGrammar's `GrammarMatcher`, side by side with it on a small vocabulary: answers,
masks, rollback, texts, forks. Stop tokens, bitmasks and random operations have their own files.
When: after any change of the matcher, the batch matcher or the gather.
Limits: small synthetic vocabularies; real ones are compared in ``test_equality.py``.
"""

from __future__ import annotations

import pytest
import xgrammar

from equivalence import HybridError, Vocabulary
from hybrid import GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from tests.matchers import (
    AB,
    ABC,
    BC,
    C1,
    EMPTY,
    ONE,
    PADDING,
    SIZE,
    SPECIAL,
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
    assert sides.same("accept_token", AB) and sides.same("accept_token", STOP)
    assert sides.same("is_terminated")
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


@pytest.mark.parametrize("token_id", [-1, SIZE, 2**31 - 1, -(2**31), EMPTY, SPECIAL, PADDING, STOP, X, B, BC])
def test_refused_tokens_change_nothing(strategy: str, token_id: int) -> None:
    sides = Sides.of(strategy)
    before = sides.state()
    assert sides.same("accept_token", token_id) is False
    assert sides.state() == before
    assert sides.same("rollback", 1) is RuntimeError, "no step was made"


@pytest.mark.parametrize("token_id", [2**32 + A, 2**40 + A, 2**63 + A, -(2**32) + A])
def test_an_id_is_not_cut_to_32_bits(strategy: str, token_id: int) -> None:
    matcher = Sides.of(strategy).ours
    assert matcher.accept_token(token_id) is False
    assert matcher.accept_token(A)


# What is never allowed, and whether a mask needs applying.


def test_ids_without_text_are_never_allowed(strategy: str) -> None:
    sides = Sides.of(strategy, "root ::= [^\\x00]*")
    assert sides.mask() == [A, B, C, ONE, AB, ABC, X, C1, BC, STOP]
    assert allowed(sides.ours, SIZE)[0], "a mask with a cleared bit has to be applied"


def test_a_mask_of_all_ids_need_not_be_applied(strategy: str) -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b""], stop_token_ids=2)
    sides = Sides.of(strategy, "root ::= [ab]*", vocabulary)
    assert allowed(sides.ours, 3) == allowed(sides.plain, 3) == (False, [0, 1, 2])
    one_needed = Sides.of(strategy, "root ::= [ab]+", vocabulary)
    assert allowed(one_needed.ours, 3) == allowed(one_needed.plain, 3) == (True, [0, 1])


def test_bits_beyond_the_last_id_are_clear_on_representatives() -> None:
    bitmask = allocate_token_bitmask(1, SIZE)
    Sides.of("representatives", "root ::= [^\\x00]*").ours.fill_next_token_bitmask(bitmask)
    assert int(bitmask[0, 1]) >> (SIZE - 32) == 0


def test_a_grammar_that_no_token_fits(strategy: str) -> None:
    sides = Sides.of(strategy, 'root ::= "q" [yz]*')
    assert sides.mask() == []
    assert sides.same("accept_string", "q") and sides.mask() == [STOP]
    assert sides.same("accept_string", "zy") and sides.same("accept_token", STOP)


def test_tokens_that_begin_or_end_inside_a_character(strategy: str) -> None:
    vocabulary = Vocabulary.from_bytes(
        [b"\xc3", b"\xa9", b"\xa8", b"a\xc3", b"\xa9a", b"a", b""], stop_token_ids=6
    )
    sides = Sides.of(strategy, 'root ::= "aéa" | "a" [é-ë]', vocabulary)
    assert sides.mask() == [3, 5]
    assert sides.same("accept_token", 3) and sides.mask() == [1, 4]
    assert sides.same("accept_token", 1) and sides.mask() == [5, 6]


# Steps: rollback, text, forks, reset.


def test_rollback_crosses_the_stop_token(strategy: str) -> None:
    sides = Sides.of(strategy)
    sides.same("accept_token", AB)
    before = sides.state()
    sides.same("accept_token", STOP)
    assert sides.same("is_terminated")
    sides.same("rollback", 1)
    assert not sides.same("is_terminated") and sides.state() == before


def test_rollback_too_far_changes_nothing(strategy: str) -> None:
    sides = Sides.of(strategy)
    sides.same("accept_token", A)
    sides.same("accept_token", B)
    before = sides.state()
    assert sides.same("rollback", 3) is RuntimeError
    assert sides.state() == before
    sides.same("rollback", 0)
    assert sides.state() == before
    assert sides.same("rollback", 2) is None
    assert sides.mask() == [A, AB, ABC]


def test_a_text_is_one_step(strategy: str) -> None:
    sides = Sides.of(strategy)
    assert sides.same("accept_string", "abc1c")
    assert sides.same("accept_string", b"1") and sides.same("accept_token", C1)
    sides.same("rollback", 2)
    assert sides.mask() == [C, ONE, C1, STOP]
    sides.same("rollback", 1)
    assert sides.mask() == [A, AB, ABC]
    assert sides.same("rollback", 1) is RuntimeError


def test_no_text_is_a_step_too(strategy: str) -> None:
    sides = Sides.of(strategy)
    assert sides.same("accept_string", "")
    sides.same("rollback", 1)
    assert sides.same("rollback", 1) is RuntimeError


@pytest.mark.parametrize("text", ["x", "abx", "abcc1x", b"ab\xff", b"\x00"])
def test_a_failed_text_changes_nothing(strategy: str, text: str | bytes) -> None:
    sides = Sides.of(strategy)
    before = sides.state()
    assert sides.same("accept_string", text) is False
    assert sides.state() == before
    assert sides.same("rollback", 1) is RuntimeError


def test_forks_are_independent(strategy: str) -> None:
    sides = Sides.of(strategy)
    sides.same("accept_token", A)
    fork = sides.fork()
    before = fork.state()
    sides.same("accept_token", B)
    sides.same("accept_token", STOP)
    assert fork.state() == before
    assert fork.same("accept_token", BC)
    assert sides.same("is_terminated") and not fork.same("is_terminated")
    fork.same("rollback", 2)
    assert fork.mask() == [A, AB, ABC], "the steps of the original are the fork's too"
    sides.same("rollback", 1)
    assert sides.mask() == [C, ONE, C1, STOP]


def test_a_fork_fills_its_own_mask(strategy: str) -> None:
    """State that a fork computes for its mask is not shared with the original."""
    sides = Sides.of(strategy)
    fork = sides.fork()
    fork.same("accept_token", AB)
    first = sides.mask()
    assert fork.mask() == [C, ONE, C1, STOP]
    assert sides.mask() == first == [A, AB, ABC]


def test_reset_goes_back_to_the_start(strategy: str) -> None:
    sides = Sides.of(strategy)
    start = sides.state()
    sides.same("accept_token", AB)
    sides.same("accept_token", STOP)
    sides.same("reset")
    assert sides.state() == start
    assert sides.same("rollback", 1) is RuntimeError


def test_jump_forward_string(strategy: str) -> None:
    sides = Sides.of(strategy)
    assert sides.same("find_jump_forward_string") == "ab"
    assert sides.same("find_jump_forward_string") == "ab", "it does not change the state"
    sides.same("accept_token", A)
    assert sides.same("find_jump_forward_string") == "b"
    sides.same("accept_token", B)
    assert sides.same("find_jump_forward_string") == ""


def test_is_completed_needs_no_stop_token(strategy: str) -> None:
    sides = Sides.of(strategy)
    assert not sides.same("is_completed")
    sides.same("accept_token", AB)
    assert sides.same("is_completed")
    sides.same("accept_token", STOP)
    assert sides.same("is_completed")


def test_captures(strategy: str) -> None:
    vocabulary = Vocabulary.from_bytes(
        [bytes([byte]) for byte in range(256)] + [b"12", b""], stop_token_ids=257
    )
    grammar = xgrammar.Grammar.from_lark('start: "n=" number ";"\nnumber[capture]: /[0-9]+/\n')
    compiled = GrammarCompiler(vocabulary, strategy=strategy).compile_grammar(grammar)
    plain = xgrammar.GrammarCompiler(vocabulary.tokenizer_info, max_threads=1).compile_grammar(grammar)
    sides = Sides(GrammarMatcher(compiled), xgrammar.GrammarMatcher(plain), vocabulary.size)
    for token_id in (*b"n=", 256, *b"3;"):
        assert sides.same("accept_token", token_id)
    assert sides.same("get_captures") == [("number", b"123")]
    sides.same("rollback", 3)
    sides.same("get_captures")


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
