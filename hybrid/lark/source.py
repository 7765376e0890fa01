"""The source of a Lark grammar: its text and its start rule.

What: `LarkGrammar`, which compiled grammars and artefacts keep.
When: made by `GrammarCompiler.compile_lark` and when artefacts are read.
Limits: none; `hybrid.guard.lark_construction` says which grammars can be built.
"""

from __future__ import annotations

from typing import NamedTuple


class LarkGrammar(NamedTuple):
    """A grammar in Lark's notation.

    Attributes:
        text: the grammar.
        start: its start rule.
    """

    text: str
    start: str = "start"
