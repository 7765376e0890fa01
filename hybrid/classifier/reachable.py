"""The stacks that a network allows, as far as they are needed to complete a classifier.

What: the contexts of a network and the sets below them, copied, so that the rest can be freed.
When: kept with a classifier whose states are computed on demand (1 to 60 KB for JSON schemas).
Limits: none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.network import Network

Integers = NDArray[np.int64]


class Reachable(NamedTuple):
    """The arrays that `hybrid.classifier.summary_closure.SummaryClosure` reads.

    Attributes:
        contexts: int64[C, 2]: (state, counter frame or -1) that may be on top of a stack.
        context_starts, context_below: the below sets of each context.
        below: int64[n, 2]: (symbol, the below set under it), the rows of one below set after those of
            another.
        below_starts: where the rows of each below set begin.
    """

    contexts: Integers
    context_starts: Integers
    context_below: Integers
    below: Integers
    below_starts: Integers

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(array.nbytes) for array in self)


def reachable_of(network: Network) -> Reachable:
    """Copy the contexts and the below sets of a network."""
    below = network.below()
    pairs = np.stack([below.below_symbols, below.below_of_symbol], axis=1)
    return Reachable(below.contexts, below.context_starts, below.context_below, pairs, below.below_starts)
