"""XGrammar's interface, served by this project: ``import adapters.xgrammar as xgr`` in place of
``import xgrammar as xgr``.

What: every name of `xgrammar.__all__` and every module of XGrammar's. Compiler, compiled grammar, matcher,
batch and logits processor are ours, with XGrammar's arguments, defaults, results and errors; all else is
XGrammar's own object. `wrap` takes what plain XGrammar made, and
`configure` gives options to compilers that a program makes without.
When: for programs that were written for `xgrammar` 0.2.x (docs/xgrammar.md).
Limits: what XGrammar refuses is refused; what we do not speed up runs in XGrammar, and
`CompiledGrammar.reason` says so.
"""

from __future__ import annotations

from typing import Any

import xgrammar

from adapters.xgrammar import contrib, testing
from adapters.xgrammar.batch import BatchGrammarMatcher
from adapters.xgrammar.compiled import CompiledGrammar
from adapters.xgrammar.compiler import GrammarCompiler
from adapters.xgrammar.compiling import configure
from adapters.xgrammar.contrib import hf
from adapters.xgrammar.matcher import GrammarMatcher
from adapters.xgrammar.modules import pass_through
from adapters.xgrammar.wrapping import wrap

pass_through()

__all__ = [
    "BatchGrammarMatcher",
    "CompiledGrammar",
    "GrammarCompiler",
    "GrammarMatcher",
    "configure",
    "contrib",
    "hf",
    "testing",
    "wrap",
]
__all__ += xgrammar.__all__


def __getattr__(name: str) -> Any:
    """All names that are not ours are XGrammar's."""
    if name.startswith("__"):  # what Python asks of every package is no part of an interface
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(xgrammar, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(xgrammar)})
