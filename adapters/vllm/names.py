"""XGrammar's names as vLLM's backend reads them: compiler and matcher are ours, all others XGrammar's.

What: `Names` stands where the backend's module has ``xgr``.
When: bound by `adapters.vllm.rebinding`.
Limits: ours are imported when they are first read, in the process that compiles, and nowhere else.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

OURS = ("GrammarCompiler", "GrammarMatcher")


class Names(ModuleType):
    """A module that looks names up in two others.

    Args:
        theirs: XGrammar, or what stood in its place.
    """

    def __init__(self, theirs: Any) -> None:
        super().__init__("xgrammar", __doc__)
        self.theirs = theirs

    def __getattr__(self, name: str) -> Any:
        if name in OURS:
            from adapters.vllm import serving

            return getattr(serving, name)
        return getattr(self.theirs, name)
