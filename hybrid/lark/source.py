"""The source of a Lark grammar: its text, its start rule, and its terminals.

What: `LarkGrammar`, which compiled grammars and artefacts keep.
When: made by `GrammarCompiler.compile_lark` and when artefacts are read.
Limits: none; `hybrid.guard.lark_construction` says which grammars can be built.
"""

from __future__ import annotations

from typing import NamedTuple

from hybrid.guard.lark_serialisation import Terminal


class LarkGrammar(NamedTuple):
    """A grammar in Lark's notation.

    Attributes:
        text: the grammar.
        start: its start rule.
        terminals: its terminals, by their numbers in the tables of a compiled grammar.
    """

    text: str
    start: str
    terminals: tuple[Terminal, ...] = ()
