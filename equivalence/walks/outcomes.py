"""The output of walks: outcomes of tokens, and the rows that refer to them.

What: the first outcomes, and the arrays that `equivalence.walks.walks` returns.
When: by all code that makes or reads walks.
Limits: only arrays; nothing is checked.

An outcome is the interned list [label, (port, suffix) ...]: what a token does in a context. The label is -1
if the known part does not read the token; 0 if it reads the token completely (then nothing follows); c > 0
as in configurations. Then come the suffixes that must still be read below the known part. With
displacement, the label is the final configuration.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.account import Account
from equivalence.arrays.interning import Interned

NOTHING, OUTRIGHT = 0, 1
"""The numbers of the first two outcomes: [-1], and [0]."""


class Walked(NamedTuple):
    """The blocks of some contexts, and what their tokens do. After the last rows there may be unused room
    with any content.

    Attributes:
        block_starts, user_starts, users: see `equivalence.walks.blocks.Blocks`.
        range_starts, ranges: int64[blocks + 1] and int64[n, 2], groups (first, end) that a block reads
            completely.
        event_starts, events: int64[blocks + 1] and int64[n, 2], rows (group, outcome) of the other groups
            that it does not reject.
    """

    block_starts: NDArray[np.int64]
    user_starts: NDArray[np.int64]
    users: NDArray[np.int64]
    range_starts: NDArray[np.int64]
    ranges: NDArray[np.int64]
    event_starts: NDArray[np.int64]
    events: NDArray[np.int64]


def first_outcomes(capacity: int, most: int, account: Account | None, excess: str) -> Interned:
    """The outcomes `NOTHING` and `OUTRIGHT`, with room for more.

    Args:
        capacity, most, account, excess: as for `Interned`.
    """
    outcomes = Interned(capacity, 16, most, account, excess)
    outcomes.add(np.array([-1]))
    outcomes.add(np.array([0]))
    return outcomes
