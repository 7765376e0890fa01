"""Forged files of vocabularies: each is refused with a clear error or harmless.

What: every array, with extreme numbers, other shapes and types; archives that claim what they do not contain.
When: after any change of code that reads a file, or of a kernel that relies on data from a file.
Limits: small vocabularies. Compiled grammars are forged in ``test_forged_grammars.py``.
"""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equivalence import ArtifactError, Vocabulary, VocabularyError
from equivalence.array_files import Unusable, array_of_npy
from hybrid import CompiledGrammar
from tests.test_artifact import VOCABULARY

EXTREMES = (-1, 0, 1, 5, 255, 256, 65_535, 2**24 - 1, 2**31 - 1, 2**40, -(2**31))


def changes(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Variants of an array: extreme numbers in the first, middle and last place or everywhere, and other
    shapes."""
    wide = array.astype(np.int64)
    for value in EXTREMES:
        for at in sorted({0, wide.size // 2, wide.size - 1}) if wide.size else ():
            changed = wide.copy()
            changed.flat[at] = value
            yield f"[{at}] = {value}", changed
    if wide.size:
        for value in (0, 1, int(wide.max()), int(wide.min())):
            yield f"all {value}", np.full_like(wide, value)
        for place in range(0, wide.size - 1, max(wide.size // 4, 1)):
            changed = wide.copy()
            changed.flat[place], changed.flat[place + 1] = changed.flat[place + 1], changed.flat[place]
            yield f"[{place}] swapped", changed
            changed.flat[place] = changed.flat[place + 1]
            yield f"[{place}] doubled", changed
            for step in (-1, 1):
                changed = wide.copy()
                changed.flat[place] += step
                yield f"[{place}] {step:+}", changed
    yield "backwards", wide[::-1].copy()
    yield "shorter", wide[:-1]
    yield "half", wide[: len(wide) // 2]
    yield "empty", wide[:0]
    yield "longer", np.concatenate([wide, wide[-1:]])
    yield "twice", np.concatenate([wide, wide])
    yield "another shape", wide.reshape(1, -1)
    yield "a column", wide.reshape(-1, 1)
    yield "fewer columns", wide[..., :-1]


@contextmanager
def allocating_at_most(n_bytes: int) -> Iterator[None]:
    """Check how much memory Python allocates at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < n_bytes
    finally:
        tracemalloc.stop()


# --- Arrays ------------------------------------------------------------------------------------------------

NUMBERS = np.arange(6, dtype=np.int32)


def described(shape: str, kind: str, numbers: bytes) -> bytes:
    """An array that claims to have this shape and this type."""
    return with_description(f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}", numbers)


def with_description(description: str, numbers: bytes) -> bytes:
    text = f"{description}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + numbers


DIGITS = f"({'1' * 90}!)"  # many expressions try each way to split a run of digits
SHAPES = (
    DIGITS,
    "(7,)",
    "(5,)",
    "(-6,)",
    "(-2, -3)",
    "(4611686018427387910, 4)",
    "(0, 1180591620717411303424)",
    "6",
)
KINDS = ("'|O'", "'|V4'", "'<U1'", "[('a', '<i4')]", "'<M8[s]'", "5")


@pytest.mark.parametrize(
    "data",
    [
        *(described(shape, "'<i4'", NUMBERS.tobytes()) for shape in SHAPES),
        *(described("(3,)" if "M8" in kind else "(6,)", kind, NUMBERS.tobytes()) for kind in KINDS),
        *(with_description(text, NUMBERS.tobytes()) for text in ("-" * 300 + "1", "[" * 300, "9" * 400, "")),
    ],
)
def test_forged_descriptions_of_arrays(data: bytes) -> None:
    with pytest.raises(Unusable):
        array_of_npy(np.frombuffer(data, np.uint8))


# --- Vocabularies ------------------------------------------------------------------------------------------


def archive(members: dict[str, Any], **options: Any) -> bytes:
    """An .npz file of arrays, or of bytes that claim to be arrays."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", options.get("compression", zipfile.ZIP_DEFLATED)) as file:
        for name, member in members.items():
            file.writestr(f"{name}.npy", member if isinstance(member, bytes) else npy(member))
    return stream.getvalue()


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


MEMBERS: dict[str, Any] = {
    "data": np.frombuffer(b"abcd", np.uint8),
    "lens": np.array([1, 0, 2, 1], np.uint16),
    "stop_ids": np.array([1]),
    "special_ids": np.array([1]),
}


def test_every_array_of_a_vocabulary(tmp_path: Path) -> None:
    """A vocabulary that loads has exactly the tokens that its arrays describe."""
    loaded = 0
    for name, array in MEMBERS.items():
        for kind in (np.uint8, np.uint16, np.uint64, np.int64, ">u2", np.float64, bool):
            for label, changed in changes(array):
                with np.errstate(all="ignore"):
                    forged = changed.astype(kind)
                (tmp_path / "a.npz").write_bytes(archive({**MEMBERS, name: forged}))
                try:
                    found = Vocabulary.load(tmp_path / "a.npz")
                except VocabularyError:
                    continue
                loaded += 1
                assert forged.size == 0 or forged.dtype.kind in "iu", (name, kind, label)
                arrays = {**MEMBERS, name: forged}
                lengths = [int(length) for length in arrays["lens"]]
                special = [int(one) for one in arrays["special_ids"]]
                text, at, tokens = arrays["data"].tobytes(), 0, []
                for number, length in enumerate(lengths):
                    tokens.append(b"" if number in special else text[at : at + length])
                    at += length
                assert min(lengths) >= 0 and at == len(text)
                assert found.tokens == tuple(tokens)
                assert found.stop_token_ids == tuple(dict.fromkeys(int(one) for one in arrays["stop_ids"]))
    assert loaded > 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({name: None}, name) for name in MEMBERS),
        ({"lens": np.array(3)}, "lens"),
        ({"lens": np.array(["1", "x", "2"])}, "lens"),
        ({"stop_ids": np.array(1)}, "stop_ids"),
        ({"data": np.array([b"abc"], object)}, "not a vocabulary file"),
        ({"stop_ids": np.array([{"a": 1}], object)}, "not a vocabulary file"),
        # lengths whose sum wraps around, and lengths that do when they are converted
        ({"lens": np.array([2**63, 2**63 + 4, 0, 0], np.uint64)}, "must have from 0 to 4096 bytes"),
        ({"lens": np.array([2**62, 2**62, 2**62, 2**62 + 4], np.uint64)}, "must have from 0 to 4096 bytes"),
        ({"lens": np.array([-(2**63), -(2**63), 4, 0], np.int64)}, "must have from 0 to 4096 bytes"),
    ],
    ids=str,
)
def test_arrays_that_are_missing_or_of_another_kind_or_too_large(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    members = {name: array for name, array in (MEMBERS | change).items() if array is not None}
    (tmp_path / "a.npz").write_bytes(archive(members))
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "members",
    [
        {"data": described("(6000000000,)", "'|u1'", b"abcd")},
        {"lens": described("(4, 2000000000)", "'<u2'", b"\1\0" * 4)},
        {"stop_ids": described("(1000000000,)", "'<i8'", b"\0" * 8)},
        {"data": bytes(200_000_000)},
        {"data": described("(190000000,)", "'|u1'", bytes(190_000_000))},
        {"lens": described("(50000000,)", "'<u2'", bytes(100_000_000))},
        {"special_ids": described("(50000000,)", "'|u1'", bytes(50_000_000))},
    ],
    ids=lambda members: " ".join(members),
)
def test_small_files_that_claim_much(members: dict[str, bytes], tmp_path: Path) -> None:
    data = archive({**MEMBERS, **members})
    assert len(data) < 250_000
    (tmp_path / "a.npz").write_bytes(data)
    del members
    with allocating_at_most(10**7), pytest.raises(VocabularyError, match="not a vocabulary file"):
        Vocabulary.load(tmp_path / "a.npz")


def test_archives_that_numpy_does_not_write(tmp_path: Path) -> None:
    whole = archive(MEMBERS)
    begin = 30 + sum(struct.unpack("<HH", whole[26:30]))  # of the first entry's data, after its name
    stream = io.BytesIO(whole)
    with zipfile.ZipFile(stream, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("lens.npy", b"second")
    size = bytearray(whole)  # a member that claims to be smaller than it is
    at = size.index(b"PK\1\2") + 24
    size[at : at + 4] = struct.pack("<I", struct.unpack("<I", size[at : at + 4])[0] - 1)
    locked = bytearray(whole)  # ... and one that claims to be encrypted
    locked[locked.index(b"PK\1\2") + 8] |= 1
    forged = {
        "twice": stream.getvalue(),
        "smaller": bytes(size),
        "encrypted": bytes(locked),
        "many": archive({**MEMBERS, **{f"m{number}": b"" for number in range(1000)}}),
        "bzip2": archive(MEMBERS, compression=zipfile.ZIP_BZIP2),
        "lzma": archive(MEMBERS, compression=zipfile.ZIP_LZMA),
        "comment": whole[:-2] + b"\x03\x00abc",
        "behind": whole + b"\0",
        "last byte missing": whole[:-1],
        "cut in the middle": whole[:200],
        "first bytes only": whole[:10],
        "damaged data": whole[:begin] + b"\xff" * 40 + whole[begin + 40 :],
        "empty": b"",
        "text": b"text",
        "single array": npy(np.arange(3)),
        "pickled": npy(np.array([{"a": 1}], object)),
    }
    for data in forged.values():
        (tmp_path / "a.npz").write_bytes(data)
        with pytest.raises(VocabularyError, match="not a vocabulary file"):
            Vocabulary.load(tmp_path / "a.npz")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_lets_nobody_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path / "pipe", "not a regular file"), (tmp_path / "none.npz", r"none\.npz"),
        (tmp_path, "directory"), ("a\0b", "path must be"),
    ):  # fmt: skip
        with pytest.raises(VocabularyError, match=message):
            Vocabulary.load(path)
        with pytest.raises(ArtifactError, match=message):
            CompiledGrammar.load(path, VOCABULARY)
