"""The parser stack classifier of a Lark grammar, which all its matchers share.

What: the masks and steps of one grammar. The lexer automaton decides them together with the terminal
sequences that the LALR stack accepts, read from its top. All results are cached, as in
`hybrid.classifier.classifier`.
When: made by `GrammarCompiler.compile_lark`; for any number of matchers, in any number of threads.
Limits: `limit` bytes of tables. When they are full, a new session starts with empty tables, and matchers
move their state (the state of the lexer, and the stack) to it.
"""

from __future__ import annotations

from hybrid.classifier.classifier import Classifier
from hybrid.lark.store import Store


class FactoredClassifier(Classifier):
    """Masks and steps of one Lark grammar, for all its matchers; see `Classifier`.

    Args:
        fixed: lexer, parser and classes (`hybrid.lark.tables.Fixed`).
    """

    def _new_store(self) -> Store:
        return Store(self.fixed, self.limit // 2)
