"""Compiled modules: those that were built from other source are refused, and so are modules that were not
built.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from equivalence import source_check

CHECKOUT = Path(__file__).resolve().parent.parent
MODULE = "equivalence.arrays.interning"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the smallest part of the code from which compiled modules can be imported."""
    original, package = CHECKOUT / "equivalence", tmp_path / "equivalence"
    for room in ("arrays", "deadline"):
        shutil.copytree(original / room, package / room)
    (package / "__init__.py").write_text("from equivalence import source_check\n\nsource_check.require()\n")
    modules = "errors.py", "forks.py", "weak_methods.py", "atomic.pxd"
    for pattern in ("source_check.p*", *modules, "cython_shared_*"):  # all extensions import the last
        for path in original.glob(pattern):
            shutil.copy(path, package)
    (tmp_path / "setup.py").write_text("")
    return tmp_path


def imported(checkout: Path) -> subprocess.CompletedProcess[str]:
    """Import a compiled module there, in another process, and return the result."""
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    command = [sys.executable, "-c", f"import {MODULE} as one; print(one.__file__)"]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)


def test_what_was_built_from_this_source_is_imported(checkout: Path) -> None:
    result = imported(checkout)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))


def test_what_was_built_from_other_source_is_refused(checkout: Path) -> None:
    for edited in ("interning.py", "interning.pxd", "hashing.pxd", "account.pxd"):
        path = checkout / "equivalence" / "arrays" / edited
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        result = imported(checkout)
        assert result.returncode != 0, edited
        assert "has changed since" in result.stderr and "make build" in result.stderr
        path.write_bytes(before)


def test_declarations_that_are_imported_from_a_package_count() -> None:
    files: list[Path] = []
    source_check._collect(CHECKOUT / "equivalence" / "network" / "printed.py", files)
    names = {file.name for file in files}
    assert {"printed.py", "printed.pxd", "serial.pxd", "interning.pxd", "account.pxd"} <= names


def test_an_installed_package_is_not_asked(checkout: Path) -> None:
    (checkout / "setup.py").unlink()
    (checkout / "equivalence" / "arrays" / "interning.py").unlink()
    assert imported(checkout).returncode == 0


def test_what_was_not_built_is_refused(checkout: Path) -> None:
    for path in (checkout / "equivalence" / "arrays").iterdir():
        if path.name.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            path.unlink()
    result = imported(checkout)
    assert result.returncode != 0
    assert "compiled modules are missing" in result.stderr and "make build" in result.stderr


def test_all_compiled_modules_of_this_checkout_are_built() -> None:
    for package in ("equivalence", "hybrid"):
        for source in (CHECKOUT / package).rglob("*.py"):
            with open(source, encoding="utf-8") as file:
                if not file.readline().startswith("# cython:"):
                    continue
            name = ".".join(source.relative_to(CHECKOUT).with_suffix("").parts)
            spec = importlib.util.find_spec(name)
            assert isinstance(spec.loader, importlib.machinery.ExtensionFileLoader), f"{name} is not built"
