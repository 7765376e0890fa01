"""The token classes of a grammar as rows of a table, and the classes that a mask allows.

What: `ClassTable` lists classes by size, with sample tokens. For a mask, it finds the largest and the
smallest allowed classes.
When: used by `hybrid.pages.facts`.
Limits: grammars on strategy "engine" have no classes. Their masks are described by sample tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence import TokenClasses, Vocabulary
from hybrid.explain.characters import quoted
from hybrid.values.once import remembered

MOST_ROWS = 40
"""Most classes in the table, and most tokens listed that are alone in their class."""

SAMPLES = 8
"""Most sample tokens of a class in the table; of a class that a mask allows, four are listed."""

SHOWN_OF_TOKEN = 24
"""Most characters that are shown of a token."""

EXTREMES = 4
"""How many of the largest classes of a mask are listed, and how many of the smallest."""


class ClassRow(NamedTuple):
    """A class: its number of tokens, and some of them."""

    size: int
    samples: tuple[str, ...]


class Allowed(NamedTuple):
    """What a mask allows: the number of classes, the largest and the smallest of them; without classes, some
    tokens."""

    n_classes: int
    most: tuple[ClassRow, ...]
    least: tuple[ClassRow, ...]


class ClassTable:
    """The classes of a grammar.

    Args:
        vocabulary: the vocabulary of the grammar.
        classes: the classes; None if there are none.

    Attributes:
        n_classes: number of classes; 0 if there are none.
        n_never: how many ids the grammar never allows.
        rows: the largest classes that have at least two tokens.
        singles: how many classes have one token, and some of these tokens.
    """

    def __init__(self, vocabulary: Vocabulary, classes: TokenClasses | None) -> None:
        self._vocabulary = vocabulary
        self.n_classes = 0 if classes is None else classes.n_classes
        self.n_never = 0
        self.rows: list[ClassRow] = []
        self.singles = ClassRow(0, ())
        if classes is None:
            return
        of_token = classes.class_of_token
        self._order = np.argsort(of_token, kind="stable")
        counts = np.bincount(of_token + 1, minlength=self.n_classes + 1)
        self.n_never = int(counts[0])
        self._starts = np.concatenate([[0], np.cumsum(counts)])[1:]
        self._sizes: NDArray[np.int64] = counts[1:].astype(np.int64)
        self._representatives = classes.representatives.astype(np.int64)
        self.rows = [row for row in self.largest(MOST_ROWS) if row.size > 1]
        alone = self._representatives[self._sizes == 1]
        self.singles = ClassRow(len(alone), tuple(map(self._shown, self._spread(alone, MOST_ROWS))))

    def largest(self, most: int) -> list[ClassRow]:
        """Return the largest classes, the largest first."""
        numbers = np.argsort(-self._sizes, kind="stable")[:most].tolist()
        return [self._row(number, SAMPLES) for number in numbers]

    def allowed(self, bits: NDArray[np.bool_]) -> Allowed:
        """Return what a mask allows.

        Args:
            bits: bool[V], whether each id is allowed.
        """
        if not self.n_classes:
            some = np.flatnonzero(bits)
            samples = tuple(self._shown(token) for token in self._spread(some, 3 * SAMPLES))
            return Allowed(0, (ClassRow(len(some), samples),) if samples else (), ())
        numbers = np.flatnonzero(bits[self._representatives])
        order = numbers[np.argsort(-self._sizes[numbers], kind="stable")]
        most = order[:EXTREMES]
        least = order[max(len(most), len(order) - EXTREMES) :][::-1]
        return Allowed(
            len(numbers),
            tuple(self._row(int(number), 4) for number in most),
            tuple(self._row(int(number), 4) for number in least),
        )

    @remembered
    def _row(self, number: int, n_samples: int) -> ClassRow:
        start, size = int(self._starts[number]), int(self._sizes[number])
        samples = self._spread(self._order[start : start + size], n_samples)
        return ClassRow(size, tuple(map(self._shown, samples)))

    def _spread(self, ids: NDArray[np.int64], most: int) -> list[int]:
        places = np.linspace(0, len(ids) - 1, min(len(ids), most)).astype(int)
        found: list[int] = ids[places].tolist()
        return found

    def _shown(self, token: int) -> str:
        text = self._vocabulary.tokens[token]
        if not text:
            return f"id {token}"
        shown = text[: 4 * SHOWN_OF_TOKEN].decode("utf-8", "backslashreplace")
        return quoted(shown if len(shown) <= SHOWN_OF_TOKEN else shown[: SHOWN_OF_TOKEN - 3] + "...")
