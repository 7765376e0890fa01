"""The parser stack classifier of a Lark grammar: what its matchers share.

What: masks and steps of one grammar, decided by its lexer automaton and by what reading the LALR stack from
the top says of terminal sequences; everything met is remembered, as in `hybrid.classifier.classifier`.
When: made by `GrammarCompiler.compile_lark`; any number of matchers, in any number of threads.
Limits: `limit` bytes of tables. Where they are used up a new session begins with empty ones, and matchers
bring over what they hold: the lexer's state and the stack.
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
        vocabulary: the vocabulary that they are of.
        limit: bytes that tables, remembered steps and masks may take together.
    """

    whole_takes_lock = True

    def __init__(self, fixed: Fixed, classes: TokenClasses, vocabulary: Vocabulary, limit: int) -> None:
        self.fixed = fixed
        self._known = self.reachable = None  # what is found on demand has no end here
        self._begin(classes, vocabulary, limit)

    def _new_session(self, serial: int) -> Session:
        store = Store(self.fixed, self.limit // 2)
        assert self.gather is not None, "there are classes from the beginning"
        return Session(serial, store, store.start(), self.limit // 2, self.gather)

    @property
    def memory_size_bytes(self) -> int:
        """Bytes held now."""
        return super().memory_size_bytes + self.fixed.nbytes
