"""How many units of a counted rule each string of a vocabulary begins, for any bounds.

What: `UnitReads` holds these numbers.
When: made and read by `hybrid.classifier.repeat_units`, cached by `equivalence.walks.walk_cache`.
Limits: none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NEVER_READ = 32767
"""The number of units of strings that are not read; no token has so many."""


class UnitReads(NamedTuple):
    """How many units strings begin, from the root of the trie on. Nothing in it changes.

    Attributes:
        begun: int16[groups], units that a group begins, including an unfinished last one; `NEVER_READ`: not
            read.
        of_node: int16[nodes], units read up to a node if all are complete and strings continue; otherwise -1.
        nodes: int32, the nodes where that is at least 1, in order.
        completed: int16, that number for each of `nodes`.
        worst: int16, the most units that a string below each node begins; `NEVER_READ`: some string is not
            read.
        group: int32, the first group at or below each node.
        n_once: how many of `nodes` have read exactly one unit.
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
