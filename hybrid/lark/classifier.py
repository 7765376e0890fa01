"""The parser stack classifier of a Lark grammar: what its matchers share.

What: masks and steps of one grammar, decided by its lexer automaton and by what reading the LALR stack from
the top says of terminal sequences; everything met is remembered, as in `hybrid.classifier.classifier`.
When: made by `GrammarCompiler.compile_lark`; any number of matchers, in any number of threads.
Limits: `limit` bytes of tables. Where they are used up a new session begins with empty ones, and matchers
bring
over what they hold: the lexer's state and the stack.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence import TokenClasses, Vocabulary
from hybrid.classifier.classifier import Classifier, Session
from hybrid.lark import _kernels
from hybrid.lark.tables import Fixed, Store


class FactoredClassifier(Classifier):
    """Masks and steps of one Lark grammar, for all its matchers.

    Args:
        fixed: lexer, parser and classes (`tables.fixed_tables`).
        classes: the token classes.
        vocabulary: the vocabulary that they are of.
        limit: bytes that tables, remembered steps and masks may take together.
    """

    kernels = _kernels
    whole_asks_kernels = True

    def __init__(self, fixed: Fixed, classes: TokenClasses, vocabulary: Vocabulary, limit: int) -> None:
        self.fixed = fixed
        self._known = self.reachable = None  # what is found on demand has no end here
        self._begin(classes, vocabulary, limit)

    def _new_session(self, serial: int) -> Session:
        store = Store(self.fixed, self.limit // 2)
        return Session(serial, store, store.start, self.limit // 2)

    @property
    def memory_size_bytes(self) -> int:
        """Bytes held now."""
        return super().memory_size_bytes + self.fixed.nbytes

    def is_whole(self, session: Session, config: int) -> bool:
        """Whether Lark takes the text read so far as it is."""
        return bool(session.store.call(_kernels.class_mask, config) & 1)

    def moved(self, config: int, old: Any, session: Session) -> int:
        """A configuration of an earlier session's tables, brought to a session."""
        state, node = old.configs[config].tolist()
        states = []
        while node:
            below = int(old.nodes[node, 1])
            states.append(int(old.nodes[node, 0]))
            node = below
        return session.store.call(_kernels.put_config, state, np.array(states[::-1], np.int64))
