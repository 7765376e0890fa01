"""Processes that share a folder of compiled grammars and are killed at random, also while they write.

What: many processes compile schemas with one `cache_dir`, and delete entries so that something is left to
write; they are killed by SIGKILL at random, half of them as soon as they have begun to write an entry, and
replaced. Every second one writes slowly, so that there is time to kill it meanwhile. Each checks the masks of
what it got; at the end every entry is loaded and its masks are checked.
When: ``python -m bench killed --vocabulary SPEC --schemas FOLDER --json FILE``.
Limits: needs fork and SIGKILL. A killed process is not a machine that loses its power: what the system had
taken to write is written. Masks are those along one instance of each schema, or the first mask; they have to
equal those of a fresh compile without the folder (which `bench.schemas` compares with XGrammar).
"""

from __future__ import annotations

import contextlib
import json as json_format
import multiprocessing
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
import xgrammar
from rich.console import Console
from rich.progress import Progress, track

from bench import options, report, workloads
from bench.ways import accepted, mask_digest
from equivalence import store
from hybrid.compile.cache import ENTRY, PARTIAL
from hybrid.testing.segmentation import tokenize_greedy

DELETED = 0.5
"""Chance that a process deletes some entry after it got one."""


class InPieces:
    """A file that is written in small pieces, as on a slow disk: for `open` in `equivalence.store`."""

    def __init__(self, *arguments: Any) -> None:
        self.stream = open(*arguments)  # noqa: SIM115

    def __enter__(self) -> InPieces:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def write(self, data: bytes) -> None:
        for begin in range(0, len(data), 512):
            self.stream.write(data[begin : begin + 512])
            self.stream.flush()
            time.sleep(0.0005)


@dataclass(frozen=True)
class Known:
    """A schema, a document of it, and the digest of the masks along it, of a fresh compile."""

    name: str
    schema: Any
    ids: list[int]
    digest: str


@dataclass
class Outcome:
    """What a run found.

    Attributes:
        kills: processes that were killed; `while_writing`: of those, the ones that left a partial file.
        events: what the processes told: "found", "made", "damaged", "wrong ...", "error ...".
        ended: processes that ended otherwise, which none should.
        entries, partials: files left; `foreign`: names that are neither.
        loaded: entries that were found and whose masks are right; `damaged`, `wrong`: those that are not.
    """

    kills: int = 0
    while_writing: int = 0
    events: Counter[str] = field(default_factory=Counter)
    ended: list[str] = field(default_factory=list)
    entries: int = 0
    partials: int = 0
    foreign: list[str] = field(default_factory=list)
    loaded: int = 0
    damaged: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        bad = [name for name in self.events if name not in ("found", "made")]
        return not (bad or self.ended or self.foreign or self.damaged or self.wrong)


def prepare(vocabulary: Any, files: list[workloads.SchemaFile], console: Console) -> list[Known]:
    """Schemas that compile and are kept on disk, with the digests of their masks."""
    compiler = workloads.hybrid_compiler(vocabulary, "auto", 1)
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    known = []
    for file in track(files, "compiled without a folder", console=console, transient=True):
        with contextlib.suppress(Exception):  # what is refused is not kept either
            compiled = compiler.compile_json_schema(file.schema)
            if compiled.strategy != "classifier":
                continue
            text = workloads.render_instance(file.valid[0]) if file.valid else b""
            ids = accepted(compiled, tokenize_greedy(vocabulary, text))
            known.append(Known(file.name, file.schema, ids, mask_digest(compiled, ids, bitmask).hex()))
    return known


def work_for_ever(vocabulary: Any, known: list[Known], folder: str, told: str, seed: int) -> None:
    """In a process of its own: gets grammars, checks them, deletes entries, until it is killed."""
    from hybrid import GrammarCompiler

    rng = random.Random(seed)
    if seed % 2:
        store.open = InPieces  # type: ignore[attr-defined]
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    compiler = GrammarCompiler(vocabulary, cache_dir=folder, cache_enabled=False)
    before = compiler.stats()["disk"]
    stream = os.open(told, os.O_WRONLY | os.O_APPEND)
    while True:
        one = rng.choice(known)
        try:
            event = "" if matches(compiler, one, bitmask) else f"wrong {one.name}"
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody should meet it
            event = f"error {one.name}: {type(error).__name__}: {error}"
        after = compiler.stats()["disk"]
        if after["damaged"] > before["damaged"]:
            event = event or f"damaged {one.name}"
        event = event or ("found" if after["hits"] > before["hits"] else "made")
        before = after
        os.write(stream, (json_format.dumps(event) + "\n").encode())
        if rng.random() < DELETED:
            names = [name for name in os.listdir(folder) if ENTRY.fullmatch(name)]
            if names:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, rng.choice(names)))


def matches(compiler: Any, one: Known, bitmask: Any) -> bool:
    """Whether a compiler gives the masks of a fresh compile."""
    compiled = compiler.compile_json_schema(one.schema)
    return mask_digest(compiled, one.ids, bitmask).hex() == one.digest


def kill_at_random(
    vocabulary: Any,
    known: list[Known],
    folder: Path,
    processes: int,
    seconds: float,
    seed: int,
    console: Console,
) -> Outcome:
    """Let processes work on a folder, kill and replace them for some seconds, then look at what is there."""
    context = multiprocessing.get_context("fork")  # kernels and vocabulary are there at once
    rng, found = random.Random(seed), Outcome()
    started = 0
    with tempfile.TemporaryDirectory() as aside, Progress(console=console, transient=True) as progress:
        told = Path(aside) / "told"
        told.touch()

        def start() -> Any:
            nonlocal started
            started += 1
            arguments = (vocabulary, known, str(folder), str(told), seed * 1_000_000 + started)
            process = context.Process(target=work_for_ever, args=arguments, daemon=True)
            process.start()
            return process

        task = progress.add_task("killed", total=seconds)
        running = [start() for _ in range(processes)]
        began = time.monotonic()
        try:
            while time.monotonic() < began + seconds:
                progress.update(task, completed=time.monotonic() - began)
                place = _victim(rng, running, folder, seconds / 20)
                process = running[place]
                if not process.is_alive():
                    found.ended.append(f"a process ended with {process.exitcode}")
                _kill(process, folder, found)
                running[place] = start()
        finally:
            for process in running:
                _kill(process, folder, found)
        found.events.update(json_format.loads(line) for line in told.read_text().splitlines())
    look(vocabulary, known, folder, found, console)
    return found


def _victim(rng: random.Random, running: list[Any], folder: Path, patience: float) -> int:
    """The place of a process to kill: any one after some time, or the first that is seen to write."""
    if rng.random() < 0.5:
        time.sleep(rng.uniform(0.0, 0.4))
        return rng.randrange(len(running))
    pids = {f".{process.pid}.": place for place, process in enumerate(running)}
    until = time.monotonic() + patience
    while time.monotonic() < until:
        for name in os.listdir(folder):
            for pid, place in pids.items():
                if pid in name and PARTIAL.fullmatch(name):
                    return place
    return rng.randrange(len(running))


def _kill(process: Any, folder: Path, found: Outcome) -> None:
    process.kill()
    process.join()
    found.kills += 1
    found.while_writing += any(f".{process.pid}." in name for name in os.listdir(folder))


def look(vocabulary: Any, known: list[Known], folder: Path, found: Outcome, console: Console) -> None:
    """What is left in a folder: each entry is loaded, and its masks are checked."""
    from hybrid import GrammarCompiler

    names = os.listdir(folder)
    found.entries = sum(bool(ENTRY.fullmatch(name)) for name in names)
    found.partials = sum(bool(PARTIAL.fullmatch(name)) for name in names)
    found.foreign = [name for name in names if not ENTRY.fullmatch(name) and not PARTIAL.fullmatch(name)]
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    with tempfile.TemporaryDirectory() as copies:
        for name in names:
            if ENTRY.fullmatch(name):
                shutil.copy(folder / name, copies)
        compiler = GrammarCompiler(vocabulary, cache_dir=copies, cache_enabled=False)
        for one in track(known, "looked at", console=console, transient=True):
            before = compiler.stats()["disk"]
            is_right = matches(compiler, one, bitmask)
            after = compiler.stats()["disk"]
            found.damaged += after["damaged"] - before["damaged"]
            if after["hits"] > before["hits"]:
                found.loaded += is_right
            if not is_right:
                found.wrong.append(one.name)


def command(
    vocabulary: options.VocabularyOption,
    schemas: options.SchemasOption,
    json: options.RecordOption,
    limit: options.LimitOption = 60,
    seed: options.SeedOption = 0,
    processes: Annotated[int, typer.Option(min=1, help="Processes that share the folder.")] = 16,
    seconds: Annotated[float, typer.Option(help="Seconds of killing.")] = 60.0,
) -> None:
    """Processes that share a cache_dir and are killed while they write: what is left has to be right."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        if not hasattr(os, "fork"):
            raise ValueError("this system has no fork; run it on Linux or another Unix")
        files = workloads.load_schema_files(schemas, limit, seed)
        tokens = workloads.load_vocabulary(vocabulary)
        tokens.prepare()
    known = prepare(tokens, files, console)
    with tempfile.TemporaryDirectory() as folder:
        found = kill_at_random(tokens, known, Path(folder), processes, seconds, seed, console)
    events = ", ".join(f"{count:,} {event}" for event, count in found.events.most_common(10))
    report.say(console, f"{len(known):,} schemas, {processes} processes, {seconds:.0f} s: {events}")
    report.say(console, f"{found.kills:,} killed, {found.while_writing:,} of them while they wrote")
    report.say(
        console,
        f"left: {found.entries:,} entries, {found.loaded:,} loaded with the right masks, {found.damaged:,} "
        f"damaged, {len(found.wrong):,} wrong; {found.partials:,} partial files, "
        f"{len(found.foreign):,} others",
    )
    for line in found.ended:
        report.say(console, f"FAILED {line}")
    record = {
        "benchmark": "killed",
        **report.environment(arguments),
        "schemas": len(known),
        **asdict(found),
        "events": dict(found.events),
    }
    report.write_json(json, record)
    if not found.good or found.loaded != found.entries:
        raise typer.Exit(1)
