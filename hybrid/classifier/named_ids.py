# cython: language_level=3
# mypy: ignore-errors
"""Which ids of a vocabulary a grammar that names ids reads in each configuration.

What: in the network of such a grammar, edges that read ids read symbols instead
(`equivalence.network.token_ids`), so a classifier's tables do not know about ids. `NamedIds` computes the
step of an id that may be read as text and by its symbol (`step`). It also finds the ids whose symbols can be
read in a configuration in addition to texts, and adds their bits to the row of a mask (`note_mask`).
When: for classifiers of grammars with token edges, excluded tokens and token tag dispatches, if bytes and
stacks decide everything else; called with the classifier's lock held.
Limits: one for each compiled grammar. What depends only on the vocabulary is computed once (`TextIds`). If
an id is read both as text and as an id, `ReadBothWays` sends the sequence to plain XGrammar. Such classifiers
are not written to files, and have no masks by class.

In Python the same took 3.5 us for each new token, 5 us for each new mask, and 2.4 ms for each compilation. A
new mask costs one more step, by the byte with which symbols begin, and one for each group of ids if that byte
can be read. Then it is a row like all others.

Ids that are read both ways: XGrammar's `accept_token` unites both results, but records the states after the
id at the position after the first byte of its text, not at the end. Which stacks result depends on the rules
in XGrammar's own form, which the network does not have. The mask before the id does not depend on this. For a
text of one byte, XGrammar's result is right, but we would have to unite two sets of stacks, which nothing
else needs.

Rejected: symbols as tokens of a larger vocabulary, which are walked and classified like others. Each
vocabulary would have a second trie (0.8 s) for what takes a step or two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.rows import Rows
from cython.cimports.hybrid.classifier.store import Store
from numpy.typing import NDArray

from equivalence import TokenClasses, UnsupportedGrammar, Vocabulary
from equivalence.network.token_ids import MARKER, MOST_GROUPS, Symbols, escaped
from equivalence.runs.class_numbers import number_keys
from hybrid.values.once import made_once

check_source(__name__)

MOST_ESCAPED = 64
"""The maximum number of ids whose text contains the byte with which symbols begin. Real vocabularies have one
or two; each is read separately for each new mask."""

MOST_KNOWN = 64
"""The maximum number of cached rows of ids. Few grammars read more than a few sets of ids."""

BOTH_WAYS = cython.declare(cython.Py_ssize_t, -1)

_BEGIN = bytes((MARKER,))


class ReadBothWays(Exception):
    """An id is read both as text and as an id: plain XGrammar must decide what follows."""


class TextIds:
    """The ids of a vocabulary, as grammars that name ids treat them.

    Args:
        vocabulary: the vocabulary. Ids without text are never accepted, named or not.

    Attributes:
        has_text: bool[V].
        row: uint32[words of a row], the ids that have text.
        escaped: ids whose text the network reads in another spelling, with that spelling.
        too_many: number of `escaped` ids, if it is more than allowed; otherwise 0.
        as_written: uint32[words of a row], all ids except those in `escaped`.
        begin_alike: whether the texts of these ids begin with the byte with which symbols begin.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.has_text = vocabulary.token_lengths > 0
        self.row = row_of_bits(self.has_text)
        data, offsets = vocabulary.flat
        found = np.unique(np.searchsorted(offsets, np.flatnonzero(data == MARKER), side="right") - 1)
        self.too_many = len(found) if len(found) > MOST_ESCAPED else 0
        some = [] if self.too_many else found.tolist()
        self.escaped = {token_id: escaped(vocabulary.tokens[token_id]) for token_id in some}
        as_written = np.ones(vocabulary.size, np.bool_)
        as_written[found] = False
        self.as_written = row_of_bits(as_written)
        self.begin_alike = all(text[0] == MARKER for text in self.escaped.values())


text_ids = made_once(TextIds)


def row_of_bits(bits: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """A row with the bits of bool[V], uint32[words of a row]."""
    n_words = (len(bits) + 31) // 32
    packed = np.zeros(4 * n_words, np.uint8)
    found = np.packbits(bits, bitorder="little")
    packed[: len(found)] = found
    return packed.view("<u4").astype(np.uint32, copy=False)


@cython.final
@cython.cclass
class NamedIds:
    """The ids that a grammar's symbols stand for in one vocabulary.

    Args:
        symbols: the groups of ids.
        vocabulary: the vocabulary.

    Attributes:
        texts: what depends only on the vocabulary.
        group_of: the group of each id that the grammar names, if the id has text and some edge reads the
            group.
        reads_others: whether some edge reads the ids that are not named.
        members: for each named group, its ids that have text.
        rests: the groups that some edge reads, and what follows the first byte of their symbols.
        symbol_of: the symbol of each of these groups.
        nbytes: bytes of all arrays.

    Raises:
        UnsupportedGrammar: too many ids contain the byte with which symbols begin.
    """

    def __init__(self, symbols: Symbols, vocabulary: Vocabulary) -> None:
        self.texts = text_ids(vocabulary)
        if self.texts.too_many:
            raise UnsupportedGrammar(
                f"the grammar names token ids, and {self.texts.too_many} tokens of the vocabulary "
                f"contain byte {MARKER}, but the limit is {MOST_ESCAPED}; use a grammar that names no ids"
            )
        self.named = symbols.named
        self.reads_others = 0 in symbols.read
        self.group_of = {}
        self.members = {}
        for token_id, group in symbols.named.items():
            if self.texts.has_text[token_id]:
                self.members.setdefault(group, []).append(token_id)
                if group in symbols.read:
                    self.group_of[token_id] = group
        self.escaped = self.texts.escaped
        self.begin_alike = self.texts.begin_alike
        self.rests = [(group, Symbols.text(group)[1:]) for group in symbols.read]
        self.symbol_of = {group: Symbols.text(group) for group in symbols.read}
        self.rows = {}
        self.nbytes = 4 * MOST_KNOWN * len(self.texts.row)

    # ---------------------------------------------------------------- steps

    def group(self, token: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The group of an id; -1 if no edge reads it."""
        found = self.group_of.get(token)
        if found is not None:
            return found
        return 0 if self.reads_others and token not in self.named and self.texts.has_text[token] else -1

    def step(
        self, store: Store, configuration: cython.Py_ssize_t, token: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """The configuration after an id, 0 if it is not accepted, or -1 if it is read both as text and as
        an id.

        Raises the errors of `Store.advance`.
        """
        spelled = self.escaped.get(token)
        after: cython.Py_ssize_t = store.advance(configuration, token) if spelled is None else (
            store.advance_text(configuration, spelled)
        )  # fmt: skip
        group = self.group(token)
        if group >= 0:
            as_id: cython.Py_ssize_t = store.advance_text(configuration, self.symbol_of[group])
            if as_id and after:
                return BOTH_WAYS
            after = after or as_id
        return after

    # ---------------------------------------------------------------- masks

    def read_at(self, store, configuration):
        """What can be read in a configuration in addition to texts in their own spelling: a tuple of
        groups, and of -1 - id for ids with another spelling. None if there is nothing, and no such id has
        a bit."""
        begun: cython.Py_ssize_t = store.advance_text(configuration, _BEGIN)
        if not begun and self.begin_alike:
            return None
        read: list = [
            -1 - token for token, text in self.escaped.items() if store.advance_text(configuration, text)
        ]
        if begun:
            for group, rest in self.rests:
                if store.advance_text(begun, rest):
                    read.append(group)
        return tuple(read)

    def note_mask(
        self,
        numbers: dict,
        store: Store,
        rows: Rows,
        configuration: cython.Py_ssize_t,
        mask: cython.Py_ssize_t,
    ) -> cython.int:
        """Make the row of a configuration from the result of `Store.class_mask`, and cache it.

        Args:
            numbers: numbers of a session's masks, by class mask and by what is read in addition.
            store, rows: the tables of the session.

        Raises the errors of `Store.advance`.

        Masks of classes share a row only if the same ids are read. The numbers of rows are even (without
        their last bit) if no ids are read, and odd otherwise.
        """
        read = self.read_at(store, configuration)
        whole: cython.Py_ssize_t = mask & 1
        number: cython.Py_ssize_t = 4 * (mask >> 1) + whole
        if read is not None:
            number = numbers.setdefault((mask >> 1, read), len(numbers))
            number = 4 * number + 2 + whole
        if rows.shares(configuration, number):
            return 0
        if read is None:
            rows.make(configuration, number, mask, store.masks)
        else:
            rows.make(configuration, number, mask, store.masks, self.texts.as_written, self.row_of(read))
        return 0

    def row_of(self, read):
        """The row of what `read_at` returns, uint32[words of a row]."""
        found = self.rows.get(read)
        if found is None:
            found = self.others() if 0 in read else np.zeros_like(self.texts.row)
            for one in read:
                for token_id in self.members.get(one, ()) if one >= 0 else (-1 - one,):
                    found[token_id >> 5] |= np.uint32(1 << (token_id & 31))
            if len(self.rows) < MOST_KNOWN:
                self.rows[read] = found
        return found

    def others(self) -> NDArray[np.uint32]:
        """The ids that have text and are not named, uint32[words of a row]."""
        found = self.texts.row.copy()
        for token_id in self.named:
            found[token_id >> 5] &= ~np.uint32(1 << (token_id & 31))
        return found

    # ---------------------------------------------------------------- classes

    def refined(self, classes: TokenClasses, vocabulary: Vocabulary) -> TokenClasses:
        """The classes of texts, split so that all ids of a class have equal bits in every mask of the
        grammar."""
        group_of = np.where(self.texts.has_text & self.reads_others, 0, -1).astype(np.int32)
        for token_id in self.named:
            group_of[token_id] = self.group_of.get(token_id, -1)
        texts = classes.class_of_token.astype(np.int64)
        alone = np.array([*self.escaped, *vocabulary.stop_token_ids], np.int64)
        alone = alone[(texts[alone] >= 0) | (group_of[alone] >= 0)]
        texts[alone] = classes.n_classes + np.arange(len(alone))
        read_at_all = (texts >= 0) | (group_of >= 0)
        pairs = texts * (MOST_GROUPS + 2) + group_of
        keys = np.full(vocabulary.size, -1, np.int64)
        found, keys[read_at_all] = np.unique(pairs[read_at_all], return_inverse=True)
        given, representatives = number_keys(keys, len(found), vocabulary.token_lengths)
        made: Any = replace(
            classes, given=given, n_classes=len(representatives), representatives=representatives, runs=None,
            order=None,
        )  # fmt: skip
        return made
