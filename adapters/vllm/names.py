"""XGrammar's names for vLLM's backend: compiler and matcher are ours, all others XGrammar's.

What: `Names` replaces ``xgr`` in the backend's module.
When: bound by `adapters.vllm.rebinding`.
Limits: our classes are imported when they are first used, so only in the process that compiles.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

OURS = ("GrammarCompiler", "GrammarMatcher")


class Names(ModuleType):
    """A module that looks names up in two others.

    Args:
        theirs: XGrammar, or the module that had replaced it.
    """

    def __init__(self, theirs: Any) -> None:
        super().__init__("xgrammar", __doc__)
        self.theirs = theirs

    def __getattr__(self, name: str) -> Any:
        if name in OURS:
            from adapters.vllm import serving

            return getattr(serving, name)
        return getattr(self.theirs, name)
