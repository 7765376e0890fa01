"""Invalid ids, texts, counts and batches raise a clear error, and nothing moves, on every strategy.

What: tables of wrong arguments for the methods that move matchers and batches; copies and pickles.
When: after any change of `equivalence.arguments`, `hybrid.values.arguments` or `hybrid.api.batch`.
Limits: bitmasks are in ``test_misuse.py``.
"""

from __future__ import annotations

import copy
import enum
import pickle
from typing import Any

import numpy as np
import pytest
import torch
import xgrammar

from equivalence import ArgumentError, BitmaskError, HybridError, MatcherError, VocabularyError
from hybrid import BatchGrammarMatcher, GrammarMatcher, allocate_token_bitmask
from tests.misuse import LATE, SIZE, STOP, VOCABULARY, A, unmoved

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
    """`config << bits | id` used to be computed in the 8 bits of the id, and a stop id in a tensor was not
    recognised."""
    for _ in range(300):
        assert matcher.accept_token(np.uint8(A))
    assert BatchGrammarMatcher.batch_accept_token([matcher, matcher.fork()], [value, value]) == [True, True]
    for stop in (torch.tensor(STOP), np.int16(STOP), Ids.STOP):
        assert matcher.accept_token(stop) and matcher.is_terminated()  # type: ignore[arg-type]
        matcher.rollback(np.uint8(1))
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

NO_TEMPERATURES: list[Any] = [
    -1, -0.5, float("nan"), float("inf"), 1e39, -1e300, True, "1", b"1", [1], object(), 1j,
]  # fmt: skip


@pytest.mark.parametrize("temperature", NO_TEMPERATURES, ids=lambda value: type(value).__name__)
def test_what_is_no_temperature_is_refused(matcher: GrammarMatcher, temperature: Any) -> None:
    with pytest.raises(ArgumentError, match="default_temperature must be "):
        GrammarMatcher(matcher.compiled_grammar, default_temperature=temperature)


@pytest.mark.parametrize("temperature", [None, 0, 0.7, 1, np.float32(0.3), torch.tensor(0.4), 1e-50])
def test_temperatures_are_those_of_xgrammar(matcher: GrammarMatcher, temperature: Any) -> None:
    """XGrammar stores them in 32 bits."""
    plain = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info, max_threads=1).compile_grammar('root ::= "a"')
    expected = xgrammar.GrammarMatcher(plain, default_temperature=temperature).temperature
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


@pytest.mark.parametrize("end", ["x", None, 1, [], 0.0])
def test_terminating_is_yes_or_no(matcher: GrammarMatcher, end: Any) -> None:
    with pytest.raises(ArgumentError, match="terminate_without_stop_token must be True or False"):
        GrammarMatcher(matcher.compiled_grammar, terminate_without_stop_token=end)


def test_ids_and_rows_of_numpy_leave_the_state_alone(matcher: GrammarMatcher) -> None:
    """The matcher stores plain integers, so that a fork, a rollback and the other strategy read them
    alike."""
    assert matcher.accept_token(torch.tensor(LATE))
    bitmask = allocate_token_bitmask(1, SIZE)
    matcher.fork().fill_next_token_bitmask(bitmask, np.int64(0))
    assert bitmask[0, 0] == 1 << STOP
    assert not matcher.accept_token(np.int8(-1)) and not matcher.accept_token(np.uint64(1 << 63))
