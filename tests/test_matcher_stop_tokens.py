"""Stop tokens: where they are allowed, what replaces them, and where their text counts.

What: the stop tokens of the vocabulary, others in their place, none, and stop tokens that are also text; on
every strategy, beside plain XGrammar.
When: after any change of the matcher or of how it gets its stop tokens.
Limits: small synthetic vocabularies.

If a mask of plain XGrammar disagrees with its own ``accept_token``, "representatives" follows
``accept_token`` and "engine", which is plain XGrammar, follows the mask. This happens with overridden stop
tokens that are text.
"""

from __future__ import annotations

from typing import Any

import pytest

from equivalence import Vocabulary, VocabularyError
from hybrid import GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from tests.matchers import (
    AB,
    ABC,
    C1,
    EMPTY,
    ONE,
    PADDING,
    SIZE,
    STOP,
    TEXT_STOPS,
    A,
    B,
    C,
    Sides,
    X,
    allowed,
)

pytestmark = pytest.mark.kernels


def test_stop_tokens_are_allowed_where_the_grammar_can_end(strategy: str) -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"", b""], stop_token_ids=[3, 2])
    sides = Sides.of(strategy, 'root ::= "a" "b"?', vocabulary)
    assert sides.mask() == [0]
    assert sides.same("accept_token", 2) is False
    sides.same("accept_token", 0)
    assert sides.mask() == [1, 2, 3]
    for stop in (2, 3):
        fork = sides.fork()
        assert fork.same("accept_token", stop) and fork.same("is_terminated")
    assert sides.same("is_completed") and not sides.same("is_terminated")
    assert sorted(sides.ours.stop_token_ids) == sorted(sides.plain.stop_token_ids) == [2, 3]


def test_override_replaces_the_stop_tokens(strategy: str) -> None:
    sides = Sides.of(strategy, override_stop_tokens=[EMPTY, PADDING])
    assert sides.ours.stop_token_ids == sides.plain.stop_token_ids == [EMPTY, PADDING]
    sides.same("accept_token", AB)
    assert sides.mask() == [C, ONE, EMPTY, C1, PADDING]
    fork = sides.fork()
    assert fork.ours.stop_token_ids == [EMPTY, PADDING], "a fork keeps them"
    for stop in (EMPTY, PADDING):
        again = fork.fork()
        assert again.same("accept_token", stop) and again.same("is_terminated")


def test_a_stop_token_without_text_that_is_overridden_is_nothing(strategy: str) -> None:
    """Plain XGrammar's mask forbids it, but its ``accept_token`` accepts it as a step without text, any
    number of times."""
    sides = Sides.of(strategy, override_stop_tokens=[X])
    sides.same("accept_token", AB)
    assert STOP not in sides.mask()
    assert sides.ours.accept_token(STOP) is False
    assert sides.state()[:2] == (False, True)
    sides.same("rollback", 1)
    assert sides.mask() == [A, AB, ABC]


def test_a_stop_token_that_is_text_ends_the_match(strategy: str) -> None:
    sides = Sides.of(strategy, override_stop_tokens=[C])
    assert sides.mask() == [A, AB, ABC], "inside a token its bytes are still text"
    sides.same("accept_token", AB)
    assert sides.mask() == [C, ONE, C1]
    assert sides.same("accept_token", C) and sides.same("is_terminated")


def test_a_stop_token_that_is_text_is_no_text_before_the_end(strategy: str) -> None:
    sides = Sides.of(strategy, 'root ::= "a" "b" "c"', TEXT_STOPS)
    sides.same("accept_token", 0)
    assert sides.mask() == [4], "b fits, but it is the stop token"
    assert sides.same("accept_token", B) is False


@pytest.mark.parametrize("override", [[2], [2, 4], [0]])
def test_a_stop_token_no_longer_in_the_set_is_text_again(override: list[int]) -> None:
    """Plain XGrammar accepts it but clears its bit (or the other way round); our mask and `accept_token`
    agree."""
    sides = Sides.of("representatives", 'root ::= ("a" | "b")+', TEXT_STOPS, override_stop_tokens=override)
    mask = allowed(sides.ours, TEXT_STOPS.size)[1]
    assert B in mask
    for token_id in range(TEXT_STOPS.size):
        taken = sides.fork().same("accept_token", token_id)
        assert taken == (token_id in mask)
    assert sides.same("accept_token", B) and not sides.same("is_terminated")


@pytest.mark.parametrize("override", [[], [-1], [SIZE], [True], ["1"], [1.0]])
def test_stop_tokens_out_of_range_are_refused(strategy: str, override: list[Any]) -> None:
    with pytest.raises(VocabularyError, match="override_stop_tokens"):
        Sides.of(strategy, override_stop_tokens=override)


def test_a_vocabulary_without_stop_tokens(strategy: str) -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b"])
    sides = Sides.of(strategy, 'root ::= "a" "b"', vocabulary)
    assert sides.same("accept_token", 0) and sides.mask() == [1]
    assert sides.same("accept_token", 1) and sides.mask() == []
    assert sides.same("is_completed") and not sides.same("is_terminated")
    assert sides.ours.stop_token_ids == []


def test_terminate_without_stop_token(strategy: str) -> None:
    sides = Sides.of(strategy, terminate_without_stop_token=True)
    assert sides.same("accept_token", A) and not sides.same("is_terminated")
    assert sides.same("accept_token", B) and sides.same("is_terminated")
    assert sides.mask() == [C, ONE, C1, STOP]
    sides.state()


@pytest.mark.parametrize("token_id", [C, C1, STOP, X])
def test_a_grammar_that_could_end_may_go_on(strategy: str, token_id: int) -> None:
    """With terminate_without_stop_token, a matcher is terminated, but still fills masks and accepts their
    tokens."""
    sides = Sides.of(strategy, terminate_without_stop_token=True)
    sides.same("accept_string", "ab")
    assert sides.same("is_terminated")
    assert sides.same("accept_token", token_id) == (token_id in (C, C1))
    sides.state()


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
