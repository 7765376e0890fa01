"""Pools are made for the cores that are really there: by affinity, and by a cgroup's quota of either version.

What: processes of their own on one core, or with files of a cgroup that say so; what pools of engines, of
their adapters and of the guard they make then.
When: after any change of `adapters.engines.cores`, or where a pool is made.
Limits: the kernel's files are made up, so what a quota does to time is not seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import pytest

from adapters.engines import cores
from hybrid.guard import worker

PROGRAM = """
import builtins, io, multiprocessing, os, sys
FILES = {FILES!r}
if {affinity!r}:
    os.sched_setaffinity(0, {affinity!r})
if {cpus!r}:  # a machine with more cores
    os.cpu_count = multiprocessing.cpu_count = lambda: {cpus!r}
    os.sched_getaffinity = lambda _: set(range({cpus!r}))
exists, opened = os.path.exists, builtins.open
os.path.exists = lambda path: path in FILES if str(path).startswith("/sys/fs/cgroup") else exists(path)
builtins.open = lambda path, *rest, **more: (
    io.StringIO(FILES[path]) if path in FILES else opened(path, *rest, **more)
)
from adapters.engines.cores import Cores, pool, usable
from adapters.engines.serving import BoundedCompiler
from adapters.engines.settings import Settings
from hybrid.guard import worker
import xgrammar
info = xgrammar.TokenizerInfo([b"a", b"b", b""], stop_token_ids=[2])
compiler = BoundedCompiler(info, settings=Settings("EQUIMASK_NOTHING"))
print(usable(), Cores(multiprocessing).cpu_count(), pool()._max_workers)
print(worker.children(), compiler.hybrid.n_jobs)
"""

V2 = "/sys/fs/cgroup/cpu.max"
QUOTA, PERIOD = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"


def told(files: dict[str, str], affinity: set[int] | None = None, cpus: int | None = None) -> list[int]:
    """What a new process says: cores, those that vLLM is told, threads of SGLang's pool, the guard's tasks,
    threads of one compilation."""
    code = PROGRAM.format(FILES=files, affinity=affinity, cpus=cpus)
    environment = {name: value for name, value in os.environ.items() if name != "LOKY_MAX_CPU_COUNT"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert not done.returncode, done.stderr
    return [int(number) for number in done.stdout.split()]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinities")
def test_one_core_by_affinity() -> None:
    first = min(os.sched_getaffinity(0))
    assert told({}, affinity={first}) == [1, 1, 5, 2, 1]


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({V2: "100000 100000\n"}, [1, 1, 5, 2, 1]),
        ({V2: "50000 100000\n"}, [1, 1, 5, 2, 1]),
        ({V2: "350000 100000\n"}, [4, 4, 8, 4, 4]),
        ({V2: "max 100000\n"}, [64, 64, 32, 8, 8]),
        ({QUOTA: "200000\n", PERIOD: "100000\n"}, [2, 2, 6, 2, 2]),
        ({QUOTA: "-1\n", PERIOD: "100000\n"}, [64, 64, 32, 8, 8]),
        ({}, [64, 64, 32, 8, 8]),
    ],
    ids=["one", "half", "three and a half", "no quota", "version 1", "version 1, no quota", "no cgroup"],
)
def test_quotas_of_cgroups(files: dict[str, str], wanted: list[int]) -> None:
    assert told(files, cpus=64) == wanted


def test_names_of_multiprocessing_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import multiprocessing

    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)
    found = cores.Cores(multiprocessing)
    assert found.cpu_count() == 3 and found.Process is multiprocessing.Process
    assert worker.children() == 3
    with cores.pool() as made:
        assert isinstance(made, ThreadPoolExecutor) and made._max_workers == 7
