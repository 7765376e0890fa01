"""The rule of strategy "auto", as a table: what is measured in, what is decided out.

What: every branch of `choose` and `choose_promotion`; what may only change one way when a number grows.
When: after any change of `hybrid.compile.rule`.
Limits: whether the compiler and the matchers ask it is tested in ``test_promotion.py``.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid.compile.rule import (
    BEGINNING,
    ENOUGH,
    FEW_CLASSES,
    FIRST_LOOK,
    LAST_LOOK,
    MOST_TRIED,
    STATES_SERVED,
    Measured,
    Promotion,
    Use,
    choose,
    choose_promotion,
)

COUNTS = st.integers(0, 300_000)

ORDER = ["representatives", "engine"]


@pytest.mark.parametrize(
    ("measured", "strategy", "word"),
    [
        (Measured(True, True, 178, 128_000), "classifier", "sooner"),
        (Measured(True, True, 1, 128_000), "classifier", "sooner"),
        (Measured(True, True, 0, 128_000), "classifier", "sooner"),  # a grammar that allows no token
        (Measured(True, True, 128_000, 128_000), "classifier", "sooner"),
        (Measured(False, True, 178, 128_000), "representatives", "do not decide"),  # captures
        (Measured(False, True, 128_000, 128_000), "representatives", "do not decide"),
        (Measured(False, False, 64_000, 128_000), "representatives", "do not decide"),
        (Measured(False, False, 64_001, 128_000), "engine", "64001 classes for 128000 tokens"),
        (Measured(False, False, FEW_CLASSES, 300), "representatives", "do not decide"),
        (Measured(False, False, FEW_CLASSES + 1, 300), "engine", "save nothing"),
        (Measured(False, False, 0, 128_000), "engine", "no token classes"),
        (Measured(False, False, MOST_TRIED, 128_000, True), "representatives", "do not decide"),
        (Measured(False, False, MOST_TRIED + 1, 128_000, True), "engine", "would have to be tried"),
    ],
)
def test_strategies(measured: Measured, strategy: str, word: str) -> None:
    choice = choose(measured)
    assert choice.strategy == strategy and word in choice.reason


@given(st.booleans(), st.booleans(), st.integers(1, 300_000), st.integers(1, 300_000), COUNTS)
def test_more_classes_never_speak_for_representatives(
    stacks: bool, explored: bool, classes: int, more: int, tokens: int
) -> None:
    few = choose(Measured(stacks, explored, classes, tokens)).strategy
    many = choose(Measured(stacks, explored, classes + more, tokens)).strategy
    assert few == many if explored else ORDER.index(few) <= ORDER.index(many)


@pytest.mark.parametrize(
    ("use", "promotion"),
    [
        (Use(), Promotion(False, 2)),
        (Use(1, 900, 0), Promotion(False, 2)),
        (Use(2, 900, 0), Promotion(False, 4)),
        (Use(3, 900, 0), Promotion(False, 4)),
        # finding them all would take less
        (Use(4, 160, 10, 300), Promotion(True, 0)),
        (Use(4, 159, 10, 300), Promotion(False, 8)),
        (Use(8, 60, 10, 0), Promotion(True, 0)),
        (Use(8, 59, 10, 0), Promotion(False, 16)),
        (Use(4, 3, 10, 0), Promotion(False, 8)),  # a new session began meanwhile
        # served enough
        (Use(ENOUGH, 11, 10, BEGINNING + STATES_SERVED * ENOUGH), Promotion(True, 0)),
        (Use(ENOUGH, 11, 10, BEGINNING + STATES_SERVED * ENOUGH + 1), Promotion(False, 2 * ENOUGH)),
        (Use(ENOUGH, 10, 10, 5), Promotion(False, 2 * ENOUGH)),  # nobody waits for anything
        (Use(ENOUGH // 2, 11, 10, 5), Promotion(False, ENOUGH)),
        (Use(1024, 11, 10, 4000), Promotion(True, 0)),
        (Use(1024, 11, 10, 5000), Promotion(False, 2048)),
        (Use(LAST_LOOK // 2, 0, 0), Promotion(False, LAST_LOOK)),
        (Use(LAST_LOOK, 0, 0), Promotion(False, 0)),
        (Use(static=True), Promotion(True, 0)),
        (Use(4, 10, 10, 10_000, static=True), Promotion(True, 0)),
        (Use(4, 10_000, 10, deterministic=True), Promotion(False, 0)),
        (Use(static=True, deterministic=True), Promotion(True, 0)),
    ],
)
def test_promotions(use: Use, promotion: Promotion) -> None:
    assert choose_promotion(use) == promotion


@given(st.integers(0, 10_000), COUNTS, COUNTS, COUNTS, COUNTS)
def test_more_new_states_never_speak_against_a_promotion(
    sequences: int, found: int, more: int, before: int, states: int
) -> None:
    if choose_promotion(Use(sequences, found, before, states)).now:
        assert choose_promotion(Use(sequences, found + more, before, states)).now


@given(st.integers(0, 10_000), COUNTS, COUNTS, COUNTS, COUNTS)
def test_more_states_never_speak_for_a_promotion(
    sequences: int, found: int, before: int, states: int, more: int
) -> None:
    if choose_promotion(Use(sequences, found, before, states + more)).now:
        assert choose_promotion(Use(sequences, found, before, states)).now


@given(st.integers(0, 10_000), COUNTS, COUNTS, COUNTS)
def test_it_is_asked_again_later_or_never(sequences: int, found: int, before: int, states: int) -> None:
    choice = choose_promotion(Use(sequences, found, before, states))
    assert choice.ask_at == 0 or (sequences < choice.ask_at <= LAST_LOOK and not choice.now)


@given(st.integers(0, 10_000), COUNTS, COUNTS, COUNTS)
def test_a_deterministic_choice_does_not_look_at_what_was_met(
    sequences: int, found: int, before: int, other: int
) -> None:
    assert choose_promotion(Use(sequences, found, before, deterministic=True)) == choose_promotion(
        Use(other, other, sequences, deterministic=True)
    )


def test_looks_end() -> None:
    """What is asked about as often as the answers say is asked about a few times in all."""
    at, looks = choose_promotion(Use()).ask_at, 0
    while at:
        looks += 1
        at = choose_promotion(Use(at, 0, 0)).ask_at
    assert looks <= 12 and FIRST_LOOK >= 2
