"""The tests of the meaning of XGrammar's grammars, run under another version of it.

What: installs a version of XGrammar with pip into a folder, without its dependencies, and runs tests with
this folder first on the module path.
When: ``python -m tests.robustness.another_xgrammar 0.2.7 0.2.9``; after a change of code that reads
XGrammar's data or writes it. `TESTS` take some minutes per version.
Limits: needs a package index. `tests/versions.py` says which expectations only some versions meet.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[2]

TESTS = (
    "test_serial", "test_layouts", "test_printed", "test_dialect", "test_network", "test_network_foreign",
    "test_network_steps", "test_equality", "test_classifier", "test_compiler", "test_matcher",
    "test_guard", "test_token_ids", "test_sanitize", "test_relaxed", "test_narrowed", "test_model_tags",
    "test_json_schema_tags", "test_adapters_xgrammar", "test_many_tags", "tests/robustness/test_fuzz.py",
)  # fmt: skip
"""Layouts, every case on every strategy, masks of cases and schemas against XGrammar's, and the adapter."""


def install(version: str, folder: Path) -> None:
    """Install a version of XGrammar into a folder, without its dependencies."""
    options = ["-q", "--no-deps", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, f"xgrammar=={version}"], check=True)


def run(folder: Path, tests: list[str]) -> int:
    """Run tests with a folder first on the module path; return pytest's exit status."""
    path = os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")])
    files = [name if "/" in name else f"tests/{name}.py" for name in tests]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", *files]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}).returncode


def command(
    versions: Annotated[list[str], typer.Argument(help="Versions of XGrammar, such as 0.2.7.")],
    tests: Annotated[list[str] | None, typer.Option(help="Names of test files; default `TESTS`.")] = None,
) -> None:
    """Run tests under other versions of XGrammar."""
    failed = []
    for version in versions:
        with tempfile.TemporaryDirectory() as folder:
            install(version, Path(folder))
            print(f"xgrammar {version}", flush=True)
            if run(Path(folder), tests or list(TESTS)):
                failed.append(version)
    if failed:
        raise SystemExit(f"tests fail under {', '.join(failed)}")


if __name__ == "__main__":
    typer.run(command)
