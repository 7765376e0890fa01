"""Many schemas on many engines: processes that can be killed, and results that are kept.

What: `ResultFile` is a file of results, one per line, which a later run continues. `Process` is a worker
that is killed if a question takes too much time or memory. `run_all` measures all files on all engines.
When: in ``python -m bench maskbench`` and ``python -m bench testsuite``.
Limits: a result is used again if the engine's version, the settings and the measuring code (and for equimask
all of its code) are the same; otherwise its file begins anew. Memory is checked four times a second, on Linux
only. Engines take turns on each schema, in an order that depends on its name, so that other work of the
machine affects all of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from bench.cases import CHECKOUT
from bench.json_schema import engines
from bench.json_schema.worker import JUDGE
from bench.workloads import SchemaFile

MEASURING = ("files", "judge", "order", "texts", "engines", "measurement", "worker")
"""Modules of this room on which results depend."""

WORKER = "bench.json_schema.worker"

START_SECONDS = 180.0
"""A worker must start within this time."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """How engines are measured.

    Attributes:
        quick: whether only verdicts are computed.
        seconds: time limit of one schema on one engine.
        gibibytes: memory limit of a worker.
        remotes: as in `bench.json_schema.remotes`.
    """

    vocabulary: str
    quick: bool = False
    seconds: float = 60.0
    gibibytes: float = 8.0
    unique_items: bool = False
    remotes: str = ""


class Ended(Exception):
    """A worker was killed, or ended by itself; the message is the outcome."""


class Process:
    """A worker. It is started when it is first needed, and again after it has ended."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def ask(self, file: SchemaFile) -> Iterator[Row]:
        """Yield the worker's answers about a file, as they come.

        Raises:
            Ended: it took too much time or memory, or crashed.
            ValueError: as in `begin`.
        """
        self.begin()
        question = {"file": file.name, "schema": file.schema, "instances": list(file.instances)}
        assert self._process is not None and self._process.stdin is not None
        until = monotonic() + self._settings.seconds
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            self.end()
            raise Ended("crashed") from None
        while "done" not in (said := self._answer(until)):
            yield said["answer"]

    def end(self) -> None:
        """Kill the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.kill()
        process.wait()
        self._folder.cleanup()

    def begin(self) -> None:
        """Start the process, if there is none.

        Raises:
            ValueError: its engine is not available.
        """
        if self._process is not None:
            return
        own = {"name": self.name, **vars(self._settings)}
        self._rest = b""
        self._folder = tempfile.TemporaryDirectory()  # engines put their files here
        self._process = subprocess.Popen(
            [sys.executable, "-m", WORKER, json.dumps(own)],
            cwd=CHECKOUT, env={**os.environ, "TMPDIR": self._folder.name},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            said = self._answer(monotonic() + START_SECONDS)
        except Ended as ended:
            said = {"missing": f"its process is {ended} before it answers"}
        if said["missing"]:
            self.end()
            raise ValueError(f"{self.name} cannot be started: {said['missing']}")

    def _answer(self, until: float) -> Row:
        """Return the next line.

        Raises:
            Ended: as in `ask`.
        """
        process = self._process
        assert process is not None and process.stdout is not None
        while b"\n" not in self._rest:
            left = until - monotonic()
            outcome = "over time" if left <= 0 else "over memory" if self._is_too_large() else ""
            if not outcome and select.select([process.stdout], [], [], min(left, 0.25))[0]:
                data = os.read(process.stdout.fileno(), 1 << 20)
                self._rest += data
                outcome = "" if data else "crashed"
            if outcome:
                self.end()
                raise Ended(outcome)
        line, _, self._rest = self._rest.partition(b"\n")
        found: Row = json.loads(line)
        return found

    def _is_too_large(self) -> bool:
        assert self._process is not None
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return False
        return pages * os.sysconf("SC_PAGE_SIZE") > self._settings.gibibytes * 2**30


class ResultFile:
    """The results of one engine, or of the judge: a line of JSON each, after a line that identifies them."""

    def __init__(self, folder: Path, name: str, key: Mapping[str, Any]) -> None:
        self.path = folder / f"{name.replace(':', '-')}.jsonl"
        self.rows: dict[str, Row] = {}
        self.begun_anew = False
        head = json.dumps({"of": name, **key})
        lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        if lines and lines[0].decode("utf-8", "replace") == head:
            for line in lines[1:]:
                with suppress(ValueError):  # the last line of an interrupted run may be incomplete
                    row = json.loads(line)
                    self.rows[row["name"]] = row
        else:
            self.begun_anew = bool(lines)
        folder.mkdir(parents=True, exist_ok=True)
        rest = [json.dumps(row) for row in self.rows.values()]
        self.path.write_text("".join(f"{line}\n" for line in (head, *rest)), encoding="utf-8")
        self._file = self.path.open("a", encoding="utf-8")

    def add(self, row: Row) -> None:
        """Add a result."""
        self.rows[row["name"]] = row
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def key_of(name: str, settings: Settings) -> dict[str, Any]:
    """Return everything that the results of an engine depend on."""
    here = Path(__file__).parent
    code = [here / f"{module}.py" for module in MEASURING]
    if name == JUDGE:
        from importlib import metadata

        version = metadata.version("jsonschema")
        return {"version": version, "code": _hashed(code), "unique_items": settings.unique_items}
    if name.startswith("equimask"):
        for package in ("equivalence", "hybrid"):
            code += sorted((CHECKOUT / package).rglob("*.py")) + sorted((CHECKOUT / package).rglob("*.so"))
    else:
        code += sorted((CHECKOUT / "bench" / "peers").glob("*.py"))
    return {"version": engines.version(name), "code": _hashed(code), **vars(settings)}


def _hashed(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


@dataclass
class Lane:
    """Processes of all engines and of the judge."""

    settings: Settings
    processes: dict[str, Process] = field(default_factory=dict)

    def serve(self, file: SchemaFile, names: Sequence[str]) -> dict[str, Row]:
        """Measure one file on all engines, in an order that depends on its name."""
        order = list(names)
        random.Random(file.name).shuffle(order)
        return {name: self._row(file, name) for name in order}

    def _row(self, file: SchemaFile, name: str) -> Row:
        process = self.processes.setdefault(name, Process(name, self.settings))
        found: Row = {}
        process.begin()
        began = monotonic()
        try:
            for answer in process.ask(file):
                found = answer
            outcome = "refused" if found.get("refusal") else "done"
        except Ended as ended:
            outcome = str(ended)
        seconds = round(monotonic() - began, 4)
        # If the worker was killed, `found` has what it answered before.
        return {"name": file.name, "outcome": outcome, "seconds": seconds, **found}

    def end(self) -> None:
        for process in self.processes.values():
            process.end()


def run_all(
    files: Sequence[tuple[str, Callable[[], SchemaFile]]], kept: Mapping[str, ResultFile], settings: Settings
) -> Iterator[str]:
    """Measure files on engines, except for kept results. Yield the names of files when they are done.

    Args:
        files: their names, and how to read each.
        kept: the kept results, by engine.
        settings: the settings of the engines.

    Raises:
        ValueError: a file cannot be read, or an engine cannot be started.
    """
    lane = Lane(settings)
    try:
        for name, read in files:
            if wanted := [engine for engine, own in kept.items() if name not in own.rows]:
                for engine, row in lane.serve(read(), wanted).items():
                    kept[engine].add(row)
            yield name
    finally:
        lane.end()
