"""The rule of strategy "auto", as a table: what is measured in, what is decided out.

What: every branch of `choose`; what may only change one way when a number grows.
When: after any change of `hybrid.compile.rule`.
Limits: whether the compiler asks it is tested in ``test_compiler.py``.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid.compile.rule import FEW_CLASSES, MOST_TRIED, Measured, choose

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
