"""XGrammar's own Python tests, run with `adapters.xgrammar`.

What: copies a checkout's tests to a new folder, changes their imports of `xgrammar` to `adapters.xgrammar`,
and runs them once on plain XGrammar and once for each strategy. It counts the tests that plain XGrammar
passes, and lists those of them that do not pass with the adapter.
When: ``python -m tests.robustness.behind_the_adapter CHECKOUT/tests --strategy auto``, with the tests of the
installed XGrammar version.
Limits: tests that need a model from the network skip themselves (marker ``hf_token_required``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[2]

IMPORTS = {
    r"^(\s*)import xgrammar as ": r"\1import adapters.xgrammar as ",
    r"^(\s*)import xgrammar$": r"\1import adapters.xgrammar as xgrammar",
    r"^(\s*)from xgrammar((?:\.\w+)*) import ": r"\1from adapters.xgrammar\2 import ",
}
"""The replacements that "change one import" makes in a source text."""

SECONDS = 1800.0
"""Time limit of one run."""

Outcomes = dict[str, tuple[str, str]]
"""For each test "passed", "failure", "skipped" or "error", and the beginning of its message."""


def behind(text: str) -> str:
    """The source of a test with the adapter in place of XGrammar."""
    for pattern, replacement in IMPORTS.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def run(tests: Path, strategy: str, workers: int = 0) -> Outcomes:
    """Run all tests of a folder.

    Args:
        tests: the folder, with its conftest.
        strategy: the adapter's strategy; "plain" is XGrammar itself.
        workers: number of pytest-xdist workers; 0 for none.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(tests, folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        configure = ""
        if strategy != "plain":
            for file in folder.rglob("*.py"):
                file.write_text(behind(file.read_text(encoding="utf-8")), encoding="utf-8")
            # the tests make their own compilers
            configure = f"from adapters.xgrammar import configure\nconfigure(strategy={strategy!r})\n"
        (folder / "chosen_strategy.py").write_text(configure)
        marker = 'markers = ["hf_token_required: needs a model of the network"]'
        (folder / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{marker}\n")
        command = [
            sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider",
            "-p", "chosen_strategy", "-m", "not hf_token_required", "--tb=line",
            "--junitxml=out.xml", "-o", "junit_family=xunit2", "tests",
        ]  # fmt: skip
        command += ["-n", str(workers)] if workers else []
        path = os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")])
        # some tests take their parameters from sets, whose order numbers the tests
        environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}
        subprocess.run(command, cwd=folder, env=environment, timeout=SECONDS, stdout=sys.stderr)
        return outcomes(folder / "out.xml")


def outcomes(report: Path) -> Outcomes:
    """The outcome of each test in a report of pytest."""
    found: Outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        ends = [child for child in case if child.tag in ("failure", "error", "skipped")]
        how, says = (ends[-1].tag, ends[-1].get("message") or "") if ends else ("passed", "")
        found[f"{case.get('classname')}::{case.get('name')}"] = how, " ".join(says.split())[:300]
    return found


def worse(plain: Outcomes, ours: Outcomes) -> dict[str, str]:
    """The tests that pass with plain XGrammar but not with the adapter, with their messages."""
    return {
        test: (" ".join(ours[test]) if test in ours else "it was not run")
        for test, (how, _) in plain.items()
        if how == "passed" and ours.get(test, ("", ""))[0] != "passed"
    }


def command(
    tests: Annotated[Path, typer.Argument(help="The folder `tests` of a checkout of XGrammar.")],
    strategy: Annotated[list[str] | None, typer.Option(help="Strategies; default all.")] = None,
    workers: Annotated[int, typer.Option(help="Of pytest-xdist.")] = 0,
) -> None:
    """XGrammar's own tests behind the adapter, beside plain XGrammar."""
    plain = run(tests, "plain", workers)
    counts = Counter(how for how, _ in plain.values())
    print("plain:", dict(counts))
    for name in strategy or ["auto", "classifier", "representatives", "engine"]:
        ours = run(tests, name, workers)
        lost, gained = worse(plain, ours), worse(ours, plain)
        print(f"{name}: {len(lost)} of the {counts['passed']} do not pass; {len(gained)} others pass")
        for test, says in lost.items():
            print(f"  {test}: {says}")


if __name__ == "__main__":
    typer.run(command)
