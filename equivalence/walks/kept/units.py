"""How many units of a counted rule the strings of a vocabulary begin, for all bounds at once.

What: `UnitReads` holds these numbers.
When: made and read by `hybrid.classifier.repeat_units`, kept by `equivalence.walks.kept.reads`.
Limits: none of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NEVER_READ = 32767
"""Units of what is not read; no token has so many."""


class UnitReads(NamedTuple):
    """How many units strings begin, from the root of the trie on. Nothing of it changes.

    Attributes:
        begun: int16[groups], units that a group begins, the last one whole or not; `NEVER_READ`: not read.
        of_node: int16[nodes], units read up to a node where none is under way and strings go on; else -1.
        nodes: int32, the nodes where that is 1 or more, in order.
        completed: int16, that number of each of `nodes`.
        worst: int16, the most units that a string below each begins; `NEVER_READ`: some string is not read.
        group: int32, the first group at or below each.
        n_once: how many of `nodes` have read one unit.
    """

    begun: NDArray[np.int16]
    of_node: NDArray[np.int16]
    nodes: NDArray[np.int32]
    completed: NDArray[np.int16]
    worst: NDArray[np.int16]
    group: NDArray[np.int32]
    n_once: int

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(one.nbytes for one in self[:-1])
