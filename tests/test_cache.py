"""Compiled grammars on disk, and equal calls at once: what is found again, what is not, who may be killed.

What: entries found by other compilers and processes; every kind of damage; eviction; file systems that fail;
processes ended while they write; one computation for equal calls; the ``_async`` methods; forgetting.
When: after any change of `hybrid.compile.cache`, of `GrammarCompiler._cached` or of artefacts.
Limits: small vocabularies; times are measured, not tested (docs/caches.md).
"""

from __future__ import annotations

import errno
import gc
import itertools
import json
import logging
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import xgrammar
from pydantic import BaseModel, create_model

from bench.cases import CHECKOUT
from equivalence import GrammarError, HybridError, Vocabulary, store
from hybrid import Budget, CompiledGrammar, GrammarCompiler
from hybrid.compile import cache
from hybrid.compile.cache import ENTRY, KEY_BYTES, MAGIC, PARTIAL
from hybrid.files import to_bytes
from tests.robustness.killed import InPieces
from tests.test_artifact import SCHEMA, VOCABULARY, masks_along

OTHER_VOCABULARY = Vocabulary.from_bytes(
    [*(bytes([byte]) for byte in range(256)), b"ab", b""], stop_token_ids=257
)
REGEX = "(a[bc])+"
LARK = 'start: "a" NUMBER\nNUMBER: /[0-9]+/'


class Point(BaseModel):
    x: int


METHODS: dict[str, Callable[[GrammarCompiler], CompiledGrammar]] = {
    "EBNF": lambda c: c.compile_grammar('root ::= "a" [bc]+'),
    "another root": lambda c: c.compile_grammar('root ::= "a"\nb ::= "b"', root_rule_name="b"),
    "parsed": lambda c: c.compile_grammar(xgrammar.Grammar.from_regex("a+")),
    "schema": lambda c: c.compile_json_schema(SCHEMA),
    "schema with options": lambda c: c.compile_json_schema(SCHEMA, any_whitespace=False, indent=2),
    "model": lambda c: c.compile_json_schema(Point),
    "builtin": lambda c: c.compile_builtin_json_grammar(),
    "regex": lambda c: c.compile_regex(REGEX),
    "beyond ASCII": lambda c: c.compile_json_schema('{"const": "é"}', separators=("，", "："), indent=1),
    "tag": lambda c: c.compile_structural_tag(
        {
            "type": "structural_tag",
            "format": {
                "type": "tag",
                "begin": "<f>",
                "content": {"type": "json_schema", "json_schema": SCHEMA},
                "end": "</f>",
            },
        }
    ),
    "Lark": lambda c: c.compile_lark(LARK),
}


def compiler_in(folder: Path | str, vocabulary: Vocabulary = VOCABULARY, **options: Any) -> GrammarCompiler:
    return GrammarCompiler(vocabulary, cache_dir=folder, **options)


def disk(compiler: GrammarCompiler) -> tuple[int, int, int]:
    found = compiler.stats()["disk"]
    return found["hits"], found["misses"], found["writes"]


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if ENTRY.fullmatch(path.name))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# --- What is found again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("strategy", ["auto", "classifier"])
def test_another_compiler_finds_what_one_compiled(
    method: Callable[[GrammarCompiler], CompiledGrammar], strategy: str, tmp_path: Path
) -> None:
    first, second = (compiler_in(tmp_path / "not" / "yet", strategy=strategy) for _ in range(2))
    compiled = method(first)
    assert disk(first) == (0, 1, 1)
    loaded = method(second)
    assert disk(second) == (1, 0, 0) and second.stats()["compilations"] == 0
    assert loaded is not compiled and method(second) is loaded, "the second time it is in memory"
    assert loaded.schema == compiled.schema and loaded.relaxed == compiled.relaxed
    assert loaded.reason == compiled.reason and set(loaded.timings) == {"load", "total"}
    assert compiled.timings["total"] > compiled.timings["store"] > 0
    for seed in range(2):
        assert masks_along(loaded, seed, 60) == masks_along(compiled, seed, 60)


def test_another_process_finds_it(tmp_path: Path) -> None:
    schema = json.dumps({**SCHEMA, "not": {"required": ["a"]}})
    assert len(compiler_in(tmp_path).compile_json_schema(schema).relaxed) == 1
    program = (
        "import sys; from tests.test_cache import *\n"
        "c = compiler_in(sys.argv[1]); found = c.compile_json_schema(sys.argv[2])\n"
        "print(len(found.relaxed), disk(c))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), schema],
        capture_output=True, text=True, cwd=CHECKOUT, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "1 (1, 0, 0)"


def test_whatever_the_result_depends_on_tells_entries_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilers = [
        compiler_in(tmp_path),
        compiler_in(tmp_path, OTHER_VOCABULARY),
        compiler_in(tmp_path, strategy="classifier"),
        compiler_in(tmp_path, on_demand=True),
        compiler_in(tmp_path, budget=Budget(states=4000)),
    ]
    for compiler in compilers:
        compiler.compile_regex("a")
    compilers[0].compile_grammar("a ::= [a]", root_rule_name="a")
    compilers[0].compile_grammar("root ::= [a]")
    compilers[0].compile_json_schema("{}")
    compilers[0].compile_json_schema("{}", any_whitespace=False)
    names = {path.name for path in entries(tmp_path)}
    assert len(names) == len(compilers) + 4
    versions = cache._versions()
    for place in range(len(versions)):
        changed = [*versions[:place], "another", *versions[place + 1 :]]
        monkeypatch.setattr(cache, "_versions", lambda changed=changed: changed)
        other = compiler_in(tmp_path)
        other.compile_regex("a")
        assert disk(other) == (0, 1, 1)


def test_two_vocabularies_share_a_folder(tmp_path: Path) -> None:
    vocabularies = (VOCABULARY, OTHER_VOCABULARY)
    for _ in range(2):
        for vocabulary in vocabularies:
            compiled = compiler_in(tmp_path, vocabulary).compile_json_schema(SCHEMA)
            wanted = GrammarCompiler(vocabulary).compile_json_schema(SCHEMA)
            assert masks_along(compiled, 1, 80) == masks_along(wanted, 1, 80)
    assert len(entries(tmp_path)) == 2


def test_models_are_found_by_their_schema(tmp_path: Path) -> None:
    one, other = create_model("Item", a=(int, ...)), create_model("Item", b=(int, ...))
    compiler_in(tmp_path).compile_json_schema(one)
    second = compiler_in(tmp_path)
    assert masks_along(second.compile_json_schema(other), 0, 40) != masks_along(
        second.compile_json_schema(create_model("Item", a=(int, ...))), 0, 40
    )
    assert disk(second) == (1, 1, 1)


def test_a_key_of_this_process_only_is_not_written(tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path)
    assert compiler._disk is not None
    assert compiler._disk.entry(("json_schema", object())) is None
    assert compiler._disk.entry(("regex", 1)) != compiler._disk.entry(("regex", True))
    assert compiler._disk.entry(("a", ("b", "c"))) != compiler._disk.entry(("a", "b", "c"))


@pytest.mark.parametrize("strategy", ["representatives", "engine"])
def test_other_strategies_do_not_touch_the_folder(strategy: str, tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path / "none", strategy=strategy)
    compiler.compile_regex("a")
    assert disk(compiler) == (0, 0, 0) and not (tmp_path / "none").exists()


def test_a_grammar_that_falls_back_is_not_written(tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path, budget=Budget(states=3))
    assert compiler.compile_grammar('root ::= "abcdefgh" [0-9]{9}').strategy != "classifier"
    assert disk(compiler) == (0, 1, 0) and not entries(tmp_path)


def test_what_an_artefact_does_not_carry_is_not_written(tmp_path: Path) -> None:
    @dataclass(frozen=True, eq=False)
    class SaysMore(CompiledGrammar):
        more: str = ""

    compiler = compiler_in(tmp_path)
    assert compiler._disk is not None
    compiled = GrammarCompiler(VOCABULARY).compile_regex("a")
    facts = {name: getattr(compiled, name) for name in cache.CARRIED}
    compiler._disk.keep(bytes(KEY_BYTES), SaysMore(**facts, more="this"))
    assert not entries(tmp_path)
    compiler._disk.keep(bytes(KEY_BYTES), SaysMore(**facts))
    assert len(entries(tmp_path)) == 1


def test_errors_are_not_kept(tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path)
    for _ in range(2):
        with pytest.raises(GrammarError):
            compiler.compile_regex("(")
    assert not entries(tmp_path) and compiler.stats()["errors"] == {"GrammarError": 2}


def test_disk_without_memory(tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path, cache_enabled=False)
    assert compiler.compile_regex("a") is not compiler.compile_regex("a")
    assert disk(compiler) == (1, 1, 1) and compiler.get_cache_size_bytes() == 0


# --- Damage ------------------------------------------------------------------------------------------------


def rebuilt(folder: Path, caplog: pytest.LogCaptureFixture) -> bool:
    """Whether a new compiler finds the damage, compiles the same and mends the file."""
    caplog.clear()
    compiler = compiler_in(folder)
    compiled = compiler.compile_regex(REGEX)
    found = compiler.stats()["disk"]
    assert masks_along(compiled, 3, 40) == masks_along(
        GrammarCompiler(VOCABULARY).compile_regex(REGEX), 3, 40
    )
    mended = compiler_in(folder)
    mended.compile_regex(REGEX)
    said = any("is not used and is built anew" in text for text in warnings_of(caplog))
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


# --- Eviction ----------------------------------------------------------------------------------------------


def name_of(folder: Path, text: str) -> str:
    compiler = compiler_in(folder)
    assert compiler._disk is not None
    entry = compiler._disk.entry(("regex", text))
    assert entry is not None
    return compiler._disk.path(entry).name


def test_the_least_recently_used_go_first_and_ties_by_name(tmp_path: Path) -> None:
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
    reader.compile_regex(used)  # which makes it the newest
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
    for name in mine + partials:
        (tmp_path / name).write_bytes(bytes(5000))
        os.utime(tmp_path / name, (10**9, 10**9))
    os.utime(tmp_path / partials[1])  # somebody may still write it
    (tmp_path / f"compiled-{'0' * 64}.equimask").mkdir()
    compiler_in(tmp_path, cache_dir_limit_bytes=entry.stat().st_size + 5000).compile_regex("b")
    left = {path.name for path in tmp_path.iterdir()}
    assert {*mine, *partials[1:], f"compiled-{'0' * 64}.equimask"} <= left
    assert partials[0] not in left and entry.name not in left


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
    """In a process of its own: compiles and deletes grammars in a folder until it is killed."""
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


@pytest.mark.skipif(
    not hasattr(signal, "SIGKILL") or not hasattr(os, "fork"), reason="needs fork and SIGKILL"
)
def test_processes_that_are_killed_while_they_write(tmp_path: Path) -> None:
    wanted = {text: masks_along(GrammarCompiler(VOCABULARY).compile_regex(text), 1, 40) for text in KILLED}
    context = multiprocessing.get_context("fork")  # compiled kernels are there at once
    rng = random.Random(7)
    seeds = itertools.count()

    def start() -> Any:
        process = context.Process(target=_write_for_ever, args=(str(tmp_path), next(seeds)), daemon=True)
        process.start()
        return process

    def unfinished() -> list[Path]:
        return [path for path in tmp_path.iterdir() if PARTIAL.fullmatch(path.name)]

    began = time.monotonic()
    patience = 1.0
    # on a busy machine it takes longer until some were killed while they wrote, and others had written
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
    assert len(partials) + len(entries(tmp_path)) == len(list(tmp_path.iterdir()))
    compiler = compiler_in(tmp_path)
    for text, masks in wanted.items():
        assert masks_along(compiler.compile_regex(text), 1, 40) == masks
    found = compiler.stats()["disk"]
    assert found["hits"] > 0 and found["damaged"] == 0 and found["hits"] + found["writes"] == len(KILLED)
    for path in partials:  # and what a crash of the machine could make of them
        os.replace(path, tmp_path / path.name[: path.name.index(".equimask") + 9])
    compiler = compiler_in(tmp_path)
    for text, masks in wanted.items():
        assert masks_along(compiler.compile_regex(text), 1, 40) == masks
    assert compiler.stats()["disk"]["damaged"] > 0


# --- Equal calls at once -----------------------------------------------------------------------------------


class Gate:
    """Holds compilations up until it is opened, and counts them."""

    def __init__(self, compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.reached, self.count = threading.Event(), threading.Event(), 0
        decide, lock = compiler._compilation.decide, threading.Lock()

        def gated(*arguments: Any) -> CompiledGrammar:
            with lock:
                self.count += 1
            self.reached.set()
            assert self.opened.wait(30)
            return decide(*arguments)

        monkeypatch.setattr(compiler._compilation, "decide", gated)


def wait_for(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.005)


@pytest.mark.parametrize("with_disk", [False, True])
def test_equal_calls_share_one_computation(
    with_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path if with_disk else None)
    gate = Gate(compiler, monkeypatch)
    with ThreadPoolExecutor(9) as pool:
        futures = [pool.submit(compiler.compile_regex, REGEX) for _ in range(8)]
        assert gate.reached.wait(30)
        other = pool.submit(compiler.compile_regex, "z")
        wait_for(lambda: gate.count == 2)  # which is not held up by the first
        time.sleep(0.05)
        gate.opened.set()
        assert len({id(future.result()) for future in futures}) == 1 and other.result() is not None
    assert gate.count == 2
    found = compiler.stats()
    assert found["compilations"] == 2 and found["shared"] + found["memory"]["hits"] == 7
    assert found["memory"]["misses"] == 2 and not compiler._memory._under_way


def test_an_error_is_raised_in_all_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    gate = Gate(compiler, monkeypatch)
    grammar = "root ::= root{2}"
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(compiler.compile_grammar, grammar) for _ in range(4)]
        assert gate.reached.wait(30)
        time.sleep(0.1)
        gate.opened.set()
        for future in futures:
            with pytest.raises(GrammarError, match="nothing but a repeat of itself"):
                future.result()
    shared = compiler.stats()["shared"]
    assert shared > 0 and gate.count + shared == 4 and not compiler._memory._under_way
    with pytest.raises(GrammarError):
        compiler.compile_grammar(grammar)
    assert compiler.stats()["errors"]["GrammarError"] == gate.count == 5 - shared


def test_an_interrupted_thread_does_not_interrupt_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    decide, reached, opened = compiler._compilation.decide, threading.Event(), threading.Event()

    def interrupted(*arguments: Any) -> CompiledGrammar:
        monkeypatch.setattr(compiler._compilation, "decide", decide)
        reached.set()
        assert opened.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(compiler._compilation, "decide", interrupted)

    def first() -> bool:
        try:
            compiler.compile_regex("a")
        except KeyboardInterrupt:
            return True
        return False

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first)
        assert reached.wait(30)
        other = pool.submit(compiler.compile_regex, "a")
        time.sleep(0.05)
        opened.set()
        assert one.result() and other.result().strategy == "classifier"
    assert not compiler._memory._under_way


def test_without_a_memory_cache_nothing_is_shared() -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_enabled=False, n_jobs=4)
    with compiler:
        futures = [compiler.compile_regex_async("a") for _ in range(4)]
        assert len({id(future.result()) for future in futures}) == 4


# --- Later -------------------------------------------------------------------------------------------------

ASYNC: dict[str, Callable[[GrammarCompiler], tuple[Future[CompiledGrammar], CompiledGrammar]]] = {
    "grammar": lambda c: (
        c.compile_grammar_async("b ::= [a]", root_rule_name="b"),
        c.compile_grammar("b ::= [a]", root_rule_name="b"),
    ),
    "schema": lambda c: (
        c.compile_json_schema_async(SCHEMA, any_whitespace=False),
        c.compile_json_schema(SCHEMA, any_whitespace=False),
    ),
    "builtin": lambda c: (c.compile_builtin_json_grammar_async(), c.compile_builtin_json_grammar()),
    "regex": lambda c: (c.compile_regex_async("a"), c.compile_regex("a")),
    "tag": lambda c: (
        c.compile_structural_tag_async(
            [xgrammar.StructuralTagItem(begin="<f>", schema=SCHEMA, end="</f>")], ["<f"]
        ),
        c.compile_structural_tag(
            [xgrammar.StructuralTagItem(begin="<f>", schema=SCHEMA, end="</f>")], ["<f"]
        ),
    ),
    "Lark": lambda c: (
        c.compile_lark_async(LARK.replace("start", "begin"), start="begin"),
        c.compile_lark(LARK.replace("start", "begin"), start="begin"),
    ),
}


@pytest.mark.parametrize("both", ASYNC.values(), ids=ASYNC)
def test_async_methods_give_what_the_others_give(
    both: Callable[[GrammarCompiler], tuple[Future[CompiledGrammar], CompiledGrammar]],
) -> None:
    with GrammarCompiler(VOCABULARY, n_jobs=2) as compiler:
        future, compiled = both(compiler)
        assert isinstance(future, Future) and future.result(60) is compiled
        assert compiler.stats()["compilations"] == 1


def test_errors_come_from_the_future() -> None:
    with GrammarCompiler(VOCABULARY) as compiler:
        future = compiler.compile_regex_async("(")
        with pytest.raises(GrammarError):
            future.result(60)


def test_n_jobs_are_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY, n_jobs=2)
    assert compiler._background._pool is None, "no thread before the first call"
    gate = Gate(compiler, monkeypatch)
    futures = [compiler.compile_regex_async(letter) for letter in "abcd"]
    wait_for(lambda: gate.count == 2)
    time.sleep(0.05)
    assert gate.count == 2
    gate.opened.set()
    assert len({id(future.result(60)) for future in futures}) == 4
    compiler.close()


def test_close_cancels_what_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    gate = Gate(compiler, monkeypatch)
    futures = [compiler.compile_regex_async(letter) for letter in "abc"]
    assert gate.reached.wait(30)
    threading.Timer(0.1, gate.opened.set).start()
    compiler.close()
    assert futures[0].result(0).strategy == "classifier"
    for future in futures[1:]:
        with pytest.raises(CancelledError):
            future.result(0)
    compiler.close()
    with pytest.raises(HybridError, match="closed; allowed are the methods that do not end in _async"):
        compiler.compile_regex_async("a")
    assert compiler.compile_regex("b").strategy == "classifier"


def test_a_program_ends_without_closing() -> None:
    program = (
        "from tests.test_cache import *\n"
        "c = GrammarCompiler(VOCABULARY)\n"
        "c.compile_regex_async('a').result(); print('done')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, timeout=120, check=True
    )
    assert done.stdout.splitlines()[-1] == "done"


# --- Forgetting --------------------------------------------------------------------------------------------


def test_clear_cache_frees_memory_and_leaves_the_disk(tmp_path: Path) -> None:
    compiler = compiler_in(tmp_path)
    gc.collect()
    gc.disable()
    try:
        kept = [weakref.ref(compiler.compile_regex(letter)) for letter in "abc"]
        assert all(one() is not None for one in kept)
        compiler.clear_cache()
        assert all(one() is None for one in kept), "at once, without a collection"
    finally:
        gc.enable()
    assert compiler.get_cache_size_bytes() == 0 == compiler.stats()["memory"]["bytes"]
    assert len(entries(tmp_path)) == 3
    compiler.compile_regex("a")
    assert disk(compiler) == (1, 3, 3)


def test_what_is_under_way_when_the_cache_is_cleared_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with GrammarCompiler(VOCABULARY) as compiler:
        gate = Gate(compiler, monkeypatch)
        future = compiler.compile_regex_async("a")
        assert gate.reached.wait(30)
        compiler.clear_cache()
        gate.opened.set()
        first = future.result(60)
        assert compiler.get_cache_size_bytes() == 0
        assert compiler.compile_regex("a") is not first and compiler.compile_regex("a") is not first
        assert compiler.get_cache_size_bytes() > 0


def test_errors_are_freed_at_once() -> None:
    """Otherwise they keep the frames of their callers, and what these hold, until the next collection."""
    compiler = GrammarCompiler(VOCABULARY)
    gc.collect()
    gc.disable()
    try:
        try:
            compiler.compile_grammar("root ::= root{2}")
        except GrammarError as error:
            seen = weakref.ref(error)
        assert seen() is None
    finally:
        gc.enable()


def test_the_names_of_entries_say_nothing_of_grammars(tmp_path: Path) -> None:
    compiler_in(tmp_path).compile_regex(REGEX)
    (path,) = tmp_path.iterdir()
    assert re.fullmatch(r"compiled-[0-9a-f]{64}\.equimask", path.name)
