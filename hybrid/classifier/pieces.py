# cython: language_level=3
# mypy: ignore-errors
"""Pieces of masks, expanded to the vocabulary.

What: walking notes what a state, or a pending set on a symbol, reads as one *piece*: ranges of groups of the
trie. A mask is a set of pieces, and its row the union of their tokens.
When: for the masks of a session that walks (`hybrid.classifier.walking`).
Limits: one for each session, with whose lock it is called; never forgotten.
"""

from __future__ import annotations

import cython
import numpy as np

from equivalence import built

if cython.compiled:
    from cython.cimports.equivalence.built import EQUIMASK_SOURCE
    from cython.cimports.hybrid.classifier.walking import Walker
    from cython.cimports.hybrid.representatives.gather import Gather

    built.check(__name__, EQUIMASK_SOURCE)
else:
    from hybrid.classifier.walking import Walker
    from hybrid.representatives.gather import Gather

LARGE_PIECE = cython.declare(cython.Py_ssize_t, 1024)
"""Tokens from which on a piece has a row of its own: to unite two rows of 128,000 bits takes 1 us, as long as
to set the bits of 1,000 tokens."""


@cython.cclass
class PieceGather(Gather):
    """Expands masks of pieces to the vocabulary.

    Args:
        walker: whose pieces they are.
        vocab_size: number of ids.

    Attributes:
        pieces: the interned lists of (first group, end) that pieces are.
        row_of_piece: the row of each large piece; -1: it is not large, -2: not known yet.
        large_rows: uint32[n, n_words]: `n_large` rows that are there, and room for more.
    """

    def __init__(self, walker: Walker, vocab_size: cython.Py_ssize_t) -> None:
        self.pieces = walker.pieces
        self.walker = walker
        self.token_starts = walker.token_starts
        self.tokens_of_groups = walker.tokens
        self.vocab_size = vocab_size
        self.n_words = (vocab_size + 31) // 32
        self.n_classes = 32 * walker.known.n_words
        self.memory_size_bytes = 0
        self.tables = ()
        self.row_of_piece = np.full(self.n_classes, -2, np.int32)
        self.large_rows = np.zeros((0, self.n_words), np.uint32)
        self.n_large = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def fill(self, class_mask: cython.const[cython.uint][::1], out: cython.uint[::1]) -> cython.void:
        """As of `Gather`."""
        for w in range(self.n_words):
            out[w] = 0
        for word in range(class_mask.shape[0]):
            bits: cython.uint = class_mask[word]
            piece: cython.Py_ssize_t = 32 * word
            while bits:
                if bits & 1:
                    self.add(piece, out)
                bits >>= 1
                piece += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add(self, piece: cython.Py_ssize_t, out: cython.uint[::1]) -> cython.void:
        """Set the bits of a piece's tokens."""
        one: cython.uint = 1
        row: cython.Py_ssize_t = self.row_of_piece[piece]
        if row == -2:
            row = self.look_at(piece)
        if row >= 0:
            for w in range(self.n_words):
                out[w] |= self.large_rows[row, w]
            return
        for k in range(self.pieces.starts[piece], self.pieces.starts[piece + 1], 2):
            begin = self.token_starts[self.pieces.pool[k]]
            for t in range(begin, self.token_starts[self.pieces.pool[k + 1]]):
                token = cython.cast(cython.Py_ssize_t, self.tokens_of_groups[t])
                out[token >> 5] |= one << (token & 31)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def look_at(self, piece: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The row of a piece that is used for the first time; -1 if it is not large."""
        n: cython.Py_ssize_t = 0
        for k in range(self.pieces.starts[piece], self.pieces.starts[piece + 1], 2):
            n += self.token_starts[self.pieces.pool[k + 1]] - self.token_starts[self.pieces.pool[k]]
        self.row_of_piece[piece] = -1
        if n < LARGE_PIECE:
            return -1
        known: cython.bint = False
        with cython.gil:
            row = self.new_row()
            known = self.recall(piece, row)
        if not known:
            self.add(piece, self.large_rows[row])
            with cython.gil:
                self.keep(piece, row)
        self.row_of_piece[piece] = cython.cast(cython.int, row)
        return row

    @cython.cfunc
    @cython.exceptval(check=False)
    def recall(self, piece: cython.Py_ssize_t, row: cython.Py_ssize_t) -> cython.bint:
        """Copy the row of a piece that is kept for all grammars; whether there is one."""
        read = self.walker.read_of_piece.get(piece)
        if read is None or read.row is None:
            return False
        np.asarray(self.large_rows)[row] = read.row
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def keep(self, piece: cython.Py_ssize_t, row: cython.Py_ssize_t) -> cython.void:
        """Keep the row of a piece for all grammars, if what it was read on is kept."""
        read = self.walker.read_of_piece.get(piece)
        if read is not None:
            read.row = np.asarray(self.large_rows)[row].copy()

    @cython.cfunc
    @cython.exceptval(check=False)
    def new_row(self) -> cython.Py_ssize_t:
        """Room for one more row."""
        if self.n_large == self.large_rows.shape[0]:
            rows = np.zeros((2 * self.n_large + 4, self.n_words), np.uint32)
            rows[: self.n_large] = self.large_rows
            self.large_rows = rows
            self.memory_size_bytes = rows.nbytes
        self.n_large += 1
        return self.n_large - 1
