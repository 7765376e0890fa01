# cython: language_level=3
# mypy: ignore-errors
"""What the tables of all classifiers have in common: text goes in, masks of classes come out.

What: `BaseStore` checks configurations, tokens and arrays, and releases the interpreter's lock around long
computations. A subclass reads text (`read_text`) and finds masks (`mask_of`).
When: the base class of `hybrid.classifier.store.Store` (networks) and `hybrid.lark.store.Store`.
Limits: two threads must not use it at once: `hybrid.classifier.classifier` holds a lock around every call.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)

NO_BYTE = 256
"""The result of `forced_byte` if no single byte is forced."""

LONG_TEXT = cython.declare(cython.Py_ssize_t, 4096)
"""Longer texts are read in parts of so many bytes, with a check before each: known steps do not check, and
take 2 to 13 ns a byte."""


@cython.no_gc
@cython.cclass
class BaseStore:
    """The growing tables of one classifier. A subclass sets the attributes.

    Attributes:
        account: counts the bytes of the tables.
        fixed: the constant data.
        masks: sets of classes, as words of 32 bits.
        data, offsets: the vocabulary's bytes, and the bounds of each token.
    """

    # ---------------------------------------------------------------- what a subclass has

    def count(self):
        """Number of configurations so far, including the refused one, which is 0."""
        return 0

    def read_text(self, configuration, text, begin, end):
        """The configuration after the bytes between two places, or 0 if they are refused."""
        return 0

    def known_mask(self, configuration):
        """The result of `class_mask` if it is known, or -1."""
        return -1

    def mask_of(self, configuration):
        """See `class_mask`."""
        return 0

    def width(self, configuration: cython.Py_ssize_t) -> int:
        """How many stacks a configuration has, about: reading a byte takes up to the square of it."""
        return 1

    # ---------------------------------------------------------------- sizes and checks

    @property
    def nbytes(self) -> int:
        """Bytes of the growing tables."""
        return self.account.taken

    @property
    def n_configurations(self) -> int:
        """Number of configurations so far, including the refused one."""
        return self.count()

    def checked(self, configuration):
        """Check a configuration and return it.

        Raises:
            IndexError: there is no configuration with this number.
        """
        if not 0 <= configuration < self.count():
            raise IndexError(f"there is no configuration {configuration}")
        return configuration

    def token_bytes(self):
        """The vocabulary's bytes."""
        return cython.address(self.data[0]) if self.data.shape[0] else cython.NULL

    # ---------------------------------------------------------------- reading text

    def advance(self, configuration: cython.Py_ssize_t, token: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The configuration after a token, or 0 if the token is not accepted.

        Raises:
            BudgetExceeded: the tables are full.
            IndexError: there is no such configuration, or no such token.
        """
        if not 0 <= token < self.offsets.shape[0] - 1:
            raise IndexError(f"there is no token {token}")
        return self.step_over(
            self.checked(configuration), self.token_bytes(), self.offsets[token], self.offsets[token + 1]
        )

    def advance_text(self, configuration: cython.Py_ssize_t, text: bytes) -> cython.Py_ssize_t:
        """The configuration after some bytes, or 0 if they are not accepted.

        Raises:
            BudgetExceeded, IndexError: as `advance`.
        """
        given: cython.p_const_uchar = text
        return self.step_over(self.checked(configuration), given, 0, len(text))

    def step_over(self, configuration, text, begin, end):
        """`read_text` for callers that hold the interpreter's lock."""
        kept = self.account.keep_lock()
        try:
            while end - begin > LONG_TEXT and configuration != 0:
                self.account.check()
                configuration = self.read_text(configuration, text, begin, begin + LONG_TEXT)
                begin += LONG_TEXT
            return self.read_text(configuration, text, begin, end)
        finally:
            self.account.retake_lock(kept)

    # ---------------------------------------------------------------- masks

    def class_mask(self, configuration: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Twice the number of the mask of classes that may come next, plus 1 if the text may end here.

        Raises:
            BudgetExceeded: the tables are full; or they are complete and would have to be extended (a bug
                of ours, which must not become a wrong mask).
            IndexError: there is no such configuration.
        """
        known: cython.Py_ssize_t = self.known_mask(self.checked(configuration))
        if known >= 0:
            return known
        return self.new_mask(configuration)

    def new_mask(self, configuration):
        """`mask_of` for callers that hold the interpreter's lock."""
        kept = self.account.keep_lock()
        try:
            return self.mask_of(configuration)
        finally:
            self.account.retake_lock(kept)
