"""The parser stack classifier of a Lark grammar, which all its matchers share.

What: the masks and steps of one grammar. The lexer automaton decides them together with the terminal
sequences that the LALR stack accepts, read from its top. All results are cached, as in
`hybrid.classifier.classifier`.
When: made by `GrammarCompiler.compile_lark`; for any number of matchers, in any number of threads.
Limits: `limit` bytes of tables. When they are full, a new session starts with empty tables, and matchers
move their state (the state of the lexer, and the stack) to it.
"""

from __future__ import annotations

from equivalence import TokenClasses, Vocabulary
from hybrid.classifier.classifier import Classifier, Session
from hybrid.lark.store import Store
from hybrid.lark.tables import Fixed


class FactoredClassifier(Classifier):
    """Masks and steps of one Lark grammar, for all its matchers.

    Args:
        fixed: lexer, parser and classes (`tables.fixed_tables`).
        classes: the token classes.
        vocabulary: the vocabulary of the classes.
        limit: bytes that the tables and the cached steps and masks may take together.
    """

    def __init__(self, fixed: Fixed, classes: TokenClasses, vocabulary: Vocabulary, limit: int) -> None:
        self.fixed = fixed
        self._summaries = self.below = None  # states are only computed on demand
        self._begin(classes, vocabulary, limit)

    def _new_session(self, serial: int) -> Session:
        store = Store(self.fixed, self.limit // 2)
        assert self.gather is not None, "there are classes from the beginning"
        return Session(serial, store, store.start(), self.limit // 2, self.gather)

    @property
    def memory_size_bytes(self) -> int:
        """Bytes held now."""
        return super().memory_size_bytes + self.fixed.nbytes
