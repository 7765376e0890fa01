"""XGrammar's modules under the name of this package.

What: `pass_through` lets ``import adapters.xgrammar.X`` find `xgrammar.X`, the same object, where this
package has no module of that name.
When: once, by the package.
Limits: a module is imported when it is first asked for, as in XGrammar.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

OURS, THEIRS = "adapters.xgrammar.", "xgrammar."


class _PassThrough(MetaPathFinder, Loader):
    """Asked first, as Python would read a module of a package of XGrammar's anew under the other name."""

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
        # it was executed under its own name, which Python has just written another specification over
        given = module.__spec__
        if given is not None and given.loader is self:
            module.__spec__ = given.loader_state


def pass_through() -> None:
    """Let XGrammar's modules be found from now on."""
    if not any(isinstance(finder, _PassThrough) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PassThrough())
