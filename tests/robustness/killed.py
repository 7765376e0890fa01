"""Processes that share a folder of compiled grammars and are killed at random, also during a write.

What: many processes compile schemas with one `cache_dir`, and delete entries so that there is always
something to write; they are killed by SIGKILL at random, every second one also by itself while it writes an
entry, and replaced. Every third one evicts entries if there is a limit. Each checks the masks of the grammars
that it gets; at the end every entry is loaded and its masks are checked.
When: ``python -m tests.robustness.killed --vocabulary SPEC --schemas FOLDER``;
`tests/robustness/test_soaks.py` runs a small one.
Limits: needs fork and SIGKILL. A killed process is not a power failure: data that the system has accepted
reaches the disk. Masks are those along one instance of each schema, or the first mask; they have to equal
those of a fresh compile without the folder (which `bench.schemas` compares with XGrammar).
"""

from __future__ import annotations

import contextlib
import itertools
import json as json_format
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import options, report, workloads
from bench.reporting.answers import publish
from equivalence import array_files
from hybrid import GrammarCompiler
from hybrid.compile.cache import ENTRY, PARTIAL
from hybrid.testing.segmentation import tokenize_greedy
from tests.robustness.documents import mask_digest

KILLED = 0.02
"""Probability that a process is killed after a piece."""

DELETED = 0.5
"""Probability that a process deletes some entry after it got one."""

PROCESSES = 16
"""Number of processes that share the folder, if the command runs them."""

"""Seconds that a run may take longer until some process was killed while it wrote."""


class InPieces:
    """A file that is written in small pieces, after some of which the process is killed; replaces `open` in
    `equivalence.array_files`."""

    def __init__(self, path: str, mode: str, **options: Any) -> None:
        self.stream: Any = open(path, mode, **options)  # noqa: SIM115

    def __enter__(self) -> Any:
        return self.stream if self.stream.readable() else self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def write(self, data: bytes) -> None:
        for begin in range(0, len(data), 512):
            self.stream.write(data[begin : begin + 512])
            self.stream.flush()
            if random.random() < KILLED:
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Known:
    """A schema, a document of it, and the digest of the masks along it from a fresh compile."""

    name: str
    schema: Any
    ids: list[int]
    digest: str


@dataclass
class Outcome:
    """The result of a run.

    Attributes:
        kills: number of killed processes; `while_writing`: of those, the ones that left a partial file.
        events: reports of the processes: "found", "made", "damaged", "wrong ...", "error ...".
        ended: processes that ended in another way; there should be none.
        entries: files left that are whole; `foreign`: names that are neither such nor partial files.
        loaded: entries that load and give the right masks; `damaged`, `wrong`: those that do not.
    """

    kills: int = 0
    while_writing: int = 0
    events: Counter[str] = field(default_factory=Counter)
    ended: list[str] = field(default_factory=list)
    entries: int = 0
    foreign: list[str] = field(default_factory=list)
    loaded: int = 0
    damaged: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        bad = [name for name in self.events if name not in ("found", "made")]
        return not (bad or self.ended or self.foreign or self.damaged or self.wrong)


def prepare(vocabulary: Any, files: list[workloads.SchemaFile]) -> list[Known]:
    """Schemas that compile and are kept on disk, with the digests of their masks."""
    compiler = workloads.hybrid_compiler(vocabulary, "auto", 1)
    known = []
    for file in files:
        with contextlib.suppress(Exception):  # refused schemas are left out too
            compiled = compiler.compile_json_schema(file.schema)
            if compiled.strategy != "classifier":
                continue
            text = workloads.render_instance(file.valid[0]) if file.valid else b""
            ids = [*tokenize_greedy(vocabulary, text), vocabulary.stop_token_ids[0]]
            known.append(Known(file.name, file.schema, ids, mask_digest(compiled, ids)))
    return known


def work_for_ever(
    vocabulary: Any, known: list[Known], folder: str, told: str, seed: int, limit_bytes: int
) -> None:
    """Get grammars, check them and delete entries until this process is killed."""
    rng = random.Random(seed)
    random.seed(seed)
    if seed % 2:
        array_files.open = InPieces  # type: ignore[attr-defined]
    limit = limit_bytes if seed % 3 == 0 else -1
    compiler = GrammarCompiler(
        vocabulary, cache_dir=folder, cache_dir_limit_bytes=limit, cache_enabled=False, on_demand=True
    )
    stream = os.open(told, os.O_WRONLY | os.O_APPEND)
    while True:
        one = rng.choice(known)
        try:
            event = " ".join(got(compiler, one))
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody should meet it
            event = f"error {one.name}: {type(error).__name__}: {error}"
        os.write(stream, (json_format.dumps(event) + "\n").encode())
        names = [name for name in os.listdir(folder) if ENTRY.fullmatch(name)]
        if names and rng.random() < DELETED:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, rng.choice(names)))


def got(compiler: Any, one: Known) -> tuple[str, ...]:
    """How a compiler got a grammar: "found", "made", or "damaged" or "wrong" with its name."""
    before = compiler.stats()["disk"]
    is_right = mask_digest(compiler.compile_json_schema(one.schema), one.ids) == one.digest
    after = compiler.stats()["disk"]
    if not is_right:
        return "wrong", one.name
    if after["damaged"] > before["damaged"]:
        return "damaged", one.name
    return ("found",) if after["hits"] > before["hits"] else ("made",)


def kill_at_random(
    vocabulary: Any, known: list[Known], folder: Path, processes: int, seconds: float, seed: int,
    limit_bytes: int = -1,
) -> Outcome:  # fmt: skip
    """Let processes work on a folder, kill and replace them for some seconds, then check the folder.

    Args:
        limit_bytes: the size limit of the folder in every third process, which evicts entries.
    """
    context = multiprocessing.get_context("fork")  # children inherit the kernels and the vocabulary
    rng, found, seeds = random.Random(seed), Outcome(), itertools.count(seed * 1_000_000 + 1)
    running: list[Any] = [None] * processes
    with tempfile.TemporaryDirectory() as aside:
        told = Path(aside) / "told"
        told.touch()
        until = time.monotonic() + seconds
        while any(running) or time.monotonic() < until:
            is_over = time.monotonic() >= until
            for place, process in enumerate(running):
                if process is not None and (is_over or not process.is_alive()):
                    process.kill()
                    process.join()
                    _note_end(process, folder, found)
                    running[place] = None
                if running[place] is None and not is_over:
                    arguments = (vocabulary, known, str(folder), str(told), next(seeds), limit_bytes)
                    running[place] = context.Process(target=work_for_ever, args=arguments, daemon=True)
                    running[place].start()
            time.sleep(rng.uniform(0.0, 0.2))
            if not is_over:
                rng.choice(running).kill()
        found.events.update(json_format.loads(line) for line in told.read_text().splitlines())
    look(vocabulary, known, folder, found)
    return found


def _note_end(process: Any, folder: Path, found: Outcome) -> None:
    if process.exitcode != -signal.SIGKILL:
        found.ended.append(f"a process ended with {process.exitcode}")
    found.kills += 1
    partial = (name for name in os.listdir(folder) if PARTIAL.fullmatch(name))
    found.while_writing += any(f".{process.pid}." in name for name in partial)


def look(vocabulary: Any, known: list[Known], folder: Path, found: Outcome) -> None:
    """Check the files in a folder: load each entry and compare its masks."""
    names = os.listdir(folder)
    entries = [name for name in names if ENTRY.fullmatch(name)]
    found.entries = len(entries)
    left = [name.removesuffix(".lock") for name in names]  # a killed process leaves its lock file
    found.foreign = [name for name in left if not ENTRY.fullmatch(name) and not PARTIAL.fullmatch(name)]
    with tempfile.TemporaryDirectory() as copies:
        for name in entries:
            shutil.copy(folder / name, copies)
        compiler = GrammarCompiler(vocabulary, cache_dir=copies, cache_enabled=False, on_demand=True)
        how = [got(compiler, one)[0] for one in known]
    found.loaded, found.damaged = how.count("found"), how.count("damaged")
    found.wrong = [one.name for one, what in zip(known, how, strict=True) if what == "wrong"]


def command(
    vocabulary: options.VocabularyOption,
    schemas: options.SchemasOption,
    limit: options.LimitOption = 60,
    seed: options.SeedOption = 0,
    seconds: Annotated[float, typer.Option(help="Seconds of killing.")] = 60.0,
    json: options.OptionalRecordOption = None,
) -> None:
    """Processes that share a cache_dir and are killed while they write: what is left has to be right."""
    arguments = dict(locals())
    files = workloads.load_schema_files(schemas, limit, seed)
    tokens = workloads.load_vocabulary(vocabulary)
    tokens.prepare()
    known = prepare(tokens, files)
    with tempfile.TemporaryDirectory() as folder:
        found = kill_at_random(tokens, known, Path(folder), PROCESSES, seconds, seed)
    print(f"{len(known)} schemas", found, sep="\n")
    good = found.good and found.loaded == found.entries
    counts = {"schemas": len(known), **vars(found), "good": good}
    publish(report.make_console(), json, "killed", arguments, counts, good)


if __name__ == "__main__":
    typer.run(command)
