"""The gather writes exactly the tokens of the classes whose bits are set.

What: `Gather.expand` against a numpy oracle for random classes, class masks, sizes and mixtures of large and
small classes; read-only arrays; the memory that it reports.
When: after any change of the gather or its kernels.
Limits: small sizes, so that the kernels also run in a build that checks every index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from equivalence import TokenClasses
from equivalence.runs import Members
from hybrid.values.gather import LARGE_CLASS, Gather, members_by_class
from tests.matchers import words_of

pytestmark = pytest.mark.kernels

GARBAGE = 0x5A5A5A5A


def classes_of(class_of_token: NDArray[np.int32], n_classes: int) -> TokenClasses:
    representatives = np.array([np.flatnonzero(class_of_token == c)[0] for c in range(n_classes)], np.int32)
    return TokenClasses(class_of_token, n_classes, representatives, "acceptance", {}, {})


def random_classes(rng: np.random.Generator, size: int, n_classes: int, largest: int) -> TokenClasses:
    """Classes in random order: the first has up to `largest` tokens, each has at least one, and some tokens
    have no class."""
    of_token = rng.integers(-1, n_classes, size).astype(np.int32)
    of_token[rng.permutation(size)[:largest]] = 0 if n_classes else -1
    of_token[rng.permutation(size)[:n_classes]] = np.arange(n_classes)
    return classes_of(of_token, n_classes)


def expanded(gather: Gather, class_mask: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The row that is written, between two others that are not."""
    rows = np.full((3, gather.n_words), GARBAGE, np.uint32)
    gather.expand(class_mask, rows[1])
    assert (rows[[0, 2]] == GARBAGE).all()
    return rows[1]


def expected(of_token: NDArray[Any], chosen: NDArray[np.bool_]) -> NDArray[np.uint32]:
    return words_of(np.append(chosen, False)[of_token] & (of_token >= 0))


def check(classes: TokenClasses, size: int, *choices: NDArray[np.bool_]) -> Gather:
    """Assert that a gather writes exactly the tokens of chosen classes, for each choice; return it."""
    gather = Gather(classes, size)
    for chosen in choices:
        assert (expanded(gather, words_of(chosen)) == expected(classes.class_of_token, chosen)).all()
    return gather


def all_choices(n_classes: int) -> NDArray[np.bool_]:
    numbers = np.arange(2**n_classes)[:, None]
    return (numbers >> np.arange(n_classes) & 1).astype(np.bool_)


@pytest.mark.parametrize("n_classes", [0, 1, 2, 31, 32, 33, 64, 70])
@pytest.mark.parametrize("size", [71, 96, 257, 1000])
def test_expand_is_the_union_of_the_classes(size: int, n_classes: int) -> None:
    rng = np.random.default_rng(1000 * size + n_classes)
    classes = random_classes(rng, size, n_classes, largest=size // 2)
    shares = [rng.random(n_classes) < share for share in (0.0, 0.1, 0.5, 0.9, 1.0)]
    check(classes, size, *shares, *np.eye(n_classes, dtype=np.bool_))


@pytest.mark.parametrize("largest", [LARGE_CLASS - 1, LARGE_CLASS, LARGE_CLASS + 1])
def test_large_classes_are_rows(largest: int) -> None:
    """One class is near the bound between rows and lists of tokens, one is far above it, one far below."""
    of_token = np.repeat(np.array([2, 0, -1, 1], np.int32), [3, largest, 5, 2 * LARGE_CLASS])
    np.random.default_rng(largest).shuffle(of_token)
    classes = classes_of(of_token, 3)
    gather = check(classes, len(of_token), *all_choices(3))
    row_bytes = 4 * gather.n_words
    lists = Gather(classes_of(np.arange(3, dtype=np.int32), 3), 3).memory_size_bytes - 3 * 4
    rows = 1 + (largest >= LARGE_CLASS)
    tokens = np.count_nonzero(of_token >= 0)
    assert gather.memory_size_bytes == lists + 4 * tokens + rows * row_bytes


@pytest.mark.parametrize("n_classes", [0, 1, 31, 32, 33])
def test_bits_beyond_the_last_class_are_ignored(n_classes: int) -> None:
    """The inner stop token has such a bit; unused bits of the last word may hold anything."""
    classes = random_classes(np.random.default_rng(n_classes), 100, n_classes, largest=0)
    mask = np.full((n_classes + 32) // 32 + 1, 0xFFFFFFFF, np.uint32)
    everything = expected(classes.class_of_token, np.ones(n_classes, np.bool_))
    assert (expanded(Gather(classes, 100), mask) == everything).all()


WRONG: dict[str, Any] = {
    "int32": np.zeros(4, np.int32),
    "two dimensions": np.zeros((4, 4), np.uint32),
    "too few": np.zeros(3, np.uint32),
    "apart": np.zeros(8, np.uint32)[::2],
    "a list": [0] * 4,
    "None": None,
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_what_a_kernel_would_write_past_is_refused(words: Any) -> None:
    classes = random_classes(np.random.default_rng(1), 100, 100, largest=0)
    gather, row, mask = Gather(classes, 100), np.full(4, GARBAGE, np.uint32), np.zeros(4, np.uint32)
    refused = (ValueError, TypeError, IndexError)
    with pytest.raises(refused):
        gather.expand(words, row)
    with pytest.raises(refused):
        gather.expand(mask, words)
    with pytest.raises(IndexError, match="the row must have 4 words"):
        gather.expand(mask, np.zeros(5, np.uint32))
    mask.flags.writeable = row.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        gather.expand(mask, row)
    assert (row == GARBAGE).all()


def test_arrays_that_may_not_be_written_serve_as_input() -> None:
    """Kernels only read their input, so read-only arrays work; memory maps of an artefact are such arrays."""
    classes = random_classes(np.random.default_rng(2), 900, 33, largest=600)
    chosen = np.random.default_rng(3).random(33) < 0.5
    mask = words_of(chosen)
    members = members_by_class(classes.class_of_token, 33)
    for array in (classes.class_of_token, classes.representatives, mask, *members[:3]):
        array.flags.writeable = False
    for given in (classes, members):
        gather = Gather(given, 900)
        assert len(gather.tables[-1]) == 1
        assert (expanded(gather, mask) == expected(classes.class_of_token, chosen)).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_members_by_class(dtype: Any) -> None:
    starts, pieces, tokens, is_shared = members_by_class(np.array([1, -1, 0, 1, 2, 1], dtype), 3)
    assert starts.tolist() == [0, 1, 2, 3]
    assert pieces.tolist() == [[0, 1], [1, 4], [4, 5]]
    assert tokens.tolist() == [2, 0, 3, 5, 4]
    assert [array.dtype.name for array in (starts, pieces, tokens)] == ["int64", "int64", "int32"]
    assert not is_shared


def test_rows_are_united_by_twos() -> None:
    """The result is right for any number of large classes and for rows of any length, whatever number of
    words the kernel takes at once."""
    for n_words in range(LARGE_CLASS // 8, LARGE_CLASS // 8 + 5):
        for n_classes in range(1, 4):
            size = n_classes * 32 * n_words - 7
            of_token = (np.arange(size) % n_classes).astype(np.int32)
            gather = check(classes_of(of_token, n_classes), size, *all_choices(n_classes))
            assert len(gather.tables[-1]) == n_classes


@pytest.mark.parametrize("seed", range(6))
def test_pieces_of_shared_tokens(seed: int) -> None:
    """Tokens in any order, classes of any number of pieces, rows and lists of tokens among them."""
    rng = np.random.default_rng(seed)
    size, n_classes = 1500, 9
    tokens = rng.permutation(size).astype(np.int32)
    cuts = np.unique(np.concatenate([[0, size], rng.integers(0, size, 40)]))
    of_piece = rng.integers(-1, n_classes, len(cuts) - 1)
    kept = np.flatnonzero(of_piece >= 0)[np.argsort(of_piece[of_piece >= 0], kind="stable")]
    starts = np.searchsorted(of_piece[kept], np.arange(n_classes + 1)).astype(np.int64)
    pieces = np.stack([cuts[:-1], cuts[1:]], axis=1)[kept]
    of_token = np.full(size, -1)
    of_token[tokens] = np.repeat(of_piece, np.diff(cuts))
    gather = Gather(Members(starts, pieces, tokens, True), size)
    assert gather.memory_size_bytes == sum(array.nbytes for array in gather.tables) - 4 * size
    for share in (0.2, 0.7, 1.0):
        chosen = rng.random(n_classes) < share
        assert (expanded(gather, words_of(chosen)) == expected(of_token, chosen)).all()
