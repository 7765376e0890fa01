"""Stored arrays: what is read back, what is never trusted, and simultaneous writers."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equivalence.array_files import Unusable, read_arrays, write_arrays
from equivalence.vocabulary import Vocabulary

ARRAYS: dict[str, np.ndarray] = {
    "bytes": np.arange(7, dtype=np.uint8),
    "table": np.arange(12, dtype=np.int64).reshape(4, 3),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
    "nothing": np.zeros((0, 5), np.int32),
    "number": np.asarray(41),
}
TOKENS = [*(bytes([value]) for value in range(256)), b"ab", b"abc", b'"}', "é".encode(), b""]


def facts(arrays: dict[str, np.ndarray]) -> list[Any]:
    """Return all that has to be read back."""
    return [(name, one.dtype, one.shape, one.tobytes()) for name, one in arrays.items()]


FACTS = facts(ARRAYS)
MOST = dict.fromkeys(ARRAYS, 1000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.npz"
    write_arrays(path, ARRAYS)
    return path


def test_arrays_are_read_back_aligned_and_read_only(file: Path) -> None:
    found = read_arrays(file, MOST)
    assert facts(found) == FACTS
    for array in found.values():
        assert not array.flags.writeable and array.flags.aligned
    assert found["columns"].flags.f_contiguous
    assert list(file.parent.iterdir()) == [file]


def test_every_flipped_bit_and_every_other_length_is_found(file: Path) -> None:
    whole = file.read_bytes()
    flipped = [bytearray(whole) for _ in whole]
    for place, changed in enumerate(flipped):
        changed[place] ^= 1 << place % 8
    n_refused = 0
    for damaged in flipped:
        file.write_bytes(damaged)
        try:
            found = read_arrays(file, MOST)
        except Unusable:
            n_refused += 1
        else:  # a bit that says nothing about an array, such as the time of a member
            assert facts(found) == FACTS
    assert n_refused > sum(one.nbytes for one in ARRAYS.values())
    for damaged in (*(whole[:length] for length in range(len(whole))), whole + b"\0"):
        file.write_bytes(damaged)
        with pytest.raises(Unusable):
            read_arrays(file, MOST)


def _write_and_read(path: str, number: int, times: int) -> int:
    """Write and read one file repeatedly, in a separate process. Returns the number of whole reads."""
    whole = 0
    for _ in range(times):
        write_arrays(path, {"a": np.full(50_000, number)})
        found = read_arrays(path, {"a": 1 << 20})["a"]
        whole += bool((found == found[0]).all()) and found[0] in (0, 1)
    return whole


def test_a_lack_of_memory_is_not_taken_for_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    path = tmp_path / "vocabulary.npz"
    Vocabulary.from_bytes(TOKENS).save(path)
    monkeypatch.setattr(zipfile.ZipFile, "open", fail)
    with pytest.raises(MemoryError):
        Vocabulary.load(path)


def test_two_processes_may_write_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "shared.npz")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.starmap(_write_and_read, [(path, 0, 50), (path, 1, 50)])
    assert counts == [50, 50]
    assert [file.name for file in tmp_path.iterdir()] == ["shared.npz"]


@pytest.mark.parametrize("name", ["a" * 251, "\u20ac" * 83 + "ab"], ids=["ascii", "euro"])
def test_a_name_may_be_as_long_as_the_file_system_allows(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.npz"
    assert len(os.fsencode(path.name)) == 255
    write_arrays(path, ARRAYS)
    assert facts(read_arrays(path, MOST)) == FACTS and list(tmp_path.iterdir()) == [path]


# --- The trie of a vocabulary ------------------------------------------------------------------------------


def test_the_arrays_of_a_trie_are_read_only_in_a_pickled_vocabulary_too() -> None:
    made = Vocabulary.from_bytes(TOKENS, stop_token_ids=[len(TOKENS) - 1])
    copy = pickle.loads(pickle.dumps(made.prepare()))
    assert "trie" in vars(copy) and type(made.trie.longest) is int
    assert all(np.array_equal(a, b) for a, b in zip(copy.trie, made.trie, strict=True))
    for trie in (made.trie, copy.trie):
        assert not any(part.flags.writeable for part in trie if isinstance(part, np.ndarray))
