"""What walks write down: outcomes of tokens, and the rows that point to them.

What: the first outcomes, and the arrays that `equivalence.walks.walks` and `equivalence.walks.kept` return.
When: by whoever walks, keeps walks or reads what they found.
Limits: arrays only; nothing is checked.

An outcome is the interned list [label, (port, suffix) ...]: what a token does on a context. label -1: not
read by the known part; 0: read outright (then nothing follows); c > 0: as in configurations; then the
suffixes still to be read below the known part. With displacement, label is the final configuration.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.account import Account
from equivalence.arrays.interning import Interned

NOTHING, OUTRIGHT = 0, 1
"""The numbers of the first two outcomes: [-1], and [0]."""


class Rows(NamedTuple):
    """What the tokens of some blocks do; behind the last rows there may be room, which holds anything.

    Attributes:
        range_starts, ranges: int64[blocks + 1] and int64[n, 2], groups (first, end) that a block reads
            outright.
        event_starts, events: int64[blocks + 1] and int64[n, 2], rows (group, outcome) of the others that it
            does not reject.
    """

    range_starts: NDArray[np.int64]
    ranges: NDArray[np.int64]
    event_starts: NDArray[np.int64]
    events: NDArray[np.int64]


class Walked(NamedTuple):
    """The blocks of some contexts, see `Blocks`, and what their tokens do, see `Rows`."""

    block_starts: NDArray[np.int64]
    user_starts: NDArray[np.int64]
    users: NDArray[np.int64]
    range_starts: NDArray[np.int64]
    ranges: NDArray[np.int64]
    event_starts: NDArray[np.int64]
    events: NDArray[np.int64]


def first_outcomes(capacity: int, most: int, account: Account | None, excess: str) -> Interned:
    """The outcomes `NOTHING` and `OUTRIGHT`, and room for more.

    Args:
        capacity, most, account, excess: as of `Interned`.
    """
    outcomes = Interned(capacity, 16, most, account, excess)
    outcomes.add(np.array([-1]))
    outcomes.add(np.array([0]))
    return outcomes
