"""A classifier of a grammar that names token ids: masks and steps by text, and by id.

What: `IdClassifier` is a classifier over a network in which edges that read ids read symbols
(`equivalence.network.token_ids`). Its tables know nothing of that; here an id that is accepted is read by its
symbol, too, and a mask gets the ids whose symbols can be read next.
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
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence import TokenClasses, UnsupportedGrammar, Vocabulary
from equivalence.classes.byte_strings.walking import number_keys
from equivalence.network.token_ids import MARKER, MOST_GROUPS, Symbols, escaped
from hybrid.classifier.classifier import Classifier, Session
from hybrid.classifier.rows import Rows

MOST_ESCAPED = 64
"""Ids whose text holds the byte that symbols begin with, at most: real vocabularies have one or two, and each
is read by itself for each new mask."""


_BEGIN = bytes((MARKER,))

MOST_KNOWN = 64
"""Rows of ids that are kept: most grammars read few sets of them."""


class ReadBothWays(Exception):
    """An id is read as text and as an id at once: another strategy has to say what follows."""


class NamedIds:
    """What a grammar's symbols mean over one vocabulary.

    Args:
        symbols: the groups of ids.
        vocabulary: the vocabulary. Ids without text are never taken, named or not.

    Attributes:
        group_of: int32[V], the group of each id; -1: no edge reads it.
        escaped: ids whose text the network reads in another spelling, and that spelling.
        as_written: uint32[words of a row], all ids but those.
        begin_alike: whether the texts of those begin with the byte that symbols begin with.
        rests: the groups that some edge reads, and what follows that byte in their symbols.
        nbytes: bytes of all arrays.

    Raises:
        UnsupportedGrammar: too many ids hold the byte that symbols begin with.
    """

    def __init__(self, symbols: Symbols, vocabulary: Vocabulary) -> None:
        has_text = vocabulary.token_lengths > 0
        others = has_text if 0 in symbols.read else np.zeros(vocabulary.size, np.bool_)
        self.group_of = np.where(others, 0, -1).astype(np.int32)
        self._n_words = (vocabulary.size + 31) // 32
        self._members: dict[int, list[int]] = {}
        for token_id, group in symbols.named.items():
            if has_text[token_id]:
                is_read = group in symbols.read
                self.group_of[token_id] = group if is_read else -1
                self._members.setdefault(group, []).append(token_id)
        self._others = self._row(np.flatnonzero(self.group_of == 0))
        data, offsets = vocabulary.flat
        found = np.unique(np.searchsorted(offsets, np.flatnonzero(data == MARKER), side="right") - 1)
        if len(found) > MOST_ESCAPED:
            raise UnsupportedGrammar(
                f"the grammar names token ids, and {len(found)} tokens of the vocabulary hold byte {MARKER}, "
                f"allowed are {MOST_ESCAPED}"
            )
        self.escaped = {token_id: escaped(vocabulary.tokens[token_id]) for token_id in found.tolist()}
        self.as_written = ~self._row(found)
        self.begin_alike = all(text[0] == MARKER for text in self.escaped.values())
        self.rests = [(group, Symbols.text(group)[1:]) for group in symbols.read]
        self._known: dict[tuple[int, ...], NDArray[np.uint32]] = {}
        self.nbytes = self.group_of.nbytes + self._others.nbytes + self.as_written.nbytes

    def _row(self, ids: Any) -> NDArray[np.uint32]:
        row = np.zeros(self._n_words, np.uint32)
        ids = np.asarray(ids, np.int64)
        np.bitwise_or.at(row, ids >> 5, np.uint32(1) << (ids & 31).astype(np.uint32))
        return row

    def row_of(self, read: tuple[int, ...]) -> NDArray[np.uint32]:
        """A row of the ids of some groups; -1 - i stands for id i itself."""
        found = self._known.get(read)
        if found is None:
            few: list[int] = []
            for one in read:
                few += [-1 - one] if one < 0 else self._members.get(one, [])
            found = self._row(few)
            if 0 in read:
                found |= self._others
            if len(self._known) < MOST_KNOWN:
                self._known[read] = found
        return found

    def refined(self, classes: TokenClasses, vocabulary: Vocabulary) -> TokenClasses:
        """Classes of texts, cut so that ids of a class have equal bits in every mask of the grammar."""
        texts = classes.class_of_token.astype(np.int64)
        alone = np.array([*self.escaped, *vocabulary.stop_token_ids], np.int64)
        alone = alone[(texts[alone] >= 0) | (self.group_of[alone] >= 0)]
        texts[alone] = classes.n_classes + np.arange(len(alone))
        read_at_all = (texts >= 0) | (self.group_of >= 0)
        pairs = texts * (MOST_GROUPS + 2) + self.group_of
        keys = np.full(vocabulary.size, -1, np.int64)
        found, keys[read_at_all] = np.unique(pairs[read_at_all], return_inverse=True)
        given, representatives = number_keys(keys, len(found), vocabulary.token_lengths)
        return replace(
            classes, given=given, n_classes=len(representatives), representatives=representatives, runs=None,
            order=None, met=None,
        )  # fmt: skip


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
        self._kept_bytes += self.ids.nbytes + 4 * MOST_KNOWN * len(self.ids.as_written)

    def step(self, session: Session, config: int, token: int) -> int:
        """See `Classifier.step`.

        Raises:
            ReadBothWays: the token is read as text and as an id.
        """
        store, ids = session.store, self.ids
        spelled = ids.escaped.get(token)
        after = store.advance(config, token) if spelled is None else store.advance_text(config, spelled)
        group = int(ids.group_of[token])
        if group >= 0:
            as_id = store.advance_text(config, Symbols.text(group))
            if as_id and after:
                raise ReadBothWays
            after = after or as_id
        session.remember(config, token, after)
        return int(after)

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
        """See `Classifier.note_mask`. Masks of classes are one row only where the same ids are read."""
        store, ids = session.store, self.ids
        begun = store.advance_text(config, _BEGIN)
        read: list[int] = []
        if begun or not ids.begin_alike:
            read = [-1 - token for token, text in ids.escaped.items() if store.advance_text(config, text)]
        if begun:
            read += [group for group, rest in ids.rests if store.advance_text(begun, rest)]
        key = mask >> 1, tuple(read)
        number = 2 * session.numbers.setdefault(key, len(session.numbers)) + (mask & 1)
        if not rows.of(config, number):
            changes = (ids.as_written, ids.row_of(key[1])) if begun or not ids.begin_alike else ()
            self._make_row(session, rows, config, number, store.mask_words(mask >> 1), *changes)
