"""Pools fit the cores that the process can use: by affinity, and by the quota of a cgroup of version 1 or 2.

What: separate processes, on one core or with cgroup files that set a quota; the sizes of the pools of
engines, of their adapters and of the guard.
When: after any change of `adapters.engines.cores`, or where a pool is made.
Limits: the kernel's files are made up, so the effect of a quota on time is not seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
import pytest

from adapters.engines import cores
from hybrid.guard import worker

PROGRAM = """
import builtins, io, json, multiprocessing, os, sys
files, cpus = {}, None
counted, exists, opened = os.cpu_count, os.path.exists, builtins.open
allowed = getattr(os, "sched_getaffinity", None)
os.cpu_count = multiprocessing.cpu_count = lambda: cpus or counted()  # a machine with more cores
os.sched_getaffinity = lambda pid: set(range(cpus)) if cpus else allowed(pid)
os.path.exists = lambda path: path in files if str(path).startswith("/sys/fs/cgroup") else exists(path)
builtins.open = lambda path, *rest, **more: (
    io.StringIO(files[path]) if path in files else opened(path, *rest, **more)
)
from adapters.engines.cores import Cores, pool, usable
from adapters.engines.bounded_compiler import BoundedCompiler
from adapters.engines.settings import Settings
from hybrid.guard import worker
import joblib, xgrammar
info = xgrammar.TokenizerInfo([b"a", b"b", b""], stop_token_ids=[2])
for name, files, affinity, cpus in json.load(sys.stdin):
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, name
        continue
    if affinity:
        os.sched_setaffinity(0, affinity)
    compiler = BoundedCompiler(info, settings=Settings("EQUIMASK_NOTHING"))
    found = [usable(), Cores(multiprocessing).cpu_count(), pool()._max_workers]
    found += [worker.children(), compiler.hybrid.n_jobs]
    print(json.dumps([name, found]), flush=True)
    os._exit(0)
"""

AFFINITY = "one core by affinity"

V2 = "/sys/fs/cgroup/cpu.max"
QUOTA, PERIOD = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"


QUOTAS: dict[str, tuple[dict[str, str], list[int]]] = {
    "one": ({V2: "100000 100000\n"}, [1, 1, 5, 2, 1]),
    "half": ({V2: "50000 100000\n"}, [1, 1, 5, 2, 1]),
    "three and a half": ({V2: "350000 100000\n"}, [4, 4, 8, 4, 4]),
    "no quota": ({V2: "max 100000\n"}, [64, 64, 32, 8, 8]),
    "version 1": ({QUOTA: "200000\n", PERIOD: "100000\n"}, [2, 2, 6, 2, 2]),
    "version 1, no quota": ({QUOTA: "-1\n", PERIOD: "100000\n"}, [64, 64, 32, 8, 8]),
    "no cgroup": ({}, [64, 64, 32, 8, 8]),
}
"""Files of a cgroup on a machine with 64 cores, and the numbers expected from `told`."""


@pytest.fixture(scope="module")
def told() -> dict[str, list[int]]:
    """The numbers that new processes find, by case: cores, cores reported to vLLM, threads of SGLang's pool,
    tasks of the guard, threads of one compilation.

    Nothing is counted before the processes are forked: their parent has only imported the code that counts.
    """
    cases: list[Any] = [(name, files, None, 64) for name, (files, _) in QUOTAS.items()]
    if hasattr(os, "sched_setaffinity"):
        cases.append((AFFINITY, {}, [min(os.sched_getaffinity(0))], None))
    environment = {name: value for name, value in os.environ.items() if name != "LOKY_MAX_CPU_COUNT"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(cases), capture_output=True, text=True,
        env=environment, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinities")
def test_one_core_by_affinity(told: dict[str, list[int]]) -> None:
    assert told[AFFINITY] == [1, 1, 5, 2, 1]


@pytest.mark.parametrize("name", QUOTAS)
def test_quotas_of_cgroups(name: str, told: dict[str, list[int]]) -> None:
    assert told[name] == QUOTAS[name][1]


def test_names_of_multiprocessing_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import multiprocessing

    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)
    found = cores.Cores(multiprocessing)
    assert found.cpu_count() == 3 and found.Process is multiprocessing.Process
    assert worker.children() == 3
    with cores.pool() as made:
        assert isinstance(made, ThreadPoolExecutor) and made._max_workers == 7
