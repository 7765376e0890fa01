"""Choosing the next token for random walks through a grammar.

What: `Walker.draw_from` chooses one of the allowed ids: sometimes uniformly, sometimes by the kind of its
first byte.
When: in `hybrid.testing.mask_comparison.compare_walk`.
Limits: the kinds suit programming languages and data formats. In any grammar, every allowed token has a
chance.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterable, Sequence

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


def _kind_of_byte(value: int) -> int:
    for kind, members in enumerate(KINDS):
        if value in members:
            return kind
    return len(KINDS) + (value > 127) + 2 * (value < 32)


BYTES_OF_KIND = [
    *([byte for byte in range(256) if _kind_of_byte(byte) == kind] for kind in range(len(KINDS) + 3)),
    [256],
]
"""The first bytes of each kind; 256 stands for ids without text."""

_recent: list[tuple[Sequence[bytes], list[npt.NDArray[np.int64]]]] = []


def _ids_by_byte(tokens: Sequence[bytes]) -> list[npt.NDArray[np.int64]]:
    """Return the ids for each first byte. Those of the last vocabulary are cached: they take 0.02 s for 128k
    tokens, once per walk."""
    for known, ids in _recent:
        if known is tokens:
            return ids
    first = np.fromiter((token[0] if token else 256 for token in tokens), np.int16, len(tokens))
    order = np.argsort(first, kind="stable")
    ids = np.split(order, np.cumsum(np.bincount(first, minlength=257))[:-1])
    _recent[:] = [(tokens, ids)]
    return ids


class Walker:
    """Draws the next token of a walk from the allowed ids."""

    def __init__(self, rng: random.Random, tokens: Sequence[bytes], stops: Iterable[int], by_kind: float):
        self.rng = rng
        self.by_kind = by_kind
        self.stop = np.zeros(len(tokens), np.bool_)
        self.stop[list(stops)] = True
        self.ids = _ids_by_byte(tokens)

    def draw_from(self, allowed: npt.NDArray[np.bool_]) -> int:
        """Draw one of the ids whose flag is set; there must be one."""
        if self.rng.random() >= STOP_TOKEN_CHANCE:
            others = allowed & ~self.stop
            allowed = others if others.any() else allowed
        if self.rng.random() >= self.by_kind:
            return self._one_of(np.flatnonzero(allowed))
        # take the first byte that has an allowed token: kinds in random order, then the bytes of each kind
        for kind in self.rng.sample(BYTES_OF_KIND, len(BYTES_OF_KIND)):
            for byte in self.rng.sample(kind, len(kind)):
                ids = self.ids[byte]
                ids = ids[allowed[ids]]
                if ids.size:
                    return self._one_of(ids)
        raise ValueError("no id is allowed")

    def _one_of(self, ids: npt.NDArray[np.int64]) -> int:
        return int(ids[self.rng.randrange(ids.size)])
