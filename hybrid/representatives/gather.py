"""The gather: a class mask expanded to the vocabulary's bitmask, in XGrammar's layout.

What: bit i of int32 word i // 32; a token's bit is its class's bit, class -1 stays 0.
When: after every class mask; 2 to 7 us for 128k ids, against 105 us for one look-up per token.
Limits: CPU; one thread a row (rows may be filled from several threads, the GIL is released).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence import BitmaskError, TokenClasses
from equivalence.runs import Members, members_of
from hybrid import _kernels

LARGE_CLASS = 256
"""Classes of at least this many tokens are kept as whole rows: an OR of 16 KiB costs as much as 500 bits."""


class Gather:
    """Expands class masks of one `TokenClasses`.

    Args:
        classes: the classes, or the tokens of each; masks have one bit per class.
        vocab_size: number of ids of the vocabulary.
    """

    def __init__(self, classes: TokenClasses | Members, vocab_size: int) -> None:
        self.n_classes = classes.n_classes
        self.vocab_size = vocab_size
        self.n_words = (vocab_size + 31) // 32
        if isinstance(classes, TokenClasses):
            classes = tokens_of_classes(classes)
        self._starts, self._pieces, self._tokens, is_shared = classes
        large = np.flatnonzero(_kernels.class_sizes(self._starts, self._pieces) >= LARGE_CLASS)
        self._row_of_class: NDArray[np.int32] = np.full(classes.n_classes, -1, np.int32)
        self._row_of_class[large] = np.arange(len(large), dtype=np.int32)
        self._rows: NDArray[np.uint32] = _kernels.dense_rows(
            self._starts, self._pieces, self._tokens, large.astype(np.int64), self.n_words
        )
        shared = self._tokens.nbytes if is_shared else 0
        self.memory_size_bytes = sum(int(array.nbytes) for array in self.tables) - shared
        """Bytes held by the tables, without tokens that belong to the vocabulary."""

    @property
    def tables(self) -> tuple[NDArray[Any], ...]:
        """Where each class's pieces begin, the pieces, the tokens, the row of each large class (or -1), the
        rows."""
        return self._starts, self._pieces, self._tokens, self._row_of_class, self._rows

    def expand(self, class_mask: NDArray[np.uint32], out: NDArray[np.uint32]) -> None:
        """Overwrite `out` (uint32[n_words]) with the mask of all tokens whose class bit is set.

        Args:
            class_mask: uint32[ceil(n_classes / 32)] or longer; further bits are ignored.
            out: the row of the bitmask, viewed as uint32.

        Raises:
            BitmaskError: words of another type, too few of them, or not contiguous; nothing was written.
        """
        self._check(class_mask, (self.n_classes + 31) // 32, "the class mask")
        self._check(out, self.n_words, "the row")
        if len(out) != self.n_words or not out.flags.writeable:
            raise BitmaskError(
                f"the row has {len(out)} words, allowed are {self.n_words} that may be written"
            )
        _kernels.gather(
            class_mask, self.n_classes, self._starts, self._pieces, self._tokens, self._row_of_class,
            self._rows, out,
        )  # fmt: skip

    def _check(self, words: object, least: int, name: str) -> None:
        """Raise `BitmaskError` for what the kernel would read or write past the end of."""
        if (
            not isinstance(words, np.ndarray)
            or words.dtype != np.uint32
            or words.ndim != 1
            or len(words) < least
            or not words.flags.c_contiguous
        ):
            kind = getattr(words, "dtype", type(words).__name__)
            raise BitmaskError(
                f"{name} is {kind}{getattr(words, 'shape', '')}, allowed are {least} contiguous words, uint32"
            )


def tokens_of_classes(classes: TokenClasses) -> Members:
    """The tokens of each class."""
    if classes.runs is not None and classes.order is not None:
        return members_of(classes.runs, classes.order, np.arange(classes.n_classes, dtype=np.int32))
    return members_by_class(classes.class_of_token, classes.n_classes)


def members_by_class(class_of_token: NDArray[np.int32], n_classes: int) -> Members:
    """The tokens of each class where the class of each is listed; class -1 is left out."""
    starts, tokens = _kernels.members_by_class(class_of_token, n_classes)
    return Members(np.arange(n_classes + 1), np.stack([starts[:-1], starts[1:]], axis=1), tokens)
