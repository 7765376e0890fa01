"""Invalid ids, texts, counts and batches raise a clear error, and nothing moves, on every strategy.

What: tables of wrong arguments for the methods that move matchers and batches; copies and pickles; matchers
that have ended or have other vocabularies, and errors in the middle of a batch.
When: after any change of `equivalence.arguments`, `hybrid.values.arguments` or `hybrid.api.batch`.
Limits: bitmasks are in ``test_misuse.py``.
"""

from __future__ import annotations

import copy
import enum
import pickle
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
import xgrammar

from equivalence import (
    ArgumentError,
    BatchError,
    BitmaskError,
    BudgetExceeded,
    HybridError,
    MatcherError,
    VocabularyError,
)
from hybrid import BatchGrammarMatcher, GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
from hybrid.classifier.follower import ClassifierFollower
from tests import misuse
from tests.misuse import AB, FIRST, LATE, STOP, WORDS, A, B, buffer, compiled_by, each, unmoved, untouched

pytestmark = pytest.mark.kernels


# Ids, texts and counts.

NO_INTEGERS: dict[str, Any] = {
    "True": True, "False": False, "numpy's True": np.True_, "tensor of True": torch.tensor(True), "0.0": 0.0,
    "numpy's 0.0": np.float32(0), "tensor of 0.0": torch.tensor(0.0), "text": "0", "bytes": b"0",
    "None": None, "a list": [0], "a tensor of 1": torch.tensor([0]), "an array of 1": np.array([0]),
    "an object": object(), "a class": int, "complex": 0j,
    "on no device": torch.empty((), dtype=torch.int64, device="meta"),
    "half": 0.5, "infinite": float("inf"),
}  # fmt: skip


@pytest.mark.parametrize("value", NO_INTEGERS.values(), ids=NO_INTEGERS)
def test_what_is_no_integer_is_no_id_and_no_count(matcher: GrammarMatcher, value: Any) -> None:
    with pytest.raises(ArgumentError, match="token_id must be an integer"):
        matcher.accept_token(value)
    with pytest.raises(ArgumentError, match="num_tokens must be an integer"):
        matcher.rollback(value)
    with pytest.raises(HybridError, match="token"):
        BatchGrammarMatcher.batch_accept_token([matcher, matcher], [A, value])
    with pytest.raises(HybridError, match=r"num_tokens"):
        BatchGrammarMatcher.batch_rollback([matcher, matcher], [0, value])
    if value is not None:
        with pytest.raises(VocabularyError, match="override_stop_tokens"):
            GrammarMatcher(matcher.compiled_grammar, override_stop_tokens=[value])
    assert unmoved(matcher)


class Ids(enum.IntEnum):
    LATE = LATE
    STOP = STOP


LATE_IDS: dict[str, Any] = {
    "int": LATE, "uint8": np.uint8(LATE), "int16": np.int16(LATE), "uint64": np.uint64(LATE),
    "array": np.array(LATE), "uint8 array": np.array(LATE, np.uint8), "enumeration": Ids.LATE,
    "tensor": torch.tensor(LATE), "uint8 tensor": torch.tensor(LATE, dtype=torch.uint8),
}  # fmt: skip


@pytest.mark.parametrize("value", LATE_IDS.values(), ids=LATE_IDS)
def test_integers_of_all_kinds_are_ids(matcher: GrammarMatcher, value: Any) -> None:
    """`configuration << bits | id` used to be computed in the 8 bits of the id, and a stop id in a tensor
    was not recognised."""
    for _ in range(300):
        assert matcher.accept_token(np.uint8(A))
    assert BatchGrammarMatcher.batch_accept_token([matcher, matcher.fork()], [value, value]) == [True, True]
    for stop in (torch.tensor(STOP), np.int16(STOP), Ids.STOP):
        assert matcher.accept_token(stop) and matcher.is_terminated()  # type: ignore[arg-type]
        matcher.rollback(np.uint8(1))
    bitmask = allocate_token_bitmask(1, misuse.SIZE)
    matcher.fill_next_token_bitmask(bitmask, np.int64(0))
    assert bitmask[0, 0] == 1 << STOP
    assert not matcher.accept_token(np.int8(-1)) and not matcher.accept_token(np.uint64(1 << 63))  # type: ignore[arg-type]
    matcher.rollback(np.uint8(1))
    matcher.rollback(torch.tensor(300))
    assert unmoved(matcher)


@pytest.mark.parametrize(
    "ids", [np.array([STOP], np.uint8), torch.tensor(STOP), torch.tensor([STOP]), {STOP}, np.int8(3)]
)
def test_stop_ids_of_all_kinds(matcher: GrammarMatcher, ids: Any) -> None:
    other = GrammarMatcher(matcher.compiled_grammar, override_stop_tokens=ids)
    assert other.stop_token_ids == [STOP] and type(other.stop_token_ids[0]) is int


@pytest.mark.parametrize(
    "text", [5, None, True, ["a"], [97], 1.5, "\ud800", object(), np.array([97], np.uint8)]
)
def test_what_is_no_text_is_refused(matcher: GrammarMatcher, text: Any) -> None:
    with pytest.raises(ArgumentError, match="input_str must be "):
        matcher.accept_string(text)
    with pytest.raises(ArgumentError, match="input_str must be "):
        BatchGrammarMatcher.batch_accept_string([matcher, matcher], ["a", text])
    assert unmoved(matcher)


@pytest.mark.parametrize("text", ["a", b"a", bytearray(b"a"), memoryview(b"a"), np.str_("a")])
def test_texts_of_all_kinds(matcher: GrammarMatcher, text: Any) -> None:
    assert matcher.accept_string(text)
    matcher.rollback()
    assert unmoved(matcher)


@pytest.mark.parametrize("count", [-1, np.int8(-1), -(1 << 40), 2, 3, 1 << 40, 1 << 70])
def test_counts_out_of_range_take_nothing_back(matcher: GrammarMatcher, count: Any) -> None:
    assert matcher.accept_token(A)
    error = ArgumentError if count < 0 else MatcherError
    with pytest.raises(error, match=r"num_tokens must be|cannot roll back"):
        matcher.rollback(count)
    other = matcher.fork()
    with pytest.raises(error, match=r"num_tokens must be|cannot roll back"):
        BatchGrammarMatcher.batch_rollback([other, matcher], [1, count])
    with pytest.raises(MatcherError, match="cannot roll back 2"):
        BatchGrammarMatcher.batch_rollback([matcher, matcher])
    matcher.rollback()
    other.rollback()
    assert unmoved(matcher) and unmoved(other)


# Temperatures.

WRONG_OPTIONS: dict[str, list[Any]] = {
    "default_temperature":
        [-1, -0.5, float("nan"), float("inf"), 1e39, -1e300, True, "1", b"1", [1], object(), 1j],
    "terminate_without_stop_token": ["x", None, 1, [], 0.0],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), each(WRONG_OPTIONS))
def test_wrong_options_of_matchers_are_refused(matcher: GrammarMatcher, name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be "):
        GrammarMatcher(matcher.compiled_grammar, **{name: value})


PLAIN = xgrammar.GrammarCompiler(misuse.VOCABULARY.tokenizer_info).compile_grammar('root ::= "a"')


@pytest.mark.parametrize("temperature", [None, 0, 0.7, 1, np.float32(0.3), torch.tensor(0.4), 1e-50])
def test_temperatures_are_those_of_xgrammar(matcher: GrammarMatcher, temperature: Any) -> None:
    """XGrammar stores them in 32 bits."""
    expected = xgrammar.GrammarMatcher(PLAIN, default_temperature=temperature).temperature
    ours = GrammarMatcher(matcher.compiled_grammar, default_temperature=temperature)
    assert ours.temperature == expected and ours.fork().temperature == expected


TEMPERATURES: dict[str, Any] = {
    "float64": torch.zeros(3, dtype=torch.float64), "int32": torch.zeros(3, dtype=torch.int32),
    "two dimensions": torch.zeros(3, 1), "a list": [0.0] * 3, "None": None,
    "in one place": torch.zeros(1).expand(3),
    "on no device": torch.zeros(3, device="meta"),
}  # fmt: skip


@pytest.mark.parametrize("temperatures", TEMPERATURES.values(), ids=TEMPERATURES)
def test_temperatures_that_cannot_be_written_are_refused(matcher: GrammarMatcher, temperatures: Any) -> None:
    with pytest.raises(ArgumentError, match="temperatures"):
        BatchGrammarMatcher.batch_fill_temperature([matcher, matcher.fork()], temperatures)


def test_a_batch_of_temperatures(matcher: GrammarMatcher) -> None:
    warm = GrammarMatcher(matcher.compiled_grammar, default_temperature=0.5)
    for kind in (lambda tensor: tensor, lambda tensor: tensor.numpy()):
        guard = torch.full((12,), 7.0)
        BatchGrammarMatcher.batch_fill_temperature([matcher, warm], kind(guard[4:8]))
        assert guard.tolist() == [7.0] * 4 + [-1.0, 0.5, 7.0, 7.0] + [7.0] * 4
        BatchGrammarMatcher.batch_fill_temperature([matcher, warm], kind(guard[::3]), [np.uint8(3), 0])
        assert guard.tolist() == [0.5, 7.0, 7.0, 7.0, -1.0, 0.5, 7.0, 7.0, 7.0, -1.0, 7.0, 7.0]
        with pytest.raises(BitmaskError, match="index 1 is out of range"):
            BatchGrammarMatcher.batch_fill_temperature([matcher, warm], kind(guard[:1]))


# Copies.


def test_a_matcher_is_forked_not_copied(matcher: GrammarMatcher) -> None:
    matcher.accept_token(A)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ArgumentError, match=r"matcher\.fork\(\)"):
            copied(matcher)
    with pytest.raises(TypeError):
        copy.deepcopy({"matchers": [matcher]})


# Batches.

WRONG_BATCHES: list[tuple[str, type[HybridError], list[Any]]] = [
    ("batch_accept_token", BatchError, [[A], [A, A, A], []]),
    ("batch_accept_token", ArgumentError, [
        A, None, "aa", b"\0\0", np.zeros(2), torch.zeros(2, dtype=torch.bool),
        torch.zeros(2, 1, dtype=torch.int64),
    ]),
    ("batch_accept_string", BatchError, [["a"], ["a", "a", "a"]]),
    ("batch_accept_string", ArgumentError, ["aa", 5]),
    ("batch_rollback", BatchError, [[1], [0, 0, 0]]),
    ("batch_rollback", ArgumentError, ["00", True, 0.5, -1]),
    ("batch_rollback", MatcherError, [2, [1, 2]]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "error", "wrong"), WRONG_BATCHES)
def test_wrong_batches_move_no_matcher(
    matcher: GrammarMatcher, method: str, error: type[HybridError], wrong: list[Any]
) -> None:
    """The first matcher used to move if the second list was too short."""
    pair = [matcher, matcher.fork()]
    for one in pair:
        assert one.accept_token(A)
    for argument in wrong:
        with pytest.raises(error):
            getattr(BatchGrammarMatcher, method)(pair, argument)
    for one in pair:
        one.rollback()
        assert unmoved(one)


NO_MATCHERS = [None, 5, "ab", [None], [5], GrammarMatcher(compiled_by("classifier")),
               [xgrammar.GrammarMatcher(PLAIN)]]  # fmt: skip


@pytest.mark.parametrize("matchers", NO_MATCHERS)
def test_what_is_no_matcher_is_refused(matcher: GrammarMatcher, matchers: Any) -> None:
    if isinstance(matchers, list):
        matchers = [matcher, *matchers]
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
    for call in (lambda: ended.fill_next_token_bitmask(bitmask), ended.find_jump_forward_string):
        with pytest.raises(MatcherError, match="terminated"):
            call()
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


def matcher_of_size(ids: int) -> GrammarMatcher:
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b""], stop_token_ids=2, vocab_size=ids)
    return GrammarMatcher(GrammarCompiler(vocabulary).compile_grammar('root ::= "a"'))


@pytest.mark.parametrize("ids", [64, 3000])
def test_matchers_of_different_widths_write_nothing(matcher: GrammarMatcher, ids: int) -> None:
    other = matcher_of_size(ids)
    for pair in ([matcher, other], [other, matcher]):
        for width in {WORDS, -(-ids // 32)}:
            guard = buffer(6 * width)
            bitmask = guard[2 * width : 4 * width].view(2, width)
            with pytest.raises(BitmaskError, match="shape"):
                BatchGrammarMatcher().batch_fill_next_token_bitmask(pair, bitmask)
            assert untouched(guard)


def test_matchers_of_equally_wide_vocabularies_fill_their_own_ids(matcher: GrammarMatcher) -> None:
    bitmask = buffer(2 * WORDS).view(2, WORDS)
    BatchGrammarMatcher().batch_fill_next_token_bitmask([matcher_of_size(316), matcher], bitmask)
    assert [row[0] for row in bitmask.tolist()] == [1, FIRST[0]]


def test_a_batch_that_fails_in_the_middle_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Lark grammar has no other strategy when its tables are full."""
    trio = [GrammarMatcher(compiled_by(name)) for name in ("engine", "classifier", "lark")]
    bitmask = buffer(3 * WORDS).view(3, WORDS)
    for name in ("accept_token", "accept_string", "_fill"):
        monkeypatch.setattr(trio[2], name, Mock(side_effect=BudgetExceeded("full")))
    batch = BatchGrammarMatcher()
    for call in (
        lambda: batch.batch_accept_token(trio, [A, A, A]),
        lambda: batch.batch_accept_token([trio[0], trio[0], trio[2]], [A, B, A]),
        lambda: batch.batch_accept_string(trio, ["a", b"ab", "a"]),
        lambda: batch.batch_fill_next_token_bitmask(trio, bitmask),
    ):
        with pytest.raises(BudgetExceeded):
            call()
    assert unmoved(trio[0]) and unmoved(trio[1]) and untouched(bitmask)


def test_a_rollback_without_room_leaves_the_matcher_where_it_is() -> None:
    """It used to keep its position but not its history, so the next mask was that of a later state."""
    matcher = GrammarMatcher(compiled_by("lark"))
    follower = matcher._follower
    assert isinstance(follower, ClassifierFollower)
    assert matcher.accept_token(A) and matcher.accept_token(B)
    follower.classifier.renew()  # new tables: a rollback reads the text again
    matcher.find_jump_forward_string()
    full = patch.object(follower.classifier, "read", side_effect=BudgetExceeded("full"))
    with full, pytest.raises(BudgetExceeded):
        matcher.rollback()
    assert matcher.is_completed()
    matcher.rollback(2)
    assert unmoved(matcher)


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "two", None, [2]])
def test_threads_that_are_none_are_refused(threads: Any) -> None:
    with pytest.raises(ArgumentError, match="max_threads must be"):
        BatchGrammarMatcher(threads)
