"""Choosing the next token for random walks through a grammar.

What: `Walker.draw` chooses one of the allowed ids: sometimes uniformly, sometimes by the kind of its first
byte.
When: in `hybrid.testing.mask_comparison.compare_walk`.
Limits: the kinds suit programming languages and data formats. In any grammar, every allowed token has a
chance.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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


FEW = 2048
"""At most this many allowed ids are listed. If there are more, ids are drawn until one is allowed."""

TRIES = 64
"""How often tokens with a first byte are drawn before the allowed ones among them are listed."""


class _Tables(NamedTuple):
    """Data of a vocabulary: the first byte of each token (256: no text), and the ids for each first byte."""

    first_byte: npt.NDArray[np.int16]
    ids: list[npt.NDArray[np.int64]]


_recent: list[tuple[Sequence[bytes], _Tables]] = []


def _tables(tokens: Sequence[bytes]) -> _Tables:
    """Return the tables of a vocabulary. Those of the last one are cached: they take 0.02 s for 128k tokens,
    once per walk."""
    for known, tables in _recent:
        if known is tokens:
            return tables
    first = np.fromiter((token[0] if token else 256 for token in tokens), np.int16, len(tokens))
    order = np.argsort(first, kind="stable")
    tables = _Tables(first, np.split(order, np.cumsum(np.bincount(first, minlength=257))[:-1]))
    _recent[:] = [(tokens, tables)]
    return tables


class Walker:
    """Draws the next token of a walk from the allowed ids."""

    def __init__(self, rng: random.Random, tokens: Sequence[bytes], stops: Iterable[int], by_kind: float):
        self.rng = rng
        self.by_kind = by_kind
        self.stop = np.zeros(len(tokens), np.bool_)
        self.stop[list(stops)] = True
        self.first_byte, self.ids = _tables(tokens)

    def draw_from(self, allowed: npt.NDArray[np.bool_]) -> int:
        """Draw one of the ids whose flag is set; there must be one. It draws like `draw`, but without listing
        the ids if there are many."""
        if np.count_nonzero(allowed) <= FEW:
            return self.draw(np.flatnonzero(allowed))
        if self.rng.random() >= STOP_TOKEN_CHANCE:
            allowed = allowed & ~self.stop
        if self.rng.random() >= self.by_kind:
            while True:
                token_id = self.rng.randrange(allowed.size)
                if allowed[token_id]:
                    return token_id
        # Take the first byte that has an allowed token: kinds in random order, then the bytes of each kind.
        for kind in self.rng.sample(BYTES_OF_KIND, len(BYTES_OF_KIND)):
            for byte in self.rng.sample(kind, len(kind)):
                ids = self.ids[byte]
                for _ in range(min(TRIES, ids.size)):
                    token_id = int(self._one_of(ids))
                    if allowed[token_id]:
                        return token_id
                ids = ids[allowed[ids]]
                if ids.size:
                    return int(self._one_of(ids))
        raise ValueError("no id is allowed")

    def draw(self, allowed: npt.NDArray[np.int64]) -> int:
        """Draw one of the allowed ids; there must be one."""
        pool = allowed
        if self.rng.random() >= STOP_TOKEN_CHANCE:
            going_on = allowed[~self.stop[allowed]]
            pool = going_on if going_on.size else allowed
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

BYTES_OF_KIND = [np.flatnonzero(kind == KIND).tolist() for kind in range(len(KINDS) + 4)]
