"""XGrammar's modules under the name of this package.

What: after `pass_through`, ``import adapters.xgrammar.X`` gives the same object as `xgrammar.X`, unless this
package has a module of that name.
When: called once, by the package.
Limits: as in XGrammar, a module is imported when it is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

OURS, THEIRS = "adapters.xgrammar.", "xgrammar."


class _PassThrough(MetaPathFinder, Loader):
    """A finder that comes first, because Python would load XGrammar's submodules again under the other
    name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(OURS):
            return None
        package = sys.modules[name.rpartition(".")[0]]
        if package.__name__.startswith(OURS.rstrip(".")) and PathFinder.find_spec(name, path, target):
            return None
        theirs = THEIRS + name.removeprefix(OURS)
        return ModuleSpec(name, self) if importlib.util.find_spec(theirs) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(THEIRS + spec.name.removeprefix(OURS))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # it was loaded under its own name, and Python has just overwritten its specification
        given = module.__spec__
        if given is not None and given.loader is self:
            module.__spec__ = given.loader_state


def of_another(owner: ModuleType, module: str, name: str) -> Any:
    """Look up a name that a module does not have in another module. Python's own attributes are left out.

    Raises:
        AttributeError: the other module does not have it either.
    """
    if name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return getattr(owner, name)


def pass_through() -> None:
    """Make XGrammar's modules available from now on."""
    if not any(isinstance(finder, _PassThrough) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PassThrough())
