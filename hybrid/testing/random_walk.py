"""Choosing the next token for random walks through a grammar.

What: `Walker.draw_from` chooses one of the allowed ids: uniformly, or sometimes by the kind of its first
byte.
When: in `hybrid.testing.verify.compare_walk`.
Limits: the kinds suit programming languages and data formats. In any grammar, every allowed token has a
chance.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

STOP_TOKEN_CHANCE = 0.25
"""Probability that a draw includes the stop tokens if other tokens are allowed."""

KINDS = (
    b"\"'`",
    b"([{<",
    b")]}>",
    b",;:=",
    b" \t\r\n",
    string.digits.encode(),
    string.ascii_letters.encode(),
)
"""Kinds of first bytes; other printable bytes, bytes above 127 and control bytes are three more kinds."""


_recent: list[tuple[Sequence[bytes], npt.NDArray[np.int16]]] = []


def _first_bytes(tokens: Sequence[bytes]) -> npt.NDArray[np.int16]:
    """Return the first byte of each token (256: no text). Those of the last vocabulary are cached: they take
    0.02 s for 128k tokens, once per walk."""
    if not _recent or _recent[0][0] is not tokens:
        first = np.fromiter((token[0] if token else 256 for token in tokens), np.int16, len(tokens))
        _recent[:] = [(tokens, first)]
    return _recent[0][1]


class Walker:
    """Draws the next token of a walk from the allowed ids."""

    def __init__(self, rng: random.Random, tokens: Sequence[bytes], stops: Iterable[int], by_kind: float):
        self.rng = rng
        self.by_kind = by_kind
        self.stop = np.zeros(len(tokens), np.bool_)
        self.stop[list(stops)] = True
        self.first_byte = _first_bytes(tokens)

    def draw_from(self, allowed: npt.NDArray[np.bool_]) -> int:
        """Draw one of the ids whose flag is set; there must be one."""
        if self.rng.random() >= STOP_TOKEN_CHANCE and (going_on := allowed & ~self.stop).any():
            allowed = going_on
        pool = np.flatnonzero(allowed)
        if self.rng.random() < self.by_kind:
            leading = self.first_byte[pool]
            present = np.flatnonzero(np.bincount(leading, minlength=257))
            kinds = KIND[present]
            present = present[kinds == self._one_of(np.unique(kinds))]
            pool = pool[leading == self._one_of(present)]
        return int(self._one_of(pool))

    def _one_of(self, values: npt.NDArray[Any]) -> Any:
        return values[self.rng.randrange(values.size)]


def _kind_of_byte(value: int) -> int:
    for kind, members in enumerate(KINDS):
        if value in members:
            return kind
    return len(KINDS) + (value > 127) + 2 * (value < 32)


KIND = np.array([*map(_kind_of_byte, range(256)), len(KINDS) + 3], np.int16)
"""The kind of each first byte; index 256 is for ids without text."""
