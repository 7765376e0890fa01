"""Caches on damaged disks: every kind of damage is found, repaired and reported once.

What: entries that are cut, changed or foreign, files in place of folders, and file systems that fail.
When: after any change of `hybrid.compile.cache`, of `GrammarCompiler._cached` or of artefacts.
Limits: small vocabularies.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybrid import GrammarCompiler
from hybrid.compile import cache
from hybrid.compile.cache import KEY_BYTES, MAGIC
from hybrid.files import to_bytes
from tests.caches import OTHER_VOCABULARY, REGEX, compiler_in, disk, entries, warnings_of
from tests.test_artifact import VOCABULARY, masks_along

# --- Damage ------------------------------------------------------------------------------------------------


def rebuilt(folder: Path, caplog: pytest.LogCaptureFixture) -> bool:
    """Whether a new compiler finds the damage, compiles the same grammar and repairs the file."""
    caplog.clear()
    compiler = compiler_in(folder)
    compiled = compiler.compile_regex(REGEX)
    found = compiler.stats()["disk"]
    assert masks_along(compiled, 3, 40) == masks_along(
        GrammarCompiler(VOCABULARY).compile_regex(REGEX), 3, 40
    )
    mended = compiler_in(folder)
    mended.compile_regex(REGEX)
    said = any("cannot be used and is compiled again" in text for text in warnings_of(caplog))
    return said and (found["damaged"], found["hits"], found["writes"]) == (1, 0, 1) and disk(mended)[0] == 1


def test_damage_is_found_and_mended(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compiler_in(tmp_path).compile_regex(REGEX)
    (path,) = entries(tmp_path)
    whole = path.read_bytes()
    rng = random.Random(0)
    places = [*range(0, len(MAGIC) + KEY_BYTES + 60, 5), *(rng.randrange(len(whole)) for _ in range(15))]
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        assert rebuilt(tmp_path, caplog), place
        assert path.read_bytes() == whole
    for length in [0, 1, len(MAGIC), len(MAGIC) + KEY_BYTES, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert rebuilt(tmp_path, caplog), length
    path.write_bytes(whole + b"\0")
    assert rebuilt(tmp_path, caplog)


def test_foreign_entries_are_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compiler_in(tmp_path).compile_regex(REGEX)
    (path,) = entries(tmp_path)
    others = tmp_path / "others"
    compiler_in(others).compile_regex("b+")
    (other,) = entries(others)
    shutil.copy(other, path)  # whole, of this vocabulary, but of another grammar
    assert rebuilt(tmp_path, caplog)
    entry = bytes.fromhex(path.name[9:-9])
    foreign = to_bytes(GrammarCompiler(OTHER_VOCABULARY).compile_regex(REGEX))
    path.write_bytes(MAGIC + entry + foreign)
    assert rebuilt(tmp_path, caplog)
    path.write_bytes(foreign)
    assert rebuilt(tmp_path, caplog)


def test_a_file_larger_than_any_entry_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compiler_in(tmp_path).compile_regex(REGEX)
    (path,) = entries(tmp_path)
    with path.open("r+b") as stream:
        stream.truncate(2 * cache.DEFAULT_DISK_BYTES)  # sparse: takes no room
    assert rebuilt(tmp_path, caplog)


def test_a_directory_in_the_place_of_an_entry(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compiler_in(tmp_path).compile_regex(REGEX)
    (path,) = entries(tmp_path)
    path.unlink()
    path.mkdir()
    (path / "mine").write_text("stays")
    compiler = compiler_in(tmp_path)
    compiled = compiler.compile_regex(REGEX)
    assert compiled.strategy == "classifier" and compiler.stats()["disk"]["failures"] == 2
    assert len(warnings_of(caplog)) == 1 and (path / "mine").read_text() == "stays"
    assert sorted(tmp_path.iterdir()) == [path], "nothing partial is left behind"


# --- File systems that fail --------------------------------------------------------------------------------


def fails(number: int) -> Callable[..., Any]:
    def failing(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return failing


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT])
def test_a_failing_file_system_costs_one_warning(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cache, "write_whole", fails(number))
    compiler = compiler_in(tmp_path)
    for text in ("a", "b", "c"):
        compiler.compile_regex(text)
    assert compiler.stats()["disk"]["failures"] == 3
    (said,) = warnings_of(caplog)
    assert os.strerror(number) in said and "cannot be written" in said


def test_a_file_in_the_place_of_the_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        caplog.clear()
        compiler = compiler_in(folder)
        assert compiler.compile_regex("a").strategy == "classifier"
        assert len(warnings_of(caplog)) == 1 and compiler.stats()["disk"]["bytes"] == 0


def test_what_can_only_be_read_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiler_in(tmp_path).compile_regex("a")
    monkeypatch.setattr(cache, "write_whole", fails(errno.EROFS))
    monkeypatch.setattr(os, "utime", fails(errno.EROFS))
    monkeypatch.setattr(os, "unlink", fails(errno.EROFS))
    monkeypatch.setattr(Path, "unlink", fails(errno.EROFS))
    compiler = compiler_in(tmp_path, cache_dir_limit_bytes=10_000)
    compiler.compile_regex("a")
    compiler.compile_regex("b")
    assert disk(compiler) == (1, 1, 0) and len(warnings_of(caplog)) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    compiler_in(tmp_path).compile_regex("a")
    tmp_path.chmod(0o500)
    try:
        compiler = compiler_in(tmp_path)
        compiler.compile_regex("a")
        compiler.compile_regex("b")
    finally:
        tmp_path.chmod(0o700)
    assert disk(compiler) == (1, 1, 0) and len(warnings_of(caplog)) == 1
