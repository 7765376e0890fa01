"""The classifier of a grammar that names token ids: masks and steps by text and by id.

What: `IdClassifier` is a classifier for a network in which edges that read ids read symbols instead
(`equivalence.network.token_ids`). Its tables do not know about ids. An id that is accepted is also read by
its symbol, and a mask gets the ids whose symbols can be read next (`hybrid.classifier.named_ids`).
When: made by `hybrid.compile.compilation` for grammars with token edges, excluded tokens and token tag
dispatches, if bytes and stacks decide everything else.
Limits: if an id is read both as text and as an id, `ReadBothWays` sends the sequence to plain XGrammar. It is
not written to files, and there are no masks by class.

A new mask costs one more step, by the byte with which symbols begin, and one for each group of ids if that
byte can be read. Then it is a row like all others.

Ids that are read both ways: XGrammar's `accept_token` unites both results, but records the states after the
id at the position after the first byte of its text, not at the end. Which stacks result depends on the rules
in XGrammar's own form, which the network does not have. The mask before the id does not depend on this. For a
text of one byte, XGrammar's result is right, but we would have to unite two sets of stacks, which nothing
else needs.

Rejected: symbols as tokens of a larger vocabulary, which are walked and classified like others. Each
vocabulary would have a second trie (0.8 s) for what takes a step or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equivalence.network.token_ids import MARKER, escaped
from hybrid.classifier.classifier import Classifier, Session
from hybrid.classifier.named_ids import NamedIds


class ReadBothWays(Exception):
    """An id is read both as text and as an id: plain XGrammar must decide what follows."""


class IdClassifier(Classifier):
    """Masks and steps of a grammar that names ids; see `Classifier`.

    Args:
        ids: the meaning of the grammar's symbols.

    Attributes:
        ids: the argument.
    """

    by_text = False

    def __init__(self, ids: NamedIds, *arguments: Any, **named: Any) -> None:
        self.ids = ids
        super().__init__(*arguments, **named)

    def _count_kept(self) -> None:
        super()._count_kept()
        self._kept_bytes += self.ids.nbytes

    def step(self, session: Session, config: int, token: int) -> int:
        """See `Classifier.step`.

        Raises:
            ReadBothWays: the token is read both as text and as an id.
        """
        after = self.ids.step(session.store, config, token)
        if after < 0:
            raise ReadBothWays
        session.remember(config, token, after)
        return after

    def read(self, session: Session, config: int, text: bytes) -> int:
        """See `Classifier.read`."""
        return super().read(session, config, escaped(text))

    def read_again(self, session: Session, read: list[int | bytes | None], tokens: Sequence[bytes]) -> int:
        """See `Classifier.read_again`. An id of the history is not replaced by its text."""
        config = session.start
        for one in read:
            if isinstance(one, bytes):
                config = self.read(session, config, one)
            elif one is not None:
                config = self.step(session, config, one)
        return config

    def forced_byte(self, session: Session, config: int) -> int:
        """See `Classifier.forced_byte`. As in XGrammar, an id that could replace the text does not count."""
        return int(session.store.forced_byte(config, MARKER))
