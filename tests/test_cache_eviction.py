"""What a full cache evicts first, and what killed processes leave behind.

What: the order of eviction, its bound, files of other programs; processes that are killed while they write.
When: after any change of `hybrid.compile.cache`, of `GrammarCompiler._cached` or of artefacts.
Limits: small vocabularies; times are measured, not tested (docs/caches.md).
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from equivalence import ArtifactError, store
from hybrid import GrammarCompiler
from hybrid.compile import cache
from hybrid.compile.cache import ENTRY, KEY_BYTES, LOCK, MAGIC, PARTIAL
from hybrid.files import from_bytes, to_bytes
from tests.caches import compiler_in, disk, entries
from tests.robustness.killed import InPieces
from tests.test_artifact import VOCABULARY, masks_along

# --- Eviction ----------------------------------------------------------------------------------------------


def name_of(folder: Path, text: str) -> str:
    compiler = compiler_in(folder)
    assert compiler._disk is not None
    entry = compiler._disk.entry(("regex", text))
    assert entry is not None
    return compiler._disk.path(entry).name


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    texts = [f"{letter}x" for letter in "abcdefgh"]
    writer = compiler_in(tmp_path)
    for text in texts:
        writer.compile_regex(text)
    sizes = {path.name: path.stat().st_size for path in entries(tmp_path)}
    total, most = sum(sizes.values()), max(sizes.values())
    names = [name_of(tmp_path, text) for text in texts]
    for age, name in enumerate(names):
        when = 10**9 if age in (1, 2) else 10**9 + age  # the second and the third are the oldest
        os.utime(tmp_path / name, (when, when))
    reader = compiler_in(tmp_path)
    tied = sorted(names[1:3])
    used = texts[names.index(tied[0])]
    reader.compile_regex(used)  # this makes it the newest
    limit = total - most // 2
    compiler = compiler_in(tmp_path, cache_dir_limit_bytes=limit)
    compiler.compile_regex("zx")
    left = {path.name for path in entries(tmp_path)}
    order = [tied[1], names[0], *names[3:]]
    gone = compiler.stats()["disk"]["evictions"]
    assert 1 < gone < 5 and set(order[:gone]).isdisjoint(left)
    assert left == {*order[gone:], tied[0], name_of(tmp_path, "zx")}
    kept = sum(path.stat().st_size for path in entries(tmp_path))
    assert kept <= limit - limit // cache.ROOM < kept + most
    assert compiler.stats()["disk"]["bytes"] == kept


def test_ties_go_by_name(tmp_path: Path) -> None:
    writer = compiler_in(tmp_path)
    for letter in "abcdef":
        writer.compile_regex(letter)
    names = [path.name for path in entries(tmp_path)]
    for name in names:
        os.utime(tmp_path / name, (10**9, 10**9))
    limit = sum(path.stat().st_size for path in entries(tmp_path))
    compiler_in(tmp_path, cache_dir_limit_bytes=limit).compile_regex("z")
    left = {path.name for path in entries(tmp_path)} & set(names)
    assert left == set(names[len(names) - len(left) :]) and 0 < len(left) < len(names)


def test_the_bound_holds_and_the_newest_stays(tmp_path: Path) -> None:
    size = max(len(to_bytes(GrammarCompiler(VOCABULARY).compile_regex("a"))), 1) + 200
    compiler = compiler_in(tmp_path, cache_dir_limit_bytes=3 * size)
    for number in range(12):
        compiler.compile_regex(f"k{number}")
        assert sum(path.stat().st_size for path in entries(tmp_path)) <= 3 * size
        assert (tmp_path / name_of(tmp_path, f"k{number}")).exists()
    assert compiler.stats()["disk"]["evictions"] >= 9
    (written,) = (path.stat().st_size for path in entries(tmp_path) if path.name == name_of(tmp_path, "k11"))
    full = compiler_in(tmp_path, cache_dir_limit_bytes=written + 1)
    full.compile_regex("k11")
    (tmp_path / name_of(tmp_path, "k11")).unlink()
    full.clear_cache()
    full.compile_regex("k11")
    assert [path.name for path in entries(tmp_path)] == [name_of(tmp_path, "k11")]
    tight = compiler_in(tmp_path / "tight", cache_dir_limit_bytes=100)
    tight.compile_regex("a")
    assert disk(tight) == (0, 1, 0), "what is larger than the bound is not written"


def test_only_files_of_the_cache_are_deleted(tmp_path: Path) -> None:
    compiler_in(tmp_path).compile_regex("a")
    (entry,) = entries(tmp_path)
    mine = ["notes.txt", "compiled-12.equimask", f"my-{entry.name}", f"{entry.name}.bak", "trie-1-ab.arrays"]
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


# --- Processes that are killed -----------------------------------------------------------------------------


KILLED = [f"(a{letter}|[0-9]{{{number}}})+" for letter in "bcd" for number in (1, 2, 3)]


def _write_for_ever(folder: str, seed: int) -> None:
    """In another process: compile and delete grammars in a folder until killed."""
    store.open = InPieces  # type: ignore[attr-defined]
    rng = random.Random(seed)
    limit = rng.choice([10_000, -1])
    while True:
        compiler = compiler_in(folder, cache_dir_limit_bytes=limit)
        for text in rng.sample(KILLED, 5):
            compiler.compile_regex(text)
        found = entries(Path(folder))
        for path in rng.sample(found, min(3, len(found))):
            path.unlink(missing_ok=True)


def is_whole(path: Path) -> bool:
    """Whether a file that has not been renamed yet holds all of an entry."""
    try:
        from_bytes(path.read_bytes()[len(MAGIC) + KEY_BYTES :], VOCABULARY)
    except ArtifactError:
        return False
    return True


@pytest.mark.skipif(
    not hasattr(signal, "SIGKILL") or not hasattr(os, "fork"), reason="needs fork and SIGKILL"
)
def test_processes_that_are_killed_while_they_write(tmp_path: Path) -> None:
    wanted = {text: masks_along(GrammarCompiler(VOCABULARY).compile_regex(text), 1, 40) for text in KILLED}
    context = multiprocessing.get_context("fork")  # compiled kernels are available at once
    rng = random.Random(7)
    seeds = itertools.count()

    def start() -> Any:
        process = context.Process(target=_write_for_ever, args=(str(tmp_path), next(seeds)), daemon=True)
        process.start()
        return process

    def unfinished() -> list[Path]:
        return [path for path in tmp_path.iterdir() if PARTIAL.fullmatch(path.name) and not is_whole(path)]

    began = time.monotonic()
    patience = 1.0
    # on a busy machine it takes longer until some were killed while writing, and others have written
    while not (unfinished() and entries(tmp_path)) and time.monotonic() < began + 90:
        running = [start() for _ in range(3)]
        ends = time.monotonic() + 8
        try:
            while time.monotonic() < ends:
                time.sleep(patience * rng.uniform(0.02, 0.25))
                place = rng.randrange(len(running))
                assert running[place].is_alive(), "it ends by being killed only"
                running[place].kill()
                running[place].join()
                running[place] = start()
        finally:
            for process in running:
                process.kill()
                process.join()
        patience *= 2
    partials = unfinished()
    assert partials, "some were killed while they wrote"
    names = [path.name for path in tmp_path.iterdir() if not ENTRY.fullmatch(path.name)]
    assert all(PARTIAL.fullmatch(name) or LOCK.fullmatch(name) for name in names)
    compiler = compiler_in(tmp_path)
    for text, masks in wanted.items():
        assert masks_along(compiler.compile_regex(text), 1, 40) == masks
    found = compiler.stats()["disk"]
    assert found["hits"] > 0 and found["damaged"] == 0 and found["hits"] + found["writes"] == len(KILLED)
    for path in partials:  # and the states in which a crash of the machine could leave them
        os.replace(path, tmp_path / path.name[: path.name.index(".equimask") + 9])
    compiler = compiler_in(tmp_path)
    for text, masks in wanted.items():
        assert masks_along(compiler.compile_regex(text), 1, 40) == masks
    assert compiler.stats()["disk"]["damaged"] > 0
