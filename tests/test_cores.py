"""Pools fit the cores that the process can use: by affinity, and by the quota of a cgroup of version 1 or 2.

What: machines with one core by affinity, or with cgroup files that set a quota; the sizes of the pools of
engines, of their adapters and of the guard.
When: after any change of `adapters.engines.cores`, or where a pool is made.
Limits: the kernel's answers and files are made up, so the effect of a quota on time is not seen.
"""

from __future__ import annotations

import builtins
import io
import multiprocessing
import os
from typing import Any

import joblib
import pytest
import xgrammar

from adapters.engines import cores
from adapters.engines.bounded_compiler import BoundedCompiler
from adapters.engines.settings import Settings
from hybrid.guard import worker

V2 = "/sys/fs/cgroup/cpu.max"
QUOTA, PERIOD = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"

MACHINES: dict[str, tuple[int, dict[str, str], list[int]]] = {
    "one core by affinity": (1, {}, [1, 1, 5, 2, 1]),
    "one": (64, {V2: "100000 100000\n"}, [1, 1, 5, 2, 1]),
    "half": (64, {V2: "50000 100000\n"}, [1, 1, 5, 2, 1]),
    "three and a half": (64, {V2: "350000 100000\n"}, [4, 4, 8, 4, 4]),
    "no quota": (64, {V2: "max 100000\n"}, [64, 64, 32, 8, 8]),
    "version 1": (64, {QUOTA: "200000\n", PERIOD: "100000\n"}, [2, 2, 6, 2, 2]),
    "version 1, no quota": (64, {QUOTA: "-1\n", PERIOD: "100000\n"}, [64, 64, 32, 8, 8]),
    "no cgroup": (64, {}, [64, 64, 32, 8, 8]),
}
"""Cores by affinity on a machine with 64, files of its cgroup, and the numbers expected: cores, cores
reported to vLLM, threads of SGLang's pool, tasks of the guard, threads of one compilation."""


@pytest.mark.parametrize("name", MACHINES)
def test_pools_fit_the_cores(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n_cores, files, expected = MACHINES[name]
    exists, opened = os.path.exists, builtins.open

    def is_there(path: Any) -> bool:
        return path in files if str(path).startswith("/sys/fs/cgroup") else exists(path)

    def open_it(path: Any, *rest: Any, **more: Any) -> Any:
        return io.StringIO(files[path]) if path in files else opened(path, *rest, **more)

    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(n_cores)), raising=False)
    monkeypatch.setattr(os.path, "exists", is_there)
    monkeypatch.setattr(builtins, "open", open_it)
    info = xgrammar.TokenizerInfo([b"a", b"b", b""], stop_token_ids=[2])
    compiler = BoundedCompiler(info, settings=Settings("EQUIMASK_NOTHING"))
    found = [cores.usable(), cores.Cores(multiprocessing).cpu_count(), cores.pool()._max_workers]
    assert [*found, worker.children(), compiler.hybrid.n_jobs] == expected


def test_names_of_multiprocessing_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)
    found = cores.Cores(multiprocessing)
    assert found.cpu_count() == 3 and found.Process is multiprocessing.Process
