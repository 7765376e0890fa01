"""Stored arrays: what is read back, what is never trusted, and simultaneous writers."""

from __future__ import annotations

import logging
import multiprocessing
import pickle
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from equivalence.store import Unusable, read_arrays, stored, write_arrays
from equivalence.trie import Trie, build_trie
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


def test_a_damaged_file_is_built_anew_with_a_warning(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    build = Mock(return_value=ARRAYS)

    get = partial(stored, file, build, most=MOST, read=dict, write=dict)
    assert facts(get()) == FACTS and not build.called
    file.write_bytes(file.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING):
        assert facts(get()) == FACTS and build.call_count == 1
    assert "cannot be used and is rebuilt" in caplog.text
    assert facts(get()) == FACTS and build.call_count == 1


def test_a_folder_that_cannot_be_written_costs_a_warning_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        file = tmp_path / "file" / "x.npz"
        found = stored(file, lambda: ARRAYS, most={}, read=dict, write=dict)
    assert facts(found) == FACTS
    assert "cannot be written" in caplog.text


def _write_and_read(path: str, number: int, times: int) -> int:
    """Write and read one file repeatedly, in a separate process. Returns the number of whole reads."""
    whole = 0
    for _ in range(times):
        write_arrays(path, {"a": np.full(50_000, number)})
        found = read_arrays(path, {"a": 1 << 20})["a"]
        whole += bool((found == found[0]).all()) and found[0] in (0, 1)
    return whole


def test_two_processes_may_write_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "shared.npz")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.starmap(_write_and_read, [(path, 0, 50), (path, 1, 50)])
    assert counts == [50, 50]
    assert [file.name for file in tmp_path.iterdir()] == ["shared.npz"]


# --- The trie of a vocabulary ------------------------------------------------------------------------------


def trie_equal(found: Trie, wanted: Trie) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def make(**options: Any) -> Vocabulary:
    return Vocabulary.from_bytes(TOKENS, stop_token_ids=[len(TOKENS) - 1], **options)


def test_a_stored_trie_is_the_trie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "not" / "yet"
    built = make().prepare(folder).trie
    monkeypatch.setattr("equivalence.vocabulary.vocabulary.build_trie", lambda tokens: pytest.fail("rebuilt"))
    read = make(cache_dir=folder).trie
    assert trie_equal(read, built) and trie_equal(read, build_trie(TOKENS))
    for name, value in read._asdict().items():
        if name != "longest":
            assert not value.flags.writeable, name
            assert value.dtype == getattr(built, name).dtype, name
    assert type(read.longest) is int


def test_the_folder_may_be_given_wherever_a_vocabulary_is_made(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    make().save(path)
    for folder, vocabulary_in in (
        (tmp_path / "0", make),
        (tmp_path / "1", partial(Vocabulary.load, path)),
        (tmp_path / "2", partial(Vocabulary.from_tokenizer_info, make().tokenizer_info)),
    ):
        vocabulary = vocabulary_in(cache_dir=folder)
        assert not folder.exists(), "nothing is written before the trie is needed"
        vocabulary.prepare()
        (file,) = folder.iterdir()
        assert vocabulary.fingerprint in file.name


def test_a_trie_that_is_built_already_is_stored_as_it_is(tmp_path: Path) -> None:
    vocabulary = make()
    built = vocabulary.trie
    assert vocabulary.prepare(tmp_path) is vocabulary
    assert vocabulary.trie is built
    assert trie_equal(make(cache_dir=tmp_path).trie, built)


def test_a_trie_of_another_vocabulary_under_this_name_is_replaced(tmp_path: Path) -> None:
    other = Vocabulary.from_bytes([*TOKENS[:-1], b"more"], cache_dir=tmp_path).prepare()
    (file,) = tmp_path.iterdir()
    mine = make()
    file.rename(tmp_path / file.name.replace(other.fingerprint, mine.fingerprint))
    mine.prepare(tmp_path)
    assert trie_equal(mine.trie, build_trie(TOKENS))
    assert trie_equal(make(cache_dir=tmp_path).trie, mine.trie)


def test_a_pickled_vocabulary_has_a_read_only_trie() -> None:
    copy = pickle.loads(pickle.dumps(make().prepare()))
    assert "trie" in vars(copy)
    assert not copy.trie.nodes.flags.writeable
    assert trie_equal(copy.trie, make().trie)
