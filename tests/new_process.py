"""Run a program in a new process.

When: in tests of what depends on imports, on the environment, or on the end of a process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.cases import CHECKOUT


def printed_by(code: str, *arguments: str, cwd: Path = CHECKOUT, **variables: str | None) -> str:
    """Run Python code, which must succeed, and return what it prints.

    Args:
        code, arguments: the program and its arguments.
        cwd: its working directory.
        variables: its environment variables, besides those of this process; None: without this one.
    """
    environment = {name: value for name, value in (os.environ | variables).items() if value is not None}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr[-3000:]
    return done.stdout
