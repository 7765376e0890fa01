"""XGrammar's interface, served by this project: ``import adapters.xgrammar as xgr`` instead of ``import
xgrammar as xgr``.

What: all names of `xgrammar.__all__` and all modules of XGrammar. Compiler, compiled grammar, matcher, batch
and logits processor are ours, with XGrammar's arguments, defaults, results and errors. Everything else is
XGrammar's own object. `wrap` converts objects of plain XGrammar, and `configure` sets default options for
compilers that a program makes without options.
When: for programs written for `xgrammar` 0.2.x (docs/xgrammar.md).
Limits: grammars that XGrammar refuses are refused. Features that we do not speed up run in XGrammar, and
`CompiledGrammar.reason` says so.
"""

from __future__ import annotations

from functools import partial

import xgrammar

from adapters.xgrammar import contrib, testing
from adapters.xgrammar.base_compiler import configure
from adapters.xgrammar.batch import BatchGrammarMatcher
from adapters.xgrammar.compiled import CompiledGrammar
from adapters.xgrammar.compiler import GrammarCompiler
from adapters.xgrammar.contrib import hf
from adapters.xgrammar.conversion import wrap
from adapters.xgrammar.matcher import GrammarMatcher
from adapters.xgrammar.modules import of_another, pass_through

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


__getattr__ = partial(of_another, xgrammar, __name__)  # all other names are XGrammar's


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(xgrammar)})
