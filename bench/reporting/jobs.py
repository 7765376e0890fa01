"""Benchmarks as jobs: each runs in a separate process, and its record is kept and not made twice.

What: `Job` is one call of ``python -m bench`` or of another program. `run_all` runs the jobs that have no
record yet, and shows the remaining time. `Done` is the result of one, and `read_all` reads all results of a
folder.
When: in ``python -m bench report``.
Limits: one job at a time, so that none disturbs another. All jobs are in this process's group, so Ctrl-C ends
them. A record is used again if the arguments, the sources and the versions of all packages are the same; the
contents of files that arguments name are not checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.cases import CHECKOUT
from bench.report import say
from equivalence.array_files import write_whole

PATIENCE = 6
"""A job is killed after this many times its expected seconds, plus ten minutes."""


@dataclass(frozen=True)
class Job:
    """One benchmark.

    Attributes:
        name: name of the record, unique; the word before the first ``-`` is its `kind`.
        arguments: the arguments after ``python -m PROGRAM``, without ``--json``.
        seconds: estimate of its duration, for the remaining time.
        program: the module that is run.
    """

    name: str
    arguments: tuple[str, ...]
    seconds: float
    program: str = "bench"

    @property
    def kind(self) -> str:
        """The kind of the record."""
        return self.name.split("-")[0]


@dataclass
class Done:
    """The result of a job.

    ``status`` is the exit status; None if the job was killed. `record` is empty if the job wrote none. `said`
    has the last lines of its output if it failed.
    """

    name: str
    key: str
    status: int | None
    seconds: float
    said: list[str] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)


def key_of(job: Job, sources: str) -> str:
    """Return a hash of everything that a record depends on. It is a hash because arguments name folders of
    the machine."""
    return hashlib.sha256(json.dumps([job.program, job.arguments, sources]).encode()).hexdigest()[:16]


MATTER = ("equivalence", "hybrid", "adapters", "bench", "tests/robustness", ":(exclude)bench/reporting")
"""Code that may change the numbers. If only the report changes, nothing is measured again."""


def sources() -> str:
    """Return a text that identifies the measured code, with uncommitted changes, and the versions of all
    packages."""
    found = [f"{one.name} {one.version}" for one in metadata.distributions()]
    for command in (["ls-files", "--stage", "--", *MATTER], ["diff", "--", *MATTER]):
        try:
            done = subprocess.run(
                ["git", "-C", str(CHECKOUT), *command], capture_output=True, check=True, timeout=30
            )
        except (OSError, subprocess.SubprocessError):
            continue  # there is no checkout, so only the versions count
        found.append(hashlib.sha256(done.stdout).hexdigest())
    return "\n".join(sorted(found))


def kept(job: Job, folder: Path, key: str) -> Done | None:
    """Return the earlier result of a job if it succeeded and has the same key; else None."""
    done = read(folder, job.name)
    return done if done is not None and done.record and done.key == key and done.status == 0 else None


def read(folder: Path, name: str) -> Done | None:
    """Return the result of a job, with any key; None if it cannot be read."""
    try:
        done = Done(**json.loads((folder / f"{name}.done").read_text(encoding="utf-8")))
        if (record := folder / f"{name}.json").exists():
            done.record = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return None
    return done


def read_all(folder: Path) -> dict[str, Done]:
    """Return the results of all jobs of a folder, by name."""
    found = (read(folder, path.stem) for path in sorted(folder.glob("*.done")))
    return {done.name: done for done in found if done is not None}


def run(job: Job, folder: Path, key: str) -> Done:
    """Run a job in a separate process; its record and its output go into `folder`."""
    target, log = folder / f"{job.name}.json", folder / f"{job.name}.log"
    target.unlink(missing_ok=True)
    command = [sys.executable, "-m", job.program, *job.arguments, "--json", str(target)]
    began = perf_counter()
    status: int | None = None
    with log.open("wb") as output, contextlib.suppress(subprocess.TimeoutExpired):
        limit = 600 + PATIENCE * job.seconds
        status = subprocess.run(
            command, cwd=CHECKOUT, stdout=output, stderr=subprocess.STDOUT, timeout=limit
        ).returncode
    done = Done(job.name, key, status, perf_counter() - began)
    if status != 0:
        done.said = log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
    about = {name: value for name, value in asdict(done).items() if name != "record"}
    write_whole(folder / f"{job.name}.done", json.dumps(about, indent=1).encode())
    if target.exists():
        done.record = json.loads(target.read_text(encoding="utf-8"))
    return done


def run_all(console: Console, jobs: Sequence[Job], folder: Path) -> dict[str, Done]:
    """Run all jobs that have no record yet, one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    code = sources()
    found = {job.name: kept(job, folder, key_of(job, code)) for job in jobs}
    done: dict[str, Done] = {}
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    # The remaining time is estimated from whole jobs, because the speed of the last seconds means nothing.
    with Progress(*columns, console=console, speed_estimate_period=1e6) as bar:
        task = bar.add_task("report", total=sum(job.seconds for job in jobs if found[job.name] is None) or 1)
        for job in jobs:
            if (earlier := found[job.name]) is not None:
                done[job.name] = earlier
                continue
            bar.update(task, description=job.name)
            one = done[job.name] = run(job, folder, key_of(job, code))
            bar.advance(task, job.seconds)
            state = "done" if one.status == 0 else "ended" if one.status is None else "NOT WELL"
            say(bar.console, f"{job.name}: {state} in {one.seconds:.0f} s")
    return done
