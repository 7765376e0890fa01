"""Finished masks: copying one gives what the gather expands to, whether it is stored as a row or as a patch.

What: masks of generated classes over a vocabulary of some thousand ids, in any order, copied over other
contents.
When: after a change of `hybrid.classifier.rows`, or of what copies rows.
Limits: `test_classifier` and `test_equality` check that grammars ask for the right masks.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from equivalence import TokenClasses
from equivalence.arrays.interning import Interned
from hybrid.classifier.rows import ROW_BYTES, Rows
from hybrid.values.gather import Gather
from tests.matchers import words_of

pytestmark = pytest.mark.kernels

SIZE, CLASSES, STOP = 8_000, 96, 7_990
N_WORDS, N_MASK_WORDS = SIZE // 32, CLASSES // 32


def gather() -> tuple[Gather, list[NDArray[np.int32]]]:
    """Make classes of different sizes: two with thousands of ids, some with hundreds, most with a few."""
    rng = np.random.default_rng(5)
    ids = rng.permutation(SIZE).astype(np.int32)
    cuts = np.sort(np.concatenate([[3_000, 5_500, 6_200], rng.choice(1_700, CLASSES - 4, False) + 6_250]))
    tokens = np.split(ids, cuts)
    class_of_token = np.empty(SIZE, np.int32)
    for number, members in enumerate(tokens):
        class_of_token[members] = number
    first = np.array([members[0] for members in tokens], np.int32)
    return Gather(TokenClasses(class_of_token, CLASSES, first, "acceptance", {}, {}), SIZE), tokens


@pytest.mark.parametrize("stops", [(), (STOP,), (STOP, STOP + 1, 5), tuple(range(70))])
def test_rows_and_patches_are_what_the_gather_says(stops: tuple[int, ...]) -> None:
    made, tokens = gather()
    assert len(tokens) == CLASSES
    rows, rng = Rows(made, stops), random.Random(3)
    masks = Interned(512, N_MASK_WORDS)
    sizes = set()
    wanted: list[NDArray[np.uint32]] = []
    kinds: tuple[list[int], ...] = ([], [0], [1], [0, 1], [0, 1, 2], [2])
    for configuration in range(300):
        chosen = [*rng.choice(kinds), *rng.sample(range(3, CLASSES), rng.randrange(5))]
        if configuration == 7:
            chosen = list(range(CLASSES))  # nothing is forbidden
        words = np.zeros(N_MASK_WORDS, np.int64)
        for number in chosen:
            words[number // 32] |= 1 << number % 32
        whole = configuration % 2
        bits = np.zeros(SIZE, bool)
        for number in chosen:
            bits[tokens[number]] = True
        bits[list(stops)] = bool(whole)
        wanted.append(words_of(bits))
        before = rows.nbytes
        rows.make(configuration, 2 * configuration + whole, 2 * masks.add(words), masks)
        sizes.add(rows.nbytes - before - ROW_BYTES)
        buffer = np.full(N_WORDS, 0xDEADBEEF, np.uint32)
        assert rows.copy(configuration, buffer) == (not bits.all())
        np.testing.assert_array_equal(buffer, wanted[-1])
    n_patches = len({size for size in sizes if 16 <= size < 4 * N_WORDS})
    assert n_patches > 5 if len(stops) < 70 else n_patches == 0, (
        "there are patches, unless there are many stop ids"
    )
    assert any(size >= 4 * N_WORDS for size in sizes), "there are rows"
    # later rows have not changed earlier ones
    for configuration, row in enumerate(wanted):
        rows.copy(configuration, buffer)
        np.testing.assert_array_equal(buffer, row)
    assert len(rows.rows) == 300 and all(map(rows.knows, range(300)))


def test_what_is_nearly_the_row_of_a_class_takes_little() -> None:
    made, tokens = gather()
    rows = Rows(made, (STOP,))
    masks, words = Interned(2, N_MASK_WORDS), np.zeros(N_MASK_WORDS, np.int64)
    words[0] = 1
    rows.make(0, 2, 2 * masks.add(words), masks)
    first = rows.nbytes
    assert first < 4 * N_WORDS, "one large class is a row already"
    smallest = min(range(3, CLASSES), key=lambda number: len(tokens[number]))
    words[smallest // 32] |= 1 << smallest % 32
    rows.make(1, 4, 2 * masks.add(words), masks)
    assert rows.nbytes - first - ROW_BYTES == 16 + 8 * len({int(token) // 32 for token in tokens[smallest]})


def test_what_rows_refuse() -> None:
    made, _ = gather()
    rows, nothing = Rows(made, (STOP,)), Interned(1, 1)
    nothing.add(np.zeros(0, np.int64))
    for unknown in (-1, 1 << 40):
        assert not rows.knows(unknown)
    with pytest.raises(ValueError, match="words, not"):
        rows.copy(1, np.zeros(2, np.uint32))
    with pytest.raises(ValueError, match="stop ids"):
        Rows(made, (SIZE,))
    with pytest.raises(ValueError, match="too short"):
        rows.make(0, 5, 0, nothing)
    with pytest.raises(ValueError, match="no mask"):
        rows.make(0, 5, 2, nothing)
