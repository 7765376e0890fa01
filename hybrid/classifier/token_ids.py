"""A classifier of a grammar that names token ids: masks and steps by text, and by id.

What: `IdClassifier` is a classifier over a network in which edges that read ids read symbols
(`equivalence.network.token_ids`). Its tables know nothing of that; an id that is accepted is read by its
symbol, too, and a mask gets the ids whose symbols can be read next (`hybrid.classifier.named_ids`).
When: made by `hybrid.compile.compilation` for grammars with token edges, excluded tokens and token tag
dispatches, and nothing else that bytes and stacks do not decide.
Limits: where an id is read as text and as an id at once, `ReadBothWays` sends the sequence to another
strategy. Not written to files; masks are not asked for by classes.

A new mask costs one more step, by the byte that symbols begin with, and one for each group of ids where that
can be read; it is then a row like all others.

Both ways: `accept_token` joins what both lead to. What it begins behind the id is noted at the place behind
the first byte of the text, so that it ends elsewhere; which stacks that makes depends on the rules as
XGrammar has them, and the network has not. The mask before does not depend on it. A text of one byte is
joined rightly, but two sets of stacks would have to become one, which nothing else asks for.

Rejected: symbols as tokens of a larger vocabulary, walked and classified as others. Each vocabulary would
have a second trie (0.8 s), for what takes a step or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equivalence.network.token_ids import MARKER, escaped
from hybrid.classifier.classifier import Classifier, Session
from hybrid.classifier.named_ids import NamedIds
from hybrid.classifier.rows import Rows


class ReadBothWays(Exception):
    """An id is read as text and as an id at once: another strategy has to say what follows."""


class IdClassifier(Classifier):
    """Masks and steps of a grammar that names ids; see `Classifier`.

    Args:
        ids: what its symbols mean.

    Attributes:
        ids: the same.
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
            ReadBothWays: the token is read as text and as an id.
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
        """See `Classifier.read_again`: what was an id is not its text."""
        config = session.start
        for one in read:
            if isinstance(one, bytes):
                config = self.read(session, config, one)
            elif one is not None:
                config = self.step(session, config, one)
        return config

    def forced_byte(self, session: Session, config: int) -> int:
        """See `Classifier.forced_byte`; for XGrammar an id that may come in place of text does not count."""
        return int(session.store.forced_byte(config, MARKER))

    def note_mask(self, session: Session, config: int, mask: int, rows: Rows) -> None:
        """See `Classifier.note_mask`."""
        before = rows.nbytes
        self.ids.note_mask(session.numbers, session.store, rows, config, mask)
        session.left -= rows.nbytes - before
