"""Folders of compiled grammars: what a full one evicts, and damage.

What: the order of eviction, its bound, files of other programs; entries that are cut, changed or foreign,
files in place of folders, and file systems that fail. Every kind of damage is found, repaired and reported
once.
When: after any change of `hybrid.compile.cache`, of `GrammarCompiler._cached` or of artefacts.
Limits: small vocabularies; times are measured, not tested (docs/caches.md). `tests.robustness.killed` tests
what processes leave that are killed while they write.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from hybrid import GrammarCompiler
from hybrid.compile import cache as disk_cache
from hybrid.compile.cache import ENTRY, KEY_BYTES, MAGIC
from hybrid.files import to_bytes
from tests.caches import OTHER_VOCABULARY, REGEX, compiler_in, disk, entries
from tests.test_artifact import VOCABULARY, masks_along

# --- Eviction ----------------------------------------------------------------------------------------------


def name_of(folder: Path, text: str) -> str:
    kept = compiler_in(folder)._disk
    return kept.path(kept.entry(("regex", text))).name


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in entries(folder))


def test_the_least_recently_used_go_first_and_ties_by_name(tmp_path: Path) -> None:
    texts = [f"{letter}x" for letter in "abcdefgh"]
    for text in texts:
        compiler_in(tmp_path).compile_regex(text)
    names = [name_of(tmp_path, text) for text in texts]
    for age, name in enumerate(names):
        when = 10**9 if age in (1, 2, 3) else 10**9 + age  # these three are the oldest
        os.utime(tmp_path / name, (when, when))
    first, *tied = sorted(names[1:4])
    compiler_in(tmp_path).compile_regex(texts[names.index(first)])  # this makes it the newest
    most = max(path.stat().st_size for path in entries(tmp_path))
    limit = size_of(tmp_path) - most // 2
    compiler = compiler_in(tmp_path, cache_dir_limit_bytes=limit)
    compiler.compile_regex("zx")
    order = [*tied, names[0], *names[4:]]
    gone = compiler.stats()["disk"]["evictions"]
    assert 1 <= gone < 5
    assert {path.name for path in entries(tmp_path)} == {*order[gone:], first, name_of(tmp_path, "zx")}
    assert size_of(tmp_path) <= limit - limit // disk_cache.ROOM < size_of(tmp_path) + most
    assert compiler.stats()["disk"]["bytes"] == size_of(tmp_path)


def test_the_bound_holds_and_the_newest_stays(tmp_path: Path) -> None:
    size = len(to_bytes(GrammarCompiler(VOCABULARY).compile_regex("a"))) + 200
    compiler = compiler_in(tmp_path, cache_dir_limit_bytes=3 * size)
    for number in range(12):
        compiler.compile_regex(f"k{number}")
        assert size_of(tmp_path) <= 3 * size
        assert (tmp_path / name_of(tmp_path, f"k{number}")).exists()
    assert compiler.stats()["disk"]["evictions"] >= 9
    newest = tmp_path / name_of(tmp_path, "k11")
    full = compiler_in(tmp_path, cache_dir_limit_bytes=newest.stat().st_size + 1)
    newest.unlink()
    full.compile_regex("k11")
    assert entries(tmp_path) == [newest]
    tight = compiler_in(tmp_path / "tight", cache_dir_limit_bytes=100)
    tight.compile_regex("a")
    assert disk(tight) == (0, 1, 0), "what is larger than the bound is not written"


def test_only_files_of_the_cache_are_deleted(tmp_path: Path) -> None:
    compiler_in(tmp_path).compile_regex("a")
    (entry,) = entries(tmp_path)
    mine = ["notes.txt", "compiled-12.equimask", f"my-{entry.name}", f"{entry.name}.bak", "trie-1-ab.npz"]
    partials = [f"{entry.name}.12.ab.partial", f"{entry.name}.13.ab.partial", "notes.12.ab.partial"]
    locks = [f"{entry.name}.lock", "notes.lock"]
    for name in mine + partials + locks:
        (tmp_path / name).write_bytes(bytes(5000))
        os.utime(tmp_path / name, (10**9, 10**9))
    os.utime(tmp_path / partials[1])  # another process may still be writing it
    (tmp_path / f"compiled-{'0' * 64}.equimask").mkdir()
    compiler_in(tmp_path, cache_dir_limit_bytes=entry.stat().st_size + 5000).compile_regex("b")
    left = {path.name for path in tmp_path.iterdir()}
    assert {*mine, *partials[1:], locks[1], f"compiled-{'0' * 64}.equimask"} <= left
    assert not left & {partials[0], locks[0], entry.name}


def test_files_that_others_delete_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = compiler_in(tmp_path, cache_dir_limit_bytes=12_000)
    unlink = Path.unlink

    def twice(path: Path, *arguments: Any) -> None:
        if ENTRY.fullmatch(path.name):
            unlink(path)
        unlink(path, *arguments)

    monkeypatch.setattr(Path, "unlink", twice)
    for number in range(12):
        compiler.compile_regex(f"k{number}")
    assert compiler.stats()["disk"]["failures"] == 0
    shutil.rmtree(tmp_path)
    compiler.clear_cache()
    assert compiler.compile_regex("k1").strategy == "classifier"
    assert compiler.stats()["disk"]["failures"] == 0


# --- Damage ------------------------------------------------------------------------------------------------


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of the only entry of a folder."""
    compiler_in(tmp_path).compile_regex(REGEX)
    (one,) = entries(tmp_path)
    return one


@cache
def masks_of_regex() -> list[bytes]:
    return masks_along(GrammarCompiler(VOCABULARY).compile_regex(REGEX), 3, 40)


def rebuilt(path: Path, caplog: pytest.LogCaptureFixture) -> bool:
    """Whether a new compiler finds the damage, compiles the same grammar and repairs the file."""
    caplog.clear()
    compiler = compiler_in(path.parent)
    compiled = compiler.compile_regex(REGEX)
    found = compiler.stats()["disk"]
    assert masks_along(compiled, 3, 40) == masks_of_regex()
    mended = compiler_in(path.parent)
    mended.compile_regex(REGEX)
    said = any("cannot be used and is compiled again" in text for text in warnings_of(caplog))
    return said and (found["damaged"], found["hits"], found["writes"]) == (1, 0, 1) and disk(mended)[0] == 1


def test_damage_is_found_and_mended(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = path.read_bytes()
    rng = random.Random(0)
    places = [*range(0, len(MAGIC) + KEY_BYTES + 60, 9), *(rng.randrange(len(whole)) for _ in range(10))]
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        assert rebuilt(path, caplog), place
        assert path.read_bytes() == whole
    for length in [0, 1, len(MAGIC), len(MAGIC) + KEY_BYTES, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert rebuilt(path, caplog), length
    path.write_bytes(whole + b"\0")
    assert rebuilt(path, caplog)


def test_foreign_entries_are_found(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    others = path.parent / "others"
    compiler_in(others).compile_regex("b+")
    (other,) = entries(others)
    shutil.copy(other, path)  # whole, of this vocabulary, but of another grammar
    assert rebuilt(path, caplog)
    foreign = to_bytes(GrammarCompiler(OTHER_VOCABULARY).compile_regex(REGEX))
    path.write_bytes(MAGIC + bytes.fromhex(path.name[9:-9]) + foreign)
    assert rebuilt(path, caplog)
    path.write_bytes(foreign)
    assert rebuilt(path, caplog)


def test_a_file_larger_than_any_entry_is_not_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with path.open("r+b") as stream:
        stream.truncate(2 * disk_cache.DEFAULT_DISK_BYTES)  # sparse: takes no room
    assert rebuilt(path, caplog)


def test_a_directory_in_the_place_of_an_entry(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.unlink()
    path.mkdir()
    (path / "mine").write_text("stays")
    compiler = compiler_in(path.parent)
    compiled = compiler.compile_regex(REGEX)
    assert compiled.strategy == "classifier" and compiler.stats()["disk"]["failures"] == 2
    assert len(warnings_of(caplog)) == 1 and (path / "mine").read_text() == "stays"
    assert sorted(path.parent.iterdir()) == [path], "nothing partial is left behind"


# --- File systems that fail --------------------------------------------------------------------------------


def fails(number: int) -> Mock:
    return Mock(side_effect=OSError(number, os.strerror(number)))


def test_a_failing_file_system_costs_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(disk_cache, "write_whole", fails(errno.ENOSPC))
    compiler = compiler_in(tmp_path)
    for text in ("a", "b", "c"):
        compiler.compile_regex(text)
    assert compiler.stats()["disk"]["failures"] == 3
    (said,) = warnings_of(caplog)
    assert os.strerror(errno.ENOSPC) in said and "cannot be written" in said


def test_an_entry_that_cannot_be_read_is_one_miss(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "read_whole", fails(errno.EACCES))
    compiler = compiler_in(path.parent)
    compiler.compile_regex(REGEX)
    assert disk(compiler) == (0, 1, 1)


def test_damage_that_cannot_be_mended_is_read_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    monkeypatch.setattr(disk_cache, "write_whole", fails(errno.EROFS))
    monkeypatch.setattr(Path, "unlink", fails(errno.EROFS))
    compiler = compiler_in(path.parent)
    compiler.compile_regex(REGEX)
    assert compiler.stats()["disk"]["damaged"] == 1
    assert sum("cannot be used" in text for text in warnings_of(caplog)) == 1


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
    monkeypatch.setattr(disk_cache, "write_whole", fails(errno.EROFS))
    for owner, name in ((os, "utime"), (os, "unlink"), (Path, "unlink")):
        monkeypatch.setattr(owner, name, fails(errno.EROFS))
    compiler = compiler_in(tmp_path, cache_dir_limit_bytes=10_000)
    compiler.compile_regex("a")
    compiler.compile_regex("b")
    assert disk(compiler) == (1, 1, 0) and len(warnings_of(caplog)) == 1
