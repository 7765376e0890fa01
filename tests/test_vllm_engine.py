"""A whole vLLM with a small random model generates the same ids with and without us; only if vLLM can run."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from bench.cases import CHECKOUT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed"),
]


def run(enabled: str, n_drafts: int, *options: str):
    environment = {**os.environ, "EQUIMASK_VLLM": enabled, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.vllm_engine_run", str(n_drafts), *options]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(next(line for line in reversed(done.stdout.splitlines()) if line.startswith('{"ours"')))


@pytest.mark.parametrize("n_drafts", [0, 3])
def test_the_ids_are_those_without_us_and_errors_end_one_request(n_drafts):
    theirs, ours = run("0", n_drafts), run("1", n_drafts)
    assert ours["ours"] and not theirs["ours"]
    assert ours["ids"] == theirs["ids"]
    assert sum(len(ids) for answers in ours["ids"].values() for ids in answers) > 200
    failed = [[reason == "error" for reason in reasons] for reasons in ours["reasons"]]
    assert failed == [[False, True, False]] * 2
    assert bool(ours["accepted"]) == bool(n_drafts) and ours["accepted"] == theirs["accepted"]


def test_drafts_of_grammars_save_passes_and_the_ids_stay():
    theirs, ours = run("0", 0, "grammar"), run("1", 8, "grammar")
    assert ours["ids"] == theirs["ids"]
    before, after = (sum(one["passes"].values()) for one in (theirs, ours))
    assert ours["accepted"] > 100 and 2 * after < before
