"""Draws of the next token for random walks through a grammar.

What: `Walker.draw` picks one of the allowed ids, in part uniformly and in part by kinds of first bytes.
When: in `hybrid.verify.compare_walk`.
Limits: the kinds are made for programming languages and data formats; in any grammar every allowed
token keeps a chance.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

STOP_TOKEN_CHANCE = 0.25
"""Chance that a draw of a walk may fall on a stop token where other tokens are allowed."""

KINDS = (
    b"\"'`",
    b"([{<",
    b")]}>",
    b",;:=",
    b" \t\r\n",
    string.digits.encode(),
    string.ascii_letters.encode(),
)
"""Kinds of first bytes for walks; other printable, high and control bytes are three more."""


class Walker:
    """Draws the next token of a walk among the allowed ids."""

    def __init__(self, rng: random.Random, tokens: Sequence[bytes], stops: Iterable[int], by_kind: float):
        self.rng = rng
        self.by_kind = by_kind
        self.stop = np.zeros(len(tokens), np.bool_)
        self.stop[list(stops)] = True
        first = (token[0] if token else 256 for token in tokens)
        self.first_byte = np.fromiter(first, np.int16, len(tokens))
        self.kind = np.array([*map(_kind_of_byte, range(256)), len(KINDS) + 3], np.int16)

    def draw(self, allowed: npt.NDArray[np.int64]) -> int:
        pool = allowed
        if self.rng.random() >= STOP_TOKEN_CHANCE:
            going_on = allowed[~self.stop[allowed]]
            pool = going_on if going_on.size else allowed
        if self.rng.random() < self.by_kind:
            leading = self.first_byte[pool]
            present = np.flatnonzero(np.bincount(leading, minlength=257))
            kinds = self.kind[present]
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
