"""Benchmarks as jobs: each a process of its own, whose record is kept and not made twice.

What: `Job` is one call of ``python -m bench`` or of another program, `run_all` runs those that have no record
yet and tells how long the rest takes, `Done` is what became of one, `read_all` finds them again.
When: in ``python -m bench report``.
Limits: one job at a time, so that none disturbs another; all are in this process's group, so Ctrl-C ends
all. A record counts as made if the arguments, the sources and the versions of all packages were the same;
what is in the files that arguments name is not looked at.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.cases import CHECKOUT
from equivalence.store import write_whole

PATIENCE = 6
"""A job is ended after so many times the seconds that were expected of it, and ten minutes."""


@dataclass(frozen=True)
class Job:
    """One benchmark.

    Attributes:
        name: of its record, unique; the word before the first ``-`` is its `kind`.
        arguments: after ``python -m PROGRAM``, without ``--json``.
        seconds: about how long it takes, for the time that is left.
        program: the module that is run.
    """

    name: str
    arguments: tuple[str, ...]
    seconds: float
    program: str = "bench"

    @property
    def kind(self) -> str:
        """What the record is of."""
        return self.name.split("-")[0]


@dataclass
class Done:
    """What became of a job.

    ``status`` is the exit status, None if it was ended; `record` is empty where it wrote none. `said` are
    the last lines of what it printed, where something went wrong.
    """

    name: str
    key: str
    status: int | None
    seconds: float
    said: list[str] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)
    is_kept: bool = False


def key_of(job: Job, sources: str) -> str:
    """A name for all that a record depends on; a hash, as arguments name folders of the machine."""
    return hashlib.sha256(json.dumps([job.program, job.arguments, sources]).encode()).hexdigest()[:16]


MATTER = ("equivalence", "hybrid", "adapters", "bench", "tests/robustness", ":(exclude)bench/reporting")
"""What numbers come from; the report itself may change without measuring again."""


def sources() -> str:
    """A name for the code that is measured, as committed and as changed since, and for all packages."""
    found = [f"{one.name} {one.version}" for one in metadata.distributions()]
    for command in (["ls-files", "--stage", "--", *MATTER], ["diff", "--", *MATTER]):
        try:
            done = subprocess.run(
                ["git", "-C", str(CHECKOUT), *command], capture_output=True, check=True, timeout=30
            )
        except (OSError, subprocess.SubprocessError):
            continue  # no checkout: the version has to do
        found.append(hashlib.sha256(done.stdout).hexdigest())
    return "\n".join(sorted(found))


def kept(job: Job, folder: Path, key: str) -> Done | None:
    """The job as it was done before, with the same key and to the end."""
    done = read(folder, job.name)
    return done if done is not None and done.record and done.key == key and done.status == 0 else None


def read(folder: Path, name: str) -> Done | None:
    """What became of a job, whatever it was made from; None where nothing can be read."""
    try:
        done = Done(**json.loads((folder / f"{name}.done").read_text(encoding="utf-8")), is_kept=True)
        if (record := folder / f"{name}.json").exists():
            done.record = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return None
    return done


def read_all(folder: Path) -> dict[str, Done]:
    """All jobs of a folder by name."""
    found = (read(folder, path.stem) for path in sorted(folder.glob("*.done")))
    return {done.name: done for done in found if done is not None}


def run(job: Job, folder: Path, key: str, progress: Iterable[None]) -> Done:
    """Run a job in a process of its own; its record and what it prints go into `folder`.

    Args:
        progress: is asked for its next item once a second.
    """
    target, log = folder / f"{job.name}.json", folder / f"{job.name}.log"
    target.unlink(missing_ok=True)
    command = [sys.executable, "-m", job.program, *job.arguments, "--json", str(target)]
    ticks = iter(progress)
    began = perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=CHECKOUT, stdout=output, stderr=subprocess.STDOUT)
        status: int | None = None
        try:
            while status is None and perf_counter() - began < 600 + PATIENCE * job.seconds:
                try:
                    status = process.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    next(ticks, None)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    done = Done(job.name, key, status, perf_counter() - began)
    if status != 0:
        done.said = log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
    about = {name: value for name, value in asdict(done).items() if name not in ("record", "is_kept")}
    write_whole(folder / f"{job.name}.done", json.dumps(about, indent=1).encode())
    if target.exists():
        done.record = json.loads(target.read_text(encoding="utf-8"))
    return done


def run_all(console: Console, jobs: Sequence[Job], folder: Path) -> dict[str, Done]:
    """Run all jobs that have no record yet, one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    code = sources()
    found: dict[str, Done] = {}
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(), TextColumn("left about"), TimeRemainingColumn(),
    )  # fmt: skip
    # Estimates are of whole jobs: the speed of the last seconds would say nothing.
    with Progress(*columns, console=console, speed_estimate_period=1e6) as bar:
        waiting = []
        for job in jobs:
            key = key_of(job, code)
            if (done := kept(job, folder, key)) is None:
                waiting.append((job, key))
            else:
                found[job.name] = done
        task = bar.add_task("report", total=sum(job.seconds for job, _ in waiting) or 1)
        before = 0.0
        for job, key in waiting:
            bar.update(task, description=job.name)

            def ticks(job: Job = job, before: float = before) -> Iterable[None]:
                """Up to 19 twentieths while the job runs: how far it is nobody knows."""
                second = 0
                while True:
                    second += 1
                    bar.update(task, completed=before + min(second, 0.95 * job.seconds))
                    yield

            done = found[job.name] = run(job, folder, key, ticks())
            before += job.seconds
            bar.update(task, completed=before)
            state = "done" if done.status == 0 else "ended" if done.status is None else "NOT WELL"
            bar.console.print(f"{job.name}: {state} in {done.seconds:.0f} s", markup=False, highlight=False)
        bar.update(task, description="report", completed=before or 1)
    return {job.name: found[job.name] for job in jobs}
