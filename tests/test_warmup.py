"""The warm-up reaches every kernel, and compilation outside of it is announced once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config
from typer.testing import CliRunner

from bench.cases import CHECKOUT
from hybrid.cli.commands import app
from hybrid.warmup import kernels, warm_up

compiled_only = pytest.mark.skipif(
    bool(config.DISABLE_JIT),  # type: ignore[attr-defined]
    reason="without compiler nothing is compiled",
)
NOTICE = "compiling kernels, once per machine"


def run(code: str, **environment: str) -> str:
    """Standard error and output of a new process."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=CHECKOUT,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


USE_ONE_KERNEL = """
import numpy, hybrid
from hybrid import _kernels
for dtype in (numpy.int32, numpy.int64):
    _kernels.members_by_class(numpy.array([0, 1, -1], dtype), 2)
"""


@compiled_only
def test_compilation_is_announced_once_and_only_where_it_happens(tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(USE_ONE_KERNEL, **cache).count(NOTICE) == 1
    assert NOTICE not in run(USE_ONE_KERNEL, **cache), "numba's cache has it now"


HELD = (
    """
import time
from equivalence.deadline import Deadline
deadline, began = Deadline(1000), time.monotonic()
"""
    + USE_ONE_KERNEL
    + """
print(time.monotonic() - began, 1000 - deadline.left)
"""
)


@compiled_only
def test_the_time_that_kernels_take_to_compile_does_not_count(tmp_path: Path) -> None:
    said = run("import numpy, hybrid\n" + HELD, NUMBA_CACHE_DIR=str(tmp_path))
    passed, counted = map(float, said.splitlines()[-1].split())
    assert 0 <= counted < passed / 2


@compiled_only
def test_other_packages_kernels_are_not_announced() -> None:
    code = "import hybrid, numba\nprint(numba.njit(lambda x: x + 1)(2))"
    assert run(code) == "3\n"


@compiled_only
def test_a_program_may_silence_the_line(tmp_path: Path) -> None:
    silence = "import logging\nlogging.getLogger('hybrid').setLevel(logging.ERROR)\n"
    assert NOTICE not in run(silence + USE_ONE_KERNEL, NUMBA_CACHE_DIR=str(tmp_path))


NEW_KERNELS_IN_CASES = """
from equivalence import HybridError, compute_classes
from hybrid import GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.cli.vocabulary_spec import load_vocabulary
from hybrid.warmup import kernels, warm_up
from tests.conftest import load_cases

def compiled():
    return {(name, str(types)) for name, kernel in kernels().items() for types in kernel.signatures}

warm_up()
known = compiled()
assert len(known) > 20
vocabulary = load_vocabulary("tekken")
compiler = GrammarCompiler(vocabulary, cache_enabled=False)
bitmask = allocate_token_bitmask(1, vocabulary.size)
for case in load_cases():
    try:
        grammar = case.parse()
        matcher = GrammarMatcher(compiler.compile_grammar(grammar))
        matcher.fill_next_token_bitmask(bitmask)
        compute_classes(grammar, vocabulary, "displacement")
    except HybridError:
        pass
    for name, types in sorted(compiled() - known):
        print("NEW", case.name, name, types)
    known |= compiled()
"""


@compiled_only
@pytest.mark.slow
def test_no_case_needs_a_kernel_that_the_warm_up_did_not_reach() -> None:
    """A kernel counts with the types of its arguments: other types are another compilation."""
    found = run(NEW_KERNELS_IN_CASES)
    assert "NEW" not in found, found[:4000]


@compiled_only
def test_a_second_warm_up_compiles_nothing() -> None:
    warm_up()
    names: list[str] = []
    assert warm_up(names.append).compiled == 0
    assert names == []
    assert {name.split(".")[0] for name in kernels()} == {"equivalence", "hybrid"}


@compiled_only
def test_a_warm_up_counts_and_names_what_it_compiles(tmp_path: Path) -> None:
    """In a folder without compiled kernels; only one kernel is run, because all of them take a minute."""
    code = (
        "from hybrid import warmup\nimport io, contextlib\nnames = []\n"
        f"warmup._run_every_kernel = lambda: exec({USE_ONE_KERNEL!r})\n"
        "done = warmup.warm_up(names.append)\nprint(done.compiled, *names)"
    )
    found = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert found == "2 hybrid: members_by_class hybrid: members_by_class\n", "and no notice"


def test_the_command_prints_seconds() -> None:
    result = CliRunner().invoke(app, ["warmup"])
    assert result.exit_code == 0, result.output
    assert "kernels" in result.output and result.output.rstrip().endswith(" s")
