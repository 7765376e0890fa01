# cython: language_level=3
# mypy: ignore-errors
"""Pieces of masks, expanded to the vocabulary.

What: a walk records what a state reads, or a pending set on a symbol, as one *piece*: ranges of groups of
the trie. A mask is a set of pieces, and its row is the union of their tokens.
When: for the masks of a session that walks (`hybrid.classifier.vocabulary_walker`).
Limits: one for each session, called with the session's lock held; nothing is deleted.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.rows import address_of_words
from cython.cimports.hybrid.classifier.vocabulary_walker import VocabularyWalker
from cython.cimports.hybrid.values.gather import Gather, mark_tokens, set_bits

check_source(__name__)


LARGE_PIECE = cython.declare(cython.Py_ssize_t, 1024)
"""A piece with this many tokens gets a row of its own: the union of two rows of 128,000 bits takes 1 us, as
long as setting the bits of 1,000 tokens."""

NOT_KNOWN = cython.declare(cython.Py_ssize_t, -2)


@cython.no_gc
@cython.cclass
class PieceGather(Gather):
    """Expands masks of pieces to the vocabulary.

    Args:
        walker: the walker that makes the pieces.
        vocab_size: number of ids.

    Attributes:
        pieces: the pieces, as interned lists (`Walker.ranges`).
        row_of_piece: the address of each large piece's row; 0: it is not large; `NOT_KNOWN`: not needed yet.
        large: these rows. They are never changed, because rows of cached walks are shared with other
            grammars.
    """

    def __init__(self, walker: VocabularyWalker, vocab_size: cython.Py_ssize_t) -> None:
        self.pieces = walker.pieces
        self.walker = walker
        self.token_starts = walker.token_starts
        self.tokens_of_groups = walker.tokens
        self.vocab_size = vocab_size
        self.n_words = (vocab_size + 31) // 32
        self.n_classes = 32 * walker.summaries.n_words
        self.memory_size_bytes = 0
        self.tables = ()
        self.row_of_piece = np.empty(0, np.int64)
        self.large = []

    def set_tokens(self, piece: cython.Py_ssize_t, out: cython.uint[::1]) -> cython.void:
        """Set the bits of a piece's tokens."""
        self.add_ranges(self.pieces.pool[self.pieces.starts[piece] : self.pieces.starts[piece + 1]], out)

    def row_of(self, piece: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Like `Gather.row_of`, for pieces instead of classes."""
        if piece >= self.row_of_piece.shape[0]:
            with cython.gil:
                self.grow()
        row: cython.Py_ssize_t = self.row_of_piece[piece]
        if row == NOT_KNOWN:
            row = self.look_at(piece)
        return row

    def mark(self, piece, marks, places, n):
        """See `Gather`."""
        for k in range(self.pieces.starts[piece], self.pieces.starts[piece + 1], 2):
            begin = self.token_starts[self.pieces.pool[k]]
            end = self.token_starts[self.pieces.pool[k + 1]]
            n = mark_tokens(self.tokens_of_groups, begin, end, marks, places, n)
            if n < 0:
                break
        return n

    def grow(self):
        """Make room for the rows of all pieces and some more."""
        old: cython.Py_ssize_t = self.row_of_piece.shape[0]
        size: cython.Py_ssize_t = 2 * self.pieces.count + 62
        longer: cython.Py_ssize_t[::1] = np.empty(size, np.int64)
        longer[:old] = self.row_of_piece
        longer[old:] = NOT_KNOWN
        self.row_of_piece = longer

    def add_ranges(self, ranges, out):
        """Set the bits of the tokens of some groups: first, end, first, end ..."""
        for k in range(0, ranges.shape[0], 2):
            begin, end = self.token_starts[ranges[k]], self.token_starts[ranges[k + 1]]
            set_bits(self.tokens_of_groups, begin, end, out)

    def look_at(self, piece):
        """The row of a piece that is used for the first time; 0 if it is not large."""
        n: cython.Py_ssize_t = 0
        first = self.pieces.starts[piece]
        if self.pieces.pool[first] < 0:
            n = LARGE_PIECE  # a long walk
        else:
            for k in range(first, self.pieces.starts[piece + 1], 2):
                n += self.token_starts[self.pieces.pool[k + 1]] - self.token_starts[self.pieces.pool[k]]
        row: cython.Py_ssize_t = 0
        if n >= LARGE_PIECE:
            with cython.gil:
                row = self.row(piece)
        self.row_of_piece[piece] = row
        return row

    def row(self, piece):
        """The address of a piece's row. A cached walk has one row for all grammars, made when it is first
        needed."""
        first = self.pieces.starts[piece]
        number = -1 - self.pieces.pool[first]
        read = self.walker.reads[number] if number >= 0 else None
        row = None if read is None else read.row
        if row is None:
            row = np.empty(self.n_words, np.uint32)
            words: cython.uint[::1] = row
            words[:] = 0
            ranges = self.pieces.pool[first : self.pieces.starts[piece + 1]] if read is None else read.ranges
            self.add_ranges(ranges, row)
            if read is not None:
                read.row = row
        self.large.append(row)
        self.memory_size_bytes += 4 * self.n_words
        return address_of_words(row)
