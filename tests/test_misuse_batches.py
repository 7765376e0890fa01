"""Invalid batches raise a clear error, write nothing and move no matcher, on every strategy.

What: lists of different lengths, rows given twice, matchers that have ended or have other vocabularies, and
errors in the middle of a batch.
When: after any change of `hybrid.api.batch` or `hybrid.api.batch_steps`.
Limits: single matchers are in ``test_misuse.py`` and ``test_misuse_ids.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import xgrammar

from equivalence import ArgumentError, BatchError, BitmaskError, BudgetExceeded, HybridError, MatcherError
from hybrid import BatchGrammarMatcher, GrammarCompiler, GrammarMatcher, Vocabulary
from hybrid.classifier.follower import ClassifierFollower
from tests.misuse import (
    AB,
    FIRST,
    PATTERN,
    STOP,
    VOCABULARY,
    WORDS,
    A,
    B,
    buffer,
    compiled_by,
    unmoved,
    untouched,
)  # fmt: skip

pytestmark = pytest.mark.kernels


# Batches.

WRONG_BATCHES: dict[str, tuple[str, Any, type[HybridError]]] = {
    "fewer ids": ("batch_accept_token", [A], BatchError),
    "more ids": ("batch_accept_token", [A, A, A], BatchError),
    "no ids": ("batch_accept_token", [], BatchError),
    "one id": ("batch_accept_token", A, ArgumentError),
    "no list of ids": ("batch_accept_token", None, ArgumentError),
    "ids in text": ("batch_accept_token", "aa", ArgumentError),
    "ids in bytes": ("batch_accept_token", b"\0\0", ArgumentError),
    "ids in floats": ("batch_accept_token", np.zeros(2), ArgumentError),
    "ids in booleans": ("batch_accept_token", torch.zeros(2, dtype=torch.bool), ArgumentError),
    "ids in two dimensions": ("batch_accept_token", torch.zeros(2, 1, dtype=torch.int64), ArgumentError),
    "fewer texts": ("batch_accept_string", ["a"], BatchError),
    "more texts": ("batch_accept_string", ["a", "a", "a"], BatchError),
    "one text": ("batch_accept_string", "aa", ArgumentError),
    "no list of texts": ("batch_accept_string", 5, ArgumentError),
    "fewer counts": ("batch_rollback", [1], BatchError),
    "more counts": ("batch_rollback", [0, 0, 0], BatchError),
    "counts in text": ("batch_rollback", "00", ArgumentError),
    "count True": ("batch_rollback", True, ArgumentError),
    "half a count": ("batch_rollback", 0.5, ArgumentError),
    "count -1": ("batch_rollback", -1, ArgumentError),
    "a count too many": ("batch_rollback", 2, MatcherError),
    "one count too many": ("batch_rollback", [1, 2], MatcherError),
}


@pytest.mark.parametrize(("method", "argument", "error"), WRONG_BATCHES.values(), ids=WRONG_BATCHES)
def test_wrong_batches_move_no_matcher(
    matcher: GrammarMatcher, method: str, argument: Any, error: type[HybridError]
) -> None:
    """The first matcher used to move if the second list was too short."""
    pair = [matcher, matcher.fork()]
    for each in pair:
        assert each.accept_token(A)
    with pytest.raises(error):
        getattr(BatchGrammarMatcher, method)(pair, argument)
    for each in pair:
        each.rollback()
        assert unmoved(each)


@pytest.mark.parametrize("matchers", [None, 5, "ab", [None], [5], "a matcher", "XGrammar's"], ids=str)
def test_what_is_no_matcher_is_refused(matcher: GrammarMatcher, matchers: Any) -> None:
    if matchers == "a matcher":
        matchers = matcher
    elif matchers == "XGrammar's":
        plain = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info, max_threads=1).compile_grammar(
            'root ::= "a"'
        )
        matchers = [matcher, xgrammar.GrammarMatcher(plain)]
    bitmask = buffer(4 * WORDS).view(4, WORDS)
    batch = BatchGrammarMatcher()
    for call in (
        lambda: batch.batch_fill_next_token_bitmask(matchers, bitmask),
        lambda: batch.batch_fill_temperature(matchers, torch.zeros(4)),
        lambda: batch.batch_accept_token(matchers, [A, A]),
        lambda: batch.batch_accept_string(matchers, ["a", "a"]),
        lambda: batch.batch_rollback(matchers, 0),
    ):
        with pytest.raises(ArgumentError, match="matchers"):
            call()
    assert untouched(bitmask) and unmoved(matcher)


WRONG_ROWS: dict[str, Any] = {
    "one twice": [2, 0, 2], "too few": [0, 1], "too many": [0, 1, 2, 3], "too far": [0, 1, 4],
    "below": [0, 1, -1], "True": [0, 2, True], "text": "012", "one": 0, "halves": [0.0, 1.0, 2.0],
    "two dimensions": torch.zeros(3, 1),
}  # fmt: skip


@pytest.mark.parametrize("indices", WRONG_ROWS.values(), ids=WRONG_ROWS)
def test_wrong_rows_of_a_batch_write_nothing(matcher: GrammarMatcher, indices: Any) -> None:
    guard, warm = buffer(), buffer(4 * WORDS)
    bitmask = guard[10 * WORDS : 14 * WORDS].view(4, WORDS)
    trio = [matcher, matcher.fork(), matcher.fork()]
    with pytest.raises(BitmaskError, match=r"indices|index"):
        BatchGrammarMatcher().batch_fill_next_token_bitmask(trio, bitmask, indices)
    with pytest.raises(BitmaskError, match=r"indices|index"):
        BatchGrammarMatcher.batch_fill_temperature(trio, warm.view(torch.float32)[:4], indices)
    assert untouched(guard, warm)


def test_a_matcher_that_has_ended_leaves_a_batch_unwritten(matcher: GrammarMatcher) -> None:
    ended = matcher.fork()
    assert ended.accept_token(AB) and ended.accept_token(STOP)
    bitmask = buffer(4 * WORDS).view(4, WORDS)
    for trio in ([matcher, ended, matcher.fork()], [ended, matcher, matcher], [matcher, matcher, ended]):
        with pytest.raises(MatcherError, match="terminated"):
            BatchGrammarMatcher().batch_fill_next_token_bitmask(trio, bitmask)
    with pytest.raises(MatcherError, match="terminated"):
        ended.fill_next_token_bitmask(bitmask)
    with pytest.raises(MatcherError, match="terminated"):
        ended.find_jump_forward_string()
    assert untouched(bitmask)


def test_one_matcher_may_be_given_twice(matcher: GrammarMatcher) -> None:
    bitmask = buffer(2 * WORDS).view(2, WORDS)
    batch = BatchGrammarMatcher()
    batch.batch_fill_next_token_bitmask([matcher, matcher], bitmask)
    assert bitmask.tolist() == [FIRST, FIRST]
    assert batch.batch_accept_token([matcher, matcher, matcher], [A, B, A]) == [True, True, False]
    assert matcher.is_completed()
    batch.batch_rollback([matcher, matcher], [1, 1])
    assert unmoved(matcher)


@pytest.mark.parametrize("ids", [64, 316, 3000])
def test_matchers_of_different_widths_write_nothing(matcher: GrammarMatcher, ids: int) -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b""], stop_token_ids=2, vocab_size=ids)
    other = GrammarMatcher(GrammarCompiler(vocabulary).compile_grammar('root ::= "a"'))
    for pair in ([matcher, other], [other, matcher]):
        for width in {WORDS, -(-ids // 32)}:
            guard = buffer(6 * width)
            bitmask = guard[2 * width : 4 * width].view(2, width)
            if ids == 316:  # equally wide: each matcher fills its own ids
                BatchGrammarMatcher().batch_fill_next_token_bitmask(pair, bitmask)
                assert sorted(row[0] for row in bitmask.tolist()) == [1, FIRST[0]]
                bitmask.fill_(PATTERN)
            else:
                with pytest.raises(BitmaskError, match="shape"):
                    BatchGrammarMatcher().batch_fill_next_token_bitmask(pair, bitmask)
            assert untouched(guard)


def test_a_batch_that_fails_in_the_middle_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Lark grammar has no other strategy when its tables are full."""
    trio = [GrammarMatcher(compiled_by(name)) for name in ("engine", "classifier", "lark")]

    def full(*arguments: Any, **options: Any) -> bool:
        raise BudgetExceeded("full")

    bitmask = buffer(3 * WORDS).view(3, WORDS)
    monkeypatch.setattr(trio[2], "accept_token", full)
    monkeypatch.setattr(trio[2], "accept_string", full)
    monkeypatch.setattr(trio[2], "_fill", full)
    batch = BatchGrammarMatcher()
    with pytest.raises(BudgetExceeded):
        batch.batch_accept_token(trio, [A, A, A])
    with pytest.raises(BudgetExceeded):
        batch.batch_accept_token([trio[0], trio[0], trio[2]], [A, B, A])
    with pytest.raises(BudgetExceeded):
        batch.batch_accept_string(trio, ["a", b"ab", "a"])
    with pytest.raises(BudgetExceeded):
        batch.batch_fill_next_token_bitmask(trio, bitmask)
    assert unmoved(trio[0]) and unmoved(trio[1]) and untouched(bitmask)


def test_a_rollback_without_room_leaves_the_matcher_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to keep its position but not its history, so the next mask was that of a later state."""
    matcher = GrammarMatcher(compiled_by("lark"))
    follower = matcher._follower
    assert isinstance(follower, ClassifierFollower)
    assert matcher.accept_token(A) and matcher.accept_token(B)
    follower.classifier.renew()  # new tables: a rollback reads the text again
    matcher.find_jump_forward_string()

    def full(*_: Any) -> Any:
        raise BudgetExceeded("full")

    with monkeypatch.context() as patch:
        patch.setattr(follower.classifier, "read", full)
        with pytest.raises(BudgetExceeded):
            matcher.rollback()
    assert matcher.is_completed()
    matcher.rollback(2)
    assert unmoved(matcher)


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "two", None, [2]])
def test_threads_that_are_none_are_refused(threads: Any) -> None:
    with pytest.raises(ArgumentError, match="max_threads must be"):
        BatchGrammarMatcher(threads)
