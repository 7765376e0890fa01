# cython: language_level=3
# mypy: ignore-errors
"""The gather: it expands a class mask to a bitmask of the vocabulary, in XGrammar's layout.

What: token i has bit i % 32 of int32 word i // 32. It gets the bit of its class; tokens of class -1 get 0.
When: after every class mask; 2 to 7 us for 128k ids, against 105 us for one look-up per token.
Limits: it runs on the CPU, with one thread for each row. Several threads may fill rows at once, because the
GIL is released.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.values.gather import set_bits, unite_row
from cython.cimports.libc.string import memset
from numpy.typing import NDArray

from equivalence import TokenClasses
from equivalence.arrays.grouping import grouped
from equivalence.runs import Members, members_of

check_source(__name__)

LARGE_CLASS = 256
"""Classes of at least this many tokens are kept as whole rows: an OR of 16 KiB takes as long as setting 500
bits."""


@cython.no_gc
@cython.cclass
class Gather:
    """Expands class masks of one `TokenClasses`.

    Args:
        classes: the classes, or the tokens of each; masks have one bit per class. The caller guarantees that
            tokens are below `vocab_size`, and that pieces lie within the list of tokens.
        vocab_size: number of ids of the vocabulary.

    Attributes:
        n_classes, vocab_size: as given.
        n_words: words of a row of the bitmask.
        tables: where each class's pieces begin; the pieces; the tokens; the row number of each large class,
            or -1; the rows.
        memory_size_bytes: bytes held by the tables, without tokens that belong to the vocabulary.
    """

    def __init__(self, classes: TokenClasses | Members, vocab_size: cython.Py_ssize_t) -> None:
        members = tokens_of_classes(classes) if isinstance(classes, TokenClasses) else classes
        self.n_classes = members.n_classes
        self.vocab_size = vocab_size
        self.n_words = (vocab_size + 31) // 32
        self.starts, self.pieces, self.tokens, is_shared = members
        row_of_class = np.full(self.n_classes, -1, np.int32)
        self.row_of_class = row_of_class
        rows = np.zeros((self.number_rows(LARGE_CLASS), self.n_words), np.uint32)
        self.rows = rows
        with cython.nogil:
            self.fill_rows()
        self.tables = (*members[:3], row_of_class, rows)
        shared = members.tokens.nbytes if is_shared else 0
        self.memory_size_bytes = sum(array.nbytes for array in self.tables) - shared

    def number_rows(self, least):
        """Number the rows of the classes that have at least `least` tokens. Return the number of rows."""
        n: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t
        for c in range(self.n_classes):
            size = 0
            for p in range(self.starts[c], self.starts[c + 1]):
                size += self.pieces[p, 1] - self.pieces[p, 0]
            if size >= least:
                self.row_of_class[c] = cython.cast(cython.int, n)
                n += 1
        return n

    def fill_rows(self):
        """Fill the row of each large class."""
        for c in range(self.n_classes):
            if self.row_of_class[c] >= 0:
                self.set_tokens(c, self.rows[self.row_of_class[c]])

    def set_tokens(self, number, out):
        """Set the bits of a class's tokens."""
        for p in range(self.starts[number], self.starts[number + 1]):
            set_bits(self.tokens, self.pieces[p, 0], self.pieces[p, 1], out)

    def fill(self, class_mask, out):
        """Do what `expand` does, without checks: compiled code that calls this has checked both arguments."""
        memset(cython.cast(cython.p_void, cython.address(out[0])), 0, 4 * self.n_words)
        for word in range((self.n_classes + 31) // 32):
            bits: cython.uint = class_mask[word]
            c: cython.Py_ssize_t = 32 * word
            while bits and c < self.n_classes:
                if bits & 1:
                    row = self.row_of(c)
                    if row:
                        unite_row(row, out)
                    else:
                        self.set_tokens(c, out)
                bits >>= 1
                c += 1

    def row_of(self, number):
        """Return the address of a large class's row; 0 if the class is not large."""
        row: cython.Py_ssize_t = self.row_of_class[number]
        if row < 0:
            return 0
        return cython.cast(cython.Py_ssize_t, cython.address(self.rows[row, 0]))

    def mark(self, number, marks, places, n):
        """Set the bits of a class's tokens, and list the words that had no bits before.

        Args:
            number: the class.
            marks: uint32[n_words], updated.
            places: the indices of words that have bits; the first n entries are in use. Updated.

        Returns:
            How many words have bits now; -1 if `places` is too short.
        """
        for p in range(self.starts[number], self.starts[number + 1]):
            n = mark_tokens(self.tokens, self.pieces[p, 0], self.pieces[p, 1], marks, places, n)
            if n < 0:
                break
        return n

    def expand(
        self, class_mask: cython.const[cython.uint][::1], out: cython.uint[::1], stops: tuple = (),
        can_stop: bool = False,
    ) -> None:  # fmt: skip
        """Overwrite `out` (uint32[n_words]) with the mask of all tokens whose class bit is set.

        Args:
            class_mask: uint32[ceil(n_classes / 32)] or longer; further bits are ignored.
            out: the row of the bitmask, viewed as uint32.
            stops: ids that get the bit `can_stop`, whatever their classes are.
            can_stop: whether the sequence may stop.

        Raises:
            IndexError: an array has another length. Nothing was written.
        """
        if class_mask.shape[0] < (self.n_classes + 31) // 32 or out.shape[0] != self.n_words:
            raise IndexError(f"the row must have {self.n_words} words, and the class mask enough")
        with cython.nogil:
            self.fill(class_mask, out)
        stop: cython.Py_ssize_t
        for stop in stops:
            bit = cython.cast(cython.uint, 1) << (stop & 31)
            out[stop >> 5] = out[stop >> 5] | bit if can_stop else out[stop >> 5] & ~bit

    def class_of_token(self) -> NDArray[np.int32]:
        """Return the class of each token, int32[vocab_size]; -1 for none."""
        made = np.full(self.vocab_size, -1, np.int32)
        out: cython.int[::1] = made
        with cython.nogil:
            for c in range(self.n_classes):
                for p in range(self.starts[c], self.starts[c + 1]):
                    for k in range(self.pieces[p, 0], self.pieces[p, 1]):
                        out[self.tokens[k]] = cython.cast(cython.int, c)
        return made


def mark_tokens(tokens, begin, end, marks, places, n):
    """Do what `Gather.mark` does, for the tokens from index `begin` to `end` of a list."""
    one: cython.uint = 1
    for t in range(begin, end):
        token = cython.cast(cython.Py_ssize_t, tokens[t])
        word: cython.Py_ssize_t = token >> 5
        if marks[word] == 0:
            if n == places.shape[0]:
                return -1
            places[n] = word
            n += 1
        marks[word] |= one << (token & 31)
    return n


def tokens_of_classes(classes: TokenClasses) -> Members:
    """Return the tokens of each class."""
    if classes.runs is not None and classes.order is not None:
        return members_of(classes.runs, classes.order, np.arange(classes.n_classes, dtype=np.int32))
    return members_by_class(classes.class_of_token, classes.n_classes)


def members_by_class(class_of_token: NDArray[np.int32], n_classes: int) -> Members:
    """Return the tokens of each class, given the class of each token; class -1 is left out.

    Args:
        class_of_token: int32[V], each below `n_classes`.
        n_classes: number of classes.
    """
    starts, tokens = grouped(class_of_token.astype(np.int32, copy=False), n_classes)
    pieces = np.stack([starts[:-1], starts[1:]], axis=1)
    return Members(np.arange(n_classes + 1, dtype=np.int64), pieces, tokens)
