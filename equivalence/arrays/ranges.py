"""The integers of many ranges, without a loop.

What: `ranges` writes them one range after another, and `starts_of` says where each begins.
When: to read lists that stand side by side in one array: children of nodes, cells of stacks, texts.
Limits: one array of all integers is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def starts_of(lengths: Any) -> NDArray[np.int64]:
    """Where lists of these lengths begin, side by side, and where the last one ends: int64[n + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def ranges(start: NDArray[Any], length: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The integers of some ranges, range after range: (int64[n + 1] where each begins, the integers)."""
    begins = starts_of(length)
    return begins, np.arange(begins[-1]) + np.repeat(start - begins[:-1], length)
