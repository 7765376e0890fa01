"""The requirements that `make test` installs besides the project: those of its extra in pyproject."""

from __future__ import annotations

import subprocess
import sys

from bench.cases import CHECKOUT


def lines_of(extra: str) -> tuple[int, str]:
    command = [sys.executable, CHECKOUT / "tools" / "extra.py", extra]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_markers_stay_but_for_the_extra() -> None:
    status, printed = lines_of("test")
    assert status == 0 and "extra" not in printed
    lines = printed.splitlines()
    assert any(line.startswith("pytest>=") for line in lines)
    assert any(line.startswith("tomli") and line.endswith('; python_version < "3.11"') for line in lines)
    assert not any(line.startswith("matplotlib") for line in lines)


def test_an_extra_that_is_none_is_an_error() -> None:
    assert lines_of("tests") == (1, "")
