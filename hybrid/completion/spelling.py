"""The tokens that spell a text.

What: `Spelling` finds the id of a piece of text among the ids of a vocabulary that do not end a sequence.
When: one for each vocabulary and set of stop ids, shared by all grammars; made in about 20 ms for 128,000
ids.
Limits: pieces of at most `LONGEST` bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from equivalence import Vocabulary
from hybrid.values.once import made_once

LONGEST = 64
"""Most bytes of a token that is looked for: longer tokens are runs of one character."""

KEPT = 4
"""Most sets of stop ids for which a vocabulary's spelling is cached."""


class Spelling:
    """The ids that are text, by their bytes.

    Args:
        vocabulary: the vocabulary.
        stops: ids that end a sequence, so they spell nothing.

    Attributes:
        ids: the ids that are text, ascending.
        spelled: the bytes that are tokens.
        share: float64[256]: for each byte, 1 / the length of the longest token that contains it; infinite
            if no token does. The shares of a token's bytes sum up to at most 1, so a text has at least as
            many tokens as the sum of its bytes' shares.
    """

    def __init__(self, vocabulary: Vocabulary, stops: tuple[int, ...]) -> None:
        tokens, stopping = vocabulary.tokens, frozenset(stops)
        texts = [index for index, text in enumerate(tokens) if text and index not in stopping]
        self.ids: NDArray[np.int64] = np.array(texts, np.int64)
        self._of = {tokens[index]: index for index in reversed(texts) if len(tokens[index]) <= LONGEST}
        self._longest = max(map(len, self._of), default=0)
        self.spelled = frozenset(text[0] for text in self._of if len(text) == 1)
        self.share = _shares(vocabulary, self.ids)

    def least(self, text: bytes, at: int, counts: Callable[[int], float]) -> tuple[float, int, int]:
        """The fewest tokens that spell a text from a place on: (number, id of the first one, its length in
        bytes).

        Args:
            text: the text.
            at: the place.
            counts: returns the number for each later place.
        """
        best: tuple[float, int, int] = (np.inf, -1, 0)
        of = self._of
        for length in range(1, min(self._longest, len(text) - at) + 1):
            token = of.get(text[at : at + length])
            if token is not None:
                needed = 1 + counts(at + length)
                if needed <= best[0] and needed < np.inf:  # on a tie, the longest token
                    best = (needed, token, length)
        return best


def _shares(vocabulary: Vocabulary, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """``share`` of `Spelling`."""
    data, offsets = vocabulary.flat
    lengths = np.diff(offsets)
    is_text = np.zeros(len(lengths), bool)
    is_text[ids] = True
    longest = np.zeros(256)
    np.maximum.at(longest, data, np.repeat(np.where(is_text, lengths, 0), lengths))
    with np.errstate(divide="ignore"):
        return 1 / longest


spelling_of = made_once(Spelling, KEPT)
"""The spelling of a vocabulary for a set of stop ids."""
