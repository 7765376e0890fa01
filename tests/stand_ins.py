"""Modules that stand in for those of an engine that need not be installed.

What: `modules_of` makes modules with their packages; `standing_in` puts them into `sys.modules` and imports
our adapter over them.
When: in tests of the adapters of engines; `tests.vllm_stand_in` and `tests.sglang_stand_in` have contents.
Limits: one stand-in for an engine at a time.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import adapters

Put = Callable[..., tuple[Any, dict[str, ModuleType]]]


def modules_of(contents: Mapping[str, Mapping[str, Any]]) -> dict[str, ModuleType]:
    """Return modules by name, with these contents, and the packages that they are in."""
    made: dict[str, ModuleType] = {}
    for name, values in contents.items():
        parts = name.split(".")
        for package in (".".join(parts[:n]) for n in range(1, len(parts) + 1)):
            made.setdefault(package, ModuleType(package))
        vars(made[name]).update(values)
    for name, module in made.items():
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        module.__path__ = []
    return made


@contextlib.contextmanager
def standing_in(engine: str, make: Callable[..., dict[str, ModuleType]]) -> Iterator[Put]:
    """Yield a function that installs a stand-in for an engine, made with its arguments, and imports our
    adapter anew; restore all modules afterwards."""

    def taken_out() -> dict[str, ModuleType]:
        beginnings = (f"{engine}.", f"adapters.{engine}")
        names = [name for name in sys.modules if name == engine or name.startswith(beginnings)]
        return {name: sys.modules.pop(name) for name in names}

    def put(**arguments: Any) -> tuple[Any, dict[str, ModuleType]]:
        taken_out()
        modules = make(**arguments)
        sys.modules.update(modules)
        return importlib.import_module(f"adapters.{engine}"), modules

    before = taken_out()
    try:
        yield put
    finally:
        taken_out()
        sys.modules.update(before)
        vars(adapters).pop(engine, None)
        if f"adapters.{engine}" in before:
            vars(adapters)[engine] = before[f"adapters.{engine}"]
