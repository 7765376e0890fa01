"""Many ranges at once: their integers, and sets of characters.

What: `ranges` writes the integers one range after another, and `starts_of` says where each begins, without a
loop. `joined` and `others` are the union and the complement of sets of characters, given as ranges.
When: to read lists that stand side by side in one array: children of nodes, cells of stacks, texts; and to
read the classes of characters of patterns and grammars.
Limits: one array of all integers is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

LAST = 0x10FFFF
"""The last code point."""

Ranges = tuple[tuple[int, int], ...]
"""A set of characters: the first and the last code point of each range, in order; none touches the next."""


def starts_of(lengths: Any) -> NDArray[np.int64]:
    """Where lists of these lengths begin, side by side, and where the last one ends: int64[n + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def ranges(start: NDArray[Any], length: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The integers of some ranges, range after range: (int64[n + 1] where each begins, the integers)."""
    begins = starts_of(length)
    return begins, np.arange(begins[-1]) + np.repeat(start - begins[:-1], length)


def joined(parts: Iterable[tuple[int, int]]) -> Ranges:
    """The characters of some ranges: in order, and merged where they touch."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def others(characters: Ranges) -> Ranges:
    """All other characters, with surrogates."""
    found: list[tuple[int, int]] = []
    following = 0
    for low, high in characters:
        if low > following:
            found.append((following, low - 1))
        following = high + 1
    if following <= LAST:
        found.append((following, LAST))
    return tuple(found)
